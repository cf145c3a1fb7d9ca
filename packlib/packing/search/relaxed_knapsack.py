"""For long rows: a value that no pack exceeds, found in few steps; `bound.py` divides by it.

The exact knapsack (`knapsack.py`) takes distinct lengths x capacity x depth steps. Here a pack is relaxed three times.
Each time no pack loses value, and integers only ever err upward, so the best relaxed pack is worth at least as much as
the best real one:

- Short sequences, of at most a seventeenth of a pack, are seen together. Let h be the concave hull of their prices with
  the origin. `m` of them with `R` tokens in all are worth at most the sum of their h, which by concavity (Jensen) is at
  most `m h(R / m)`. Fewer of them, or with fewer tokens, are worth no more than that: h is 0 at 0, and never falls.
- The other sequences are long. There are at most 16 of them in a pack. Each length is rounded down to the grid, so
  every pack that fit still fits, at the same price.
- The prices bend at a length after which they rise more slowly; both ends count as bends, too. Between bends the price
  is convex in the length. Take a best pack with two long sequences that are at no bend. Moving a token from one to the
  other loses nothing in one of the two directions, by convexity; go on in it until one of the two is at a bend. So some
  best pack has at most one long sequence that is at no bend. From that one, tokens can be moved in the same way to or
  from the space of the short ones, whose value is linear between the bends of h, until it is at a bend of the prices,
  or the mean length of the short ones is at a bend of h. So two kinds of packs are enough: all long sequences are at
  bends; or all but one are, and the mean length of the short ones is at a bend of h. Lengths that do not occur may be
  used on the way, which only adds packs. Prices that are linear between few lengths have few bends.
"""

import itertools
from typing import NamedTuple

import numpy as np

from packlib.packing.search.knapsack import limited_table

_MOST_LONG = 16  # long sequences of a pack: each takes more than 1/17 of it
ALL_LONG = 64  # where a pack holds at most so many sequences, a second bound takes all of them for long
_WORK = 200_000_000  # additions in a call, at most
_FINEST = 1 << 15  # cells of the grid, at most: a cell is some tokens


