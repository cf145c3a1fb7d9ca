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
    pack_works: np.ndarray, ranks: int, packs_per_rank: int, window: int, rng: np.random.Generator
) -> np.ndarray:
    """Assign packs to each rank in each step; int64, shape (steps, ranks, packs_per_rank).

    Args:
        pack_works: the work of each pack, in a random order; float64, shape (steps * ranks * packs_per_rank,).
        window: how many steps share their packs; the last window may have fewer.
    """
    packs_per_step = ranks * packs_per_rank
    dealt_chunks = [np.empty(0, np.int64)]
    first_pack = 0  # of the chunk
    for windows in in_windows(pack_works, packs_per_step * window):
        chunks = min(len(windows), -(-windows.size // _CHUNK))
        for chunk in np.array_split(windows, chunks):
            steps = _bundles(chunk, ranks, packs_per_rank).reshape(len(chunk), -1, packs_per_step)
            order = rng.permuted(np.indices(steps.shape[:2])[1], axis=1)
            shuffled = np.take_along_axis(steps, order[:, :, None], axis=1)
            dealt_chunks.append(first_pack + shuffled.ravel())
            first_pack += shuffled.size
    return np.concatenate(dealt_chunks).reshape(-1, ranks, packs_per_rank)


def in_windows(values: np.ndarray, size: int) -> list[np.ndarray]:
    """Cut values of packs, step by step, into windows of so many packs; a last, smaller window stands alone."""
    whole = len(values) // size * size
    return [part for part in (values[:whole].reshape(-1, size), values[None, whole:]) if part.size]


def least_times(pack_works: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Bound from below the time that the steps of each window take together, however its packs are dealt to them.

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
        pack_works: shape (windows, packs of a window).

    Returns:
        In the unit of `pack_works`; float64, shape (windows,).
    """
    falling = -np.sort(-pack_works, axis=1)
    heaviest_sums = _sums(falling)
    lightest_sums = _sums(falling[:, ::-1])
    total = falling.sum(axis=1, keepdims=True)
    packs_per_step = ranks * packs_per_rank
    companions = packs_per_rank - 1  # the other packs of a rank

    def time_of_steps(heavy: np.ndarray, light_packs: np.ndarray, packs: np.ndarray) -> np.ndarray:
        """Bound the time of steps of so many `packs` and of the others: the slowest ranks have `heavy` work and so
        many light packs."""
        slowest_ranks = heavy + lightest_sums[:, light_packs]
        other_steps = total - heaviest_sums[:, packs - light_packs] - lightest_sums[:, light_packs]
        return slowest_ranks + other_steps / ranks

    k = np.arange(falling.shape[1] // packs_per_step + 1)
    first_of_runs = _sums(falling[:, ::packs_per_step])
    bound = time_of_steps(first_of_runs, k * companions, k * packs_per_step).max(axis=1)
    if ranks == 1 or packs_per_rank == 1:
        return bound

    n = np.arange(2, ranks + 1)
    nth_heaviest = falling[:, 1:ranks]
    two_on_one_rank = nth_heaviest + np.minimum(nth_heaviest, falling[:, -n * companions])
    one_step = np.array([packs_per_step])
    bound_by_n = time_of_steps(two_on_one_rank, np.array([companions - 1]), one_step)
    if len(k) > 2:  # with one step, no two packs are in different ones
        two_in_two_steps = falling[:, :1] + nth_heaviest
        in_two_steps = time_of_steps(two_in_two_steps, np.array([2 * companions]), 2 * one_step)
        bound_by_n = np.minimum(bound_by_n, in_two_steps)
    return np.maximum(bound, bound_by_n.max(axis=1))


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of the first 0, 1, 2, … values of each row."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _bundles(windows: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Return the packs of each bundle, so that neighbors make a step; positions in `windows.ravel()`.

    Args:
        windows: the work of the packs, shape (windows, packs of a window).
    """
    work = windows.ravel()
    window_numbers = np.arange(len(windows))[:, None]
    order = np.argsort(windows, axis=1, kind="stable") + window_numbers * windows.shape[1]
    if packs_per_rank == 1:
        return order

    bundles = _alike_bundles(work, order, ranks, packs_per_rank)
    by_work = np.argsort(work[bundles].sum(axis=2), axis=1, kind="stable")
    sorted_bundles = np.take_along_axis(bundles, by_work[:, :, None], axis=1)
    packs = sorted_bundles.reshape(-1, ranks, packs_per_rank)  # of each step
    for place in range(packs_per_rank):  # the heaviest pack to the rank with least in its other places
        packs_here = packs[:, :, place]
        work_elsewhere = work[packs].sum(axis=2) - work[packs_here]
        ranks_from_least = np.argsort(work_elsewhere, axis=1, kind="stable")
        from_heaviest = np.argsort(-work[packs_here], axis=1, kind="stable")
        falling_packs = np.take_along_axis(packs_here, from_heaviest, axis=1)
        np.put_along_axis(packs_here, ranks_from_least, falling_packs, axis=1)
    return packs


def _alike_bundles(work: np.ndarray, order: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Return bundles of about equal work in each window, some at a time; shape (windows, bundles, packs_per_rank).

    Args:
        work: of each pack.
        order: the packs of each window, from light to heavy; shape (windows, packs of a window).
    """
    window_numbers = np.arange(len(order))[:, None]
    shares = work[order] / work[order[:, -1:]] / packs_per_rank
    keys = shares + window_numbers  # all windows are one ascending row
    steps = np.arange(order.shape[1] // (ranks * packs_per_rank))
    parts = []
    for part in np.array_split(steps, min(_PARTS, len(steps))):
        bundles, order, keys = _next_bundles(order, keys, len(part) * ranks, packs_per_rank)
        parts.append(bundles)
    return np.concatenate(parts, axis=1)


def _next_bundles(order: np.ndarray, keys: np.ndarray, count: int, packs_per_rank: int) -> tuple[np.ndarray, ...]:
    """Return so many bundles of about equal work in each window; the packs that are left, and their keys.

    They begin with the heaviest packs, and are to become as heavy as bundles of what is left are on average, or as the
    heaviest pack with the lightest ones, if that is more. In each other place a bundle gets the heaviest pack that
    leaves room for the lightest ones in the places after it.

    Args:
        order: the packs of each window, from light to heavy; shape (windows, packs).
        keys: their work, as a share of what no bundle exceeds, plus the number of the window; same shape.
    """
    window_numbers = np.arange(len(keys))[:, None]
    bundle_numbers = np.arange(count)
    mean_share = keys.mean(axis=1, keepdims=True) - window_numbers
    lightest_sums = _sums(keys[:, : packs_per_rank - 1] - window_numbers)
    heaviest_with_lightest = keys[:, -1:] - window_numbers + lightest_sums[:, -1:]
    goal = np.maximum(packs_per_rank * mean_share, heaviest_with_lightest)

    bundles = np.empty((len(keys), count, 0), np.int64)
    bundle_shares = np.zeros((len(keys), count))
    for place in range(packs_per_rank):
        packs_left = keys.shape[1]
        first_of_window = window_numbers * packs_left
        kept_for_others = lightest_sums[:, [packs_per_rank - 1 - place]]
        room = (goal - bundle_shares - kept_for_others).clip(0) + 1e-9  # which is rounded
        ends = np.searchsorted(keys.ravel(), (room + window_numbers).ravel(), side="right").reshape(room.shape)
        at = np.minimum(ends, first_of_window + packs_left) - 1 - bundle_numbers
        at = np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1]
        at = np.maximum(at, first_of_window) + bundle_numbers  # no pack twice
        bundles = np.concatenate([bundles, order.ravel()[at][:, :, None]], axis=2)
        bundle_shares += keys.ravel()[at] - window_numbers
        from_heaviest = np.argsort(-bundle_shares, axis=1, kind="stable")
        bundles = np.take_along_axis(bundles, from_heaviest[:, :, None], axis=1)
        bundle_shares = np.take_along_axis(bundle_shares, from_heaviest, axis=1)
        order = np.delete(order, at).reshape(len(keys), -1)
        keys = np.delete(keys, at).reshape(len(keys), -1)
    return bundles, order, keys
