"""One step of many ranks, whose sequences are known only when it begins, as in reinforcement learning."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.lengths.counting import as_lengths
from packlib.packing.methods import plan
from packlib.work.cost import Work, check_work
from packlib.work.schedule import Schedule, balance

_LITTLE = 0.004  # of the time is waited: exchanges are enough
_NOTHING = 0.0001  # of a step's time: no exchange is for so little


def balance_step(
    lengths: Iterable[int],
    ranks: int,
    max_length: int,
    *,
    meet: Literal["step", "micro-batch"] = "step",
    work: Work | None = None,
    seed: int = 0,
) -> Schedule:
    """Pack the sequences of one step into the fewest micro-batches, as many on each rank, with little waiting.

    The number of micro-batches is that of the fewest packs that `plan` finds, rounded up to a multiple of the ranks.
    No deal takes less than `Schedule.mean`, so its `waiting` is also how far the schedule is from the best, at most.

    >>> import numpy as np
    >>> from packlib.work import balance_step
    >>> lengths = np.random.default_rng(1).lognormal(8.7, 0.8, 512).clip(16, 32768).astype(int)
    >>> schedule = balance_step(lengths, ranks=8, max_length=32768)
    >>> schedule.packs_per_rank, schedule.waiting < 0.003
    (15, True)

    Args:
        lengths: the tokens of each sequence.
        ranks: that train together.
        max_length: tokens of a micro-batch at most.
        meet: after what ranks wait for each other. "step": once, after all micro-batches; the schedule has one step of
            many packs a rank. "micro-batch": after each, as where weights are gathered anew for it; then micro-batches
            are the steps of the schedule.
        work: what a micro-batch costs, by default `Work.decoder()`.
        seed: as in `balance`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong; also if there are fewer sequences than micro-batches.
    """
    one_of("meet", meet, ("step", "micro-batch"))
    check_work(work := Work.decoder() if work is None else work)
    lengths, ranks = as_lengths(lengths).astype(np.int64), whole_number("ranks", ranks, 1)
    best = plan(lengths, max_length, "lpfhp")
    if -(-best.num_packs // ranks) > -(-best.lower_bound // ranks):
        best = plan(lengths, max_length, "optimal")
    each = -(-best.num_packs // ranks)
    meetings, of_a_rank = (1, each) if meet == "step" else (each, 1)
    made = balance(best.assign(lengths), ranks, of_a_rank, window=each, work=work, seed=seed)
    if made.waiting > _LITTLE:
        times = _times(np.sort(work.of(lengths))[::-1], ranks, meetings)
        if dealt := _dealt(lengths, times, of_a_rank, max_length, work):
            dealt = dealt if meet == "step" else balance(dealt, ranks, window=each, work=work, seed=seed)
            made = min(made, dealt, key=lambda schedule: schedule.slowest)
    return _exchanged(made)


def _times(falling: np.ndarray, ranks: int, meetings: int) -> np.ndarray:
    """How much work each rank should have before each meeting; shape (meetings × ranks,).

    It is the mean of what is left, unless the heaviest sequence that is left has more.
    """
    left, times = float(falling.sum()), list[float]()
    for to_come in range(meetings, 0, -1):
        times += [max(left / (ranks * to_come), falling[len(times)])] * ranks
        left = max(0.0, left - ranks * times[-1])
    return np.array(times)


def _dealt(lengths: np.ndarray, times: np.ndarray, each: int, max_length: int, work: Work) -> Schedule | None:
    """One step whose ranks have about as much work as `times` says, or None if a sequence finds no space.

    From long to short, each sequence goes to the rank that lacks most work for a token of its space, in its emptiest
    pack. Graham (1969) takes the rank that lacks most work, but a rank with little space must get sequences that are
    long for it, since those have the most work for their tokens.
    """
    work_of, pack_of = work.of(lengths), np.empty(len(lengths), np.int64)
    done, space, empty = -times, np.full((len(times), each), max_length), len(times) * each
    for left, i in zip(range(len(lengths), 0, -1), np.argsort(-lengths, kind="stable").tolist(), strict=True):
        widest = space.max(axis=1)
        fits = widest == max_length if left == empty else widest >= lengths[i]  # the last ones go to empty packs
        rank = int(np.where(fits, done / np.maximum(space.sum(axis=1), 1), np.inf).argmin())
        if not fits[rank]:
            return None
        pack = int(space[rank].argmax())
        empty -= space[rank, pack] == max_length
        pack_of[i] = rank * each + pack
        space[rank, pack] -= lengths[i]
        done[rank] += work_of[i]
    sizes, ids = np.bincount(pack_of), np.argsort(pack_of, kind="stable")
    return Schedule(ids, np.concatenate([[0], np.cumsum(sizes)]), lengths[ids], max_length, len(times), each, 1, work)


def _exchanged(made: Schedule) -> Schedule:
    """Exchange sequences of two packs until no exchange makes a step shorter, and no other step longer.

    The rank that a step waits for gives a sequence to another rank for one of less work.
    """
    pack_of, tokens = np.repeat(np.arange(len(made)), np.diff(made.offsets)), made.lengths.astype(np.int64)
    work, tried = made.work.of(tokens), np.zeros(made.steps, bool)
    while True:
        rank_of, space = pack_of // made.packs_per_rank, made.max_length - np.bincount(pack_of, tokens)
        done = np.bincount(rank_of, work).reshape(made.steps, made.ranks)
        longest = done.max(axis=1)
        excess = np.where(tried, 0, longest - done.mean(axis=1))
        step = int(excess.argmax())
        if excess[step] <= _NOTHING * longest[step]:
            break
        spare = 0.9 * (longest[:, None] - done)  # if all, two ranks could give the same back and forth
        slowest = step * made.ranks + int(done[step].argmax())
        own = np.flatnonzero(rank_of == slowest)[:: 1 + made.packs_per_rank // 16]  # of many, some are enough
        less = work[own, None] - work
        fits = (less <= spare.ravel()[rank_of]) & (tokens[own, None] - tokens <= space[pack_of])
        gain = np.where(fits, np.minimum(less, 2 * excess[step] - less), 0)
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        tried[step] = gain[i, j] <= _NOTHING * longest[step]
        if not tried[step]:
            tried[rank_of[j] // made.ranks] = False
            pack_of[own[i]], pack_of[j] = pack_of[j], pack_of[own[i]]
    ids = np.argsort(pack_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pack_of))])
    return replace(made, sample_ids=made.sample_ids[ids], offsets=offsets, lengths=made.lengths[ids])
