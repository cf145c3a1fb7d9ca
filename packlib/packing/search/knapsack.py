"""The most valuable pack: a knapsack over lengths, by dynamic programming over integers.

A sequence has a price by its length. The value of a pack is the sum of the prices of its sequences, as in `bound.py`;
books on knapsacks call the price a value, too.

With `f[k][c]` the best value of at most k sequences in c slots,

    f[k][c] = max(f[k - 1][c], max over lengths l <= c of f[k - 1][c - l] + price[l]).

Where no depth limit binds, the index k falls away. See Kellerer, Pferschy, Pisinger, Knapsack Problems (2004),
section 8. A slot has as many tokens as the lengths' greatest common divisor: a pack of multiples of 512 tokens has few.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

NOT_FOR_SALE = -(1 << 60)  # the price of a length that must not be packed
_LISTING_STEPS = 10**8  # comparisons after which a listing gives up
_GROWN_AT_ONCE = 4096  # packs of a listing that grow at once, so that their comparisons take little memory
_READ_AT_ONCE = 64  # packs that are read from the table at once: their comparisons stay in the cache

# A pack as (length, copies), from long to short: deep packs have few such pairs.
Multiset = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Knapsack:
    """The table of the dynamic program, and the packs that are read from it.

    Attributes:
        lengths: the lengths for sale, in tokens, ascending; int64, shape (n,). An **item** is an index into them.
        prices: of one sequence of each of them; int64, same shape.
        unit: the tokens of a slot; they divide all lengths.
        deepest: the most sequences that a pack can hold.
        table: `f` above; int64, shape (layers, slots + 1). `table[k, c]` is the best value of at most k sequences in c
            slots, for k up to one less than the depth limit: a pack is read as one sequence and the best beside it. If
            no depth limit binds there is one layer, for any number of sequences. Values never fall as c grows.
    """

    lengths: np.ndarray
    prices: np.ndarray
    unit: int
    deepest: int
    table: np.ndarray

    @property
    def slots(self) -> int:
        """Return the slots of a pack."""
        return self.table.shape[1] - 1

    @property
    def sizes(self) -> np.ndarray:
        """Return the slots that a sequence of each of `lengths` takes; int64, same shape."""
        return self.lengths // self.unit

    @property
    def best(self) -> int:
        """Return the value of the best pack."""
        return int((self.prices + self.best_beside(self.lengths)).max())

    def best_beside(self, lengths: np.ndarray) -> np.ndarray:
        """Return the best value of what fits into a pack beside one sequence of each of these lengths; int64."""
        return self.table[-1, self.slots - lengths // self.unit]

    def packs_with(self, lengths: np.ndarray) -> list[Multiset]:
        """Read from the table, for each of `lengths`, the best pack that holds it.

        All packs are read together. In each round every pack takes a sequence that the best value of its space is made
        of, and goes on with the space beside that, until its space is worth nothing.
        """
        packs = [Counter([length]) for length in lengths.tolist()]
        unfinished = np.arange(len(packs))  # indices of packs
        space = self.slots - lengths // self.unit  # of each unfinished pack
        layer = len(self.table) - 1  # more sequences that each may take; always 0 if no depth limit binds
        while True:
            value = self.table[layer, space]
            unfinished, space, value = (array[value > 0] for array in (unfinished, space, value))
            if not len(unfinished):
                break
            space = np.searchsorted(self.table[layer], value)  # the fewest slots with that value
            layer_beside = max(layer - 1, 0)
            items = self._items_in(value, space, layer_beside)
            copies = np.ones_like(items)
            if len(self.table) == 1:  # there may be thousands of copies: take many in a round
                copies = self._many_copies(value, space, items)
            taken_lengths = self.lengths[items]
            for pack, length, n in zip(unfinished.tolist(), taken_lengths.tolist(), copies.tolist(), strict=True):
                packs[pack][length] += n
            space = space - copies * self.sizes[items]
            layer = layer_beside
        return [tuple(sorted(pack.items(), reverse=True)) for pack in packs]

    def _items_in(self, value: np.ndarray, space: np.ndarray, layer_beside: int) -> np.ndarray:
        """Find for each best value an item that it is made of; int64, shape (packs,).

        The recursion at the top says that there is one: where the best value is above 0, it is the price of some item
        and the best beside it.

        Args:
            value, space: the best values, above 0, and the slots in which they are reached; int64, shape (packs,).
            layer_beside: the layer of the table for what is beside the item.
        """
        sizes = self.sizes
        row_beside = self.table[layer_beside]
        items = np.zeros(len(space), np.int64)
        for first in range(0, len(space), _READ_AT_ONCE):
            batch = slice(first, first + _READ_AT_ONCE)
            # these three have shape (packs of the batch, lengths)
            space_beside = space[batch, None] - sizes  # below 0 where an item does not fit
            value_beside = np.where(space_beside >= 0, row_beside[space_beside], NOT_FOR_SALE)
            makes_it = value_beside + self.prices == value[batch, None]
            items[batch] = makes_it.argmax(axis=1)  # the first True
        return items

    def _many_copies(self, value: np.ndarray, space: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Count copies of each item that its best value can be made of: all that fit, or halved until it is.

        Args: as of `_items_in`, and what it returned. The table has one layer.
        """
        row = self.table[0]
        sizes = self.sizes[items]
        prices = self.prices[items]
        copies = space // sizes
        while (too_many := row[space - copies * sizes] + copies * prices < value).any():
            copies[too_many] = (copies[too_many] + 1) // 2  # ends at 1, of which the value is made
        return copies

    def packs_worth(self, least: int, counts: np.ndarray, most: int) -> list[Multiset] | None:
        """List every pack of these sequences that is worth at least `least`; return None if that takes too long.

        Packs grow by one sequence at a time, from long to short, as long as the table says that they can still come to
        be worth enough.

        Args:
            least: the least value of a pack; above 0.
            counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
            most: give up at more packs than that.
        """
        available = counts[self.lengths]
        packs = list[Multiset]()
        begun = BegunPacks.one_empty(len(self.lengths), self.slots)
        places = self.deepest  # sequences that a pack may still take
        steps_left = _LISTING_STEPS
        while len(begun.items):
            is_worth_it = begun.value >= least
            packs += [tuple(Counter(self.lengths[items].tolist()).items()) for items in begun.items[is_worth_it]]
            steps_left -= len(begun.items) * len(self.lengths)
            if len(packs) > most or steps_left < 0:
                return None
            if not places:
                break
            places -= 1
            begun = self._grown(begun, places, least, available)
        return packs

    def _grown(self, begun: "BegunPacks", places: int, least: int, available: np.ndarray) -> "BegunPacks":
        """Make of each pack one for each sequence with which it can still come to be worth `least`.

        Args:
            places: sequences that a pack may take after that one.
            available: sequences of each length that there are; int64, shape (lengths,).
        """
        sizes = self.sizes
        items = np.arange(len(self.lengths))
        # by slots: the best value of what comes after the new sequence
        best_after = self.table[min(places, len(self.table) - 1)] * (places > 0)
        grown = []
        for first in range(0, len(begun.items), _GROWN_AT_ONCE):
            batch = slice(first, first + _GROWN_AT_ONCE)
            # shape (packs of the batch, lengths): each pack with each item as its new sequence
            space = begun.space[batch, None] - sizes
            value = begun.value[batch, None] + self.prices
            is_last = items == begun.last[batch, None]
            copies_before = np.where(is_last, begun.copies[batch, None], 0)
            may_come = (space >= 0) & (items <= begun.last[batch, None]) & (copies_before < available)
            may_come &= value + best_after[space] >= least
            pack, item = np.nonzero(may_come)
            grown.append((first + pack, item, space[pack, item], value[pack, item], copies_before[pack, item] + 1))
        pack, item, space, value, copies = (np.concatenate(parts) for parts in zip(*grown, strict=True))
        with_new_item = np.concatenate([begun.items[pack], item[:, None]], axis=1)
        return BegunPacks(with_new_item, last=item, copies=copies, value=value, space=space)


