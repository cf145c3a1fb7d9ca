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
    """Packs that were filled evenly, in groups of equal packs: first those of the beginning, then those that split off.

    The sequences that a group took are a linked list: from the last one back, each names the one before it. Groups that
    were split share what they took before.

    Attributes:
        packs: how many packs each group has; int64, shape (groups,).
        origins: the group of the beginning that each was split from; int64, same shape.
        last: the index in `taken` of the last sequence of each group, -1 for none; int64, same shape.
        taken: the length of each sequence that a group took; int64, shape (sequences taken by groups,).
        before: the index in `taken` of the sequence that the same group took before, -1 for none; int64, same shape.
        left_out: how many sequences found no pack.
    """

    packs: np.ndarray
    origins: np.ndarray
    last: np.ndarray
    taken: np.ndarray
    before: np.ndarray
    left_out: int

    def strategies(self, begun: list[EqualPacks]) -> list[EqualPacks]:
        """List the groups of packs that hold sequences; `begun[i]` is group i of the beginning, with what it held."""
        taken, before = self.taken.tolist(), self.before.tolist()
        filled = list[EqualPacks]()
        for origin, last, packs in zip(self.origins.tolist(), self.last.tolist(), self.packs.tolist(), strict=True):
            lengths_before, _ = begun[origin]
            lengths = list[int]()  # from the last to the first
            index = last
            while index >= 0:
                lengths.append(taken[index])
                index = before[index]
            if packs and (lengths or lengths_before):
                filled.append(((*lengths_before, *reversed(lengths)), packs))
        return filled


def fill_evenly(counts: np.ndarray, space: np.ndarray, places: np.ndarray, packs: np.ndarray) -> Filled:
    """Give sequences to packs that have space and places.

    >>> import numpy as np
    >>> from packlib.packing.search.leveling import fill_evenly
    >>> counts = np.bincount([6, 6, 2, 2, 2, 2, 2, 2])
    >>> filled = fill_evenly(counts, space=np.array([12]), places=np.array([4]), packs=np.array([2]))
    >>> filled.strategies([((), 2)]), filled.left_out
    ([((6, 2, 2, 2), 2)], 0)

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (longest length + 1,).
        space, places, packs: the groups of equal packs to fill: how many tokens and how many sequences each pack of a
            group still takes, and how many packs the group has; int64, shape (groups,).
    """
    groups, waiting = _Groups(space, places, packs), _Waiting(counts)
    left_out = 0
    while waiting.sequences:
        # the groups whose packs can take the longest sequence
        able = np.flatnonzero((groups.packs > 0) & (groups.places > 0) & (groups.space >= waiting.longest))
        if not len(able):
            left_out += waiting.skip_to(groups.most_space())
            continue
        slack = groups.space[able] - groups.places[able] * waiting.mean
        by_slack = np.argsort(-slack, kind="stable")
        able, slack = able[by_slack], slack[by_slack]
        lengths, up_to_length = waiting.take(_number_at_once(groups.packs[able], slack, waiting))
        groups.give(able, lengths, up_to_length)
    taken = np.concatenate(groups.taken)
    before = np.concatenate(groups.before)
    return Filled(groups.packs, groups.origins, groups.last, taken, before, left_out)


