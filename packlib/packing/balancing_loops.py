"""The loops of `balance` over single sequences, compiled by Numba. Import this module late."""

import heapq

import numpy as np

from packlib.packing.compiled import compiled

_LEAST = 0.995  # of the mean tokens that each rank gets, so that no step lacks much
_FEW = 2048  # sequences of a step in which two may change places
_BETTER = 1 - 1e-4  # a change is worth so much at least
_STEP = 0.95  # keys are made anew when the length has become so much less


@compiled
def _roomiest(rank, of_a_rank, space, places):  # type: ignore[no-untyped-def]
    """The pack of a rank that takes the longest sequence, and how long that is."""
    best, most = 0, -1
    for pack in range(rank * of_a_rank, (rank + 1) * of_a_rank):
        if places[pack] and space[pack] > most:
            best, most = pack, space[pack]
    return best, most


@compiled
def spread(
    lengths: np.ndarray, ranks: int, of_a_rank: int, cap: int, most_sequences: int, pace: float, packs: np.ndarray
) -> bool:
    """Put sequences into `of_a_rank` packs of each rank, with even squares and tokens; False if one fits nowhere.

    From long to short, each goes to the rank with the least squares beyond what its tokens would have on average: a
    rank that has few tokens will get more squares yet. The average is that of the sequences that are left, times
    `pace`. Once the rest is no more than what ranks lack of their least, it goes where most is lacking.

    Args:
        lengths: int64, longest first.
        cap, most_sequences: the most tokens and sequences of a pack.
        packs: filled in with the pack of each sequence; int64, shape of `lengths`.
    """
    space, places = np.full(ranks * of_a_rank, cap), np.full(ranks * of_a_rank, most_sequences)
    squares, tokens, lacks = np.zeros(ranks), np.zeros(ranks), np.zeros(ranks)
    left, left_squares = 0.0, 0.0
    for length in lengths:
        left += length
        left_squares += float(length) * length
    lacks[:] = _LEAST * left / ranks
    lacking, last, average, filling = lacks.sum(), np.inf, 0.0, False
    heap = [(0.0, 0)]
    for i, length in enumerate(lengths):
        anew = length < _STEP * last
        if not filling and left <= lacking:
            filling = anew = True
        for again in range(2):
            if anew or again:
                last, average = float(length), pace * left_squares / left
                heap.clear()
                for rank in range(ranks):
                    heap.append((-lacks[rank] if filling else squares[rank] - average * tokens[rank], rank))
                heapq.heapify(heap)
            while len(heap) and _roomiest(heap[0][1], of_a_rank, space, places)[1] < length:
                heapq.heappop(heap)
            if len(heap):
                break
        if not len(heap):
            return False
        rank = heap[0][1]
        pack, _ = _roomiest(rank, of_a_rank, space, places)
        packs[i] = pack
        space[pack] -= length
        places[pack] -= 1
        squares[rank] += float(length) * length
        tokens[rank] += length
        left -= length
        left_squares -= float(length) * length
        lacking -= min(length, max(lacks[rank], 0.0))
        lacks[rank] -= length
        heapq.heapreplace(heap, (-lacks[rank] if filling else squares[rank] - average * tokens[rank], rank))
    return places.max() < most_sequences  # no pack is empty


@compiled
def level_tokens(lengths: np.ndarray, packs: np.ndarray, count: int, most_sequences: int) -> None:
    """Move sequences into the pack with the fewest tokens, until no move makes the fewest more; `packs` is changed.

    No cap is needed: the pack that gives a sequence keeps more than the fewest, so it had more than the other gets.
    """
    tokens, places = np.zeros(count, np.int64), np.full(count, most_sequences)
    for i, length in enumerate(lengths):
        tokens[packs[i]] += length
        places[packs[i]] -= 1
    while True:
        least, best, fewest = int(np.argmin(tokens)), -1, tokens.min()
        for i, length in enumerate(lengths):
            fits = places[least] and packs[i] != least
            if fits and min(tokens[packs[i]] - length, tokens[least] + length) > fewest:
                best, fewest = i, min(tokens[packs[i]] - length, tokens[least] + length)
        if best < 0:
            break
        for pack, sign in ((packs[best], -1), (least, 1)):
            tokens[pack] += sign * lengths[best]
            places[pack] -= sign
        packs[best] = least


@compiled
def deal_packs(work: np.ndarray, ranks: int, most: int) -> np.ndarray:
    """At most `most` packs to each rank, from the most work to the least, each to the rank with the least (LPT).

    Returns:
        The place of each pack: `most` places of the first rank, then those of the second. int64, shape (number of
        packs,).
    """
    places, done, dealt = np.empty(len(work), np.int64), np.zeros(ranks), np.zeros(ranks, np.int64)
    for pack in np.argsort(-work, kind="mergesort"):
        rank = int(np.argmin(done))
        places[pack] = rank * most + dealt[rank]
        dealt[rank] += 1
        done[rank] = done[rank] + work[pack] if dealt[rank] < most else np.inf
    return places


