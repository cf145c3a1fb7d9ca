"""The linear program of packing, over the strategies known so far."""

import math
from collections.abc import Iterable

import numpy as np

from packlib.packing.certificate import PRICE_OF_A_PACK
from packlib.packing.knapsack import Slots


class MasterProblem:
    """How often to use each strategy, fractions allowed, so that every sequence finds a slot; as few packs as possible.

    A row for each length that occurs: the slots of that length, less those given to the next shorter length, plus
    those taken over from the next longer one, are at least the sequences. Giving a slot away costs nothing, which
    makes the prices rise with the length. HiGHS solves it, each time from where it stood.

    Attributes:
        lengths: the lengths that occur, ascending; one a row.
        strategies: the strategies in the order of their columns (a dict without values, to find them fast).
    """

    def __init__(self, counts: np.ndarray):
        import highspy  # here, since it takes a while to import

        self.lengths = np.flatnonzero(counts)
        self.strategies: dict[Slots, None] = {}
        self._wanted = np.zeros(len(self.lengths))
        self._row = {length: row for row, length in enumerate(self.lengths.tolist())}
        self._highs = highspy.Highs()
        for option, value in (("output_flag", False), ("presolve", "off"), ("threads", 1)):
            self._highs.setOptionValue(option, value)
        n = len(self.lengths)
        self._highs.addRows(
            n, np.zeros(n), np.full(n, np.inf), 0, np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0)
        )
        rows = np.stack([np.arange(1, n), np.arange(n - 1)], axis=1).ravel()
        self._add_columns(0.0, np.arange(n - 1) * 2, rows, np.tile([-1.0, 1.0], n - 1))

    def _add_columns(self, cost: float, starts, rows, values) -> None:
        n = len(starts)
        starts, rows = np.asarray(starts, np.int32), np.asarray(rows, np.int32)
        values = np.asarray(values, float)
        self._highs.addCols(
            n, np.full(n, cost), np.zeros(n), np.full(n, np.inf), len(rows), starts, rows, values
        )

    def add(self, strategies: Iterable[Slots]) -> int:
        """Add the strategies that are new; return how many."""
        starts, rows, values = [], [], []
        for slots in strategies:
            if slots not in self.strategies:
                self.strategies[slots] = None
                starts.append(len(rows))
                rows += [self._row[length] for length, _ in slots]
                values += [copies for _, copies in slots]
        self._add_columns(1.0, starts, rows, values)
        return len(starts)

    def solve(self, counts: np.ndarray, seconds: float = math.inf) -> bool:
        """Find the best usage for `counts` (int64, shape (max_length + 1,)); False if the time was up first.

        New columns keep the last solution feasible: the primal simplex goes on from it. New counts keep the prices
        feasible: the dual simplex does.
        """
        n = len(self.lengths)
        wanted = counts[self.lengths].astype(float)
        same = np.array_equal(wanted, self._wanted)
        if not same:
            self._wanted = wanted
            self._highs.changeRowsBounds(n, np.arange(n, dtype=np.int32), wanted, np.full(n, np.inf))
        self._highs.setOptionValue("simplex_strategy", 4 if same else 1)
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(seconds, 0.0))
        self._highs.run()
        return self._highs.modelStatusToString(self._highs.getModelStatus()) == "Optimal"

    @property
    def objective(self) -> float:
        """Packs in the last solution."""
        return self._highs.getInfo().objective_function_value

    @property
    def usage(self) -> np.ndarray:
        """How often the last solution uses each strategy; float64, shape (number of strategies,)."""
        return np.array(self._highs.getSolution().col_value)[len(self.lengths) - 1 :]

    @property
    def prices(self) -> np.ndarray:
        """The last solution's duals as integer prices; int64, one for each of `lengths`."""
        duals = np.clip(np.array(self._highs.getSolution().row_dual), 0.0, 1.0)
        return np.floor(duals * PRICE_OF_A_PACK).astype(np.int64)
