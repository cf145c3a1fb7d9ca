"""The linear program of packing, over the strategies known so far.

A strategy is a kind of pack: how many sequences of which lengths it holds. With `copies[i, s]` sequences of the i-th
length in strategy s, and `counts[i]` of them to pack,

    minimize    sum over s of x[s]                                    (packs)
    subject to  sum over s of copies[i, s] x[s] + y[i] - y[i - 1] >= counts[i]   for each length i;  x, y >= 0.

`x[s]` is how often strategy s is used, fractions allowed. `y[i]` places of the next longer length are handed down to
sequences of length i (none where there is no such length). That costs nothing, so a longer sequence never has a lower
price (dual value).
"""

import math
import warnings
from collections.abc import Callable, Iterable

import numpy as np

from packlib.lengths.counting import float_unit
from packlib.packing.search.bound import PRICE_OF_A_PACK
from packlib.packing.search.knapsack import Multiset, fillable
from packlib.packing.search.solver import run, silent_highs

Numbers = list[int] | np.ndarray

TOLERANCE = 1e-5  # of a unit; HiGHS' objective is this exact
_MOST_ITERATIONS = (1 << 31) - 1  # HiGHS' own limit
_DUAL_SIMPLEX, _PRIMAL_SIMPLEX = 1, 4  # HiGHS' numbers for its strategies
_COARSE = 1 << 24  # prices in the middle are multiples of so small a part of a pack: no rounding is seen in them


