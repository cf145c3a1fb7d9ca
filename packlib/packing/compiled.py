"""Loops over single groups of packs, compiled by Numba. Import this module late: loading Numba takes half a second."""

from collections.abc import Callable

import numba
import numpy as np


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
    most = begun + len(lengths)  # only the last sequences of a length split a group
    space, places, packs, origin = np.zeros((4, most), np.int64)
    space[:begun], places[:begun], packs[:begun], origin[:begun] = begun_space, begun_places, begun_packs, np.arange(begun)
    groups, top, deepest = begun, begun_space.max(), begun_places.max()
    tokens, sequences = (lengths * counts).sum(), counts.sum()
    # The sequences of a group are a linked list, whose beginning is shared with groups that were split from it.
    steps = min(sequences, most * deepest)
    taken, before, used = np.empty(steps, np.int64), np.empty(steps, np.int64), 0
    last = np.full(most, -1)
    by_key = np.full(top + int(tokens / sequences * deepest) + 1, -1)  # the group on top of each stack
    waiting = np.full(top + 1, -1)  # stacks by space
    under = np.full(most, -1)  # the next group in the same stack
    largest, mean = -1, np.inf
    for i, length in enumerate(lengths):
        if tokens / sequences < 0.99 * mean:
            mean, largest = tokens / sequences, -1
            by_key[:], waiting[:] = -1, -1
            changed = np.arange(groups)
        else:
            changed = _unstack(waiting[length : lengths[i - 1]], under)
        for g in changed:
            largest = max(largest, _stack(g, space, places, length, mean, deepest, by_key, waiting, under))
        while left[i]:
            while largest >= 0 and by_key[largest] < 0:
                largest -= 1
            if largest < 0:
                break
            g = by_key[largest]
            if packs[g] > left[i]:  # the others stay
                others, g, groups = g, groups, groups + 1
                space[g], places[g], origin[g], last[g] = space[others], places[others], origin[others], last[others]
                packs[g], packs[others] = left[i], packs[others] - left[i]
            else:
                by_key[largest] = under[g]
            left[i] -= packs[g]
            taken[used], before[used], last[g] = length, last[g], used
            used += 1
            space[g], places[g] = space[g] - length, places[g] - 1
            largest = max(largest, _stack(g, space, places, length, mean, deepest, by_key, waiting, under))
        tokens, sequences = tokens - length * counts[i], sequences - counts[i]

    ends, items = np.empty(groups, np.int64), np.empty(groups * deepest, np.int64)
    at = 0
    for g in range(groups):
        step = last[g]
        while step >= 0:
            items[at] = taken[step]
            step, at = before[step], at + 1
        ends[g] = at
    return origin[:groups], packs[:groups], ends, items[:at], left


@compiled
def _stack(g, space, places, length, mean, deepest, by_key, waiting, under):  # type: ignore[no-untyped-def]
    """Put a group onto the stack of its key, and return the key; or onto that of its space, to wait."""
    if space[g] < length:
        if places[g]:
            under[g], waiting[space[g]] = waiting[space[g]], g
        return -1
    if not places[g]:
        return -1
    key = int(space[g] + mean * (deepest - places[g]))
    under[g], by_key[key] = by_key[key], g
    return key


@compiled
def _unstack(stacks, under):  # type: ignore[no-untyped-def]
    """Take all groups off the stacks."""
    found = [0 for _ in range(0)]
    for s in range(len(stacks)):
        while stacks[s] >= 0:
            found.append(stacks[s])
            stacks[s] = under[stacks[s]]
    return np.array(found)
