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

_SHORT = 1 / 17  # of a pack: a short sequence takes at most that
_FIRST = 1 << 40  # is taken off the rank of packs that need just one more, so that they come before all others


def round_solution(program: BreakpointProgram) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """Round the last solution to whole packs.

    Strategies with the same long sequences become one plan, with the mean number of short ones.

    Returns:
        The plans: the long sequences of a pack, in slots, from long to short; how many short ones a pack of each plan
        has, float64, shape (plans,); and how many packs have each plan, int64, same shape.
    """
    packs_and_shorts: dict[tuple[int, ...], np.ndarray] = {}  # by plan: its packs, and their short sequences
    for strategy, packs in zip(program.master.strategies, program.master.usage.tolist(), strict=True):
        if packs > 1e-9:
            sizes = flat(program.pack_of[strategy])
            long = tuple(size for size in sizes if size > program.slots * _SHORT)
            more = packs * np.array([1, len(sizes) - len(long)])
            packs_and_shorts[long] = packs_and_shorts.get(long, 0) + more
    plans = sorted(packs_and_shorts, reverse=True)
    packs_of_plan, shorts_of_plan = np.array([packs_and_shorts[plan] for plan in plans]).T
    # laid end to end, the packs of all plans are rounded where those of each plan end: similar plans, which are side by
    # side, make up for each other
    all_packs = packs_of_plan.sum()
    ends = np.cumsum(packs_of_plan) * (math.ceil(all_packs - 1e-6) / all_packs)
    whole_packs = np.diff(np.floor(ends + 0.5), prepend=0).astype(np.int64)
    return plans, shorts_of_plan / packs_of_plan, whole_packs


