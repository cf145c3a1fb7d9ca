"""The linear program of packing, over the strategies known so far."""

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
_COARSE = 1 << 24  # prices in the middle are multiples of so small a part of a pack: no rounding is seen in them


class MasterProblem:
    """How often to use each strategy, fractions allowed, so that each sequence finds a place; as few packs as possible.

    A row for each length that occurs: the places for that length, less those given to the next shorter length, plus
    those taken over from the next longer one, are at least the sequences. Giving a place away costs nothing, which
    makes the prices rise with the length. HiGHS solves it, each time from where it stood.

    Attributes:
        lengths: the lengths that occur, ascending; one a row.
        strategies: the strategies in the order of their columns (a dict without values, to find them fast).
        unit: so many sequences or packs are 1 to HiGHS, chosen for the last counts (see `float_unit`).
    """

    def __init__(self, counts: np.ndarray) -> None:
        self.lengths = np.flatnonzero(counts)
        self.strategies: dict[Multiset, None] = {}
        self.unit = 1
        self._wanted = np.zeros(len(self.lengths))
        self._row = {length: row for row, length in enumerate(self.lengths.tolist())}
        self._highs = silent_highs()
        self._highs.setOptionValue("presolve", "off")
        n = len(self.lengths)
        self._highs.addRows(
            n, np.zeros(n), np.full(n, np.inf), 0, np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0)
        )
        rows = np.stack([np.arange(1, n), np.arange(n - 1)], axis=1).ravel()
        self._add_columns(0.0, np.arange(n - 1) * 2, rows, np.tile([-1.0, 1.0], n - 1))

    def _add_columns(self, cost: float, starts: Numbers, rows: Numbers, values: Numbers) -> None:
        n = len(starts)
        starts, rows = np.asarray(starts, np.int32), np.asarray(rows, np.int32)
        values = np.asarray(values, float)
        self._highs.addCols(n, np.full(n, cost), np.zeros(n), np.full(n, np.inf), len(rows), starts, rows, values)

    def add(self, strategies: Iterable[Multiset]) -> int:
        """Add the strategies that are new; return how many."""
        starts, rows, values = list[int](), list[int](), list[int]()
        for strategy in strategies:
            if strategy not in self.strategies:
                self.strategies[strategy] = None
                starts.append(len(rows))
                rows += [self._row[length] for length, _ in strategy]
                values += [copies for _, copies in strategy]
        self._add_columns(1.0, starts, rows, values)
        return len(starts)

    def allow(self, counts: np.ndarray | None) -> None:
        """Use only the strategies for which there are enough sequences; all of them with None."""
        n, first = len(self.strategies), len(self.lengths) - 1
        most = np.full(n, np.inf) if counts is None else np.where(fillable(self.strategies, counts), np.inf, 0.0)
        self._highs.changeColsBounds(n, np.arange(first, first + n, dtype=np.int32), np.zeros(n), most)

    def solve(
        self, counts: np.ndarray, is_over: Callable[[], bool] = lambda: False, iterations: float = math.inf
    ) -> bool:
        """Find the best usage for `counts` (int64, shape (max_length + 1,)).

        Returns False if `is_over` returned True first, or the iterations of the simplex method were used up.

        New columns keep the last solution feasible: the primal simplex goes on from it. New counts keep the prices
        feasible: the dual simplex does. If HiGHS gives up for another reason, a warning says so.
        """
        n = len(self.lengths)
        self.unit = float_unit(counts)
        wanted = counts[self.lengths] / self.unit
        same = np.array_equal(wanted, self._wanted)
        if not same:
            self._wanted = wanted
            self._highs.changeRowsBounds(n, np.arange(n, dtype=np.int32), wanted, np.full(n, np.inf))
        self._highs.setOptionValue("simplex_strategy", 4 if same else 1)
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
        """Return prices from the middle of all that are best, not from a corner; int64, one for each of `lengths`.

        An interior-point method without crossover ends there. At such prices few packs are worth what they cost that
        no best solution uses.
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
        """Round the packs of the last solution up; no plan of the same strategies has fewer."""
        return math.ceil(self.objective - TOLERANCE * self.unit)

    @property
    def usage(self) -> np.ndarray:
        """Return how often the last solution uses each strategy; float64, shape (number of strategies,)."""
        return np.array(self._highs.getSolution().col_value)[len(self.lengths) - 1 :] * self.unit

    @property
    def whole_usage(self) -> np.ndarray:
        """Round the usage down; 4.99999 is 5, but in larger units less is better: what is left is solved again."""
        return np.floor(np.maximum(self.usage + TOLERANCE * (1 if self.unit == 1 else -self.unit), 0.0))

    @property
    def prices_in_packs(self) -> np.ndarray:
        """Return the prices of the last solution, in packs; float64 from 0 to 1, one for each of `lengths`."""
        return np.clip(np.array(self._highs.getSolution().row_dual), 0.0, 1.0)

    @property
    def prices(self) -> np.ndarray:
        """Return the same as integers, in units of `PRICE_OF_A_PACK`; int64."""
        return np.floor(self.prices_in_packs * PRICE_OF_A_PACK).astype(np.int64)
