"""The linear program of packing on a grid of lengths (`relaxed_knapsack.py`), between which prices are linear.

It has a row a point: a sequence between two of them counts as a part of each, so that sequences and tokens stay the
same. Column generation as in `optimal.py`. A column mixes two packs of as many sequences, one that takes a cell less
than there is room for and one that takes a cell more, so that they fit on average.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import cast

import numpy as np

from packlib.packing.search.bound import PRICE_OF_A_PACK, exact_dot
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import Multiset
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.relaxed_knapsack import Grid

_GAP = 1e-5  # of the bound
_SMOOTH = (8, 5, 2, 0)  # tenths of the best prices so far, mixed with those of the last solution


class BreakpointProgram:
    """The linear program on a grid of about so many cells.

    Attributes:
        prices: of the points, those of the best bound so far; int64.
        best: what a pack is worth at these, at most.
        mixed: the packs that each column mixes, as points, and their shares.
    """

    def __init__(self, counts: np.ndarray, max_sequences_per_pack: int | None, cells: int) -> None:
        self.grid = grid = Grid(counts > 0, max_sequences_per_pack, cells)
        # by the token, or the same for all if packs are rather full of sequences
        area = counts @ np.arange(len(counts)) / grid.capacity
        by_token = np.minimum(grid.points, grid.capacity) * (PRICE_OF_A_PACK // grid.capacity)
        alike = np.full(len(grid.points), PRICE_OF_A_PACK // grid.depth)
        self.prices, self.best = by_token if area > counts.sum() / grid.depth else alike, PRICE_OF_A_PACK
        self.set_counts(counts)
        self.master = MasterProblem(np.ones_like(self.prices))
        self.mixed: dict[Multiset, list[tuple[Counter[int], float]]] = {}
        for point in range(len(grid.points)):
            copies = int(grid.numbers[grid.numbers * point <= grid.room].max(initial=1))
            self.mixed[((point, copies),)] = [(Counter({point: copies}), 1.0)]
        self.master.add(self.mixed)

    def set_counts(self, counts: np.ndarray) -> None:
        """Pack these sequences from now on."""
        self.counts = np.rint(self.grid.counts(counts)).astype(np.int64)

    def generate(
        self, deadline: Deadline, kept: float = 0.0, rounds: float = math.inf, report: Callable[[], None] | None = None
    ) -> bool:
        """Add columns until the program nearly meets its bound, none helps, or so many rounds are over.

        See `optimal`, which finds prices in the same way.

        Args:
            deadline, kept: as in `Deadline.solve`.

        Returns:
            Whether it came so far; False if the deadline was first.
        """
        proven, center, best = 0.0, self.prices, self.best
        while deadline.solve(self.master, self.counts, kept):
            prices, objective = self.master.prices, self.master.objective
            for tenths in _SMOOTH:
                between = (center * tenths + prices * (10 - tenths)) // 10
                columns, value = self._price(between)
                bound = exact_dot(self.counts, between) / value
                if bound > proven:
                    proven, center, best = bound, between, value
                solved = objective <= proven * (1 + _GAP)
                cheap = [c for c in columns if sum(prices[x] * y for x, y in c) > PRICE_OF_A_PACK * (1 + 1e-7)]
                if solved or self.master.add(cheap):
                    break
            else:
                solved = True
            self.prices, self.best = center, best
            if report:
                report()
            rounds -= 1
            if solved or rounds <= 0:
                return True
        return False

    def _price(self, prices: np.ndarray) -> tuple[list[Multiset], int]:
        """The columns worth most, one with each point and one of each number of sequences; and what no pack exceeds."""
        grid, points = self.grid, np.arange(len(prices))
        knapsack, worth = grid.best(prices)
        # of as many numbers of sequences as there are points: long rows of short sequences have many more
        some = np.sort(np.argsort(-worth, kind="stable")[: len(points)])
        number, room, over = grid.numbers[some], grid.room[some], grid.over[some] / grid.cell
        left = room[:, None] - points
        low, high = (knapsack.worth(number[:, None] - 1, np.maximum(left, 0) + more) for more in (0, 1))
        at = np.where(left >= 0, prices + low + (high - low) * over[:, None], -1).argmax(axis=0)
        fits = left[at, points] >= 0
        at, points = at[fits], points[fits]
        numbers, cells = np.append(number[at] - 1, number), np.append(left[at, points], room)
        low_packs, high_packs = (knapsack.packs(numbers, cells + more) for more in (0, 1))
        columns = []
        for i, share in enumerate(np.append(over[at], over).tolist()):
            more = Counter(points[i : i + 1].tolist())
            packs = [(more + low_packs[i], 1 - share), (more + high_packs[i], share)]
            mix: dict[int, float] = {}
            for pack, part in packs:
                for point, copies in pack.items():
                    mix[point] = mix.get(point, 0.0) + copies * part
            # parts of copies, where a strategy has whole ones
            columns.append(cast(Multiset, tuple(sorted(((x, n) for x, n in mix.items() if n), reverse=True))))
            self.mixed[columns[-1]] = packs
        return columns, int(worth.max())

    def table(self) -> np.ndarray:
        """The prices of all lengths, linear between the points; int64, with a pack worth at most `PRICE_OF_A_PACK`."""
        lengths = np.arange(self.grid.first, self.grid.lengths[-1] + 1)
        prices = np.floor(self.prices * min(1.0, PRICE_OF_A_PACK / self.best)).astype(np.int64)
        return np.pad(self.grid.between(prices, lengths), (lengths[0], self.grid.capacity - lengths[-1]))