class BegunPacks(NamedTuple):
    """Packs that grow by one sequence at a time, from long to short, while they are listed; all int64.

    Attributes:
        items: the lengths of each pack, as items of the `Knapsack`; shape (packs, sequences so far).
        last: the item that came last, shape (packs,), as all below; no longer one may come. In an empty pack it is the
            longest.
        copies: sequences of the last item in the pack so far.
        value: the value of the pack.
        space: the slots that it leaves.
    """

    items: np.ndarray
    last: np.ndarray
    copies: np.ndarray
    value: np.ndarray
    space: np.ndarray

    @classmethod
    def one_empty(cls, num_lengths: int, slots: int) -> "BegunPacks":
        """Begin a listing with one empty pack."""
        no_items = np.zeros((1, 0), np.int64)
        zero = np.zeros(1, np.int64)
        return cls(no_items, last=np.array([num_lengths - 1]), copies=zero, value=zero, space=np.array([slots]))


def solve_knapsack(prices: np.ndarray, max_sequences_per_pack: int | None) -> Knapsack:
    """Fill the table for every number of slots.

    Args:
        prices: of one sequence of each length; no pack may be worth more than 2^60. A length with a negative price is
            never packed; int64, shape (capacity + 1,).
        max_sequences_per_pack: at most this many sequences a pack, or None.
    """
    lengths = np.flatnonzero(prices[1:] >= 0) + 1
    prices_for_sale = prices[lengths]
    unit = common_divisor(lengths)
    sizes = lengths // unit
    slots = (len(prices) - 1) // unit
    limit = max_sequences_per_pack
    deepest = slots // int(sizes[0])
    if limit is not None and limit < deepest:
        deepest = limit
        table = limited_table(limit - 1, sizes, prices_for_sale, slots)
    else:
        table = _unlimited_row(sizes, prices_for_sale, slots)[None]
    return Knapsack(lengths, prices_for_sale, unit, deepest, table)


