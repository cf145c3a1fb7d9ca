"""Fill packs evenly: each sequence, from long to short, into the pack with the most space beyond what it will need."""

import itertools
from typing import NamedTuple

import numpy as np

from packlib.packing.compiled import announced, compiled
from packlib.packing.greedy import Group

SPACE, PLACES, PACKS, ORIGIN, LAST, UNDER = range(6)  # of a group of equal packs
_STEP = 0.9  # keys are made anew when the mean has become so much less
_LOOPS = "the loops of lpt", 2
_CELLS = 1 << 12  # keys of empty packs; longer rows are rounded to these


class Filled(NamedTuple):
    """Packs that were filled evenly.

    Attributes:
        groups: a row for each group of equal packs; int64, shape (groups, 6), with the columns above.
        steps: the sequences of a group are a linked list, whose beginning is shared with the groups that were split
            from it. A row for each step: a length, how many of it each pack took, and the step before; int32.
        places: how many sequences a pack of each of the groups at first took; int64.
        left: how many sequences of each length found no pack; int64.
    """

    groups: np.ndarray
    steps: np.ndarray
    places: np.ndarray
    left: np.ndarray

    def packs(self, begun: list[Group]) -> list[Group]:
        """The groups of packs with sequences; `begun[i]` is what the i-th group held before, the first one nothing."""
        origins = self.groups[:, ORIGIN]
        ends = np.cumsum(self.places[origins] - self.groups[:, PLACES])
        with announced(*_LOOPS):
            items = _unroll(self.groups[:, LAST], ends, self.steps).tolist()
        cuts = itertools.pairwise([0, *ends.tolist()])
        found = zip(origins.tolist(), self.groups[:, PACKS].tolist(), cuts, strict=True)
        return [((*begun[g][0], *items[a:b]), n) for g, n, (a, b) in found if n and (g or b > a)]


def fill_evenly(
    lengths: np.ndarray, counts: np.ndarray, space: np.ndarray, places: np.ndarray, packs: np.ndarray
) -> Filled:
    """Each sequence, from long to short, into the pack with the most space beyond what its places will need.

    A place will need as much as the sequences that are left have on average, so a pack's key is its space less its
    places times that mean. A pack waits while a sequence does not fit into it.

    Args:
        lengths, counts: how many sequences there are of each length, longest first; int64.
        space, places, packs: the groups of equal packs to fill: how many tokens and sequences each pack still takes,
            and how many packs there are; int64.
    """
    begun, top, deepest = len(space), int(space.max()), int(places.max())
    groups = np.full((begun + len(lengths), 6), -1)  # only the last sequences of a length split a group
    for column, values in ((SPACE, space), (PLACES, places), (PACKS, packs), (ORIGIN, np.arange(begun))):
        groups[:begun, column] = values
    steps = np.empty((min(int(counts.sum()), len(groups) * deepest), 3), np.int32)  # more would take 24 GiB
    # Stacks of groups: those that wait, by their space; and those that the length fits, by key.
    scale = min(1.0, _CELLS / top)
    most = top + int(counts @ lengths) / int(counts.sum()) * deepest
    waiting, ready, left = np.full(top, -1), np.full(int(most * scale) + 2, -1), counts.copy()
    with announced(*_LOOPS):
        n, used = _fill(lengths, left, groups, begun, steps, waiting, ready, deepest, scale)
    return Filled(groups[:n], steps[:used], places, left)


@compiled
def _fill(lengths, left, groups, n, steps, waiting, ready, deepest, scale):  # type: ignore[no-untyped-def]
    """Change all arrays but `lengths` in place; return how many groups and how many steps there are then."""
    tokens, sequences, used, mean, largest = 0, 0, 0, np.inf, -1
    for i in range(len(lengths)):
        tokens, sequences = tokens + lengths[i] * left[i], sequences + left[i]
    for i in range(len(lengths)):
        length, count, now = lengths[i], left[i], left[i]
        if tokens / sequences < _STEP * mean:
            mean, largest = tokens / sequences, -1
            waiting.fill(-1)  # an assignment to a slice would take seconds to compile
            ready.fill(-1)
            for g in range(n):
                largest = max(largest, _stack(g, groups, length, mean, deepest, scale, waiting, ready))
        else:
            for space in range(length, lengths[i - 1]):
                while waiting[space] >= 0:
                    g = waiting[space]
                    waiting[space] = groups[g, UNDER]
                    largest = max(largest, _stack(g, groups, length, mean, deepest, scale, waiting, ready))
        while now:
            while largest >= 0 and ready[largest] < 0:
                largest -= 1
            if largest < 0:
                break
            g = ready[largest]
            if groups[g, PACKS] > now:  # the others stay
                groups[g, PACKS] -= now
                for column in range(groups.shape[1]):
                    groups[n, column] = groups[g, column]
                groups[n, PACKS] = now
                g, n = n, n + 1
            else:
                ready[largest] = groups[g, UNDER]
            packs, space, places, key = groups[g, PACKS], groups[g, SPACE], groups[g, PLACES], largest
            while places and space >= length and now >= packs and key >= largest:  # it stays on top
                now, space, places = now - packs, space - length, places - 1
                key = int((space + mean * (deepest - places)) * scale)
            steps[used, 0], steps[used, 1], steps[used, 2] = length, groups[g, PLACES] - places, groups[g, LAST]
            groups[g, SPACE], groups[g, PLACES], groups[g, LAST], used = space, places, used, used + 1
            if places and space < length:  # as in _stack; a call would take longer than all the rest
                groups[g, UNDER], waiting[space] = waiting[space], g
            elif places:
                groups[g, UNDER], ready[key], largest = ready[key], g, max(largest, key)
        left[i], tokens, sequences = now, tokens - length * count, sequences - count
    return n, used


@compiled
def _stack(g, groups, length, mean, deepest, scale, waiting, ready):  # type: ignore[no-untyped-def]
    """Put a group with places left onto the stack of its key and return which, or make it wait (-1)."""
    space, places = groups[g, SPACE], groups[g, PLACES]
    if places == 0 or groups[g, PACKS] == 0:
        return -1
    if space < length:
        groups[g, UNDER], waiting[space] = waiting[space], g
        return -1
    key = int((space + mean * (deepest - places)) * scale)
    groups[g, UNDER], ready[key] = ready[key], g
    return key


@compiled
def _unroll(last: np.ndarray, ends: np.ndarray, steps: np.ndarray) -> np.ndarray:  # pragma: no cover
    """The sequences of each group one after the other, those of group g up to `ends[g]`; int64."""
    items, at = np.empty(ends[-1], np.int64), 0
    for g in range(len(ends)):
        step = last[g]
        while at < ends[g]:
            for _ in range(steps[step, 1]):
                items[at], at = steps[step, 0], at + 1
            step = steps[step, 2]
    return items
