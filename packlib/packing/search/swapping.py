"""Pack a few hundred sequences by exchanging them: a tabu search.

All packs but one are kept feasible; the other sequences wait outside. Each step takes up to two sequences out of a
pack and puts one or two from outside in, so that what waits is worth as little as possible. What has just moved stays
where it is for some steps. The search ends when what waits fits into one pack. After Buljubašić and Vasquez, Consistent
neighborhood search for one-dimensional bin packing and two-dimensional vector packing (Computers & Operations
Research 76, 2016).
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

_WAITING = 40  # more sequences than this outside are too far from the goal, and all their pairs too many to look at
_HOLD = 10  # what came in stays for at most so many steps


def swap_search(
    lengths: np.ndarray,
    worth: np.ndarray,
    max_length: int,
    max_sequences_per_pack: int | None,
    num_packs: int,
    steps: int,
    seed: int,
    seconds_left: Callable[[], float],
) -> list[tuple[int, ...]] | None:
    """Look for a way to put sequences into `num_packs` packs, at least 2.

    Args:
        lengths: the length of each sequence, from long to short; int64.
        worth: what each is worth, at least 0; int64. By the token, or more where places are scarce, too.
        steps: give up after so many; one takes time in proportion to the packs.
        seed: of the order in which best fit makes the first packs (0: from long to short), and of the choice among
            equals.
        seconds_left: is asked at each step; the search gives up when it is 0.

    Returns:
        The lengths in each pack, or None if the search gave up.
    """
    limit = min(max_sequences_per_pack or len(lengths), max_length // int(lengths[-1]))
    rng = np.random.default_rng(seed)
    packs, outside = _best_fit(lengths, max_length, limit, num_packs - 1, rng if seed else None)
    if len(outside) > _WAITING:
        return None
    lengths, worth = np.append(lengths, 0), np.append(worth, 0)  # the last one is no sequence
    free_from = np.zeros(len(lengths), np.int64)  # the step from which a sequence may move again
    for step in range(steps):
        if lengths[outside].sum() <= max_length and len(outside) <= limit:
            return [tuple(lengths[pack].tolist()) for pack in (*packs, outside) if len(pack)]
        if seconds_left() <= 0:
            return None
        found = _best_exchange(lengths, worth, packs, outside, max_length, limit, free_from <= step, rng)
        if found is None:
            free_from[:] = 0
            continue
        pack, out, into = found
        holds = (out, max(2, len(outside) // 2)), (into, _HOLD)
        packs[pack] = [sequence for sequence in packs[pack] if sequence not in out] + into
        outside = [sequence for sequence in outside if sequence not in into] + out
        for sequences, hold in holds:
            for sequence in sequences:
                free_from[sequence] = step + 1 + int(hold * rng.random())
    return None


def _best_fit(
    lengths: np.ndarray, max_length: int, limit: int, num_packs: int, rng: np.random.Generator | None
) -> tuple[list[list[int]], list[int]]:
    """The sequences of each pack, and those that fit into none; from long to short, or in a random order."""
    packs, rooms, outside = [list[int]() for _ in range(num_packs)], [max_length] * num_packs, list[int]()
    for sequence in (rng.permutation(len(lengths)) if rng else np.arange(len(lengths))).tolist():
        length = int(lengths[sequence])
        fits = [p for p in range(num_packs) if rooms[p] >= length and len(packs[p]) < limit]
        if fits:
            best = min(fits, key=rooms.__getitem__)
            packs[best].append(sequence)
            rooms[best] -= length
        else:
            outside.append(sequence)
    return packs, outside


@lru_cache(16)
def _choices(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Each two of 0 to n - 1, each one and n, which is nothing, and nothing at all."""
    first, second = np.triu_indices(n + 1, 1)
    return np.append(first, n), np.append(second, n)


def _best_exchange(
    lengths: np.ndarray, worth: np.ndarray, packs: list[list[int]], outside: list[int], max_length: int, limit: int,
    free: np.ndarray, rng: np.random.Generator,
) -> tuple[int, list[int], list[int]] | None:  # fmt: skip
    """The pack, what goes out of it and what comes in, so that it gains most; None if nothing can move.

    Args:
        free: whether a sequence may move.
    """
    none, nothing = len(lengths) - 1, max(map(len, packs))  # the column in which no pack has a sequence
    able = np.array([*(sequence for sequence in outside if free[sequence]), none])
    if len(able) == 1:
        return None
    first, second = _choices(len(able) - 1)
    come = np.stack([able[first], able[second]], axis=1)[:-1]
    come = come[np.argsort(lengths[come].sum(axis=1), kind="stable")]
    members = np.array([pack + [none] * (nothing + 1 - len(pack)) for pack in packs])
    first, second = _choices(nothing)
    one, other = members[:, first], members[:, second]
    can = ((one != none) | (first == nothing)) & ((other != none) | (second == nothing)) & free[one] & free[other]
    gone, going = lengths[one] + lengths[other], (one != none).astype(int) + (other != none)
    rooms = max_length - lengths[members].sum(axis=1, keepdims=True)
    places = limit - np.array([[len(pack)] for pack in packs]) + going
    # the most valuable of those that fit; where there is one place, the most valuable single one
    tokens, value, alone = lengths[come].sum(axis=1), worth[come].sum(axis=1), come[:, 1] == none
    fits = np.searchsorted(tokens, rooms + gone, side="right") - 1
    best = np.where(places > 1, _highest(value)[fits], _highest(np.where(alone, value, -1))[fits])
    can &= (places > 0) & (fits >= 0) & (alone[best] | (places > 1))
    can &= ~((tokens[best] == gone) & (going == 1) & alone[best])  # the same length would come back
    gain = np.where(can, value[best] - (worth[one] + worth[other]), -np.inf)
    if np.isneginf(highest := gain.max()):
        return None
    pack, at = np.unravel_index(rng.choice(np.flatnonzero(gain == highest)), gain.shape)
    out, into = [one[pack, at], other[pack, at]], come[best[pack, at]].tolist()
    return int(pack), [int(i) for i in out if i != none], [i for i in into if i != none]


def _highest(values: np.ndarray) -> np.ndarray:
    """For each place the index of the highest value up to there; where there are several, the last."""
    reached = np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(values == reached, np.arange(len(values)), 0))
