"""The loops of `balance` over single sequences, compiled by Numba. Import this module late."""

import numpy as np

from packlib.packing.compiled import compiled

_NEAR = 1.002  # times the bound of a step: no more is tried
_FAR = 1.005  # times the bound of a step: then random parts of packs are exchanged
_BETTER = 1e-4  # of the slowest rank's work: an exchange gains so much
_OTHERS = 8  # ranks with the least work, with which the slowest looks for an exchange
_MORE = 64  # steps with which one looks for an exchange of tokens where so many others have none
_ROOMS = 30  # random packs that give some sequences away first, where parts are tried


@compiled
def _spread(length, work, pack, ranks, of_a_rank, cap, most_sequences):  # type: ignore[no-untyped-def]
    """The packs of the sequences if they are put into `of_a_rank` for each rank anew, with even work and tokens.

    From long to short, each goes to the rank with the least work beyond what its tokens would have on average: a rank
    that has few tokens will get more work yet. The average is that of the sequences that are left. The packs are as
    before if one fits nowhere or a pack is left empty.
    """
    space, places = np.full(ranks * of_a_rank, cap), np.full(ranks * of_a_rank, most_sequences)
    room, done, tokens, anew = np.full(ranks, cap), np.zeros(ranks), np.zeros(ranks), pack.copy()
    left, left_work = float(length.sum()), work.sum()
    for i in range(len(length)):
        best, goal, average = np.inf, -1, left_work / left
        for rank in range(ranks):
            beyond = done[rank] - average * tokens[rank]
            if beyond < best and room[rank] >= length[i]:
                best, goal = beyond, rank
        if goal < 0:
            return pack.copy()
        of_goal = space[goal * of_a_rank : (goal + 1) * of_a_rank]
        anew[i] = to = goal * of_a_rank + int(np.argmax(of_goal))
        places[to] -= 1
        space[to] = space[to] - length[i] if places[to] else 0  # as if full
        room[goal] = of_goal.max()
        done[goal] += work[i]
        tokens[goal] += length[i]
        left, left_work = left - length[i], left_work - work[i]
    return anew if places.max() < most_sequences else pack.copy()


@compiled
def _move(moved, to, length, pack, space, places, links):  # type: ignore[no-untyped-def]
    """Put sequences of one pack into another, each where it stands in order."""
    for i in moved:
        for of, sign in ((pack[i], 1), (to, -1)):
            at = len(length) + of
            while links[at] > i:
                at = links[at]
            links[i], links[at] = (-1, links[i]) if sign > 0 else (links[at], i)
            space[of] += sign * length[i]
            places[of] += sign
        pack[i] = to