def fillable(packs: Iterable[Multiset], counts: np.ndarray) -> list[bool]:
    """Return for each pack whether it holds no more sequences of a length than there are."""
    available = counts.tolist()
    return [all(copies <= available[length] for length, copies in pack) for pack in packs]


def fillable_packs(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None) -> list[Multiset]:
    """Find, for each length, the most valuable pack of which it is the shortest, with no more copies than there are.

    The sequences are numbered from long to short. With `f[i][k][c]` the best value of at most k of the first i
    sequences in c slots, the pack whose shortest is sequence i is worth its price and `f[i]` beside it. The index
    k falls away where no depth limit binds.

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (capacity + 1,).
        prices: of one sequence of each length, at least 0; int64, same shape.
        max_sequences_per_pack: at most this many sequences a pack, or None.
    """
    lengths = np.repeat(np.arange(len(counts)), counts)[::-1]  # of each sequence, from long to short
    unit = common_divisor(lengths)
    sizes = lengths // unit
    slots = (len(counts) - 1) // unit
    n = len(lengths)
    limit = max_sequences_per_pack
    layers = 1  # of the table
    layers_down = 0  # how many layers a sequence leads down: 1 where it takes one of the places
    if limit is not None and limit < slots // int(sizes[-1]):
        layers = limit
        layers_down = 1
    best = np.zeros((n + 1, layers, slots + 1), np.int64)  # `f` above
    for i, (size, price) in enumerate(zip(sizes.tolist(), prices[lengths].tolist(), strict=True)):
        best[i + 1] = best[i]
        best_beside = best[i, : layers - layers_down, : slots + 1 - size]
        best_with = best[i + 1, layers_down:, size:]
        np.maximum(best_with, best_beside + price, out=best_with)

    # read all packs back together: pack j has sequence j as its shortest, and of those before j what makes it best
    holds = np.eye(n, dtype=bool)  # holds[j, i]: whether pack j holds sequence i
    space = slots - sizes
    layer = np.full(n, layers - 1)
    for i in reversed(range(n)):
        later = slice(i + 1, None)  # the packs whose shortest sequence comes after this one
        takes = best[i + 1, layer[later], space[later]] > best[i, layer[later], space[later]]
        holds[later, i] = takes
        space[later] -= takes * sizes[i]
        layer[later] -= takes * layers_down
    last_of_length = np.append(lengths[1:] != lengths[:-1], True)  # its pack can hold all others of the same length
    return [tuple(Counter(lengths[pack].tolist()).items()) for pack in holds[last_of_length]]


def common_divisor(lengths: np.ndarray) -> int:
    """Return the greatest number that divides all of these lengths; a pack fills a multiple of it."""
    return int(np.gcd.reduce(lengths))


def limited_table(most: int, sizes: np.ndarray, prices: np.ndarray, slots: int) -> np.ndarray:
    """Find the best value of at most 0, 1, … `most` sequences in each space; int64, shape (most + 1, slots + 1).

    >>> import numpy as np
    >>> from packlib.packing.search.knapsack import limited_table
    >>> limited_table(2, sizes=np.array([1, 3]), prices=np.array([10, 40]), slots=4)
    array([[ 0,  0,  0,  0,  0],
           [ 0, 10, 10, 40, 40],
           [ 0, 10, 20, 40, 50]])

    Args:
        most: sequences, at most.
        sizes: the slots that a sequence of each length takes, ascending; int64, shape (lengths,).
        prices: of each; int64, same shape.
        slots: of the largest space.
    """
    table = np.zeros((most + 1, slots + 1), np.int64)
    with_length = np.empty(slots + 1, np.int64)
    for k, (one_fewer, row) in enumerate(pairwise(table), 1):
        row[:] = one_fewer
        # the shortest of k sequences takes at most slots // k, so no longer one needs to be the one that is added
        fitting = np.searchsorted(sizes, slots // k, side="right")
        for size, price in zip(sizes[:fitting].tolist(), prices[:fitting].tolist(), strict=True):
            np.add(one_fewer[: slots + 1 - size], price, out=with_length[size:])
            np.maximum(row[size:], with_length[size:], out=row[size:])
    return table


def _unlimited_row(sizes: np.ndarray, prices: np.ndarray, slots: int) -> np.ndarray:
    """Find the best value of any number of sequences in each space; int64, shape (slots + 1,).

    Each length is added as 1 copy or none, 2 or none, 4 or none, …: together these make every number of copies.

    Args: as of `limited_table`.
    """
    best = np.zeros(slots + 1, np.int64)
    with_copies = np.empty(slots + 1, np.int64)
    for size_of_one, price_of_one in zip(sizes.tolist(), prices.tolist(), strict=True):
        copies = 1
        while (size := copies * size_of_one) <= slots:
            np.add(best[:-size], copies * price_of_one, out=with_copies[size:])
            np.maximum(best[size:], with_copies[size:], out=best[size:])
            copies *= 2
    return best
