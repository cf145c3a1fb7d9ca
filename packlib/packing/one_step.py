"""One step of many ranks, whose sequences are known only when it begins, as in reinforcement learning."""

from collections.abc import Iterable
from typing import Literal

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.lengths.counting import as_lengths
from packlib.packing.methods import plan
from packlib.packing.packs import Packs, Schedule
from packlib.work.cost import Work, check_work


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
        seed: of where packs are cut; the schedule depends on nothing else.

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
    if meet == "step":
        return packs.balance(ranks, each, window=1, work=work, seed=seed)
    ways = [packs] if (even := _spread(lengths, each * ranks, max_length, work)) is None else [packs, even]
    return min((some.balance(ranks, 1, each, work=work, seed=seed) for some in ways), key=lambda made: made.slowest)


def _spread(lengths: np.ndarray, number: int, max_length: int, work: Work) -> Packs | None:
    """So many packs with about equal work, or None if a sequence finds no room or a pack stays empty.

    From long to short, each sequence goes to the pack that has least work beyond what its tokens would have on average
    over the sequences that are left: a pack of few tokens will get more work yet.
    """
    each, pack_of = work.of(lengths), np.empty(len(lengths), np.int64)
    room, tokens, done = np.full(number, max_length), np.zeros(number), np.zeros(number)
    left, left_work = float(lengths.sum()), float(each.sum())
    for i in np.argsort(-lengths, kind="stable").tolist():
        to = int(np.where(room >= lengths[i], done - left_work / left * tokens, np.inf).argmin())
        if room[to] < lengths[i]:
            return None
        pack_of[i] = to
        room[to] -= lengths[i]
        tokens[to] += lengths[i]
        done[to] += each[i]
        left, left_work = left - lengths[i], left_work - each[i]
    sizes, ids = np.bincount(pack_of, minlength=number), np.argsort(pack_of, kind="stable")
    return Packs(ids, np.concatenate([[0], np.cumsum(sizes)]), lengths[ids], max_length) if sizes.all() else None
