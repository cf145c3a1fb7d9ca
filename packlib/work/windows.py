"""Deal packs to steps and ranks: at random, but within a window of a few steps alike packs meet.

A step takes as long as its slowest rank. Packs come in a random order, as from any loader, and are cut into windows of
a few steps. In a window each rank of each step gets a bundle of packs, and bundles have about equal work. They are
sorted: neighbors make a step, and the steps of the window come in random order. A window has the mix of a random deal.
Where a pack is heavier than equal bundles allow, its step gets the heaviest packs, and more work than the others.

With one pack a rank, no deal of a window's packs to its steps is faster. Sort the steps of any deal by their heaviest
pack: the second is no lighter than the pack that follows the `ranks` heaviest ones of the window, the third no lighter
than the one that follows the 2 × `ranks` heaviest, and so on. In steps of sorted packs these are the heaviest ones.
"""

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
    top = held[:, first * (step - packs_per_rank + 1)]
    return (heaviest + others + (held[:, -1:] - top - others) / ranks).max(axis=1)


def _sums(values: np.ndarray) -> np.ndarray:
    """The sums of the first 0, 1, 2, … values of each row."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _bundles(work: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The packs of each bundle, so that neighbors make a step; shape (windows, bundles, packs_per_rank).

    Equal bundles are best. While the heaviest pack is too heavy for them, it gets a step of its kind.
    """
    order = np.argsort(work, axis=1, kind="stable")
    if packs_per_rank == 1:
        return order[:, :, None]
    bundles = np.empty((len(work), work.shape[1] // packs_per_rank, packs_per_rank), np.int64)
    each, windows, left = np.take_along_axis(work, order, axis=1), np.arange(len(work)), bundles.shape[1]
    while left and len(windows):
        longest = each[:, -1] + each[:, : packs_per_rank - 1].sum(axis=1)
        heavy = longest > packs_per_rank * each.mean(axis=1)
        bundles[windows[~heavy], :left] = _equal_bundles(order[~heavy], each[~heavy], ranks, packs_per_rank)
        windows, order, each = windows[heavy], order[heavy], each[heavy]
        bundles[windows, left - ranks : left], order, each = _heavy_step(
            order, each, longest[heavy], ranks, packs_per_rank
        )
        left -= ranks
    return bundles


def _heavy_step(
    order: np.ndarray, each: np.ndarray, longest: np.ndarray, ranks: int, packs_per_rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bundles of a step in each window, and what is left of the packs, from light to heavy, and of their work.

    The ranks begin with the heaviest packs. For each place that is left a rank gets the heaviest pack that leaves room
    for the lightest ones in the places after it, if it is to take as `longest`: the heaviest pack and the lightest.
    """
    bundles = np.empty((len(each), ranks, packs_per_rank), np.int64)
    rows, places = np.arange(len(each))[:, None], np.arange(ranks)
    top = 2 * longest[:, None]
    at, done = each.shape[1] - 1 - places + 0 * rows, np.zeros((len(each), ranks))
    for place in range(packs_per_rank):
        if place:
            room = longest[:, None] - done - each[:, : packs_per_rank - 1 - place].sum(axis=1, keepdims=True)
            heavier = np.argsort(room, axis=1, kind="stable")
            room = np.take_along_axis(room, heavier, axis=1)
            found = np.searchsorted((each / top + rows).ravel(), ((room / top).clip(0) + rows).ravel(), side="right")
            found = found.reshape(room.shape) - rows * each.shape[1] - 1 - places
            found = np.maximum(np.minimum.accumulate(found[:, ::-1], axis=1)[:, ::-1], 0) + places
            np.put_along_axis(at, heavier, found, axis=1)
        bundles[:, :, place] = np.take_along_axis(order, at, axis=1)
        done += np.take_along_axis(each, at, axis=1)
        left = np.ones(each.shape, bool)
        left[rows, at] = False
        order, each = (values[left].reshape(len(each), each.shape[1] - ranks) for values in (order, each))
    return bundles, order, each


def _equal_bundles(order: np.ndarray, each: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The packs of each bundle, the lightest bundle first; shape (windows, bundles, packs_per_rank).

    A layer of packs after the other, from heavy to light, goes to the bundles, the heaviest pack of a layer to the
    lightest bundle: the longest-processing-time rule (Graham 1969) where all get as many. Then packs are exchanged.
    """
    shape = len(each), packs_per_rank, each.shape[1] // packs_per_rank
    bundles, layers = np.empty((shape[0], shape[2], packs_per_rank), np.int64), np.empty((shape[0], shape[2], packs_per_rank))
    done = np.zeros(bundles.shape[:2])
    for i in range(packs_per_rank):
        lightest = np.argsort(done, axis=1, kind="stable")
        np.put_along_axis(bundles[:, :, i], lightest, order[:, ::-1].reshape(shape)[:, i], axis=1)
        np.put_along_axis(layers[:, :, i], lightest, each[:, ::-1].reshape(shape)[:, i], axis=1)
        done += layers[:, :, i]
    if packs_per_rank > 2 and len(each):  # of two, exchanges gain nothing
        slow, least = np.arange(len(each)), least_times(each, ranks, packs_per_rank)
        for _ in range(2 * packs_per_rank):
            slow = slow[np.sort(done[slow], axis=1)[:, ranks - 1 :: ranks].sum(axis=1) > _CLOSE * least[slow]]
            if not len(slow):
                break
            bundles[slow], layers[slow], done[slow] = _exchanged(bundles[slow], layers[slow], done[slow])
    return np.take_along_axis(bundles, np.argsort(done, axis=1, kind="stable")[:, :, None], axis=1)


def _exchanged(bundles: np.ndarray, each: np.ndarray, done: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exchange a pack between the heaviest bundle and the lightest, the second heaviest and the second lightest, …"""
    half, packs = bundles.shape[1] // 2, bundles.shape[2]
    order = np.argsort(done, axis=1, kind="stable")
    light, heavy = order[:, :half], order[:, ::-1][:, :half]
    window = np.arange(len(each))[:, None]
    lighter, heavier = each[window, light], each[window, heavy]
    wanted = (done[window, heavy] - done[window, light]) / 2
    off = np.abs(heavier[:, :, :, None] - lighter[:, :, None, :] - wanted[:, :, None, None])
    best = off.reshape(len(each), half, -1).argmin(axis=2)
    give, take = np.divmod(best, packs)
    pair = np.indices(best.shape)
    moved = heavier[*pair, give] - lighter[*pair, take]
    at = np.nonzero((moved > 0) & (moved < 2 * wanted))  # then the two bundles differ less
    row, a, b, give, take = at[0], heavy[at], light[at], give[at], take[at]
    for values in (bundles, each):
        values[row, a, give], values[row, b, take] = values[row, b, take], values[row, a, give]
    done[row, a] -= moved[at]
    done[row, b] += moved[at]
    return bundles, each, done
