"""Loops over single groups of packs, compiled by Numba. Import this module late: loading Numba takes half a second."""

from collections.abc import Callable
from functools import cache

import numba
import numpy as np

SPACE, PLACES, PACKS, ORIGIN, LAST, UNDER = range(6)  # of a group of equal packs
_STEP = 0.9  # keys are made anew when the mean has become so much less


@cache
def compiled(function: Callable) -> Callable:
    """Compile at the first call; keep the machine code on disk if there is a folder that can be written to."""
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return numba.njit(function)


@compiled
def level(
    lengths: np.ndarray, counts: np.ndarray, begun_space: np.ndarray, begun_places: np.ndarray, begun_packs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each sequence, from long to short, into the pack with the most space beyond what its places will need.

    A place will need as much as the sequences that are left have on average, so a pack's key is its space less its
    places times that mean. A pack waits while a sequence does not fit into it.

    Args:
        lengths, counts: how many sequences there are of each length, longest first; int64.
        begun_space, begun_places, begun_packs: the groups of equal packs to fill: how many tokens and sequences each
            pack still takes, and how many packs there are; int64.

    Returns:
        For each group of packs that the filling ends with: the group that it comes from, its packs, and where its
        sequences end in the fourth array, their lengths; and the counts that found no pack. All int64.
    """
    begun, left = len(begun_space), counts.copy()
    groups = np.empty((begun + len(lengths), 6), np.int64)  # only the last sequences of a length split a group
    groups[:begun, SPACE], groups[:begun, PLACES], groups[:begun, PACKS] = begun_space, begun_places, begun_packs
    groups[:begun, ORIGIN], groups[:begun, LAST] = np.arange(begun), -1
    n, top, deepest = begun, int(begun_space.max()), int(begun_places.max())
    tokens, sequences = (lengths * counts).sum(), counts.sum()
    # The sequences of a group are a linked list, whose beginning is shared with groups that were split from it.
    steps = min(int(sequences), len(groups) * deepest)
    taken, before, used = np.empty(steps, np.int64), np.empty(steps, np.int64), 0
    # Stacks of groups: those that wait by space, then those that the length fits by key; the group on top of each.
    stacks = np.full(2 * top + int(tokens / sequences * deepest) + 2, -1)
    largest, mean = top, np.inf
    for i, length in enumerate(lengths):
        if tokens / sequences < _STEP * mean:
            mean, largest = tokens / sequences, top
            stacks[:] = -1
            changed = np.arange(n)
        else:
            changed = _unstack(stacks, length, lengths[i - 1], groups)
        for other in changed:
            largest = max(largest, _stack(other, groups, length, mean, top, deepest, stacks))
        while left[i]:
            while largest > top and stacks[largest] < 0:
                largest -= 1
            if largest == top:
                break
            g = int(stacks[largest])
            if groups[g, PACKS] > left[i]:  # the others stay
                groups[g, PACKS] -= left[i]
                groups[n] = groups[g]
                groups[n, PACKS] = left[i]
                g, n = n, n + 1
            else:
                stacks[largest] = groups[g, UNDER]
            left[i] -= groups[g, PACKS]
            taken[used], before[used], groups[g, LAST] = length, groups[g, LAST], used
            used += 1
            groups[g, SPACE] -= length
            groups[g, PLACES] -= 1
            largest = max(largest, _stack(g, groups, length, mean, top, deepest, stacks))
        tokens, sequences = tokens - length * counts[i], sequences - counts[i]

    ends, items, at = np.empty(n, np.int64), np.empty(n * deepest, np.int64), 0
    for g in range(n):
        step = int(groups[g, LAST])
        while step >= 0:
            items[at] = taken[step]
            step, at = int(before[step]), at + 1
        ends[g] = at
    return groups[:n, ORIGIN], groups[:n, PACKS], ends, items[:at], left


@compiled
def _stack(g, groups, length, mean, top, deepest, stacks):  # type: ignore[no-untyped-def]
    """Put a group onto the stack of its key, or of its space if it must wait, and return which."""
    space, places = groups[g, SPACE], groups[g, PLACES]
    if places == 0:
        return 0
    stack = space if space < length else top + 1 + int(space + mean * (deepest - places))
    groups[g, UNDER], stacks[stack] = stacks[stack], g
    return stack


@compiled
def _unstack(stacks, first, end, groups):  # type: ignore[no-untyped-def]
    """Take all groups off some stacks."""
    found = [0 for _ in range(0)]
    for s in range(first, end):
        while stacks[s] >= 0:
            found.append(stacks[s])
            stacks[s] = groups[stacks[s], UNDER]
    return np.array(found)
