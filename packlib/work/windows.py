"""Deal packs to steps and ranks: at random, but within a window of a few steps alike packs meet.

A step takes as long as its slowest rank. Packs come in a random order, as from any loader, and are cut into windows of
a few steps. In a window each rank of each step gets a bundle of packs. Bundles of about equal work are made: the
heaviest packs of the window with lighter packs beside them, then the heaviest of what is left, and so on. The bundles
are sorted by their work, and make the steps. Then the ranks of a step deal their first packs anew, the heaviest to the
rank with least in its other places, which is the best they can do with these packs; and so on for each place. The steps
of the window come in random order, and a window has the mix of a random deal.

With one pack a rank, no deal of a window's packs to its steps is faster. Sort the steps of any deal by their heaviest
pack: the second is no lighter than the pack that follows the `ranks` heaviest ones of the window, the third no lighter
than the one that follows the 2 × `ranks` heaviest, and so on. In steps of sorted packs these are the heaviest ones.
"""

import numpy as np

_PARTS = 32  # of a window with several packs a rank, that are made one after the other: one or more steps each
_CHUNK = 1 << 17  # packs that are dealt at once, about, so that what this takes stays near the processor


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
        for some in np.array_split(windows, min(len(windows), -(-windows.size // _CHUNK))):
            steps = _bundles(some, ranks, packs_per_rank).reshape(len(some), -1, step)
            order = rng.permuted(np.indices(steps.shape[:2])[1], axis=1)
            dealt.append(sum(map(len, dealt)) + np.take_along_axis(steps, order[:, :, None], axis=1).ravel())
    return np.concatenate(dealt).reshape(-1, ranks, packs_per_rank)


def in_windows(values: np.ndarray, size: int) -> list[np.ndarray]:
    """Values of packs, step by step, cut into windows of so many packs; a last, smaller window stands alone."""
    whole = len(values) // size * size
    return [part for part in (values[:whole].reshape(-1, size), values[None, whole:]) if part.size]


def least_times(each: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """A lower bound for each window on the time that its steps take together, however its packs are dealt to them.

    Sort the steps of any deal by their heaviest packs, and look at the first k. Cut the packs of the window, from heavy
    to light, into runs of ranks × packs_per_rank. The heaviest packs of the k steps are together no lighter than the
    first packs of the first k runs. Each of them shares its rank with packs_per_rank - 1 others, and its step lasts at
    least as long as that rank. Besides the packs of these k ranks, the k steps hold k × (ranks - 1) × packs_per_rank
    packs; with the k heaviest packs, these weigh no more than as many of the heaviest packs of the window. The other
    steps hold the rest, and last at least 1 / ranks of its work. Lighter packs beside the k heaviest ones shorten the k
    steps by more than they lengthen the others, so the bound takes the lightest packs there.

    The best of these bounds for k = 0, 1, … is returned, or a better one from the n heaviest packs. Either two of them
    are in different steps: then the bound is as above, but the second step has a pack no lighter than the nth. Or two
    of them are on one rank. Or n ranks of one step have one each: then one of these ranks also has the heaviest of the
    n × (packs_per_rank - 1) lightest packs, or a heavier one.

    Args:
        each: the work of the packs, shape (windows, packs of a window).

    Returns:
        In the unit of `each`; float64, shape (windows,).
    """
    falling, step, beside = -np.sort(-each, axis=1), ranks * packs_per_rank, packs_per_rank - 1
    held, lightest, total = _sums(falling), _sums(falling[:, ::-1]), falling.sum(axis=1, keepdims=True)

    def lasts(heavy: np.ndarray, others: np.ndarray, packs: np.ndarray) -> np.ndarray:
        return heavy + lightest[:, others] + (total - held[:, packs - others] - lightest[:, others]) / ranks

    one, steps = np.array([1]), np.arange(falling.shape[1] // step + 1)  # of which k is each
    bound = lasts(_sums(falling[:, ::step]), steps * beside, steps * step).max(axis=1)
    if ranks == 1 or packs_per_rank == 1:
        return bound
    n, nth = np.arange(2, ranks + 1), falling[:, 1:ranks]
    several = lasts(nth + np.minimum(nth, falling[:, -n * beside]), one * (beside - 1), one * step)
    if len(steps) > 2:
        several = np.minimum(several, lasts(falling[:, :1] + nth, one * 2 * beside, one * 2 * step))
    return np.maximum(bound, several.max(axis=1))


def _sums(values: np.ndarray) -> np.ndarray:
    """The sums of the first 0, 1, 2, … values of each row."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _bundles(windows: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """The packs of each bundle, so that neighbors make a step; positions in `windows.ravel()`.

    Args:
        windows: the work of the packs, shape (windows, packs of a window).
    """
    work, window = windows.ravel(), np.arange(len(windows))[:, None]
    order = np.argsort(windows, axis=1, kind="stable") + window * windows.shape[1]
    if packs_per_rank == 1:
        return order
    each = work[order] / work[order[:, -1:]] / packs_per_rank + window  # all windows are one ascending row
    made, steps = list[np.ndarray](), np.arange(windows.shape[1] // (ranks * packs_per_rank))
    for part in np.array_split(steps, min(_PARTS, len(steps))):
        some, order, each = _alike(order, each, len(part) * ranks, packs_per_rank)
        made.append(some)
    bundles = np.concatenate(made, axis=1)
    order = np.argsort(work[bundles].sum(axis=2), axis=1, kind="stable")
    packs = np.take_along_axis(bundles, order[:, :, None], axis=1).reshape(-1, ranks, packs_per_rank)
    for place in range(packs_per_rank):  # the heaviest pack to the rank with least in its other places
        here = packs[:, :, place]
        least = np.argsort(work[packs].sum(axis=2) - work[here], axis=1, kind="stable")
        falling = np.take_along_axis(here, np.argsort(-work[here], axis=1, kind="stable"), axis=1)
        np.put_along_axis(here, least, falling, axis=1)
    return packs


def _alike(order: np.ndarray, each: np.ndarray, number: int, packs_per_rank: int) -> tuple[np.ndarray, ...]:
    """So many bundles of about equal work in each window; the packs that are left, and their work.

    They begin with the heaviest packs, and are to become as heavy as bundles of what is left are on average, or as the
    heaviest pack with the lightest ones, if that is more. In each other place a bundle gets the heaviest pack that
    leaves room for the lightest ones in the places after it.

    Args:
        order: the packs of each window, from light to heavy; shape (windows, packs).
        each: their work, as a share of what no bundle exceeds, plus the number of the window; same shape.
    """
    window, bundle = np.arange(len(each))[:, None], np.arange(number)
    average, lightest = each.mean(axis=1, keepdims=True) - window, _sums(each[:, : packs_per_rank - 1] - window)
    goal = np.maximum(packs_per_rank * average, each[:, -1:] - window + lightest[:, -1:])
    made, done = np.empty((len(each), number, 0), np.int64), np.zeros((len(each), number))
    for place in range(packs_per_rank):
        first = window * each.shape[1]
        room = (goal - done - lightest[:, [packs_per_rank - 1 - place]]).clip(0) + 1e-9  # which is rounded
        at = np.searchsorted(each.ravel(), (room + window).ravel(), side="right").reshape(room.shape)
        at = np.minimum(at, first + each.shape[1]) - 1 - bundle
        at = np.maximum(np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1], first) + bundle  # no pack twice
        made = np.concatenate([made, order.ravel()[at][:, :, None]], axis=2)
        done += each.ravel()[at] - window
        falling = np.argsort(-done, axis=1, kind="stable")
        made, done = np.take_along_axis(made, falling[:, :, None], axis=1), np.take_along_axis(done, falling, axis=1)
        order, each = (np.delete(values, at).reshape(len(each), -1) for values in (order, each))
    return made, order, each
