"""Pack a few hundred sequences by exchanging them: a tabu search.

All packs but one are kept feasible; the other sequences wait outside. Each step takes up to two sequences out of a
pack and puts one or two from outside in, so that as few tokens as possible wait. What has just moved stays where it
is for some steps. The search ends when what waits fits into one pack. After Buljubašić and Vasquez, Consistent
neighborhood search for one-dimensional bin packing and two-dimensional vector packing (Computers & Operations
Research 76, 2016).
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

_WAITING = 40  # more sequences than this outside are too far from the goal, and all their pairs too many to look at
_AT_ONCE = 2000  # steps between two looks at the clock
_HOLD = 10  # what came in stays for at most so many steps
_NONE = -1


def swap_search(
    lengths: np.ndarray,
    max_length: int,
    max_sequences_per_pack: int | None,
    num_packs: int,
    steps: int,
    seed: int,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> list[tuple[int, ...]] | None:
    """Look for a way to put sequences into `num_packs` packs, at least 2.

    Args:
        lengths: the length of each sequence, from long to short; int64.
        steps: give up after so many; one takes time in proportion to the packs.
        seed: of the order in which best fit makes the first packs (0: from long to short), and of the choice among
            equals.
        seconds_left: is asked now and then; the search gives up when it is 0.

    Returns:
        The lengths in each pack, or None if the search gave up.
    """
    limit = min(max_sequences_per_pack or len(lengths), max_length // int(lengths[-1]))
    members = np.full((num_packs - 1, limit), _NONE)
    sizes, rooms = np.zeros(num_packs - 1, np.int64), np.full(num_packs - 1, max_length)
    outside, waiting = np.full(len(lengths), _NONE), 0
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths)) if seed else np.arange(len(lengths))
    for sequence in order:
        fits = np.where((rooms >= lengths[sequence]) & (sizes < limit), rooms, max_length + 1)
        best = fits.argmin()
        if fits[best] <= max_length:
            members[best, sizes[best]] = sequence
            sizes[best] += 1
            rooms[best] -= lengths[sequence]
        else:
            outside[waiting] = sequence
            waiting += 1
    if waiting > _WAITING:
        return None
    from packlib.packing.compiled import announced, compiled  # here, since it takes a while to import

    exchange = compiled(_exchange)
    while steps > 0 and seconds_left() > 0:
        now = min(steps, _AT_ONCE)
        with announced("the exchanges of optimal", 3):
            waiting = exchange(np.append(lengths, 0), max_length, members, sizes, rooms, outside, waiting, now, rng)
        out = outside[:waiting]
        if lengths[out].sum() <= max_length and waiting <= limit:
            packs = [row[:size] for row, size in zip(members, sizes, strict=True)]
            return [tuple(lengths[pack].tolist()) for pack in (*packs, out) if len(pack)]
        steps -= now
    return None


@cache
def prepare() -> None:
    """Load or compile the loop, before a clock runs."""
    swap_search(np.array([5, 4, 3, 3, 3, 2]), 10, 3, 2, 1, 0)


def _exchange(lengths, max_length, members, sizes, rooms, outside, waiting, steps, rng):  # type: ignore[no-untyped-def]  # pragma: no mutate block
    """Take `steps` steps, or stop where what waits fits into a pack; return how many wait.

    The arrays change in place: pack p holds the sequences members[p, :sizes[p]] and has rooms[p] slots left;
    outside[:waiting] wait. No sequence is _NONE, the last of `lengths`, which is 0. Numba compiles this, so it is
    written with loops and numbers alone.
    """
    limit = members.shape[1]
    free_from = np.zeros(len(lengths), np.int64)  # the step from which a sequence may move again
    first, second, tokens = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    for step in range(steps):
        total = 0
        for i in range(waiting):
            total += lengths[outside[i]]
        if total <= max_length and waiting <= limit:
            break
        # What may come in: one or two of those that wait, in order of their tokens.
        if len(first) < waiting * (waiting + 1) // 2:
            size = waiting * (waiting + 1)
            first, second, tokens = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
        able = 0
        for i in range(waiting):
            for j in range(-1, i):
                one, other = outside[i], outside[j] if j >= 0 else _NONE
                if free_from[one] <= step and free_from[other] <= step:
                    both, at = lengths[one] + lengths[other], able
                    while at > 0 and tokens[at - 1] > both:
                        first[at], second[at], tokens[at] = first[at - 1], second[at - 1], tokens[at - 1]
                        at -= 1
                    first[at], second[at], tokens[at] = one, other, both
                    able += 1
        most, equals, pack, out, out_too, come = -max_length, 0, _NONE, _NONE, _NONE, _NONE
        for p in range(len(members)):
            for i in range(-1, sizes[p]):
                for j in range(-1, max(i, 0)):
                    one = members[p, i] if i >= 0 else _NONE
                    other = members[p, j] if j >= 0 else _NONE
                    if free_from[one] > step or free_from[other] > step:
                        continue
                    gone, places = lengths[one] + lengths[other], limit - sizes[p] + (i >= 0) + (j >= 0)
                    # the heaviest that fits, by bisection
                    low, high = 0, able
                    while low < high:
                        middle = (low + high) // 2
                        if tokens[middle] <= rooms[p] + gone:
                            low = middle + 1
                        else:
                            high = middle
                    at = low - 1
                    while at >= 0 and places < 1 + (second[at] >= 0):
                        at -= 1
                    if at < 0 or (tokens[at] == gone and other < 0 and second[at] < 0):
                        continue  # nothing fits, or the same length would come back
                    gain = tokens[at] - gone
                    if gain >= most:
                        equals = equals + 1 if gain == most else 1
                        if gain > most or rng.random() * equals < 1:
                            most, pack, out, out_too, come = gain, p, i, j, at
        if pack < 0:
            free_from.fill(0)
            continue
        # Exchange: what comes in goes to the end of the pack, what goes out to the end of those that wait.
        came, came_too = first[come], second[come]
        stay = 0
        for i in range(waiting):
            if outside[i] != came and outside[i] != came_too:
                outside[stay] = outside[i]
                stay += 1
        kept = 0
        for i in range(sizes[pack]):
            sequence = members[pack, i]
            if i != out and i != out_too:
                members[pack, kept] = sequence
                kept += 1
            else:
                outside[stay] = sequence
                stay += 1
                free_from[sequence] = step + 1 + int(max(2, waiting // 2) * rng.random())
        members[pack, kept] = came
        if came_too >= 0:
            members[pack, kept + 1] = came_too
        sizes[pack] = kept + 1 + (came_too >= 0)
        for i in range(kept, sizes[pack]):
            free_from[members[pack, i]] = step + 1 + int(_HOLD * rng.random())
        rooms[pack] -= most
        waiting = stay
    return waiting
