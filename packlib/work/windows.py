"""Assign packs to steps and ranks: at random to windows of a few steps, and by their work within a window.

A step takes as long as its slowest rank. Packs come in a random order, as from any loader, and are cut into windows of
a few steps. In a window each rank of each step gets a bundle of `packs_per_rank` packs:

1. Make bundles of about equal work: the heaviest packs of the window with lighter packs beside them, then the heaviest
   of the remaining packs, and so on.
2. Sort the bundles by their work; `ranks` neighbors are a step.
3. In each step, exchange the first packs of the bundles: the heaviest one goes to the rank whose other packs are the
   lightest, and so on, which is the best exchange of these packs. Then do the same with the second packs, and so on.
4. Shuffle the steps of the window. As its packs are a random sample, a window has the mix of one.

With one pack a rank, no other way to assign a window's packs to its steps is faster. Sort the steps of any way by their
heaviest packs. The heaviest pack of the second step is no lighter than the pack that follows the `ranks` heaviest ones
of the window, that of the third no lighter than the one that follows the 2 × `ranks` heaviest, and so on. In steps of
sorted packs, these are the heaviest packs.
"""

import numpy as np

_PARTS = 32  # parts of a window, of one or more steps each, whose bundles are made one part after the other
_CHUNK = 1 << 17  # packs that are assigned at once, about, so that they fit into the processor's cache


