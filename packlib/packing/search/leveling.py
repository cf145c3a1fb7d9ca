"""Fill packs evenly: each sequence, from long to short, into the pack with the most space beyond what it will need.

A place will need as much as the sequences that are left have on average, so a pack's key is its space less its places
times that mean. What a pack takes lowers its key by what the sequence is longer than the mean. All packs whose keys are
so close together are given a sequence at once, the longest first, and so NumPy does in a few hundred rounds what would
be a million steps.
"""

from typing import NamedTuple

import numpy as np

from packlib.packing.greedy import Group

_STEP = 0.97  # and through lengths down to this part of the longest, at most
_AT_ONCE = 8  # a round goes through this part of the packs at least, where lengths are that much alike


class _Round(NamedTuple):
    """What a round did: it made groups behind the first `groups`, out of `parents`; those at `at` took `lengths`."""

    groups: int
    parents: np.ndarray
    at: np.ndarray
    lengths: np.ndarray


class Filled(NamedTuple):
    """Packs that were filled evenly.

    Attributes:
        packs: how many there are in each group of equal packs; int64. The groups at the beginning come first, then
            those that were split off.
        rounds: what was done to them.
        left: how many sequences of each length found no pack; int64.
    """

    packs: np.ndarray
    rounds: list[_Round]
    left: np.ndarray

    def contents(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The group that each group was split from at first; and the groups and the lengths of all that was taken.

        Returns:
            int64, shapes (groups,), (sequences of one pack of each group,), and the same. Ascending groups, and the
            sequences of each from long to short.
        """
        ancestor, groups, lengths = np.arange(len(self.packs)), [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for done in reversed(self.rounds):
            took = np.zeros(done.groups + len(done.parents), np.int64)
            took[done.at] = done.lengths
            took = took[ancestor]
            groups.append(np.flatnonzero(took))
            lengths.append(took[groups[-1]])
            ancestor = np.append(np.arange(done.groups), done.parents)[ancestor]
        group, length = np.concatenate(groups[::-1]), np.concatenate(lengths[::-1])
        order = np.argsort(group, kind="stable")
        return ancestor, group[order], length[order]

    def strategies(self, begun: list[Group]) -> list[Group]:
        """The groups of packs with sequences; `begun[i]` is what the i-th group held before, the first one nothing."""
        origins, group, length = self.contents()
        ends = np.searchsorted(group, np.arange(len(origins)), side="right").tolist()
        items, packs = length.tolist(), self.packs.tolist()
        filled = (
            ((*begun[origin][0], *items[a:b]), n)
            for origin, n, a, b in zip(origins.tolist(), packs, [0, *ends], ends, strict=False)
        )
        return [(lengths, n) for lengths, n in filled if n and lengths]


def fill_evenly(
    lengths: np.ndarray, counts: np.ndarray, space: np.ndarray, places: np.ndarray, packs: np.ndarray
) -> Filled:
    """Give sequences to packs that have space and places.

    Args:
        lengths, counts: how many sequences there are of each length, longest first; int64.
        space, places, packs: the groups of equal packs to fill: how many tokens and sequences each pack still takes,
            and how many packs there are; int64.
    """
    rounds, left = list[_Round](), np.zeros_like(counts)
    ends, done, tokens = np.cumsum(counts), 0, int(counts @ lengths)
    while done < ends[-1]:
        first = int(np.searchsorted(ends, done, side="right"))
        longest = int(lengths[first])
        able = np.flatnonzero((packs > 0) & (places > 0) & (space >= longest))
        if not len(able):  # the next that fits
            most = int(space[(packs > 0) & (places > 0)].max(initial=0))
            fits = int(np.searchsorted(-lengths, -most))
            left[first:fits] = np.diff(ends[first:fits], prepend=done)
            tokens -= int(left[first:fits] @ lengths[first:fits])
            done = int(ends[fits - 1])
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
        last = int(np.searchsorted(ends, done + now)) + 1
        given = np.minimum(ends[first:last] - done, now)
        cuts = np.union1d(upto, given)
        group, taken = able[np.searchsorted(upto, cuts)], lengths[first + np.searchsorted(given, cuts)]
        number = np.diff(cuts, prepend=0)
        # the packs of the last group that have nothing to take are a group too
        rest = int(packs[able[: len(upto)]].sum()) - now
        if rest:
            group, taken, number = np.append(group, group[-1]), np.append(taken, 0), np.append(number, rest)
        split = group[1:] == group[:-1]
        split = np.append(False, split)
        at = group.copy()
        at[split] = len(packs) + np.arange(np.count_nonzero(split))
        rounds.append(_Round(len(packs), group[split], at, taken))
        space, places, packs = (np.append(x, x[group[split]]) for x in (space, places, packs))
        space[at] -= taken
        places[at] -= taken > 0
        packs[at] = number
        tokens, done = tokens - int(taken[: len(cuts)] @ number[: len(cuts)]), done + now
    return Filled(packs, rounds, left)
