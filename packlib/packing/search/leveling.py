"""Fill packs evenly: each sequence, from long to short, goes into the pack with the most slack.

The slack of a pack is its space, less its free places times the mean length of the sequences that have no pack yet:
the space that would be left if each place took a sequence of that mean. A sequence that is longer than the mean lowers
the slack of its pack by the difference. All packs whose slacks differ by less than that get a sequence in the same
round, the longest first, and so NumPy does in a few hundred rounds what would be a million steps.
"""

from typing import NamedTuple

import numpy as np

from packlib.packing.greedy import EqualPacks

_STEP = 0.97  # a sequence is nearly as long as the longest if it has at least this share of its tokens
_AT_ONCE = 8  # at least one pack in so many takes a sequence in a round, if so many are nearly as long


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
    groups, waiting = _Groups(space, places, packs), _Waiting(counts)
    left = 0
    while waiting.sequences:
        able = np.flatnonzero((groups.packs > 0) & (groups.places > 0) & (groups.space >= waiting.longest))
        if not len(able):
            left += waiting.skip_to(groups.most_space())
            continue
        slack = groups.space[able] - groups.places[able] * waiting.mean
        order = np.argsort(-slack, kind="stable")
        able, slack = able[order], slack[order]
        groups.give(able, *waiting.take(_number_at_once(groups.packs[able], slack, waiting)))
    taken, before = (np.concatenate(column) for column in zip(*groups.chains, strict=True))
    return Filled(groups.packs, groups.origins, groups.last, (taken, before), left)


def _number_at_once(packs: np.ndarray, slack: np.ndarray, waiting: "_Waiting") -> int:
    """Choose how many packs take a sequence in this round, those with the most slack.

    The longest sequence lowers the slack of the first pack. Every pack with at least that lowered slack takes a
    sequence in the same round; and so does at least one pack in eight, if enough sequences are nearly as long.
    """
    upto = np.cumsum(packs)
    near = upto[np.searchsorted(-slack, waiting.longest - waiting.mean - slack[0], side="right") - 1]
    return int(min(max(near, -(-upto[-1] // _AT_ONCE)), waiting.alike()))


class _Waiting:
    """The sequences that were neither given nor left out, from long to short.

    Attributes:
        lengths: the lengths that occur, descending; int64.
        ends: how many sequences are as long as each of them or longer; int64.
        done, tokens: how many sequences do not wait any more, and the tokens of those that do.
    """

    def __init__(self, counts: np.ndarray) -> None:
        self.lengths = np.flatnonzero(counts)[::-1]
        of_length = counts[self.lengths]
        self.ends = np.cumsum(of_length)
        self.done = 0
        self.tokens = int(of_length @ self.lengths)

    @property
    def sequences(self) -> int:
        return int(self.ends[-1]) - self.done

    @property
    def longest(self) -> int:
        return int(self.lengths[self._first()])

    @property
    def mean(self) -> float:
        return self.tokens / self.sequences

    def _first(self) -> int:
        return int(np.searchsorted(self.ends, self.done, side="right"))

    def alike(self) -> int:
        """Count the sequences that are nearly as long as the longest."""
        shorter = np.searchsorted(-self.lengths, -_STEP * self.longest, side="right")
        return int(self.ends[shorter - 1]) - self.done

    def skip_to(self, most: int) -> int:
        """Leave out the sequences of more than `most` tokens; return how many."""
        first, fits = self._first(), int(np.searchsorted(-self.lengths, -most))
        left_out = np.diff(self.ends[first:fits], prepend=self.done)
        self.tokens -= int(left_out @ self.lengths[first:fits])
        self.done = int(self.ends[fits - 1])
        return int(left_out.sum())

    def take(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Take the longest; return their lengths, and how many sequences are as long as each of them or longer."""
        first, last = self._first(), int(np.searchsorted(self.ends, self.done + number))
        lengths, upto = self.lengths[first : last + 1], np.minimum(self.ends[first : last + 1] - self.done, number)
        self.tokens -= int(np.diff(upto, prepend=0) @ lengths)
        self.done += number
        return lengths, upto


class _Groups:
    """The groups of equal packs while they are filled; `space`, `places` and `packs` are those of `fill_evenly`.

    Attributes:
        origins, last: as in `Filled`.
        chains: the parts of `taken` in `Filled`, one for each round.
    """

    def __init__(self, space: np.ndarray, places: np.ndarray, packs: np.ndarray) -> None:
        # changes are made in place
        self.space = space.copy()
        self.places = places.copy()
        self.packs = packs.copy()
        self.origins, self.last = np.arange(len(packs)), np.full(len(packs), -1)
        self.chains = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        self._taken = 0  # lengths in all chains

    def most_space(self) -> int:
        """Return the space of the pack with the most of it, among those with a place."""
        return int(self.space[(self.packs > 0) & (self.places > 0)].max(initial=0))

    def give(self, able: np.ndarray, lengths: np.ndarray, given: np.ndarray) -> None:
        """Give sequences to the packs of these groups, one each, until all are given.

        The packs of the groups and the sequences are laid beside each other: a group that meets more than one length is
        split.

        Args:
            able: the groups, those that come first take the longest sequences.
            lengths, given: the lengths, descending, and how many sequences are as long as each or longer; int64.
        """
        upto = np.cumsum(self.packs[able])
        able = able[: np.searchsorted(upto, given[-1]) + 1]
        upto = np.minimum(upto[: len(able)], given[-1])
        ends = np.union1d(upto, given)
        group, taken = able[np.searchsorted(upto, ends)], lengths[np.searchsorted(given, ends)]
        number = np.diff(ends, prepend=0)
        idle = int(self.packs[able].sum() - given[-1])  # packs of the last group, for which nothing is left
        if idle:
            group = np.append(group, group[-1])
            taken = np.append(taken, 0)
            number = np.append(number, idle)
        at = self._split(group)
        self.space[at] -= taken
        self.places[at] -= taken > 0
        self.packs[at] = number
        self._remember(at[taken > 0], taken[taken > 0])

    def _split(self, group: np.ndarray) -> np.ndarray:
        """Make a new group of each part of a group but its first; return where each part is."""
        again = np.append(False, group[1:] == group[:-1])
        at = group.copy()
        at[again] = len(self.packs) + np.arange(np.count_nonzero(again))
        copied = group[again]
        self.space = np.append(self.space, self.space[copied])
        self.places = np.append(self.places, self.places[copied])
        self.packs = np.append(self.packs, self.packs[copied])
        self.origins = np.append(self.origins, self.origins[copied])
        self.last = np.append(self.last, self.last[copied])
        return at

    def _remember(self, at: np.ndarray, taken: np.ndarray) -> None:
        """Write down what these groups took."""
        self.chains.append((taken, self.last[at]))
        self.last[at] = self._taken + np.arange(len(at))
        self._taken += len(at)
