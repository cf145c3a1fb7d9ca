"""A value that no pack exceeds, found in far fewer steps than the exact knapsack takes.

The exact knapsack (`knapsack.py`) takes distinct lengths x capacity x depth steps. Here prices are looked at on a grid
of some hundred lengths, and are linear between them. The proof:

- A pack of k sequences of at least `first` tokens has `capacity - k first` tokens for what they are longer. In cells of
  the grid that is its room, and a sequence takes j + t of it, with a whole j and a fraction t below 1.
- Let T be the sum of the fractions. Count each sequence as j + 1 with probability t, else as j, so that floor(T) or
  floor(T) + 1 of them in all go up: systematic sampling does that. As the price is linear from j to j + 1, the pack is
  worth what it is worth on average then.
- Let F(k, c) be the best value of k sequences on the grid in c cells, a knapsack. The pack takes s + f cells, s whole
  and f a fraction, and counts as s or s + 1 cells. So it is worth at most (1 - f) F(k, s) + f F(k, s + 1), the line
  from F(k, s) to F(k, s + 1). F never falls as c rises, so that is at most the same line's value at the room.
- A sequence so long that the shortest does not fit beside it is a pack alone.

Prices that are not linear are raised to some that are. All are integers, and where one is rounded, it is rounded up.
"""

from collections import Counter

import numpy as np

from packlib.packing.search.knapsack import NOT_FOR_SALE, up_to

CELLS = (128, 192, 320)  # of the grids, from coarse to fine


class Grid:
    """Evenly spaced lengths: the shortest sequence, and so on in steps of a cell until the longest is passed.

    Args:
        occurs: which lengths occur; bool, shape (capacity + 1,).
        max_sequences_per_pack: the depth limit, or None.
        cells: about so many.

    Attributes:
        points: the lengths, ascending; int64.
        numbers: of sequences that a pack can hold, 1, 2, …; int64.
        room, over: for each number the whole cells that those may take beyond the first point, and the tokens over.
    """

    def __init__(self, occurs: np.ndarray, max_sequences_per_pack: int | None, cells: int) -> None:
        self.lengths, self.capacity = np.flatnonzero(occurs), len(occurs) - 1
        self.first, longest = int(self.lengths[0]), int(self.lengths[-1])
        self.cell = max(1, -(-(self.capacity - self.first) // cells))
        self.points = self.first + self.cell * np.arange(-(-(longest - self.first) // self.cell) + 1)
        self.depth = min(self.capacity // self.first, max_sequences_per_pack or self.capacity)
        # Of more than `cells`, some are of the first length, and worth the same: the line is highest at an end of those
        # with one room, so no others are looked at.
        ends = (self.capacity - self.cell * np.arange(self.capacity // self.cell + 1)) // self.first
        numbers = np.concatenate([np.arange(1, cells + 3), ends, ends + 1])
        self.numbers = np.unique(numbers[(numbers > 0) & (numbers <= self.depth)])
        self.numbers = np.union1d(self.numbers, self.depth)
        self.room, self.over = np.divmod(self.capacity - self.numbers * self.first, self.cell)

    def counts(self, counts: np.ndarray) -> np.ndarray:
        """How many sequences count as each point: one between two counts as a part of each; float64."""
        lengths = np.flatnonzero(counts)
        point, over = np.divmod(lengths - self.first, self.cell)
        part, size = over / self.cell, len(self.points)
        now = np.bincount(point, counts[lengths] * (1 - part), size)
        return now + np.bincount(point + 1, counts[lengths] * part, size + 1)[:size]

    def between(self, prices: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The prices of lengths between the points, on the lines through theirs, rounded down; int64."""
        point, over = np.divmod(lengths - self.first, self.cell)
        after = np.minimum(point + 1, len(prices) - 1)
        return (prices[point] * (self.cell - over) + prices[after] * over) // self.cell

    def above(self, prices: np.ndarray) -> np.ndarray:
        """Prices of the points that are, linear between them, at least these of all lengths that occur; int64."""
        point, over = np.divmod(self.lengths - self.first, self.cell)
        raised = prices[np.minimum(self.points, self.lengths[-1])]
        if over[-1]:  # the last point lies behind the longest: on the line through the one before and that
            raised[-1] = min(raised[-2] - (raised[-2] - raised[-1]) * self.cell // over[-1], raised.max())
        lack = prices[self.lengths] - self.between(raised, self.lengths)
        for at in point, np.where(over, point + 1, point):
            missing = np.zeros_like(raised)
            np.maximum.at(missing, at, lack)
            raised = raised + missing
        return np.maximum(raised, 0)

    def best(self, prices: np.ndarray) -> tuple["GridKnapsack", np.ndarray]:
        """The knapsack at these prices of the points, and for each number of sequences at least what they are worth."""
        knapsack = GridKnapsack(prices, self.depth, int(self.room[0]) + 1)
        low, high = (knapsack.worth(self.numbers, self.room + more) for more in (0, 1))
        return knapsack, low - (low - high) * self.over // self.cell


class GridKnapsack:
    """F of the proof above: the best value of so many sequences on the grid in so many cells."""

    def __init__(self, prices: np.ndarray, depth: int, cells: int) -> None:
        # no more than `cells` of them are longer than the first point
        self.prices, self.table = prices, up_to(min(depth, cells), np.arange(len(prices)), prices, cells)

    def worth(self, number: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """F; int64, for arrays of one shape."""
        shortest = np.maximum(number - len(self.table) + 1, 0)
        return self.table[number - shortest, cells] + shortest * self.prices[0]

    def packs(self, number: np.ndarray, cells: np.ndarray) -> list[Counter[int]]:
        """What the best packs hold: how many of each point."""
        shortest = np.maximum(number - len(self.table) + 1, 0)
        packs = [Counter({0: n}) for n in shortest.tolist()]
        number, open_packs = number - shortest, np.arange(len(number))
        while (more := number > 0).any():
            open_packs, number, cells = open_packs[more], number[more] - 1, cells[more]
            left = cells[:, None] - np.arange(len(self.prices))
            worth = self.table[number[:, None], np.maximum(left, 0)] + self.prices
            taken = np.where(left >= 0, worth, NOT_FOR_SALE).argmax(axis=1)
            for pack, point in zip(open_packs.tolist(), taken.tolist(), strict=True):
                packs[pack][point] += 1
            cells = cells - taken
        return packs


def fits_alone(occurs: np.ndarray) -> np.ndarray:
    """The lengths that leave no room for the shortest; bool, as `occurs`."""
    return occurs & (np.arange(len(occurs)) >= len(occurs) - np.flatnonzero(occurs)[0])


def relaxed_best(prices: np.ndarray, occurs: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """At least the value of the best pack, and little more.

    Args:
        prices: what a sequence of each length is worth, at least 0; int64, shape (capacity + 1,). A price of a length
            that does not occur may be counted, too.
        occurs: which lengths occur; bool, same shape.
        max_sequences_per_pack: the depth limit, or None.
    """
    alone = fits_alone(occurs)
    best, rest = int(prices[alone].max(initial=0)), occurs & ~alone
    if not rest.any():
        return best
    by_token = (int((prices[rest] // np.flatnonzero(rest)).max()) + 1) * (len(prices) - 1)
    bounds = [by_token]
    for cells in CELLS:
        grid = Grid(rest, max_sequences_per_pack, cells)
        raised = grid.above(prices)
        if int(raised.max()) * grid.depth < 1 << 62:  # sums stay within 64 bits
            bounds.append(int(grid.best(raised)[1].max()))
    return max(best, min(bounds))