@compiled
def _parts(pack, size, length, work, links, rng, many):  # type: ignore[no-untyped-def]
    """What may leave a pack at once, by tokens: nothing, each sequence and all, or about `many` random choices.

    Returns:
        The tokens and work of each part, where it begins and ends in the last array, and that array of sequences.
    """
    members, count, i = np.empty(size, np.int64), size * max(1, many // size), links[len(length) + pack]
    order, tokens, done = np.empty(count, np.int64), np.zeros(count + 2, np.int64), np.zeros(count + 2)
    begins, ends = np.zeros(count + 2, np.int64), np.zeros(count + 2, np.int64)
    for k in range(size):
        members[k], i = i, links[i]
        tokens[-1], done[-1] = tokens[-1] + length[members[k]], done[-1] + work[members[k]]
    ends[-1] = size
    for k in range(count):
        at = k % size
        if many:  # the first sequences of each shuffle
            other = at + int(rng.random() * (size - at))
            members[at], members[other] = members[other], members[at]
        order[k] = i = members[at]
        before = k if many and at else 0
        tokens[k + 1], done[k + 1] = tokens[before] + length[i], done[before] + work[i]
        begins[k + 1], ends[k + 1] = k - at if many else k, k + 1
    by = np.argsort(tokens)
    by = by[(np.append(1, np.diff(tokens[by])) > 0) | (many > 0)]  # one of equal sequences is enough
    return tokens[by], done[by], begins[by], ends[by], order


@compiled
def _give_room(b, length, work, pack, space, places, links, each, rng):  # type: ignore[no-untyped-def]
    """Move some random sequences of pack `b` to the pack with the most room, with neither of the slowest rank."""
    i, empty, to, of_a_rank = links[len(length) + b], True, int(np.argmax(space)), len(space) // len(each)
    while i >= 0 and b != to and each[b // of_a_rank] < each.max():
        following, done = links[i], each[to // of_a_rank] + work[i]
        fits = length[i] <= space[to] and places[to] > 0 and done < each.max()
        if fits and (following >= 0 or not empty) and rng.random() < 0.5:
            _move(np.full(1, i), to, length, pack, space, places, links)
            each[b // of_a_rank] -= work[i]
            each[to // of_a_rank] += work[i]
        else:
            empty = False
        i = following


@compiled
def _relieve(length, work, pack, ranks, of_a_rank, cap, most_sequences, enough, rng, many, others):  # type: ignore[no-untyped-def]
    """Exchange what makes the step faster between its slowest rank and others; how much the slowest has at the end.

    A pack for a pack, or sequences for sequences: up to one for one, or any number of `many` random choices. `links`
    join the sequences of each pack, shortest first: the first is at `n` + pack, the next at a sequence, and -1 is last.
    """
    n, count, each, others = len(length), ranks * of_a_rank, np.zeros(ranks), min(others, ranks - 1)
    space, places, links = np.full(count, cap), np.full(count, most_sequences), np.full(n + count, -1)
    for i in range(n):
        space[pack[i]] -= length[i]
        places[pack[i]] -= 1
        each[pack[i] // of_a_rank] += work[i]
        links[i], links[n + pack[i]] = links[n + pack[i]], i
    while each.max() > enough:
        slowest = int(np.argmax(each))
        for a in range(slowest * of_a_rank, (slowest + 1) * of_a_rank):
            size_a, untried, goal = most_sequences - places[a], each.copy(), -1
            best = _BETTER * abs(each[slowest])
            tokens_a, work_a, begins_a, ends_a, order_a = _parts(a, size_a, length, work, links, rng, many)
            for trial in range(others + (_ROOMS if many else 0)):
                b = int(np.argmin(untried)) * of_a_rank + int(rng.random() * of_a_rank)
                if trial >= others:
                    b = int(rng.random() * count)
                    _give_room(b, length, work, pack, space, places, links, each, rng)
                other = b // of_a_rank
                untried[other], gap = np.inf, each[slowest] - each[other]
                size_b, start = most_sequences - places[b], 0
                tokens_b, work_b, begins_b, ends_b, order_b = _parts(b, size_b, length, work, links, rng, many)
                for u in range(len(tokens_a)):
                    while start < len(tokens_b) and tokens_b[start] < tokens_a[u] - space[b]:
                        start += 1
                    v = start
                    while v < len(tokens_b) and tokens_b[v] <= tokens_a[u] + space[a]:
                        gain = min(work_a[u] - work_b[v], gap - work_a[u] + work_b[v])
                        more = ends_a[u] - begins_a[u] - ends_b[v] + begins_b[v]  # sequences for b
                        if gain > best and -places[a] <= more <= places[b] and -size_b < more < size_a:
                            best, less, goal = gain, work_a[u] - work_b[v], b  # none is left empty
                            give, get = order_a[begins_a[u] : ends_a[u]], order_b[begins_b[v] : ends_b[v]]
                        v += 1
                if goal >= 0:
                    break
            if goal >= 0:
                _move(give, goal, length, pack, space, places, links)
                _move(get, a, length, pack, space, places, links)
                each[slowest] -= less
                each[goal // of_a_rank] += less
                break
        else:
            break
    return each.max()


@compiled
def level_steps(
    lengths: np.ndarray, packs: np.ndarray, starts: np.ndarray, steps: int, step: int, cap: int, most: int,
    apart: float, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Exchange sequences between steps until the tokens of each are within `apart` of their mean, where that can be.

    Steps relieve each other in pools of `steps`, first of tokens that they lack and then of those that they have too
    many of. Where a few others have no exchange for a step, it asks more of them.

    Args:
        lengths: int64, pool by pool, in each longest first.
        packs: the pack of each sequence, `step` packs to a step; changed in place.
        starts: where each pool begins in them, and where the last ends.
    """
    for pool in range(len(starts) - 1):
        length, first = lengths[starts[pool] : starts[pool + 1]], pool * steps * step
        pack = packs[starts[pool] : starts[pool + 1]] - first
        n = pack.max() // step + 1
        for sign, others in ((-1.0, _OTHERS), (-1.0, _MORE), (1.0, _OTHERS), (1.0, _MORE)):
            enough = (sign + apart) * length.sum() / n
            _relieve(length, sign * length, pack, n, step, cap, most, enough, rng, 0, others)
        packs[starts[pool] : starts[pool + 1]] = pack + first


@compiled
def deal_longest_first(work: np.ndarray, ranks: int) -> np.ndarray:
    """The work of each rank if the sequences, from the most work to the least, go to the rank with the least (LPT)."""
    done = np.zeros(ranks)
    for one in np.sort(work)[::-1]:
        done[np.argmin(done)] += one
    return done


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
        as in `even_out`.

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


@compiled
def even_out(
    lengths: np.ndarray, packs: np.ndarray, starts: np.ndarray, ranks: int, of_a_rank: int, cap: int,
    most_sequences: int, per_token: float, per_square: float, rng: np.random.Generator, many: int,
) -> np.ndarray:  # fmt: skip
    """In each step, relieve the slowest rank until it has about as much work as the bound of the step.

    Exchanges begin with packs that are filled anew. Where that ends far from the bound, they begin with the packs as
    they were dealt too, and the better of both exchanges random parts of packs in the end.

    Args:
        lengths: int64, step by step, in each longest first.
        packs: the pack of each sequence, changed in place: `of_a_rank` for the first rank of the first step and so on.
        starts: where each step begins in them, and where the last ends.
        many: random parts of a pack that are tried, or 0.

    Returns:
        The bounds of the steps.
    """
    least, count = bounds(lengths, starts, ranks, of_a_rank, cap, per_token, per_square), ranks * of_a_rank
    given = ranks, of_a_rank, cap, most_sequences
    for step in range(len(least)):
        length, pack = lengths[starts[step] : starts[step + 1]], packs[starts[step] : starts[step + 1]] - step * count
        work = per_token * length + per_square * length.astype(np.float64) ** 2
        near, far = _NEAR * least[step], _FAR * least[step]
        anew = _spread(length, work, pack, *given)
        slowest, dealt = _relieve(length, work, anew, *given, near, rng, 0, _OTHERS), np.inf
        if slowest > far:
            dealt = _relieve(length, work, pack, *given, near, rng, 0, _OTHERS)
        if slowest < dealt:
            pack[:] = anew
        if min(slowest, dealt) > far and many:
            _relieve(length, work, pack, *given, far, rng, many, _OTHERS)
        packs[starts[step] : starts[step + 1]] = pack + step * count
    return least