class MasterProblem:
    """The linear program above in HiGHS, which solves it each time from where it stood.

    Its rows are the lengths that occur. Its columns are the places handed down (`y`, one fewer than lengths), and then
    the strategies (`x`) in the order in which they were added.

    Attributes:
        lengths: the lengths that occur, ascending; int64, shape (rows,).
        strategies: the strategies in the order of their columns (a dict without values, to find them fast).
        unit: so many sequences or packs are 1 to HiGHS, chosen for the last counts: 1 up to 2^30 sequences, a higher
            power of two above (see `float_unit`).
    """

    def __init__(self, counts: np.ndarray) -> None:
        self.lengths = np.flatnonzero(counts)
        self.strategies: dict[Multiset, None] = {}
        self.unit = 1
        self._counts_in_units = np.zeros(len(self.lengths))
        self._row_of = {length: row for row, length in enumerate(self.lengths.tolist())}
        self._highs = silent_highs()
        self._highs.setOptionValue("presolve", "off")
        n = len(self.lengths)
        self._highs.addRows(
            n, np.zeros(n), np.full(n, np.inf), 0, np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0)
        )
        self._num_handed_down = n - 1
        # y[i] takes a place from row i + 1 and gives it to row i
        rows = np.stack([np.arange(1, n), np.arange(n - 1)], axis=1).ravel()
        self._add_columns(0.0, np.arange(n - 1) * 2, rows, np.tile([-1.0, 1.0], n - 1))

    def _add_columns(self, cost: float, starts: Numbers, rows: Numbers, values: Numbers) -> None:
        """Add columns that all cost the same, each at least 0.

        Column j has `values[starts[j]]` in the row `rows[starts[j]]`, and so on up to before `starts[j + 1]`.
        """
        n = len(starts)
        starts, rows = np.asarray(starts, np.int32), np.asarray(rows, np.int32)
        values = np.asarray(values, float)
        self._highs.addCols(n, np.full(n, cost), np.zeros(n), np.full(n, np.inf), len(rows), starts, rows, values)

    def add(self, strategies: Iterable[Multiset]) -> int:
        """Add the strategies that are new; return how many were."""
        starts, rows, values = list[int](), list[int](), list[int]()
        for strategy in strategies:
            if strategy not in self.strategies:
                self.strategies[strategy] = None
                starts.append(len(rows))
                rows += [self._row_of[length] for length, _ in strategy]
                values += [copies for _, copies in strategy]
        self._add_columns(1.0, starts, rows, values)
        return len(starts)

    def allow(self, counts: np.ndarray | None) -> None:
        """Use only the strategies for which `counts` has enough sequences; all of them with None."""
        n = len(self.strategies)
        is_allowed = np.ones(n, bool) if counts is None else np.array(fillable(self.strategies, counts), bool)
        columns = self._num_handed_down + np.arange(n, dtype=np.int32)
        self._highs.changeColsBounds(n, columns, np.zeros(n), np.where(is_allowed, np.inf, 0.0))

    def solve(
        self, counts: np.ndarray, is_over: Callable[[], bool] = lambda: False, iterations: float = math.inf
    ) -> bool:
        """Find the usage of strategies with the fewest packs.

        New columns keep the last solution feasible, so the primal simplex goes on from it. New counts keep the last
        prices feasible, so the dual simplex goes on from these. If HiGHS gives up for a reason that is not an argument,
        a warning says so.

        Args:
            counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
            is_over: is asked time and again; where it returns True, HiGHS stops.
            iterations: of the simplex method, at most.

        Returns:
            Whether the solution is optimal.
        """
        n = len(self.lengths)
        self.unit = float_unit(counts)
        counts_in_units = counts[self.lengths] / self.unit
        are_as_before = np.array_equal(counts_in_units, self._counts_in_units)
        if not are_as_before:
            self._counts_in_units = counts_in_units
            self._highs.changeRowsBounds(n, np.arange(n, dtype=np.int32), counts_in_units, np.full(n, np.inf))
        self._highs.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX if are_as_before else _DUAL_SIMPLEX)
        self._highs.setOptionValue("simplex_iteration_limit", int(min(max(iterations, 1), _MOST_ITERATIONS)))
        status = run(self._highs, is_over)
        if status not in ("Optimal", "Interrupted by user", "Iteration limit reached"):
            said = f"HiGHS could not solve the linear program ({status}): the plan may have more packs than needed."
            warnings.warn(said, RuntimeWarning, stacklevel=2)
        return status == "Optimal"

    @property
    def iterations(self) -> int:
        """Count the iterations of the simplex method in the last solution."""
        return max(self._highs.getInfo().simplex_iteration_count, 0)

    def middle_prices(self, is_over: Callable[[], bool] = lambda: False) -> np.ndarray:
        """Return prices from the middle of all optimal ones, not from a corner; int64, one for each of `lengths`.

        An interior-point method without crossover ends there. At such prices hardly any pack is worth a whole one,
        except those that optimal solutions use. Where `is_over` returns True first, they are `prices`.
        """
        highs = silent_highs()
        highs.passModel(self._highs.getLp())
        for option, value in (("presolve", "off"), ("solver", "ipm"), ("run_crossover", "off")):
            highs.setOptionValue(option, value)
        if run(highs, is_over) != "Optimal":
            return self.prices
        prices = np.clip(np.array(highs.getSolution().row_dual), 0.0, 1.0)
        return np.rint(prices * _COARSE).astype(np.int64) * (PRICE_OF_A_PACK // _COARSE)

    @property
    def objective(self) -> float:
        """Return the packs in the last solution, a fraction."""
        return self._highs.getInfo().objective_function_value * self.unit

    @property
    def fewest(self) -> int:
        """Return the packs of the last solution, rounded up: a plan of the same strategies has at least as many."""
        return math.ceil(self.objective - TOLERANCE * self.unit)

    @property
    def usage(self) -> np.ndarray:
        """Return how often the last solution uses each strategy; float64, shape (number of strategies,)."""
        return np.array(self._highs.getSolution().col_value)[self._num_handed_down :] * self.unit

    @property
    def whole_usage(self) -> np.ndarray:
        """Return the usage rounded down to whole numbers; float64, shape (number of strategies,).

        4.99999 counts as 5. In larger units, of which the tolerance is many packs, it is taken off instead: the
        sequences that are then left are solved for again, in a smaller unit.
        """
        tolerance = TOLERANCE if self.unit == 1 else -TOLERANCE * self.unit
        return np.floor(np.maximum(self.usage + tolerance, 0.0))

    @property
    def prices_in_packs(self) -> np.ndarray:
        """Return the prices of the last solution, in packs; float64 from 0 to 1, one for each of `lengths`."""
        return np.clip(np.array(self._highs.getSolution().row_dual), 0.0, 1.0)

    @property
    def prices(self) -> np.ndarray:
        """Return the same as integers, of which `PRICE_OF_A_PACK` are a pack, rounded down; int64."""
        return np.floor(self.prices_in_packs * PRICE_OF_A_PACK).astype(np.int64)
