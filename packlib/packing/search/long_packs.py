"""Real packs after the solution of a linear program on a few lengths (`breakpoint_program.py`).

The program says how many packs hold which long sequences and how many short ones beside them. Real lengths lie between
its breakpoints. From long to short, the longest sequence of those planned for a size goes to the pack that has saved
most so far, so that deviations cancel. The last of a pack and the short ones are handed out when all others have their
places: first to packs that need just one more, then to the pack with the most space for each sequence that it needs.
"""

import math
from collections import defaultdict
from heapq import heappop, heappush

import numpy as np

from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.whole_packs import flat

_SHORT = 1 / 17  # of a pack, at most
_FIRST = 1 << 40  # a rank less this comes before those of all packs that want more than one sequence


def round_solution(program: BreakpointProgram) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """Round the last solution to whole packs: their long sequences in slots, how many short ones, how many packs."""
    merged: dict[tuple[int, ...], np.ndarray] = {}
    for column, packs in zip(program.master.strategies, program.master.usage.tolist(), strict=True):
        if packs > 1e-9:
            items = flat(program.pack_of[column])
            long = tuple(size for size in items if size > program.slots * _SHORT)
            both = packs * np.array([1, len(items) - len(long)])
            merged[long] = merged.get(long, 0) + both
    plans = sorted(merged, reverse=True)
    usage, shorts = np.array([merged[plan] for plan in plans]).T
    # laid end to end, the packs of all plans are rounded where those of each plan end: similar plans, which are side by
    # side, make up for each other
    ends = np.cumsum(usage) * (math.ceil(usage.sum() - 1e-6) / usage.sum())
    return plans, shorts / usage, np.diff(np.floor(ends + 0.5), prepend=0).astype(np.int64)


def follow(program: BreakpointProgram, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """Put sequences (from long to short) into packs like those of the program's last solution.

    Returns:
        The pack of each, -1 for those that found none, int64; and the number of packs.
    """
    plans, shorts, repeats = round_solution(program)
    places = _planned_places(plans, shorts, repeats)
    packs, given = _Packs(program, lengths, int(repeats.sum())), 0
    for size in sorted(places, reverse=True):
        copies = places[size].copies()
        filled = sum(map(len, copies))
        planned = filled + places[size].waiting
        of_size = np.arange(given, min(given + planned, len(lengths)))
        given += len(of_size)
        # the others, spread evenly between these, wait until the end
        now = np.diff(np.arange(len(of_size) + 1) * filled // max(planned, 1)) > 0
        packs.give(of_size[now], copies, round(size * program.unit))
    wanted = np.diff(np.floor(np.cumsum(np.repeat(shorts, repeats)) + 0.5), prepend=0).astype(np.int64)
    _hand_out(lengths, packs.pack_of, packs.space, packs.places, wanted)
    return packs.pack_of, len(packs.space)


class _Places:
    """The places that whole packs have for one size.

    Attributes:
        packs_of_copy: by plans, the packs with a place for a first, a second, … sequence of the size.
        waiting: how many places wait until the end.
    """

    def __init__(self) -> None:
        self.packs_of_copy, self.waiting = list[list[np.ndarray]](), 0

    def add(self, copy: int, packs: np.ndarray) -> None:
        if copy == len(self.packs_of_copy):
            self.packs_of_copy.append([])
        self.packs_of_copy[copy].append(packs)

    def copies(self) -> list[np.ndarray]:
        """Return the packs with a place for a first, a second, … sequence of the size; each int64."""
        return [np.concatenate(packs) for packs in self.packs_of_copy]


def _planned_places(
    plans: list[tuple[int, ...]], shorts: np.ndarray, repeats: np.ndarray
) -> defaultdict[int, _Places]:
    """Collect the places of whole packs by size; arguments as `round_solution` returns them.

    Where a pack wants no short sequence, its last long one is handed out with those of other packs: `shorts` is 1 then.
    """
    places, ends = defaultdict[int, _Places](_Places), np.cumsum(repeats)
    for s, plan in enumerate(plans):
        if plan and shorts[s] < 0.5:
            shorts[s] = 1
            places[plan[-1]].waiting += int(repeats[s])
            plan = plan[:-1]
        packs = np.arange(ends[s] - repeats[s], ends[s])
        for i, size in enumerate(plan):
            places[size].add(i - plan.index(size), packs)
    return places


class _Packs:
    """Packs while they are filled.

    Attributes:
        pack_of: the pack of each sequence, -1 for none so far; int64.
        space, places: the tokens and the sequences that still fit into each pack; int64.
        saved: the tokens by which the sequences of each pack are shorter than planned; int64.
    """

    def __init__(self, program: BreakpointProgram, lengths: np.ndarray, number: int) -> None:
        self._lengths, self.pack_of = lengths, np.full(len(lengths), -1, np.int64)
        self.space, self.places = np.full(number, program.capacity), np.full(number, program.depth)
        self.saved = np.zeros(number, np.int64)

    def give(self, sequences: np.ndarray, copies: list[np.ndarray], tokens: int) -> None:
        """Fill the places for sequences of so many tokens: the longest goes to the pack that has saved most.

        Args:
            sequences: by their places in `pack_of`, from long to short.
            copies: as of `_Places.copies`; each gets an even share of the sequences.
        """
        share = np.concatenate([np.zeros(0), *((np.arange(len(packs)) + 0.5) / len(packs) for packs in copies)])
        turn = np.repeat(np.arange(len(copies)), [len(packs) for packs in copies])[np.argsort(share, kind="stable")]
        for copy, packs in enumerate(copies):
            mine = sequences[turn[: len(sequences)] == copy]
            to = packs[np.argsort(-self.saved[packs], kind="stable")][: len(mine)]
            fits = self._lengths[mine] <= self.space[to]
            to, mine = to[fits], mine[fits]
            self.pack_of[mine] = to
            self.space[to] -= self._lengths[mine]
            self.places[to] -= 1
            self.saved[to] += tokens - self._lengths[mine]


def _hand_out(
    lengths: np.ndarray, pack_of: np.ndarray, space: np.ndarray, places: np.ndarray, wanted: np.ndarray
) -> None:
    """Give the sequences without a pack, from long to short, to packs with space and places; `pack_of` changes.

    A pack that wants one more waits until the sequences are as short as its space, and goes before all others, the one
    with the least space first. Of the others the one goes first that has the most space for each sequence it wants.
    """
    shortest = int(lengths[-1])
    last = int(lengths[0])
    given = list[int]()
    spaces, free, wants = space.tolist(), places.tolist(), wanted.tolist()
    # a rank and the pack in one whole number: by the space of the last, or by minus the space for each that is wanted
    heap = list[int]()
    waiting = [list[int]() for _ in range(last + 1)]
    packs = len(spaces)
    for p in np.flatnonzero((places > 0) & (space >= shortest)).tolist():
        waiting[min(spaces[p], last)].append(p)
    left = np.flatnonzero(pack_of < 0)
    for length in lengths[left].tolist():
        for r in range(last, length - 1, -1):
            while waiting[r]:
                p = waiting[r].pop()
                rank = -(spaces[p] << 16) // wants[p] if wants[p] > 1 else spaces[p] - _FIRST
                heappush(heap, rank * packs + p)
        last, p = length, heappop(heap) % packs if heap else -1
        given.append(p)
        if p >= 0:
            spaces[p] -= length
            free[p] -= 1
            wants[p] -= 1
            if free[p] > 0 and spaces[p] >= shortest:
                waiting[min(spaces[p], length)].append(p)
    pack_of[left] = given
