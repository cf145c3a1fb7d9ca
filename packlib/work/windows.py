"""Deal packs to steps and ranks: at random, but within a window of a few steps alike packs meet.

A step takes as long as its slowest rank. Packs come in a random order, as from any loader, and are cut into windows of
a few steps. In a window each rank of each step gets a bundle of packs, and bundles have about equal work. They are
sorted: neighbors make a step, and the steps of the window come in random order. A window has the mix of a random deal.
Where a pack is heavier than equal bundles allow, its step gets more work than the others of the window.

With one pack a rank, no deal of a window's packs to its steps is faster. Sort the steps of any deal by their heaviest
pack: the second is no lighter than the pack that follows the `ranks` heaviest ones of the window, the third no lighter
than the one that follows the 2 × `ranks` heaviest, and so on. In steps of sorted packs these are the heaviest ones.
"""

import numpy as np

_CLOSE = 1.001  # times its bound: packs of a window are exchanged until it is so fast,
_LESS = 0.9999  # or until doing so twice leaves more than this share of its time
_CHUNK = 1 << 20  # packs that are dealt at once, so that memory stays small
_APART = 64  # steps of a window at most that get more work than the others


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

    All ranks have the mean work at best. And the heaviest packs of the steps are together no lighter than every
    (ranks × packs_per_rank)-th pack from heavy to light; on each of their ranks are packs_per_rank - 1 others.

    Args:
        each: the work of the packs, shape (windows, packs of a window).
    """
    falling = -np.sort(-each, axis=1)
    heaviest = falling[:, :: ranks * packs_per_rank]
    others = falling[:, falling.shape[1] - heaviest.shape[1] * (packs_per_rank - 1) :]
    return np.maximum(each.sum(axis=1) / ranks, heaviest.sum(axis=1) + others.sum(axis=1))


def _bundles(work: np.ndarray, ranks: int, packs_per_rank: int, apart: int = _APART) -> np.ndarray:
    """The packs of each bundle, so that neighbors make a step; shape (windows, bundles, packs_per_rank).

    Equal bundles are best unless the heaviest pack is too heavy for one. Its step takes longer anyway, so its other
    ranks get more work as well, and the other steps less, which are dealt likewise. The better of the two is kept.

    Args:
        apart: how many such steps may be taken out.
    """
    bundles, number = _equal_bundles(work, ranks, packs_per_rank), work.shape[1]
    of_a_step = ranks * packs_per_rank
    if packs_per_rank == 1 or number == of_a_step or not apart:
        return bundles
    alone = work.max(axis=1) + (packs_per_rank - 1) * work.min(axis=1)  # with the lightest others
    heavy = np.flatnonzero(alone > work.mean(axis=1) * packs_per_rank)
    if not len(heavy):
        return bundles
    work = work[heavy]
    order = np.argsort(-work, axis=1, kind="stable")
    falling = np.take_along_axis(work, order, axis=1)
    longest = falling[:, 0] + falling[:, number - packs_per_rank + 1 :].sum(axis=1)
    before = np.pad(np.cumsum(falling, axis=1), ((0, 0), (1, 0)))
    heaviest = np.arange(ranks, of_a_step + 1)  # packs of the step; its others are the lightest ones
    total = before[:, heaviest] + before[:, -1:] - before[:, number - of_a_step + heaviest]
    fitting = ranks + np.maximum((total <= ranks * longest[:, None]).sum(axis=1) - 1, 0)[:, None]
    inside = np.arange(of_a_step) + (np.arange(of_a_step) >= fitting) * (number - of_a_step)
    made = []
    for part in (inside, fitting + np.arange(number - of_a_step)):
        dealt = _bundles(np.take_along_axis(falling, part, axis=1), ranks, packs_per_rank, apart - 1)
        of_part = np.take_along_axis(part, dealt.reshape(part.shape), axis=1)
        made.append(np.take_along_axis(order, of_part, axis=1))
    other = np.concatenate(made, axis=1).reshape(len(heavy), -1, packs_per_rank)
    faster = _time(work, other, ranks) < _time(work, bundles[heavy], ranks)
    bundles[heavy[faster]] = other[faster]
    return bundles


def _time(work: np.ndarray, bundles: np.ndarray, ranks: int) -> np.ndarray:
    """How long the steps of each window take together."""
    of_packs = np.take_along_axis(work, bundles.reshape(len(work), -1), axis=1)
    return of_packs.reshape(len(work), -1, ranks, bundles.shape[2]).sum(axis=3).max(axis=2).sum(axis=1)


def _equal_bundles(work: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The packs of each bundle, the lightest bundle first; shape (windows, bundles, packs_per_rank).

    A layer of packs after the other, from heavy to light, goes to the bundles, the heaviest pack of a layer to the
    lightest bundle: the longest-processing-time rule (Graham 1969) where all get as many. Then packs are exchanged.
    """
    layers = np.argsort(-work, axis=1, kind="stable").reshape(len(work), packs_per_rank, -1)
    bundles = np.empty((len(work), layers.shape[2], packs_per_rank), np.int64)
    done = np.zeros(bundles.shape[:2])
    for i in range(packs_per_rank):
        lightest = np.argsort(done, axis=1, kind="stable")
        np.put_along_axis(bundles[:, :, i], lightest, layers[:, i], axis=1)
        done += np.take_along_axis(work, bundles[:, :, i], axis=1)
    if packs_per_rank > 2:  # of two, exchanges gain nothing
        slow, enough = np.arange(len(work)), _CLOSE * least_times(work, ranks, packs_per_rank)
        before = np.full((2, len(work)), np.inf)  # the times before the last two exchanges
        while True:
            time = np.sort(done[slow], axis=1)[:, ranks - 1 :: ranks].sum(axis=1)
            better = (time > enough[slow]) & (time < _LESS * before[0])
            slow, before = slow[better], np.stack([before[1], time])[:, better]
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