class ConcaveHull(NamedTuple):
    """The concave hull of the prices of short sequences, with the origin, in integers that only err upward.

    Attributes:
        lengths: where it bends, in tokens, ascending, the first is 0; int64, shape (bends,).
        prices: its height there, at least the price of a sequence of that length; int64, same shape.
        slopes: by how much it rises with each token after a bend, falling; the last is 0; int64, same shape.
    """

    lengths: np.ndarray
    prices: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, lengths: np.ndarray, prices: np.ndarray) -> "ConcaveHull":
        """Make the hull over these points; both int64, shape (n,), and lengths ascending from 1 up."""
        bends: list[tuple[int, int]] = [(0, 0)]
        for x, y in zip(lengths.tolist(), prices.tolist(), strict=True):
            if y <= bends[-1][1]:
                continue  # the hull is flat or higher there
            while len(bends) > 1 and _is_below(bends[-2], bends[-1], (x, y)):
                bends.pop()
            bends.append((x, y))
        # the heights that rounded slopes lead to
        heights = [0]
        slopes = []
        for (x0, y0), (x1, y1) in itertools.pairwise(bends):
            slope = -((y0 - y1) // (x1 - x0))  # rounded up
            slopes.append(slope)
            heights.append(heights[-1] + slope * (x1 - x0))
        lengths_of_bends = [x for x, _ in bends]
        return cls(np.array(lengths_of_bends, np.int64), np.array(heights, np.int64), np.array([*slopes, 0], np.int64))

    def most_value(self, most: int, space: np.ndarray) -> np.ndarray:
        """Return the most value of up to `most` short sequences: `m h(R / m)` of the proof at the top of the file.

        Args:
            most: `m` of the proof.
            space: `R` of the proof, tokens of all of them together; int64, any shape.

        Returns:
            int64, shape as `space`.
        """
        bend = np.searchsorted(self.lengths * most, space, side="right") - 1  # the last up to the mean length
        return most * self.prices[bend] + self.slopes[bend] * (space - most * self.lengths[bend])


def _is_below(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Return whether the point b = (x, y) lies on or under the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def relaxed_best(prices: np.ndarray, occurs: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """Bound the value of the best pack from above, closely.

    In packs of 100 tokens, with sequences of 1, 5 and 48 tokens, the best pack holds 2 of 48 and 4 of 1. In a relaxed
    pack the 4 tokens beside the long ones are worth 4/5 of the price of 5 tokens.

    >>> import numpy as np
    >>> from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack
    >>> from packlib.packing.search.relaxed_knapsack import relaxed_best
    >>> prices = np.zeros(101, np.int64)
    >>> prices[[1, 5, 48]] = 10, 600, 6000
    >>> solve_knapsack(np.where(prices > 0, prices, NOT_FOR_SALE), None).best
    12040
    >>> relaxed_best(prices, occurs=prices > 0, max_sequences_per_pack=None)
    12480

    Args:
        prices: of a sequence of each length, at least 0; int64, shape (capacity + 1,). A price of a length
            that does not occur may be counted, too.
        occurs: which lengths occur; bool, same shape.
        max_sequences_per_pack: the depth limit, or None.
    """
    capacity = len(prices) - 1
    limit = deepest(occurs, max_sequences_per_pack)
    first_long = capacity // (_MOST_LONG + 1) + 1
    bound = _relaxed_best(prices, occurs, limit, first_long, min(limit, _MOST_LONG))
    if limit <= ALL_LONG:
        all_long_bound = _relaxed_best(prices, occurs, limit, first_long=1, most_long=limit)
        bound = min(bound, all_long_bound)
    return bound


def deepest(occurs: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """Return the most sequences that a pack can hold; arguments are as of `relaxed_best`."""
    fit = (len(occurs) - 1) // int(np.flatnonzero(occurs)[0])
    return min(fit, max_sequences_per_pack or fit)


def _relaxed_best(prices: np.ndarray, occurs: np.ndarray, limit: int, first_long: int, most_long: int) -> int:
    """Bound the value of the best pack from above, where sequences are long from `first_long` tokens up.

    Each step is a paragraph of the proof at the top of the file.

    Args:
        prices, occurs: as of `relaxed_best`.
        limit: the most sequences that a pack can hold.
        first_long: the fewest tokens of a long sequence.
        most_long: the most long sequences that a pack can hold.
    """
    capacity = len(prices) - 1
    lengths = np.flatnonzero(occurs)

    # short sequences together
    short = lengths[lengths < first_long]
    hull = ConcaveHull.of(short, prices[short])

    # long sequences on the grid: those at bends, with one of any length beside them; or all of them, if they are no
    # more than the bends, or if it takes too many additions to try all lengths for the one
    long = lengths[lengths >= first_long]
    bends = _bends(prices, max(first_long, int(lengths[0])))
    additions_for_one = most_long * len(hull.lengths) * (capacity // _finest_cell(capacity))
    all_long_on_grid = len(long) <= len(bends) or additions_for_one > _WORK
    cell, best_long = _best_on_grid(long if all_long_on_grid else bends, prices, most_long)
    space_beside = capacity - cell * np.arange(capacity // cell + 1)  # tokens that each number of cells leaves

    # the two kinds of packs that are enough
    best_on_grid = _best_with_all_on_grid(best_long, hull, space_beside, limit)
    if all_long_on_grid:
        return best_on_grid
    price_of_long = np.where(np.arange(capacity + 1) < first_long, 0, prices)
    best_price_up_to = np.maximum.accumulate(price_of_long)
    best_with_one = _best_with_one_of_any_length(best_long, hull, space_beside, best_price_up_to, first_long, limit)
    return max(best_on_grid, best_with_one)


def _bends(prices: np.ndarray, shortest: int) -> np.ndarray:
    """Return the lengths after which prices rise more slowly, with `shortest` and the longest; ascending, int64."""
    rises_more_slowly = np.diff(prices[shortest:], 2) < 0  # the first entry is about the length shortest + 1
    bends = np.flatnonzero(rises_more_slowly) + shortest + 1
    return np.unique(np.concatenate([[shortest], bends, [len(prices) - 1]]))


def _finest_cell(capacity: int) -> int:
    """Return the fewest tokens of a cell with which a pack has at most as many cells as are allowed."""
    return -(-capacity // _FINEST)


def _best_on_grid(lengths: np.ndarray, prices: np.ndarray, most_long: int) -> tuple[int, np.ndarray]:
    """Solve the knapsack over these long sequences, their lengths rounded down to the finest grid that is affordable.

    Returns:
        The tokens of a cell; and the best value of at most k long sequences (rows) in c cells (columns), as of
        `limited_table`; int64, shape (most_long + 1, cells + 1).
    """
    capacity = len(prices) - 1
    cell = _finest_cell(capacity)
    while _additions(lengths // cell, capacity // cell, most_long) > _WORK:
        cell *= 2
    sizes, price_of_size = _best_of_each_size(lengths // cell, prices[lengths])
    return cell, limited_table(most_long, sizes, price_of_size, capacity // cell)


def _best_with_all_on_grid(best_long: np.ndarray, hull: ConcaveHull, space_beside: np.ndarray, limit: int) -> int:
    """Return the best value of long sequences that are all on the grid, and short ones of any mean length.

    Args: as of `_best_with_one_of_any_length`.
    """
    best = 0
    for k, best_of_k_long in enumerate(best_long):
        most_short = limit - k
        value = best_of_k_long + hull.most_value(most_short, space_beside)
        best = max(best, int(value.max()))
    return best


def _best_with_one_of_any_length(
    best_long: np.ndarray,
    hull: ConcaveHull,
    space_beside: np.ndarray,
    best_price_up_to: np.ndarray,
    first_long: int,
    limit: int,
) -> int:
    """Return the best value of long sequences at bends, one of any length, and short ones at a bend of their hull.

    Args:
        best_long: `best_long[k, c]` is the best value of at most k long sequences on the grid, in c cells.
        hull: of the prices of short sequences.
        space_beside: `space_beside[c]` tokens of a pack are left beside c cells.
        best_price_up_to: `best_price_up_to[n]` is the highest price of a long sequence of at most n tokens.
        first_long, limit: as of `_relaxed_best`.
    """
    best = 0
    for k, best_of_k_long in enumerate(best_long[:-1]):  # with one more long sequence, of any length
        num_short = limit - k - 1
        for mean_length, price in zip(hull.lengths.tolist(), hull.prices.tolist(), strict=True):
            space_for_any = space_beside - num_short * mean_length  # falls as cells are taken
            space_for_any = space_for_any[space_for_any >= first_long]
            cells_that_leave_it = len(space_for_any)
            if cells_that_leave_it:
                value = best_of_k_long[:cells_that_leave_it] + best_price_up_to[space_for_any]
                best = max(best, int(value.max()) + num_short * price)
    return best


def _best_of_each_size(sizes: np.ndarray, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the highest price of each size, without the sizes for which a smaller one costs as much.

    Args:
        sizes: in cells, ascending, with repeats; int64, shape (n,).
        prices: those of the lengths with these sizes; int64, same shape.

    Returns:
        The sizes, ascending, and the prices, ascending; int64.
    """
    different_sizes, starts = np.unique(sizes, return_index=True)
    best = np.maximum.reduceat(prices, starts) if len(prices) else prices
    best_up_to = np.maximum.accumulate(best)
    best_of_smaller = np.concatenate([[-1], best_up_to[:-1]])[: len(best)]  # cut if there are no sizes
    is_better = best > best_of_smaller
    return different_sizes[is_better], best[is_better]


def _additions(sizes: np.ndarray, cells: int, most_long: int) -> int:
    """Count the additions of `limited_table`, in which k sequences have a shortest one of at most cells // k."""
    sizes = np.unique(sizes)
    lengths_added = [int(np.searchsorted(sizes, cells // k, side="right")) for k in range(1, most_long + 1)]
    return sum(lengths_added) * cells
