"""The bound for long rows under a depth limit, its certificate: a value that no pack exceeds, found in few steps.

The exact knapsack (`knapsack.py`) takes distinct lengths x capacity x depth steps. Here a pack is relaxed three times.
Each time no pack loses value, and integers only ever err upward, so the best relaxed pack is worth at least as much as
the best real one:

- Short sequences, of at most a seventeenth of a pack, are seen together. Let h be the concave hull of their prices with
  the origin. `m` of them with `R` tokens in all are worth at most the sum of their h, which by concavity (Jensen) is at
  most `m h(R / m)`; and the best split of the space over at most `m` of them is worth no more than that with all `R`.
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

_LAYERS = 16  # a long sequence takes more than 1/17 of a pack: there are at most so many
ALL_LONG = 64  # all sequences count as long where a pack holds no more than these
_WORK = 200_000_000  # additions in a call
_FINEST = 1 << 15  # cells of the grid


class ConcaveHull(NamedTuple):
    """The concave hull of the prices of short sequences, with the origin, in integers.

    Attributes:
        lengths: where it bends, ascending, the first is 0.
        prices: at least what a sequence of that length costs.
        slopes: what a token more costs behind each bend, falling; the last is 0.
    """

    lengths: np.ndarray
    prices: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, lengths: np.ndarray, prices: np.ndarray) -> "ConcaveHull":
        """Make the hull over these points (int64, ascending lengths from 1 up)."""
        bends: list[tuple[int, int]] = [(0, 0)]
        for x, y in zip(lengths.tolist(), prices.tolist(), strict=True):
            if y <= bends[-1][1]:
                continue  # the hull is flat or higher there
            while len(bends) > 1 and _rises_no_faster(bends[-2], bends[-1], (x, y)):
                bends.pop()
            bends.append((x, y))
        height = 0
        heights = [0]
        slopes = []
        for (x0, y0), (x1, y1) in itertools.pairwise(bends):
            slopes.append(-((y0 - y1) // (x1 - x0)))  # rounded up
            height += slopes[-1] * (x1 - x0)
            heights.append(height)
        at = np.array([x for x, _ in bends], np.int64)
        return cls(at, np.array(heights, np.int64), np.array([*slopes, 0], np.int64))

    def worth(self, most: int, space: np.ndarray) -> np.ndarray:
        """Return what up to so many short sequences are worth at most, with so much space in all; int64, as `space`."""
        at = np.searchsorted(self.lengths * most, space, side="right") - 1
        return most * self.prices[at] + self.slopes[at] * (space - most * self.lengths[at])


def _rises_no_faster(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Return whether b lies on or under the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def relaxed_best(prices: np.ndarray, occurs: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """Bound the value of the best pack from above, closely.

    Args:
        prices: what a sequence of each length is worth, at least 0; int64, shape (capacity + 1,). A price of a length
            that does not occur may be counted, too.
        occurs: which lengths occur; bool, same shape.
        max_sequences_per_pack: the depth limit, or None.
    """
    capacity, limit = len(prices) - 1, deepest(occurs, max_sequences_per_pack)
    best = _relaxed_best(prices, occurs, limit, capacity // (_LAYERS + 1) + 1, min(limit, _LAYERS))
    return min(best, _relaxed_best(prices, occurs, limit, 1, limit)) if limit <= ALL_LONG else best


def deepest(occurs: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """Return the most sequences that a pack can hold."""
    limit = (len(occurs) - 1) // int(np.flatnonzero(occurs)[0])
    return min(limit, max_sequences_per_pack or limit)


def _relaxed_best(prices: np.ndarray, occurs: np.ndarray, limit: int, first: int, layers: int) -> int:
    """Bound the best pack; sequences of `first` tokens or more are long, of which it holds at most `layers`."""
    capacity, used = len(prices) - 1, np.flatnonzero(occurs)
    short, long = used[used < first], used[used >= first]
    hull, bends = ConcaveHull.of(short, prices[short]), _bends(prices, max(first, int(used[0])))
    cells = capacity // _finest_grid(capacity)
    every = len(long) <= len(bends) or layers * len(hull.lengths) * cells > _WORK
    grid, best_long = _best_on_grid(long if every else bends, prices, layers)
    space = capacity - grid * np.arange(capacity // grid + 1)
    best = max(int((row + hull.worth(limit - k, space)).max()) for k, row in enumerate(best_long))
    if every:
        return best
    highest = np.maximum.accumulate(np.where(np.arange(capacity + 1) < first, 0, prices))
    return max(best, _best_with_any(best_long, hull, space, highest, first, limit))


def _bends(prices: np.ndarray, shortest: int) -> np.ndarray:
    """Return the lengths at which prices bend, from the shortest that counts to the longest, ascending; int64."""
    slower = np.flatnonzero(np.diff(prices[shortest:], 2) < 0) + shortest + 1
    return np.unique(np.concatenate([[shortest], slower, [len(prices) - 1]]))


def _finest_grid(capacity: int) -> int:
    return -(-capacity // _FINEST)


def _best_on_grid(lengths: np.ndarray, prices: np.ndarray, layers: int) -> tuple[int, np.ndarray]:
    """Solve the knapsack over these long sequences, their lengths rounded down to the finest grid that is affordable.

    Returns:
        The tokens of a cell of the grid, and the best values as of `limited_table`.
    """
    capacity = len(prices) - 1
    grid = _finest_grid(capacity)
    while _cost(lengths // grid, capacity // grid, layers) > _WORK:
        grid *= 2
    weights, values = _one_per_weight(lengths // grid, prices[lengths])
    return grid, limited_table(layers, weights, values, capacity // grid)


def _best_with_any(
    best_long: np.ndarray, hull: ConcaveHull, space: np.ndarray, highest: np.ndarray, first: int, limit: int
) -> int:
    """Return the best value of long sequences at bends, one of any length, and short ones at a bend of their hull.

    Args:
        best_long: the best values of so many long sequences at bends, in so many cells.
        space: what so many cells leave of a pack, in tokens.
        highest: the price of the best long sequence of up to so many tokens.
        first: the tokens from which on a sequence is long.
        limit: the most sequences that a pack can hold.
    """
    best = 0
    for k, row in enumerate(best_long[:-1]):
        places = limit - k - 1
        for length, price in zip(hull.lengths.tolist(), hull.prices.tolist(), strict=True):
            left = space - places * length
            left = left[left >= first]
            if len(left):
                best = max(best, int((row[: len(left)] + highest[left]).max()) + places * price)
    return best


def _one_per_weight(weights: np.ndarray, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the highest price of each weight (ascending weights), without those that a lighter one beats."""
    kept, starts = np.unique(weights, return_index=True)
    best = np.maximum.reduceat(prices, starts) if len(prices) else prices
    better = best > np.concatenate([[-1], np.maximum.accumulate(best)[:-1]])[: len(best)]
    return kept[better], best[better]


def _cost(weights: np.ndarray, cells: int, layers: int) -> int:
    weights = np.unique(weights)
    return sum(int(np.searchsorted(weights, cells // k, side="right")) for k in range(1, layers + 1)) * cells