def _number_at_once(packs: np.ndarray, slack: np.ndarray, waiting: "_Waiting") -> int:
    """Choose how many packs take a sequence in this round, those with the most slack.

    The longest sequence lowers the slack of the first pack. Every pack with at least that lowered slack takes a
    sequence in the same round; and so does at least one pack in eight, if enough sequences are nearly as long.

    Args:
        packs, slack: of each group that can take the longest sequence, from the most slack to the least.
    """
    packs_up_to = np.cumsum(packs)
    lowered_slack = slack[0] - (waiting.longest - waiting.mean)
    groups_above = np.searchsorted(-slack, -lowered_slack, side="right")  # at least the first group
    packs_above = packs_up_to[groups_above - 1]
    one_in_eight = -(-packs_up_to[-1] // _AT_ONCE)
    return int(min(max(packs_above, one_in_eight), waiting.alike()))


class _Waiting:
    """The sequences that were neither given nor left out, from long to short.

    Attributes:
        lengths: the lengths that occur at the beginning, descending; int64, shape (lengths,).
        ends: how many sequences, of all, are as long as each of them or longer; int64, same shape.
        done: how many sequences, the longest ones, do not wait any more.
        tokens: those of the sequences that wait.
    """

    def __init__(self, counts: np.ndarray) -> None:
        self.lengths = np.flatnonzero(counts)[::-1]
        of_length = counts[self.lengths]
        self.ends = np.cumsum(of_length)
        self.done = 0
        self.tokens = int(of_length @ self.lengths)

    @property
    def sequences(self) -> int:
        """Count the sequences that wait."""
        return int(self.ends[-1]) - self.done

    @property
    def longest(self) -> int:
        """Return the length of the longest."""
        return int(self.lengths[self._first()])

    @property
    def mean(self) -> float:
        """Return their mean length."""
        return self.tokens / self.sequences

    def _first(self) -> int:
        """Return the index in `lengths` of the longest."""
        return int(np.searchsorted(self.ends, self.done, side="right"))

    def alike(self) -> int:
        """Count the sequences that are nearly as long as the longest."""
        num_lengths = np.searchsorted(-self.lengths, -_STEP * self.longest, side="right")  # that are long enough
        return int(self.ends[num_lengths - 1]) - self.done

    def skip_to(self, most: int) -> int:
        """Leave out the sequences of more than `most` tokens; return how many."""
        first = self._first()
        first_that_fits = int(np.searchsorted(-self.lengths, -most))
        left_out = np.diff(self.ends[first:first_that_fits], prepend=self.done)  # sequences of each length between
        self.tokens -= int(left_out @ self.lengths[first:first_that_fits])
        self.done = int(self.ends[first_that_fits - 1])
        return int(left_out.sum())

    def take(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Take the longest sequences, `number` of them.

        Returns:
            Their different lengths, descending, and how many of those taken are as long as each of them or longer;
            int64, shape (different lengths,).
        """
        first, last = self._first(), int(np.searchsorted(self.ends, self.done + number))
        lengths = self.lengths[first : last + 1]
        up_to_length = np.minimum(self.ends[first : last + 1] - self.done, number)
        self.tokens -= int(np.diff(up_to_length, prepend=0) @ lengths)
        self.done += number
        return lengths, up_to_length


class _Groups:
    """The groups of equal packs while they are filled; `space`, `places` and `packs` are those of `fill_evenly`.

    Attributes:
        origins, last: as in `Filled`.
        taken, before: the parts of those in `Filled`, one for each round.
    """

    def __init__(self, space: np.ndarray, places: np.ndarray, packs: np.ndarray) -> None:
        # changes are made in place
        self.space = space.copy()
        self.places = places.copy()
        self.packs = packs.copy()
        self.origins = np.arange(len(packs))
        self.last = np.full(len(packs), -1)
        self.taken = [np.zeros(0, np.int64)]
        self.before = [np.zeros(0, np.int64)]
        self._num_taken = 0  # entries of `taken` in all rounds

    def most_space(self) -> int:
        """Return the space of the pack with the most of it, among those with a place."""
        return int(self.space[(self.packs > 0) & (self.places > 0)].max(initial=0))

    def give(self, able: np.ndarray, lengths: np.ndarray, up_to_length: np.ndarray) -> None:
        """Give sequences to the packs of these groups, one each, until all are given.

        The packs of the groups and the sequences are laid next to each other, and cut wherever a group or a length
        ends. A group that is cut is split into parts:

            packs     | group 4: 3 packs |  group 7: 5 packs         |
            sequences | length 90: 2  |  length 88: 4    |
            parts     | 4 (90): 2     | 4 (88): 1 | 7 (88): 3 | 7 (-): 2 |

        Args:
            able: the groups; those that come first take the longest sequences; int64.
            lengths, up_to_length: as `_Waiting.take` returns them.
        """
        num_given = up_to_length[-1]
        up_to_group = np.cumsum(self.packs[able])
        able = able[: np.searchsorted(up_to_group, num_given) + 1]  # those that get a sequence
        up_to_group = np.minimum(up_to_group[: len(able)], num_given)
        # of each part: where it ends, its group, the length that it takes (0 for none), and how many packs it has
        ends = np.union1d(up_to_group, up_to_length)
        group = able[np.searchsorted(up_to_group, ends)]
        taken = lengths[np.searchsorted(up_to_length, ends)]
        packs = np.diff(ends, prepend=0)
        packs_without = int(self.packs[able].sum() - num_given)  # of the last group, for which no sequence is left
        if packs_without:
            group = np.append(group, group[-1])
            taken = np.append(taken, 0)
            packs = np.append(packs, packs_without)
        parts = self._split(group)
        self.space[parts] -= taken
        self.places[parts] -= taken > 0
        self.packs[parts] = packs
        self._remember(parts[taken > 0], taken[taken > 0])

    def _split(self, group: np.ndarray) -> np.ndarray:
        """Split groups into parts: the first part keeps the group's index, each other one becomes a new group.

        Args:
            group: the group of each part, the parts of a group in a row; int64, shape (parts,).

        Returns:
            The group that each part is now; int64, same shape.
        """
        is_new = np.append(False, group[1:] == group[:-1])
        parts = group.copy()
        parts[is_new] = len(self.packs) + np.arange(np.count_nonzero(is_new))
        copied = group[is_new]
        self.space = np.append(self.space, self.space[copied])
        self.places = np.append(self.places, self.places[copied])
        self.packs = np.append(self.packs, self.packs[copied])
        self.origins = np.append(self.origins, self.origins[copied])
        self.last = np.append(self.last, self.last[copied])
        return parts

    def _remember(self, groups: np.ndarray, taken: np.ndarray) -> None:
        """Add the length that each of these groups took to its linked list."""
        self.taken.append(taken)
        self.before.append(self.last[groups])
        self.last[groups] = self._num_taken + np.arange(len(groups))
        self._num_taken += len(groups)