def deal_in_windows(
    pack_works: np.ndarray, ranks: int, packs_per_rank: int, window: int, rng: np.random.Generator
) -> np.ndarray:
    """Assign packs to each rank in each step; int64, shape (steps, ranks, packs_per_rank).

    Args:
        pack_works: the work of each pack, in a random order; float64, shape (steps * ranks * packs_per_rank,).
        ranks, packs_per_rank: as of `balance`.
        window: how many steps share their packs; the last window may have fewer.
        rng: shuffles the steps of each window.
    """
    packs_per_step = ranks * packs_per_rank
    packs_of_chunks = [np.empty(0, np.int64)]
    first_pack = 0  # of the chunk
    for windows in in_windows(pack_works, packs_per_step * window):
        num_chunks = min(len(windows), -(-windows.size // _CHUNK))
        for chunk in np.array_split(windows, num_chunks):
            steps = _bundles(chunk, ranks, packs_per_rank).reshape(len(chunk), -1, packs_per_step)
            order_of_steps = rng.permuted(np.indices(steps.shape[:2])[1], axis=1)  # of each window; (windows, steps)
            shuffled = np.take_along_axis(steps, order_of_steps[:, :, None], axis=1)
            packs_of_chunks.append(first_pack + shuffled.ravel())
            first_pack += shuffled.size
    return np.concatenate(packs_of_chunks).reshape(-1, ranks, packs_per_rank)


def in_windows(values: np.ndarray, size: int) -> list[np.ndarray]:
    """Cut values of packs, step by step, into windows of `size` packs.

    >>> import numpy as np
    >>> from packlib.work.windows import in_windows
    >>> [windows.tolist() for windows in in_windows(np.arange(5), 2)]
    [[[0, 1], [2, 3]], [[4]]]

    Returns:
        The full windows, shape (windows, size), and the last, smaller window, shape (1, packs); without an empty one.
    """
    in_full_windows = len(values) // size * size
    full_windows = values[:in_full_windows].reshape(-1, size)
    last_window = values[None, in_full_windows:]
    return [windows for windows in (full_windows, last_window) if windows.size]


def least_times(pack_works: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Compute a lower bound on the time of all steps of each window together, over all ways to assign its packs.

    There are many bounds: those by the heaviest packs of 0, 1, 2, … steps (`_SortedWindows.bounds_by_steps`), and those
    by the 2, 3, … heaviest packs of the window (`_SortedWindows.bounds_by_heaviest`). The largest one is returned.

    For example, a window has 8 packs for two steps of two ranks. The step with the pack of 9 lasts at least 9 + 1,
    since its rank has another pack. It has at most 9 + 1 + 2 + 2 of the work of 18. The other step has a work of 4 or
    more, which takes two ranks a time of 2 or more.

    >>> import numpy as np
    >>> from packlib.work.windows import least_times
    >>> least_times(np.array([[9, 2, 2, 1, 1, 1, 1, 1]]), ranks=2, packs_per_rank=2)
    array([12.])

    Args:
        pack_works: the work of each pack; shape (windows, packs of a window).
        ranks, packs_per_rank: as of `balance`.

    Returns:
        A bound for each window, in the unit of `pack_works`; float64, shape (windows,).
    """
    windows = _SortedWindows(pack_works, ranks, packs_per_rank)
    bound = windows.bounds_by_steps().max(axis=1)
    if ranks > 1 and packs_per_rank > 1:
        bound = np.maximum(bound, windows.bounds_by_heaviest().max(axis=1))
    return bound


class _SortedWindows:
    """Windows whose packs are sorted by their work, and lower bounds on the time of their steps.

    Args: as of `least_times`.

    Attributes:
        falling: the work of each pack, from heavy to light; shape (windows, packs of a window).
        packs_per_step: the packs of a step.
        companions: the packs that a pack shares its rank with.
    """

    def __init__(self, pack_works: np.ndarray, ranks: int, packs_per_rank: int) -> None:
        self.falling = -np.sort(-pack_works, axis=1)
        self.packs_per_step = ranks * packs_per_rank
        self.companions = packs_per_rank - 1
        self._ranks = ranks
        self._total = self.falling.sum(axis=1, keepdims=True)
        self._heaviest_sums = _sums(self.falling)  # of the 0, 1, 2, … heaviest packs
        self._lightest_sums = _sums(self.falling[:, ::-1])  # of the 0, 1, 2, … lightest packs

    def bounds_by_steps(self) -> np.ndarray:
        """Bound the time of all steps by the heaviest packs of k of them, for k = 0, 1, …; shape (windows, steps + 1).

        For any way to assign the packs, sort its steps by their heaviest packs, and look at the first k steps.

        1. Cut the packs of the window, from heavy to light, into runs of ranks × packs_per_rank. The heaviest packs of
           the k steps are together no lighter than the first packs of the first k runs.
        2. Each of these k heaviest packs shares its rank with packs_per_rank - 1 companions, and its step lasts at
           least as long as the rank.
        """
        num_steps = self.falling.shape[1] // self.packs_per_step
        k = np.arange(num_steps + 1)
        first_of_runs = _sums(self.falling[:, :: self.packs_per_step])
        return self._time_of_all(first_of_runs, k * self.companions, k * self.packs_per_step)

    def bounds_by_heaviest(self) -> np.ndarray:
        """Bound the time of all steps by the n heaviest packs, for n = 2, 3, …, ranks; shape (windows, ranks - 1).

        For each n there are three cases, and the smallest of their bounds holds.

        1. Two of the n packs are in different steps. Then the bound is as in `bounds_by_steps` for k = 2, but with the
           heaviest and the n-th heaviest pack. With one step in a window, this is not possible.
        2. Two of the n packs are on one rank.
        3. The n packs are on n ranks of one step, so that these have n × (packs_per_rank - 1) companions. Then one of
           the ranks also has the heaviest of that number of the lightest packs, or a heavier pack.
        """
        n = np.arange(2, self._ranks + 1)
        nth_heaviest = self.falling[:, n - 1]

        # cases 2 and 3: a rank of one step has two packs that are known
        two_on_one_rank = nth_heaviest + nth_heaviest
        heaviest_of_lightest = self.falling[:, -n * self.companions]
        one_with_a_light_one = nth_heaviest + heaviest_of_lightest
        two_packs = np.minimum(two_on_one_rank, one_with_a_light_one)
        one_step = np.array([self.packs_per_step])
        other_companions = np.array([self.companions - 1])
        bounds = self._time_of_all(two_packs, other_companions, one_step)

        # case 1: a rank in each of two steps has a pack that is known
        if self.falling.shape[1] > self.packs_per_step:
            two_packs = self.falling[:, :1] + nth_heaviest
            all_companions = np.array([2 * self.companions])
            in_two_steps = self._time_of_all(two_packs, all_companions, 2 * one_step)
            bounds = np.minimum(bounds, in_two_steps)
        return bounds

    def _time_of_all(self, known_work: np.ndarray, num_light: np.ndarray, num_packs: np.ndarray) -> np.ndarray:
        """Bound the time of all steps, where in some of them packs of a rank are known.

        1. These steps last at least as long as the ranks with the known packs. The other packs on these ranks are taken
           to be the lightest ones of the window.
        2. The known packs, together with those on all other ranks of these steps, have at most the work of the same
           number of the window's heaviest packs.
        3. The other steps have all other packs, and last at least 1 / ranks of the work of these.
        4. Heavier packs in place of the lightest ones would lengthen the former steps by more than they shorten the
           other steps. So the bound holds whatever the packs are.

        Args:
            known_work: at most the work of the known packs together; shape (windows, bounds).
            num_light: how many other packs there are on their ranks; int64, shape (bounds,), or (1,) for all alike.
            num_packs: how many packs these steps have on all ranks; int64, same shape.

        Returns:
            float64, shape (windows, bounds).
        """
        light_work = self._lightest_sums[:, num_light]
        work_of_known_ranks = known_work + light_work
        work_of_other_steps = self._total - self._heaviest_sums[:, num_packs - num_light] - light_work
        return work_of_known_ranks + work_of_other_steps / self._ranks


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of the first 0, 1, 2, … values of each row."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _bundles(windows: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Assign the packs of each window to bundles, sorted so that `ranks` neighbors are a step.

    Args:
        windows: the work of the packs, shape (windows, packs of a window).
        ranks, packs_per_rank: as of `balance`.

    Returns:
        Positions in `windows.ravel()`, window by window, bundle by bundle; int64.
    """
    work = windows.ravel()
    window_numbers = np.arange(len(windows))[:, None]
    light_to_heavy = np.argsort(windows, axis=1, kind="stable") + window_numbers * windows.shape[1]
    if packs_per_rank == 1:
        return light_to_heavy

    bundles = _alike_bundles(work, light_to_heavy, ranks, packs_per_rank)
    by_work = np.argsort(work[bundles].sum(axis=2), axis=1, kind="stable")
    sorted_bundles = np.take_along_axis(bundles, by_work[:, :, None], axis=1)
    packs = sorted_bundles.reshape(-1, ranks, packs_per_rank)  # of each step
    for place in range(packs_per_rank):  # step 3 at the top of the file
        packs_here = packs[:, :, place]  # a view: writing to it changes `packs`
        work_elsewhere = work[packs].sum(axis=2) - work[packs_here]
        ranks_from_least = np.argsort(work_elsewhere, axis=1, kind="stable")
        from_heaviest = np.argsort(-work[packs_here], axis=1, kind="stable")
        falling_packs = np.take_along_axis(packs_here, from_heaviest, axis=1)
        np.put_along_axis(packs_here, ranks_from_least, falling_packs, axis=1)
    return packs


def _alike_bundles(work: np.ndarray, light_to_heavy: np.ndarray, ranks: int, packs_per_rank: int) -> np.ndarray:
    """Make bundles of about equal work in each window, some at a time; shape (windows, bundles, packs_per_rank).

    Args:
        work: of each pack.
        light_to_heavy: the packs of each window; shape (windows, packs of a window).
        ranks, packs_per_rank: as of `balance`.
    """
    window_numbers = np.arange(len(light_to_heavy))[:, None]
    # of the most work that a bundle of the window can have: each of its packs is as heavy as the heaviest
    shares = work[light_to_heavy] / work[light_to_heavy[:, -1:]] / packs_per_rank
    keys = shares + window_numbers  # all windows are one ascending row
    num_steps = light_to_heavy.shape[1] // (ranks * packs_per_rank)
    bundles_of_parts = []
    for part in np.array_split(np.arange(num_steps), min(_PARTS, num_steps)):
        bundles, light_to_heavy, keys = _next_bundles(light_to_heavy, keys, len(part) * ranks, packs_per_rank)
        bundles_of_parts.append(bundles)
    return np.concatenate(bundles_of_parts, axis=1)


def _next_bundles(
    light_to_heavy: np.ndarray, keys: np.ndarray, count: int, packs_per_rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make `count` bundles of about equal work in each window out of the packs that are in no bundle yet.

    They begin with the heaviest packs. Their goal is the mean work of bundles of these packs, or the work of the
    heaviest pack with the lightest ones, if that is more. In each other place a bundle gets the heaviest pack that
    leaves room for the lightest ones in the places after it.

    Args:
        light_to_heavy: the packs of each window; shape (windows, packs).
        keys: their work, as a share of the most that a bundle can have (so 0 to 1), plus the number of the window; same
            shape. All windows together ascend, so one search finds a place in each.
        count: bundles to make in each window.
        packs_per_rank: packs of a bundle.

    Returns:
        The bundles, shape (windows, count, packs_per_rank); and `light_to_heavy` and `keys` of the other packs.
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
        share_of_later_places = lightest_sums[:, [packs_per_rank - 1 - place]]
        room = (goal - bundle_shares - share_of_later_places).clip(0) + 1e-9  # the sums are rounded
        ends = np.searchsorted(keys.ravel(), (room + window_numbers).ravel(), side="right").reshape(room.shape)
        # The last pack with room for it may be the same for several bundles. Positions must ascend by 1 at least from
        # bundle to bundle: without the bundle's number they must not descend.
        positions = np.minimum(ends, first_of_window + packs_left) - 1 - bundle_numbers
        positions = np.minimum.accumulate(positions[:, ::-1], axis=1)[:, ::-1]
        positions = np.maximum(positions, first_of_window) + bundle_numbers
        bundles = np.concatenate([bundles, light_to_heavy.ravel()[positions][:, :, None]], axis=2)
        bundle_shares += keys.ravel()[positions] - window_numbers
        # the heaviest bundle first: it has the least room, so that `ends` ascends
        from_heaviest = np.argsort(-bundle_shares, axis=1, kind="stable")
        bundles = np.take_along_axis(bundles, from_heaviest[:, :, None], axis=1)
        bundle_shares = np.take_along_axis(bundle_shares, from_heaviest, axis=1)
        light_to_heavy = np.delete(light_to_heavy, positions).reshape(len(keys), -1)
        keys = np.delete(keys, positions).reshape(len(keys), -1)
    return bundles, light_to_heavy, keys
