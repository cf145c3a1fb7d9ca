"""The most valuable pack: a knapsack over lengths, by dynamic programming over integers.

With `f[k][c]` the best value of at most k sequences in c slots,

    f[k][c] = max(f[k][c - 1], max over lengths l <= c of f[k - 1][c - l] + value[l]).

Without a depth limit the index k falls away. See Kellerer, Pferschy, Pisinger, Knapsack Problems (2004), section 8.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

NOT_FOR_SALE = -(1 << 60)  # the value of a length that must not be packed


# A pack as (length, copies), from long to short: deep packs have few such pairs.
Multiset = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Knapsack:
    """The tables of the dynamic program: a row for each depth from 0 up, or a single row without a limit.

    Attributes:
        values: int64, shape (rows, capacity + 1), `f[k][c]` above.
        choices: the length taken last to reach `values`, 0 where a slot stays empty; same shape.
    """

    values: np.ndarray
    choices: np.ndarray

    @property
    def best(self) -> int:
        """The value of the best pack."""
        return int(self.values[-1, -1])

    def beside(self) -> np.ndarray:
        """For each length l, the best value of what else fits into a pack with l; int64, shape (capacity + 1,)."""
        return self.values[max(len(self.values) - 2, 0), ::-1]

    def pack_with(self, length: int) -> Multiset:
        """The best pack that holds `length`."""
        return _with_one_more(self._rest[len(self.values[0]) - 1 - length], length)

    @cached_property
    def _rest(self) -> list[Multiset]:
        """For each number of slots, the best that fits, leaving room for one more sequence."""
        choices = self.choices.tolist()
        rest: list[Multiset] = [()] * len(choices[0])
        for row in choices[1:-1] or choices[: len(choices) == 1]:
            smaller = rest if len(choices) == 1 else list(rest)
            for c, length in enumerate(row):
                rest[c] = _with_one_more(smaller[c - length], length) if length else rest[max(c - 1, 0)]
        return rest


def _with_one_more(pack: Multiset, length: int) -> Multiset:
    copies = dict(pack)
    copies[length] = copies.get(length, 0) + 1
    return tuple(sorted(copies.items(), reverse=True))


def solve_knapsack(values: np.ndarray, max_sequences_per_pack: int | None) -> Knapsack:
    """Fill the tables for every number of slots.

    Args:
        values: what one sequence of each length is worth, at most 2^60 in all; a length with a negative value
            is never packed; int64, shape (capacity + 1,).
        max_sequences_per_pack: at most this many sequences a pack, or None.
    """
    capacity = len(values) - 1
    for_sale = np.flatnonzero(values[1:] >= 0) + 1
    if max_sequences_per_pack is None or max_sequences_per_pack >= capacity // int(for_sale[0]):
        rows, layers = 1, [(0, 0)]
    else:
        rows, layers = max_sequences_per_pack + 1, [(k - 1, k) for k in range(1, max_sequences_per_pack + 1)]
    best, choices = np.zeros((2, rows, capacity + 1), np.int64)
    reached = np.empty(capacity, np.int64)
    for before, now in layers:
        smaller, larger = best[before], best[now]
        for c in range(int(for_sale[0]), capacity + 1):
            np.add(values[1 : c + 1], smaller[c - 1 :: -1], out=reached[:c])
            at = int(reached[:c].argmax())
            if reached[at] > larger[c - 1]:
                larger[c], choices[now, c] = reached[at], at + 1
            else:
                larger[c] = larger[c - 1]
    return Knapsack(best, choices)
