"""Fill packs evenly: each sequence, from long to short, into the pack with the most space beyond what it will need.

A place will need as much as the sequences that are left have on average, so a pack's key is its space less its places
times that mean. What a pack takes lowers its key by what the sequence is longer than the mean. All packs whose keys are
so close together are given a sequence at once, the longest first, and so NumPy does in a few hundred rounds what would
be a million steps.
"""

from typing import NamedTuple

import numpy as np

from packlib.packing.greedy import EqualPacks

_STEP = 0.97  # and through lengths down to this part of the longest, at most
_AT_ONCE = 8  # a round goes through this part of the packs at least, where lengths are that much alike


class Filled(NamedTuple):
    """Packs that were filled evenly, in groups of equal packs; those of the beginning come first, then what split off.

    Attributes:
        packs: how many there are in each group; int64.
        origins: the group of the beginning that each was split from; int64.
        last: for each group, where in `taken` its last sequence is; -1 for none; int64.
        taken: the length of each sequence that a group took, and where in `taken` the one before it is.
        left: how many sequences found no pack.
    """

    packs: np.ndarray
    origins: np.ndarray
    last: np.ndarray
    taken: tuple[np.ndarray, np.ndarray]
    left: int

    def strategies(self, begun: list[EqualPacks]) -> list[EqualPacks]:
        """List the groups of packs that hold sequences; `begun[i]` is what group i held before, and group 0 nothing."""
        (taken, before), filled = (array.tolist() for array in self.taken), list[EqualPacks]()
        for origin, at, packs in zip(self.origins.tolist(), self.last.tolist(), self.packs.tolist(), strict=True):
            lengths = list[int]()
            while at >= 0:
                lengths.append(taken[at])
                at = before[at]
            if packs and (lengths or begun[origin][0]):
                filled.append(((*begun[origin][0], *reversed(lengths)), packs))
        return filled


def fill_evenly(counts: np.ndarray, space: np.ndarray, places: np.ndarray, packs: np.ndarray) -> Filled:
    """Give sequences to packs that have space and places.

    Args:
        counts: `counts[l]` sequences have length l; int64.
        space, places, packs: the groups of equal packs to fill: how many tokens and sequences each pack still takes,
            and how many packs there are; int64.
    """
    lengths = np.flatnonzero(counts)[::-1]
    counts, origins, last = counts[lengths], np.arange(len(packs)), np.full(len(packs), -1)
    chains, size, left = [(np.zeros(0, np.int64), np.zeros(0, np.int64))], 0, 0
    ends, done, tokens = np.cumsum(counts), 0, int(counts @ lengths)
    while done < ends[-1]:
        first = int(np.searchsorted(ends, done, side="right"))
        longest = int(lengths[first])
        able = np.flatnonzero((packs > 0) & (places > 0) & (space >= longest))
        if not len(able):  # the next that fits
            most = int(space[(packs > 0) & (places > 0)].max(initial=0))
            fits = int(np.searchsorted(-lengths, -most))
            tokens -= int(np.diff(ends[first:fits], prepend=done) @ lengths[first:fits])
            left, done = left + int(ends[fits - 1]) - done, int(ends[fits - 1])
            continue
        mean = tokens / (ends[-1] - done)
        key = space[able] - places[able] * mean
        order = np.argsort(-key, kind="stable")
        able, key = able[order], key[order]
        upto = np.cumsum(packs[able])
        near = upto[np.searchsorted(-key, longest - mean - key[0], side="right") - 1]
        alike = ends[np.searchsorted(-lengths, -_STEP * longest, side="right") - 1] - done
        now = int(min(max(near, -(-upto[-1] // _AT_ONCE)), alike))
        # Lay the groups and the sequences beside each other: a group that more than one length meets is split.
        upto = np.minimum(upto[: np.searchsorted(upto, now) + 1], now)
        until = int(np.searchsorted(ends, done + now)) + 1
        given = np.minimum(ends[first:until] - done, now)
        cuts = np.union1d(upto, given)
        group, taken = able[np.searchsorted(upto, cuts)], lengths[first + np.searchsorted(given, cuts)]
        number = np.diff(cuts, prepend=0)
        # the packs of the last group that have nothing to take are a group too
        rest = int(packs[able[: len(upto)]].sum()) - now
        if rest:
            group, taken, number = np.append(group, group[-1]), np.append(taken, 0), np.append(number, rest)
        split = np.append(False, group[1:] == group[:-1])
        at = group.copy()
        at[split] = len(packs) + np.arange(np.count_nonzero(split))
        space, places, packs, origins, last = (
            np.append(x, x[group[split]]) for x in (space, places, packs, origins, last)
        )
        space[at] -= taken
        places[at] -= taken > 0
        packs[at] = number
        at, taken, number = at[taken > 0], taken[taken > 0], number[taken > 0]
        chains.append((taken, last[at]))
        last[at] = size + np.arange(len(at))
        size, tokens, done = size + len(at), tokens - int(taken @ number), done + now
    of, before = (np.concatenate(column) for column in zip(*chains, strict=True))
    return Filled(packs, origins, last, (of, before), left)
