"""Real packs after the solution of a linear program on a few lengths (`breakpoint_program.py`).

The program says how many packs hold which long sequences and how many short ones beside them. Real lengths lie between
its breakpoints. From long to short, the longest sequence of those planned for a size goes to the pack that has saved
most so far, so that deviations cancel. The last of a pack and the short ones are handed out when all others have their
places: to a pack that wants no more than this one, or to the one with the most space for each that it wants.
"""

import math
from heapq import heappop, heappush

import numpy as np

from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.whole_packs import flat

_SHORT = 1 / 17  # of a pack, at most
_FIRST = 1 << 40  # spaces less this come before all ranks of packs that want more


def whole_packs(program: BreakpointProgram) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
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
    # rounded where they end on a line: similar plans make up for each other
    ends = np.cumsum(usage) * (math.ceil(usage.sum() - 1e-6) / usage.sum())
    return plans, shorts / usage, np.diff(np.floor(ends + 0.5), prepend=0).astype(np.int64)


def follow(program: BreakpointProgram, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """Put sequences (from long to short) into packs like those of the program's last solution.

    Returns:
        The pack of each, -1 for those that found none, int64; and the number of packs.
    """
    plans, shorts, repeats = whole_packs(program)
    total = int(repeats.sum())
    ends = np.cumsum(repeats)
    # by size: the packs with a place for a first, a second, … sequence of it, and how many places wait until the end
    places: dict[int, list[list[np.ndarray]]] = {}
    waiting: dict[int, int] = {}
    for s, plan in enumerate(plans):
        if plan and shorts[s] < 0.5:
            shorts[s], plan = 1, plan[:-1]
            waiting[plans[s][-1]] = waiting.get(plans[s][-1], 0) + int(repeats[s])
        for i, size in enumerate(plan):
            of_size, copy = places.setdefault(size, []), i - plan.index(size)
            of_size.extend([] for _ in range(copy + 1 - len(of_size)))
            of_size[copy].append(np.arange(ends[s] - repeats[s], ends[s]))
    pack_of, done = np.full(len(lengths), -1, np.int64), 0
    space, saved, held = np.full(total, program.capacity), np.zeros(total, np.int64), np.zeros(total, np.int64)
    for size in sorted({*places, *waiting}, reverse=True):
        copies = [np.concatenate(packs) for packs in places.get(size, [])]
        filled = sum(map(len, copies))
        planned = filled + waiting.get(size, 0)
        given = np.arange(done, min(done + planned, len(lengths)))
        done += len(given)
        # an even share of the sequences for the places that are filled now, and of those for each copy
        given = given[np.diff(np.arange(len(given) + 1) * filled // max(planned, 1)) > 0]
        share = np.concatenate([np.zeros(0), *((np.arange(len(packs)) + 0.5) / len(packs) for packs in copies)])
        turn = np.repeat(np.arange(len(copies)), [len(packs) for packs in copies])[np.argsort(share, kind="stable")]
        for i, packs in enumerate(copies):
            mine = given[turn[: len(given)] == i]
            to = packs[np.argsort(-saved[packs], kind="stable")][: len(mine)]
            fits = lengths[mine] <= space[to]
            to, mine = to[fits], mine[fits]
            pack_of[mine] = to
            space[to] -= lengths[mine]
            held[to] += 1
            saved[to] += round(size * program.unit) - lengths[mine]
    wanted = np.diff(np.floor(np.cumsum(np.repeat(shorts, repeats)) + 0.5), prepend=0).astype(np.int64)
    _hand_out(lengths, pack_of, space, program.depth - held, wanted)
    return pack_of, total


def _hand_out(
    lengths: np.ndarray, pack_of: np.ndarray, space: np.ndarray, places: np.ndarray, wanted: np.ndarray
) -> None:
    """Give the sequences without a pack, from long to short, to packs with space and places; `pack_of` changes.

    A pack that wants one more waits until the sequences are as short as its space, and goes before all others, the one
    with the least space first. Of the others the one goes first that has the most space for each sequence it wants.
    """
    shortest, last, given = int(lengths[-1]), int(lengths[0]), list[int]()
    spaces, free, wants = space.tolist(), places.tolist(), wanted.tolist()
    # a rank and the pack in one whole number: by the space of the last, or by minus the space for each that is wanted
    heap, waiting, packs = list[int](), [list[int]() for _ in range(last + 1)], len(spaces)
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
            spaces[p], free[p], wants[p] = spaces[p] - length, free[p] - 1, wants[p] - 1
            if free[p] > 0 and spaces[p] >= shortest:
                waiting[min(spaces[p], length)].append(p)
    pack_of[left] = given
