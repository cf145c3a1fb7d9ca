"""Real packs after the solution of a linear program on few lengths.

The program (`long_rows.py`) says how many packs hold which long sequences, rounded to breakpoints, and how many short
ones beside them. Real lengths lie between the breakpoints. From long to short, the longest sequence of those planned
for a breakpoint goes to the pack that has saved most so far, so that deviations cancel. What is left is dealt: to the
pack that it closes, or to the one with the most room for each sequence that it still wants.
"""

from heapq import heappop, heappush, heapreplace

import numpy as np

from packlib.packing.search.breakpoint_program import BreakpointProgram


def place_long(lengths: np.ndarray, program: BreakpointProgram) -> tuple[np.ndarray, ...]:
    """Give the longest sequences to the places planned for them; a pack without short ones keeps its last place open.

    Args:
        lengths: all sequences, from long to short; int64.
        program: a solved one.

    Returns:
        The pack of each sequence (-1: none yet); for each pack the room and the places left, and how many sequences
        it still wants. All int64.
    """
    plans, shorts, repeats = program.whole_packs()
    starts = np.cumsum(repeats) - repeats
    wanted = np.rint(shorts).astype(np.int64)
    kept_open = wanted == 0
    # by breakpoint: places for its first sequence in a pack, its second, …; and places that are kept open
    rounds: dict[int, list[list[np.ndarray]]] = {}
    open_places: dict[int, int] = {}
    for s, plan in enumerate(plans):
        packs = np.arange(starts[s], starts[s] + repeats[s])
        for i, breakpoint in enumerate(plan):
            if kept_open[s] and i == len(plan) - 1:
                open_places[breakpoint] = open_places.get(breakpoint, 0) + len(packs)
                wanted[s] = 1
            else:
                at = rounds.setdefault(breakpoint, [])
                copy = i - plan.index(breakpoint)
                at.extend([] for _ in range(len(at), copy + 1))
                at[copy].append(packs)
    total = int(repeats.sum())
    pack_of = np.full(len(lengths), -1, np.int64)
    room, places, saved = np.full(total, program.capacity), np.full(total, program.depth), np.zeros(total, np.int64)
    done = 0
    for breakpoint in sorted({*rounds, *open_places}, reverse=True):
        ids = [np.concatenate(packs) for packs in rounds.get(breakpoint, []) if packs]
        slots = sum(map(len, ids))
        both = slots + open_places.get(breakpoint, 0)
        given = np.arange(done, min(done + both, len(lengths)))
        done += len(given)
        if not slots:
            continue
        # an even share of the sequences for the places that are filled now, and of those for each round
        given = given[np.diff(np.arange(len(given) + 1) * slots // both) > 0]
        share = np.concatenate([(np.arange(len(packs)) + 0.5) / len(packs) for packs in ids])
        turn = np.repeat(np.arange(len(ids)), [len(packs) for packs in ids])[np.argsort(share, kind="stable")]
        for i, packs in enumerate(ids):
            mine = given[turn[: len(given)] == i]
            to = packs[np.argsort(-saved[packs], kind="stable")][: len(mine)]
            fits = lengths[mine] <= room[to]
            to, mine = to[fits], mine[fits]
            pack_of[mine] = to
            room[to] -= lengths[mine]
            places[to] -= 1
            saved[to] += breakpoint - lengths[mine]
    return pack_of, room, places, np.minimum(np.repeat(wanted, repeats), places)


def deal(lengths: np.ndarray, pack_of: np.ndarray, room: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> None:
    """Give the sequences without a pack, from long to short, to packs with room and places; `pack_of` changes.

    A pack that wants one more waits until the sequences are as short as its room, and goes before all others, for it
    wastes the difference; the one that came last goes first, since its difference is least. Of the others the one
    goes first that has the most room for each sequence it wants.

    Args:
        lengths, pack_of, room, places, wanted: as `place_long` takes and returns them.
    """
    longest, shortest = int(lengths[0]), int(lengths[-1])
    rooms, free, wants = room.tolist(), places.tolist(), np.maximum(wanted, 1).tolist()
    # minus the room for each sequence that is wanted, and the pack; and the packs that one sequence closes
    heap, closing = list[tuple[float, int]](), list[int]()
    # packs that wait for a sequence of at most that length
    waiting: list[list[int]] = [[] for _ in range(longest + 1)]
    for p in np.flatnonzero((places > 0) & (room >= shortest)).tolist():
        waiting[min(rooms[p], longest)].append(p)
    last, left, given = longest + 1, np.flatnonzero(pack_of < 0), list[int]()
    for length in lengths[left].tolist():
        for r in range(last - 1, length - 1, -1):
            for p in reversed(waiting[r]):
                if wants[p] == 1 and rooms[p] > r and free[p] > 1:
                    wants[p] = 2
                if wants[p] == 1:
                    closing.append(p)
                else:
                    heappush(heap, (-rooms[p] / wants[p], p))
            waiting[r].clear()
        last, to = length, -1
        while to < 0 and (closing or heap):
            if closing:
                p = closing.pop()
                if rooms[p] >= length + shortest and free[p] > 1:  # there is room for two
                    wants[p] = 2
                    heappush(heap, (-rooms[p] / 2, p))
                    continue
                to = p
            else:
                p = heap[0][1]
                if rooms[p] >= length:
                    to, wants[p] = p, min(max(wants[p] - 1, 1), free[p] - 1)
            if to >= 0:
                rooms[p] -= length
                free[p] -= 1
                if heap and heap[0][1] == p and wants[p] > 1 and rooms[p] >= length:
                    heapreplace(heap, (-rooms[p] / wants[p], p))
                    continue
            if heap and heap[0][1] == p:
                heappop(heap)
            if free[p] > 0 and rooms[p] >= shortest:
                if rooms[p] < length:
                    waiting[rooms[p]].append(p)
                else:
                    closing.append(p)
        given.append(to)
    pack_of[left] = given