@compiled
def finish(
    lengths: np.ndarray, packs: np.ndarray, starts: np.ndarray, ranks: int, of_a_rank: int, cap: int,
    most_sequences: int, per_token: float, per_square: float,
) -> None:  # fmt: skip
    """In each step, relieve the slowest rank while that makes the step faster.

    From its shortest sequence to its longest, the first that helps goes to a pack that has room for it or, in steps of
    few sequences, changes places with a shorter one.

    Args:
        lengths: int64, step by step, in each longest first.
        packs: the pack of each sequence, from 0 in each step; changed in place.
        starts: where each step begins in them, and where the last ends.
    """
    count = ranks * of_a_rank
    for step in range(len(starts) - 1):
        length, pack = lengths[starts[step] : starts[step + 1]], packs[starts[step] : starts[step + 1]]
        work, few = per_token * length + per_square * length.astype(np.float64) ** 2, len(length) <= _FEW
        space, places, each = np.full(count, cap), np.full(count, most_sequences), np.zeros(ranks)
        for i in range(len(length)):
            space[pack[i]] -= length[i]
            places[pack[i]] -= 1
            each[pack[i] // of_a_rank] += work[i]
        tried = np.full(ranks, len(length))  # of each rank, the sequences from here on were tried
        slowest = int(np.argmax(each))
        while tried[slowest]:
            tried[slowest] -= 1
            i, widest = tried[slowest], space.max()
            if pack[i] // of_a_rank != slowest:
                continue
            goal, partner, best = -1, -1, each[slowest] * _BETTER
            for other in range(count if places[pack[i]] < most_sequences - 1 else 0):  # no pack is left empty
                there = each[other // of_a_rank] + work[i]
                if there < best and space[other] >= length[i] and places[other] and other // of_a_rank != slowest:
                    goal, best = other, there
            for j in range(i + 1, len(length) if few else 0):
                if length[i] - length[j] > widest:
                    break
                less = work[i] - work[j]
                there = max(each[pack[j] // of_a_rank] + less, each[slowest] - less)
                if there < best and length[i] - length[j] <= space[pack[j]] and pack[j] // of_a_rank != slowest:
                    goal, partner, best = pack[j], j, there
            if goal < 0:
                continue
            here = pack[i]
            for moved, away, to in ((i, here, goal), (partner, goal, here)):
                if moved >= 0:
                    space[away] += length[moved]
                    places[away] += 1
                    each[away // of_a_rank] -= work[moved]
                    space[to] -= length[moved]
                    places[to] -= 1
                    each[to // of_a_rank] += work[moved]
                    pack[moved] = to
            if few:
                tried[:] = len(length)
            slowest = int(np.argmax(each))


@compiled
def bounds(
    lengths: np.ndarray, starts: np.ndarray, ranks: int, of_a_rank: int, cap: int, per_token: float, per_square: float
) -> np.ndarray:
    """Work that the slowest rank of each step has at least, however the step's sequences are dealt to its ranks.

    First, the n longest sequences are with some n ranks. The packs of the others hold no more than the cap, so these n
    have the tokens that are left too, at best made of the shortest sequences, and the slowest has their mean; for all
    ranks that is the mean of the step. Second, some rank gets n + 1 of the n x ranks + 1 longest sequences, and what
    the packs of all others cannot hold.

    Args:
        as in `finish`.

    Returns:
        float64, shape (number of steps,).
    """
    found = np.zeros(len(starts) - 1)
    for step in range(len(found)):
        length = lengths[starts[step] : starts[step + 1]]
        squares = length.astype(np.float64) ** 2
        tokens, held, held_squares = length.sum(), 0, 0.0
        for n in range(1, min(ranks, len(length)) + 1):
            held, held_squares = held + length[n - 1], held_squares + squares[n - 1]
            forced = tokens - (ranks - n) * of_a_rank * cap if n < ranks else tokens
            least = per_square * (held_squares + _shortest(length, squares, forced - held))
            found[step] = max(found[step], (per_token * max(held, forced) + least) / n)
        forced = tokens - (ranks - 1) * of_a_rank * cap
        for n in range(1, (len(length) - 1) // ranks + 1):
            first, last = n * ranks - n, n * ranks + 1
            among, among_squares = length[first:last].sum(), squares[first:last].sum()
            least = per_square * (among_squares + _shortest(length, squares, forced - among))
            found[step] = max(found[step], per_token * max(among, forced) + least)
    return found


@compiled
def _shortest(length, squares, lack):  # type: ignore[no-untyped-def]
    """The squares of so many tokens of the shortest sequences; part of one costs its share, so none is overcounted."""
    added, i = 0.0, len(length) - 1
    while lack > 0:
        added += squares[i] if length[i] <= lack else float(lack) * length[i]
        lack -= length[i]
        i -= 1
    return added
