"""Deal packs to steps and ranks: at random, but within a window of a few steps alike packs meet.

A step takes as long as its slowest rank. Packs come in a random order, as from any loader, and are cut into windows of
a few steps. In a window each rank of each step gets a bundle of packs, and bundles have about equal work. They are
sorted: neighbors make a step, and the steps of the window come in random order. A window has the mix of a random deal.
Where a pack is heavier than equal bundles allow, its step gets the heaviest packs, and more work than the others.

With one pack a rank, no deal of a window's packs to its steps is faster. Sort the steps of any deal by their heaviest
pack: the second is no lighter than the pack that follows the `ranks` heaviest ones of the window, the third no lighter
than the one that follows the 2 × `ranks` heaviest, and so on. In steps of sorted packs these are the heaviest ones.
"""

from bisect import bisect

import numpy as np

_CLOSE = 1.001  # times its bound: packs of a window are exchanged until it is so fast
_CHUNK = 1 << 20  # packs that are dealt at once, so that memory stays small


def deal_in_windows(
    each: np.ndarray, ranks: int, packs_per_rank: int, window: int, rng: np.random.Generator
) -> np.ndarray:
    """Which packs each rank gets in each step; int64, shape (steps, ranks, packs_per_rank).

    Args:
        each: the work of each pack, in a random order; float64, shape (steps * ranks * packs_per_rank,).
        window: how many steps share their packs; the last window may have fewer.
    """
    dealt, step = [np.empty(0, np.int64)], ranks * packs_per_rank
    for windows in in_windows(each, step * window):
        at_once = max(1, _CHUNK // windows.shape[1])
        for work in np.split(windows, range(at_once, len(windows), at_once)):
            steps = _bundles(work, ranks, packs_per_rank).reshape(len(work), -1, step)
            order = rng.permuted(np.indices(steps.shape[:2])[1], axis=1)
            first = sum(map(len, dealt)) + np.arange(len(work))[:, None, None] * work.shape[1]
            dealt.append((np.take_along_axis(steps, order[:, :, None], axis=1) + first).ravel())
    return np.concatenate(dealt).reshape(-1, ranks, packs_per_rank)


def in_windows(values: np.ndarray, size: int) -> list[np.ndarray]:
    """Values of packs, step by step, cut into windows of so many packs; a last, smaller window stands alone."""
    whole = len(values) // size * size
    return [part for part in (values[:whole].reshape(-1, size), values[None, whole:]) if part.size]


def least_times(each: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """A bound for each window: however its packs are dealt to its steps, these take so long together.

    Sort the steps of any deal by their heaviest packs. In the first k steps these are together no lighter than the
    first, the second, … of every ranks × packs_per_rank packs from heavy to light, and the ranks that have them also
    have packs_per_rank - 1 others. These steps hold at most as many of the heaviest packs as have room in them; the
    other steps take at least the mean of what is left. The best of the bounds for k = 0, 1, … counts.

    Args:
        each: the work of the packs, shape (windows, packs of a window).
    """
    falling, step = -np.sort(-each, axis=1), ranks * packs_per_rank
    first = np.arange(falling.shape[1] // step + 1)  # k
    heaviest = _sums(falling[:, ::step])
    others = _sums(falling[:, ::-1])[:, first * (packs_per_rank - 1)]
    held = _sums(falling)
    return (heaviest + others + (held[:, -1:] - held[:, first * step]) / ranks).max(axis=1)


def _sums(values: np.ndarray) -> np.ndarray:
    """The sums of the first 0, 1, 2, … values of each row."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _bundles(work: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The packs of each bundle, so that neighbors make a step; shape (windows, bundles, packs_per_rank).

    Equal bundles are best, unless one of the packs is too heavy for them.
    """
    if packs_per_rank == 1:
        return np.argsort(work, axis=1, kind="stable")[:, :, None]
    bundles = np.empty((len(work), work.shape[1] // packs_per_rank, packs_per_rank), np.int64)
    heavy, left = zip(*(_heavy_bundles(window, ranks, packs_per_rank) for window in work), strict=True)
    sizes = np.array([len(packs) for packs in left])
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        packs = np.array([left[i] for i in alike], np.int64)
        equal = _equal_bundles(np.take_along_axis(work[alike], packs, axis=1), ranks, packs_per_rank)
        at = bundles.shape[1] - size // packs_per_rank
        bundles[alike, :at] = np.array([heavy[i] for i in alike], np.int64).reshape(len(alike), at, packs_per_rank)
        bundles[alike, at:] = np.take_along_axis(packs, equal.reshape(packs.shape), axis=1).reshape(equal.shape)
    return bundles


def _heavy_bundles(work: np.ndarray, ranks: int, packs_per_rank: int) -> tuple[list[list[int]], list[int]]:
    """The bundles of steps with heavy packs, in one window; and the packs that are left, of which none is too heavy.

    The heaviest pack and the lightest ones make a bundle, which its step must wait for. The other ranks of that step
    get the next heaviest packs, and as much besides as the first has: for each place the heaviest pack that leaves
    room for the lightest ones in the places after it. So it goes on until what is left can be equal.
    """
    order, others = np.argsort(work, kind="stable"), packs_per_rank - 1
    left, each, bundles = order.tolist(), work[order].tolist(), list[list[int]]()
    while left and (longest := each[-1] + sum(each[:others])) > packs_per_rank * sum(each) / len(each):
        for pack, done in [(left.pop(), each.pop()) for _ in range(ranks)]:
            bundles.append([pack])
            for places in range(others, 0, -1):
                at = max(0, bisect(each, longest - done - sum(each[: places - 1])) - 1)
                done += each.pop(at)
                bundles[-1].append(left.pop(at))
    return bundles, left


def _equal_bundles(work: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The packs of each bundle, the lightest bundle first; shape (windows, bundles, packs_per_rank).

    A layer of packs after the other, from heavy to light, goes to the bundles, the heaviest pack of a layer to the
    lightest bundle: the longest-processing-time rule (Graham 1969) where all get as many. Then packs are exchanged.
    """
    layers = np.argsort(-work, axis=1, kind="stable").reshape(
        len(work), packs_per_rank, work.shape[1] // packs_per_rank
    )
    bundles = np.empty((len(work), layers.shape[2], packs_per_rank), np.int64)
    done = np.zeros(bundles.shape[:2])
    for i in range(packs_per_rank):
        lightest = np.argsort(done, axis=1, kind="stable")
        np.put_along_axis(bundles[:, :, i], lightest, layers[:, i], axis=1)
        done += np.take_along_axis(work, bundles[:, :, i], axis=1)
    if packs_per_rank > 2:  # of two, exchanges gain nothing
        slow, least = np.arange(len(work)), least_times(work, ranks, packs_per_rank)
        for _ in range(2 * packs_per_rank):
            slow = slow[np.sort(done[slow], axis=1)[:, ranks - 1 :: ranks].sum(axis=1) > _CLOSE * least[slow]]
            if not len(slow):
                break
            bundles[slow], done[slow] = _exchanged(bundles[slow], done[slow], work[slow])
    return np.take_along_axis(bundles, np.argsort(done, axis=1, kind="stable")[:, :, None], axis=1)


def _exchanged(bundles: np.ndarray, done: np.ndarray, work: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exchange a pack between the heaviest bundle and the lightest, the second heaviest and the second lightest, …"""
    half, packs = bundles.shape[1] // 2, bundles.shape[2]
    order = np.argsort(done, axis=1, kind="stable")
    light, heavy = order[:, :half], order[:, ::-1][:, :half]
    window = np.arange(len(work))[:, None]
    lighter, heavier = (
        np.take_along_axis(work, bundles[window, some].reshape(len(work), -1), axis=1).reshape(len(work), half, packs)
        for some in (light, heavy)
    )
    wanted = (done[window, heavy] - done[window, light]) / 2
    off = np.abs(heavier[:, :, :, None] - lighter[:, :, None, :] - wanted[:, :, None, None])
    best = off.reshape(len(work), half, -1).argmin(axis=2)
    give, take = np.divmod(best, packs)
    pair = np.indices(best.shape)
    moved = heavier[*pair, give] - lighter[*pair, take]
    at = np.nonzero((moved > 0) & (moved < 2 * wanted))  # then the two bundles differ less
    row, a, b, give, take = at[0], heavy[at], light[at], give[at], take[at]
    bundles[row, a, give], bundles[row, b, take] = bundles[row, b, take], bundles[row, a, give]
    done[row, a] -= moved[at]
    done[row, b] += moved[at]
    return bundles, done
