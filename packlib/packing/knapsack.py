"""The most valuable pack: a knapsack over lengths, by dynamic programming over integers.

With `f[k][c]` the best value of at most k sequences in c slots,

    f[k][c] = max(f[k - 1][c], max over lengths l <= c of f[k - 1][c - l] + value[l]).

Without a depth limit the index k falls away. See Kellerer, Pferschy, Pisinger, Knapsack Problems (2004), section 8.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

NOT_FOR_SALE = -(1 << 60)  # the value of a length that must not be packed

# A pack as (length, copies), from long to short: deep packs have few such pairs.
Multiset = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Knapsack:
    """What the dynamic program found.

    Attributes:
        lengths: the lengths for sale, ascending; int64.
        values: what one sequence of each of them is worth; int64, same shape.
        beside: `f` above, for what else fits into a pack that holds one sequence already: a row for each number of
            sequences from 0 to the depth limit less 1, or a single row without a limit; int64, shape
            (rows, capacity + 1).
    """

    lengths: np.ndarray
    values: np.ndarray
    beside: np.ndarray

    @property
    def best(self) -> int:
        """The value of the best pack."""
        return int((self.values + self.beside[-1, -1 - self.lengths]).max())

    def packs_with(self, lengths: np.ndarray) -> list[Multiset]:
        """For each of `lengths` the best pack that holds it."""
        packs = [Counter([length]) for length in lengths.tolist()]
        room, depth = self.beside.shape[1] - 1 - lengths, len(self.beside) - 1
        open_packs = np.arange(len(lengths))
        while len(open_packs):
            row, before = self.beside[depth], self.beside[max(depth - 1, 0)]
            worth = row[room]
            room = np.searchsorted(row, worth)  # the fewest slots that are worth as much
            left = room[:, None] - self.lengths
            reached = np.where(left >= 0, before[left], NOT_FOR_SALE) + self.values
            at = (reached == worth[:, None]).argmax(axis=1)
            takes = (worth > 0) & (reached[np.arange(len(at)), at] == worth)  # or else f[k - 1] is as good
            for pack, length in zip(open_packs[takes].tolist(), self.lengths[at[takes]].tolist(), strict=True):
                packs[pack][length] += 1
            room = room - takes * self.lengths[at]
            open_packs, room = open_packs[worth > 0], room[worth > 0]
            depth = max(depth - 1, 0)
        return [tuple(sorted(pack.items(), reverse=True)) for pack in packs]


def solve_knapsack(values: np.ndarray, max_sequences_per_pack: int | None) -> Knapsack:
    """Fill the table for every number of slots.

    Args:
        values: what one sequence of each length is worth, at most 2^60 in all; a length with a negative value
            is never packed; int64, shape (capacity + 1,).
        max_sequences_per_pack: at most this many sequences a pack, or None.
    """
    capacity = len(values) - 1
    lengths = np.flatnonzero(values[1:] >= 0) + 1
    sold = values[lengths]
    deepest = capacity // int(lengths[0])
    limit = min(max_sequences_per_pack or deepest, deepest)
    if limit == deepest and deepest * len(lengths) > capacity:  # one row takes fewer steps
        beside = np.zeros((1, capacity + 1), np.int64)
        best, fitting = beside[0], np.searchsorted(lengths, np.arange(capacity + 1), side="right").tolist()
        for c in range(int(lengths[0]), capacity + 1):
            n = fitting[c]
            best[c] = max(best[c - 1], (best[c - lengths[:n]] + sold[:n]).max())
    else:
        beside = np.zeros((limit, capacity + 1), np.int64)
        reached = np.empty(capacity + 1, np.int64)
        for before, now in pairwise(beside):
            now[:] = before
            for length, value in zip(lengths.tolist(), sold.tolist(), strict=True):
                np.add(before[: capacity + 1 - length], value, out=reached[length:])
                np.maximum(now[length:], reached[length:], out=now[length:])
    return Knapsack(lengths, sold, beside)
