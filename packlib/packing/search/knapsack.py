"""The most valuable pack: a knapsack over lengths, by dynamic programming over integers.

With `f[k][c]` the best value of at most k sequences in c slots,

    f[k][c] = max(f[k - 1][c], max over lengths l <= c of f[k - 1][c - l] + value[l]).

Where no depth limit binds, the index k falls away. See Kellerer, Pferschy, Pisinger, Knapsack Problems (2004),
section 8. Slots are counted in the lengths' greatest common divisor: a pack of multiples of 512 tokens has few.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

NOT_FOR_SALE = -(1 << 60)  # the value of a length that must not be packed
_LISTING, _AT_ONCE = 10**8, 4096  # additions until a listing gives up, and packs that grow at once
_BACK_AT_ONCE = 64  # packs that are read back from the table at once: their comparisons stay in the cache

# A pack as (length, copies), from long to short: deep packs have few such pairs.
Multiset = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Knapsack:
    """What the dynamic program found.

    Attributes:
        lengths: the lengths for sale, ascending; int64.
        values: what one sequence of each of them is worth; int64, same shape.
        unit: the tokens of a slot; they divide all lengths.
        deepest: the most sequences that a pack can hold.
        beside: `f` above, as a table of what fits beside a first sequence; int64, shape (rows, slots + 1). Row k is
            for at most k more sequences, from 0 to the depth limit less 1; where no limit binds there is one row.
            Column c is for c slots, so beside a sequence of `size` slots it is column slots - size, which is
            -1 - size counted from the end.
    """

    lengths: np.ndarray
    values: np.ndarray
    unit: int
    deepest: int
    beside: np.ndarray

    @property
    def best(self) -> int:
        """Return the value of the best pack."""
        return int((self.values + self.beside[-1, -1 - self.lengths // self.unit]).max())

    def packs_with(self, lengths: np.ndarray) -> list[Multiset]:
        """Read from the table, for each of `lengths`, the best pack that holds it.

        All packs are read together. A round finds one length that each best value is made of, and goes on with the
        space beside it, until what is left is worth nothing.
        """
        packs = [Counter([length]) for length in lengths.tolist()]
        open_packs = np.arange(len(packs))
        space, depth = self.beside.shape[1] - 1 - lengths // self.unit, len(self.beside) - 1
        while len(open_packs):
            row, one_fewer = self.beside[depth], self.beside[max(depth - 1, 0)]
            worth = row[space]
            space = np.searchsorted(row, worth)  # the fewest slots that are worth as much
            at, copies = self._parts_of(worth, space, one_fewer)
            if len(self.beside) == 1:  # as many at once as are worth it: there may be thousands
                copies *= self._most_copies(worth, space, at, row)
            taken = copies > 0
            for pack, length, n in zip(
                open_packs[taken].tolist(), self.lengths[at[taken]].tolist(), copies[taken].tolist(), strict=True
            ):
                packs[pack][length] += n
            space = space - copies * (self.lengths // self.unit)[at]
            open_packs, space = open_packs[worth > 0], space[worth > 0]
            depth = max(depth - 1, 0)
        return [tuple(sorted(pack.items(), reverse=True)) for pack in packs]

    def _parts_of(self, worth: np.ndarray, space: np.ndarray, one_fewer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find for each best value a length that it is made of.

        Args:
            worth, space: the values, and the slots in which they are reached.
            one_fewer: the row of the table for one sequence fewer; no length is needed where it is worth as much.

        Returns:
            The places in `lengths`, and how many sequences are taken: 1, or 0 where none is.
        """
        sizes = self.lengths // self.unit
        places, is_made = np.zeros(len(space), np.int64), np.zeros(len(space), bool)
        for first in range(0, len(space), _BACK_AT_ONCE):
            batch = slice(first, first + _BACK_AT_ONCE)
            space_left = space[batch, None] - sizes
            reached = np.where(space_left >= 0, one_fewer[space_left], NOT_FOR_SALE) + self.values
            equal = reached == worth[batch, None]
            places[batch], is_made[batch] = equal.argmax(axis=1), equal.any(axis=1)
        return places, (is_made & (worth > 0)).astype(np.int64)

    def _most_copies(self, worth: np.ndarray, space: np.ndarray, at: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Count how many copies of the length at each place a best value can be made of, found by halving."""
        sizes, values = (self.lengths // self.unit)[at], self.values[at]
        copies = space // sizes
        while (too_many := row[space - copies * sizes] + copies * values < worth).any():
            copies[too_many] = (copies[too_many] + 1) // 2
        return copies

    def packs_worth(self, least: int, counts: np.ndarray, most: int) -> list[Multiset] | None:
        """List every pack of these sequences that is worth at least so much; return None if that takes too long.

        Packs grow by one sequence at a time, from long to short, as long as the table says that they can still come to
        be worth enough.

        Args:
            least: what a pack must be worth; above 0.
            counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
            most: give up at more packs than that.
        """
        there, steps = counts[self.lengths], _LISTING
        packs, begun = list[Multiset](), _nothing(len(self.lengths), self.beside.shape[1] - 1)
        more = self.deepest  # sequences that a pack may still take
        while len(begun.items):
            done = begun.worth >= least
            packs += [tuple(Counter(self.lengths[items].tolist()).items()) for items in begun.items[done]]
            steps -= len(begun.items) * len(self.lengths)
            if len(packs) > most or steps < 0:
                return None
            if not more:
                break
            more -= 1
            begun = self._grown(begun, more, least, there)
        return packs

    def _grown(self, begun: "BegunPacks", more: int, least: int, there: np.ndarray) -> "BegunPacks":
        """Add to each pack, in turn, each sequence with which it can still come to be worth `least`.

        Args:
            more: sequences that a pack may take after that.
            there: sequences of each length.
        """
        sizes, items = self.lengths // self.unit, np.arange(len(self.lengths))
        row = self.beside[min(more, len(self.beside) - 1)] * (more > 0)
        grown = []
        for a in range(0, len(begun.items), _AT_ONCE):
            batch = slice(a, a + _AT_ONCE)
            last_items, copies = begun.last[batch, None], begun.copies[batch, None]
            space_left, is_last = begun.space[batch, None] - sizes, items == last_items
            may_come = (space_left >= 0) & (items <= last_items) & (np.where(is_last, copies, 0) < there)
            may_come &= begun.worth[batch, None] + self.values + row[space_left] >= least
            i, item = np.nonzero(may_come)
            grown.append((i + a, item, space_left[i, item], is_last[i, item]))
        i, item, space, is_last = (np.concatenate(part) for part in zip(*grown, strict=True))
        return BegunPacks(
            items=np.concatenate([begun.items[i], item[:, None]], axis=1),
            last=item,
            copies=begun.copies[i] * is_last + 1,
            worth=begun.worth[i] + self.values[item],
            space=space,
        )


class BegunPacks(NamedTuple):
    """Packs that grow by one sequence at a time, from long to short, while they are listed; all int64.

    Attributes:
        items: the lengths of each pack, by their places in `Knapsack.lengths`; shape (packs, sequences so far).
        last: that of the sequence that came last; no longer one may come. In an empty pack that of the longest.
        copies: sequences of that length in the pack so far.
        worth, space: what the pack is worth, and the slots that it leaves.
    """

    items: np.ndarray
    last: np.ndarray
    copies: np.ndarray
    worth: np.ndarray
    space: np.ndarray


def _nothing(lengths: int, slots: int) -> BegunPacks:
    """Begin a listing of so many lengths with one empty pack."""
    zero = np.zeros(1, np.int64)
    return BegunPacks(np.zeros((1, 0), np.int64), np.array([lengths - 1]), zero, zero, np.array([slots]))


def solve_knapsack(values: np.ndarray, max_sequences_per_pack: int | None) -> Knapsack:
    """Fill the table for every number of slots.

    Args:
        values: what one sequence of each length is worth; no pack may be worth more than 2^60. A length with a
            negative value is never packed; int64, shape (capacity + 1,).
        max_sequences_per_pack: at most this many sequences a pack, or None.
    """
    lengths = np.flatnonzero(values[1:] >= 0) + 1
    sold, unit = values[lengths], common_divisor(lengths)
    sizes, slots = lengths // unit, (len(values) - 1) // unit
    limit = max_sequences_per_pack
    deepest = slots // int(sizes[0])
    if limit is not None and limit < deepest:
        deepest = limit
        beside = up_to(limit - 1, sizes, sold, slots)
    else:
        beside = _unlimited(sizes, sold, slots)[None]
    return Knapsack(lengths, sold, unit, deepest, beside)


def fillable(packs: Iterable[Multiset], counts: np.ndarray) -> list[bool]:
    """Return for each pack whether it holds no more sequences of a length than there are."""
    there = counts.tolist()
    return [all(copies <= there[length] for length, copies in pack) for pack in packs]


def fillable_packs(counts: np.ndarray, values: np.ndarray, max_sequences_per_pack: int | None) -> list[Multiset]:
    """Find, for each length, the most valuable pack of which it is the shortest, with no more copies than there are.

    With `f[i][k][c]` the best value of at most k of the i longest sequences in c slots, the shortest one's pack is
    worth its own value and `f` of what is longer; k falls away where no depth limit binds.

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (capacity + 1,).
        values: what one sequence of each length is worth, at least 0; int64, same shape.
        max_sequences_per_pack: at most this many sequences a pack, or None.
    """
    lengths = np.repeat(np.arange(len(counts)), counts)[::-1]  # of each sequence, from long to short
    unit, limit = common_divisor(lengths), max_sequences_per_pack
    sizes = lengths // unit
    slots = (len(counts) - 1) // unit
    n = len(lengths)
    limited = limit is not None and limit < slots // int(sizes[-1])
    layers, less = (limit, 1) if limited and limit else (1, 0)
    best = np.zeros((n + 1, layers, slots + 1), np.int64)
    for i, (size, value) in enumerate(zip(sizes.tolist(), values[lengths].tolist(), strict=True)):
        best[i + 1] = best[i]
        taken, beside = best[i + 1, less:, size:], best[i, : layers - less, : slots + 1 - size]
        np.maximum(taken, beside + value, out=taken)
    holds = np.eye(n, dtype=bool)
    space = slots - sizes
    layer = np.full(n, layers - 1)
    for i in reversed(range(n)):
        at = slice(i + 1, None)  # the packs whose shortest sequence comes after this one
        takes = best[i + 1, layer[at], space[at]] > best[i, layer[at], space[at]]
        holds[at, i] = takes
        space[at] -= takes * sizes[i]
        layer[at] -= takes * less
    last = np.append(lengths[1:] != lengths[:-1], True)
    return [tuple(Counter(lengths[pack].tolist()).items()) for pack in holds[last]]


def common_divisor(lengths: np.ndarray) -> int:
    """Return the greatest number that divides all of these lengths; a pack fills a multiple of it."""
    return int(np.gcd.reduce(lengths))


def up_to(most: int, sizes: np.ndarray, values: np.ndarray, slots: int) -> np.ndarray:
    """Find the best value of at most 0, 1, … `most` sequences in each space; int64, shape (most + 1, slots + 1).

    The sizes ascend. The shortest of k sequences takes at most `slots // k` slots, so no longer one needs to come last.
    """
    table, reached = np.zeros((most + 1, slots + 1), np.int64), np.empty(slots + 1, np.int64)
    for k, (before, now) in enumerate(pairwise(table), 1):
        now[:] = before
        fitting = np.searchsorted(sizes, slots // k, side="right")
        for size, value in zip(sizes[:fitting].tolist(), values[:fitting].tolist(), strict=True):
            np.add(before[: slots + 1 - size], value, out=reached[size:])
            np.maximum(now[size:], reached[size:], out=now[size:])
    return table


def _unlimited(sizes: np.ndarray, values: np.ndarray, slots: int) -> np.ndarray:
    """Find the best value of any number of sequences; 1, 2, 4, … more copies of a length make every number of them."""
    best, reached = np.zeros(slots + 1, np.int64), np.empty(slots + 1, np.int64)
    for size, value in zip(sizes.tolist(), values.tolist(), strict=True):
        while size <= slots:
            np.add(best[:-size], value, out=reached[size:])
            np.maximum(best[size:], reached[size:], out=best[size:])
            size, value = 2 * size, 2 * value
    return best