def follow(program: BreakpointProgram, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """Put sequences into packs like those of the program's last solution.

    Args:
        lengths: the length of each sequence, in tokens, from long to short; int64, shape (sequences,).

    Returns:
        The pack of each sequence, -1 for those that found none, int64, same shape; and the number of packs.
    """
    plans, shorts, repeats = round_solution(program)
    places_of_size = _planned_places(plans, shorts, repeats)
    packs = _Packs(program, lengths, int(repeats.sum()))
    given = 0  # sequences, the longest, that were given a size
    for size in sorted(places_of_size, reverse=True):
        packs_of_copy = places_of_size[size].packs_of_each_copy()
        now = sum(map(len, packs_of_copy))
        planned = now + places_of_size[size].waiting
        of_size = np.arange(given, min(given + planned, len(lengths)))
        given += len(of_size)
        # `now` of each `planned` sequences, spread evenly; the others wait until the end
        is_now = np.diff(np.arange(len(of_size) + 1) * now // max(planned, 1)) > 0
        packs.give(of_size[is_now], packs_of_copy, round(size * program.unit))
    # how many short sequences each pack wants; the sums up to each pack are rounded, so that errors do not add up
    shorts_up_to = np.cumsum(np.repeat(shorts, repeats))
    wanted = np.diff(np.floor(shorts_up_to + 0.5), prepend=0).astype(np.int64)
    _hand_out(lengths, packs.pack_of, packs.space, packs.places, wanted)
    return packs.pack_of, len(packs.space)


class _Places:
    """The places that whole packs have for one size.

    Attributes:
        waiting: how many places wait until the end.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._packs_by_plan = list[list[np.ndarray]]()  # as of `packs_of_each_copy`, by plan

    def add(self, copy: int, packs: np.ndarray) -> None:
        """Add the packs of a plan (int64), which have a place for the sequence number `copy` of the size, from 0 up."""
        if copy == len(self._packs_by_plan):
            self._packs_by_plan.append([])
        self._packs_by_plan[copy].append(packs)

    def packs_of_each_copy(self) -> list[np.ndarray]:
        """Return the packs with a place for a first, for a second, … sequence of the size; each int64."""
        return [np.concatenate(packs) for packs in self._packs_by_plan]


def _planned_places(
    plans: list[tuple[int, ...]], shorts: np.ndarray, repeats: np.ndarray
) -> defaultdict[int, _Places]:
    """Collect the places of whole packs by size, in slots; arguments are as `round_solution` returns them.

    Where a pack wants no short sequence, its last long one is handed out at the end, with the short ones of other
    packs. So it counts as a short one, and `shorts` is set to 1.
    """
    places_of_size = defaultdict[int, _Places](_Places)
    ends = np.cumsum(repeats)
    for p, plan in enumerate(plans):
        if plan and shorts[p] < 0.5:
            shorts[p] = 1
            places_of_size[plan[-1]].waiting += int(repeats[p])
            plan = plan[:-1]
        packs = np.arange(ends[p] - repeats[p], ends[p])
        for i, size in enumerate(plan):
            copy = i - plan.index(size)  # equal sizes are side by side
            places_of_size[size].add(copy, packs)
    return places_of_size


class _Packs:
    """Packs while they are filled.

    Attributes:
        pack_of: the pack of each sequence, from long to short, -1 for none so far; int64, shape (sequences,).
        space, places: the tokens and the sequences that still fit into each pack; int64, shape (packs,).
        saved: the tokens by which the sequences of each pack are shorter than planned; int64, same shape.
    """

    def __init__(self, program: BreakpointProgram, lengths: np.ndarray, number: int) -> None:
        self._lengths, self.pack_of = lengths, np.full(len(lengths), -1, np.int64)
        self.space, self.places = np.full(number, program.capacity), np.full(number, program.depth)
        self.saved = np.zeros(number, np.int64)

    def give(self, sequences: np.ndarray, packs_of_copy: list[np.ndarray], tokens: int) -> None:
        """Fill the places that are planned for one size: the longest sequence goes to the pack that has saved most.

        Args:
            sequences: the indices of the sequences, from long to short; int64.
            packs_of_copy: the packs with a place for a first, for a second, … sequence of the size, which are its
                copies; as many places as `sequences`, or more. Each copy gets an even share of the long and the short.
            tokens: those that are planned for a sequence of the size.
        """
        # to which copy each sequence goes: those of a copy are spread evenly from the first sequence to the last
        spread = [(np.arange(len(packs)) + 0.5) / len(packs) for packs in packs_of_copy]
        in_turn = np.argsort(np.concatenate([np.zeros(0), *spread]), kind="stable")  # zeros: there may be no copies
        copy_of = np.repeat(np.arange(len(packs_of_copy)), [len(packs) for packs in packs_of_copy])[in_turn]
        for copy, packs in enumerate(packs_of_copy):
            of_copy = sequences[copy_of[: len(sequences)] == copy]
            most_saved_first = packs[np.argsort(-self.saved[packs], kind="stable")]
            to = most_saved_first[: len(of_copy)]
            fits = self._lengths[of_copy] <= self.space[to]
            to, of_copy = to[fits], of_copy[fits]
            self.pack_of[of_copy] = to
            self.space[to] -= self._lengths[of_copy]
            self.places[to] -= 1
            self.saved[to] += tokens - self._lengths[of_copy]


def _hand_out(
    lengths: np.ndarray, pack_of: np.ndarray, space: np.ndarray, places: np.ndarray, wanted: np.ndarray
) -> None:
    """Give the sequences without a pack, from long to short, to packs with space and places; `pack_of` changes.

    Every pack waits until the sequences are as short as its space. Of those that can take a sequence, a pack that needs
    just one more goes before all others, the one with the least space first. Of the others, the one with the most space
    for each sequence that it wants goes first.

    Args:
        lengths: the length of each sequence, from long to short; int64, shape (sequences,).
        pack_of, space, places: as of `_Packs`.
        wanted: how many more sequences each pack should get; int64, shape (packs,).
    """
    shortest = int(lengths[-1])
    length_before = int(lengths[0])
    chosen = list[int]()  # the pack of each sequence, or -1
    spaces, free_places, still_wanted = space.tolist(), places.tolist(), wanted.tolist()
    num_packs = len(spaces)
    heap = list[int]()  # rank * num_packs + pack: the lowest rank comes first
    waiting = [list[int]() for _ in range(length_before + 1)]  # by their space: packs that cannot take a sequence yet
    for pack in np.flatnonzero((places > 0) & (space >= shortest)).tolist():
        waiting[min(spaces[pack], length_before)].append(pack)
    without_pack = np.flatnonzero(pack_of < 0)
    for length in lengths[without_pack].tolist():
        for space_of_waiting in range(length_before, length - 1, -1):
            while waiting[space_of_waiting]:
                pack = waiting[space_of_waiting].pop()
                if still_wanted[pack] > 1:
                    rank = -(spaces[pack] << 16) // still_wanted[pack]  # minus the space for each, in 2^-16 tokens
                else:
                    rank = spaces[pack] - _FIRST
                heappush(heap, rank * num_packs + pack)
        length_before = length
        pack = heappop(heap) % num_packs if heap else -1
        chosen.append(pack)
        if pack >= 0:
            spaces[pack] -= length
            free_places[pack] -= 1
            still_wanted[pack] -= 1
            if free_places[pack] > 0 and spaces[pack] >= shortest:
                waiting[min(spaces[pack], length)].append(pack)
    pack_of[without_pack] = chosen
