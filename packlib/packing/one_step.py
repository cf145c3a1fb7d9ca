"""One step of many ranks, whose sequences are known only when it begins, as in reinforcement learning."""

from collections.abc import Iterable
from typing import Literal

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.lengths.counting import as_lengths
from packlib.packing.methods import plan
from packlib.packing.packs import Schedule
from packlib.work.cost import Work, check_work

_LITTLE = 0.001  # of the time is waited: no other way is tried


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
    >>> from packlib.packing import balance_step
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
        seed: as in `Packs.balance`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong; also if there are fewer sequences than micro-batches.
    """
    one_of("meet", meet, ("step", "micro-batch"))
    check_work(work := Work.decoder() if work is None else work)
    lengths, ranks = as_lengths(lengths).astype(np.int64), whole_number("ranks", ranks, 1)
    best = plan(lengths, max_length, "lpfhp")
    if -(-best.num_packs // ranks) > -(-best.lower_bound // ranks):
        best = plan(lengths, max_length, "optimal")
    each, packs = -(-best.num_packs // ranks), best.assign(lengths)
    shape = (ranks, each) if meet == "step" else (ranks * each, 1)
    made = [packs.balance(ranks, shape[1], window=each, work=work, seed=seed)]
    times = _times(np.sort(work.of(lengths))[::-1], ranks, shape[0] // ranks)
    for even in (False, True):
        if made[-1].waiting > _LITTLE and (dealt := _dealt(lengths, times, shape[1], max_length, work, even)):
            made.append(dealt if meet == "step" else dealt.balance(ranks, 1, window=each, work=work, seed=seed))
    return min(made, key=lambda schedule: schedule.slowest)


def _times(falling: np.ndarray, ranks: int, meetings: int) -> np.ndarray:
    """How much work each rank should have before each meeting; shape (meetings × ranks,).

    It is the mean of what is left, unless the heaviest sequence that is left has more.
    """
    left, times = float(falling.sum()), list[float]()
    for to_come in range(meetings, 0, -1):
        times += [max(left / (ranks * to_come), falling[len(times)])] * ranks
        left = max(0.0, left - ranks * times[-1])
    return np.array(times)


def _dealt(
    lengths: np.ndarray, times: np.ndarray, each: int, max_length: int, work: Work, even: bool
) -> Schedule | None:
    """One step whose ranks have about as much work as `times` says, or None if a sequence finds no room.

    From long to short, each sequence goes to the rank that lacks most work (as Graham 1969), in its emptiest pack.

    Args:
        even: keep the tokens of the ranks about equal, too, where packs are nearly full: what counts then is the work
            beyond what a rank's tokens would have on average over the sequences that are left. A rank of few tokens
            will get more work yet.
    """
    work_of, pack_of = work.of(lengths), np.empty(len(lengths), np.int64)
    ranks, done = len(times), -times
    room, empty = np.full((ranks, each), max_length), ranks * each
    left, left_tokens, left_work = len(lengths), float(lengths.sum()), float(work_of.sum())
    for i in np.argsort(-lengths, kind="stable").tolist():
        tokens = each * max_length - room.sum(axis=1)
        widest = room.max(axis=1)
        fits = widest == max_length if left == empty else widest >= lengths[i]  # the last ones go to empty packs
        rank = int(np.where(fits, done - even * left_work / left_tokens * tokens, np.inf).argmin())
        if not fits[rank]:
            return None
        pack = int(room[rank].argmax())
        empty -= room[rank, pack] == max_length
        pack_of[i] = rank * each + pack
        room[rank, pack] -= lengths[i]
        done[rank] += work_of[i]
        left, left_tokens, left_work = left - 1, left_tokens - lengths[i], left_work - work_of[i]
    sizes, ids = np.bincount(pack_of, minlength=ranks * each), np.argsort(pack_of, kind="stable")
    return Schedule(ids, np.concatenate([[0], np.cumsum(sizes)]), lengths[ids], max_length, ranks, each, 1, work)
