"""One step of many ranks, whose sequences are known only when it begins, as in reinforcement learning."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from packlib.arguments import one_of, whole_number
from packlib.lengths.counting import MAX_LENGTH, as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.methods import plan
from packlib.packing.search.bound import exact_size
from packlib.packing.search.progress import Progress
from packlib.work.cost import Work, check_work
from packlib.work.schedule import Schedule, balance

_LITTLE = 0.004  # of the time is waited: exchanges are enough
_NOTHING = 0.0001  # of a step's time: no exchange is for so little
# Of additions, not of seconds, so that every rank makes the same schedule, however busy it is. Each takes some 50 ms.
_SEARCH, _SOLVE = 2 * 10**7, 5 * 10**5  # to look for fewer packs; of these at least so many for each linear program
_EXCHANGES = 10**7  # pairs of sequences that are compared


def balance_step(
    lengths: Iterable[int],
    ranks: int,
    max_length: int,
    *,
    meet: Literal["step", "micro-batch"] = "step",
    work: Work | None = None,
    seed: int = 0,
) -> Schedule:
    """Pack the sequences of one step into few micro-batches, the same number for each rank, with little waiting.

    The number of micro-batches is that of the fewest packs that are found, rounded up to a multiple of the ranks. Best
    fit finds them, or else a search with a budget of steps, which ends after some 50 ms on one core: then there may be
    one micro-batch a rank more than there must be. The budget is counted, so that the same lengths give the same
    schedule on every rank and on a busy machine.
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
    lengths = as_lengths(lengths).astype(np.int64)
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    ranks = whole_number("ranks", ranks, 1)
    best_plan = plan(lengths, max_length, "lpfhp")
    fewest_packs = -(-best_plan.lower_bound // ranks) * ranks
    if best_plan.num_packs > fewest_packs and (rounds := _rounds(best_plan.histogram)):

        def goes_on(search: Progress) -> bool:
            """Return True if fewer packs would still make fewer micro-batches."""
            return search.num_packs > fewest_packs

        best_plan = plan(lengths, max_length, "optimal", rounds=rounds, progress=goes_on, on_interrupt="raise")
    micro_batches = -(-best_plan.num_packs // ranks)  # of each rank
    meetings, packs_per_rank = (1, micro_batches) if meet == "step" else (micro_batches, 1)
    packs = best_plan.assign(lengths)
    schedule = balance(packs, ranks, packs_per_rank, window=micro_batches, work=work, seed=seed)
    if schedule.waiting > _LITTLE:
        falling_works = np.sort(work.of(lengths))[::-1]
        goals = _goals(falling_works, ranks, meetings)
        if dealt := _dealt(lengths, goals, packs_per_rank, max_length, work):
            if meet == "micro-batch":
                dealt = balance(dealt, ranks, window=micro_batches, work=work, seed=seed)
            schedule = min(schedule, dealt, key=lambda schedule: schedule.slowest)
    return _exchanged(schedule)


def _rounds(histogram: LengthHistogram) -> int:
    """Return linear programs that a search for fewer packs may solve: what it takes for each is counted, not timed."""
    lengths, slots, _ = exact_size(histogram.counts, None)
    knapsacks = (lengths + 4 * histogram.num_sequences) * slots  # those of single sequences take more memory
    return _SEARCH // (knapsacks + 30 * lengths**2 + _SOLVE)


def _goals(falling_works: np.ndarray, ranks: int, meetings: int) -> np.ndarray:
    """Set the work that each rank should have before each meeting; shape (meetings × ranks,).

    It is the mean of what is left, unless the heaviest sequence that is left has more.
    """
    work_left = float(falling_works.sum())
    goals = list[float]()
    for meetings_left in range(meetings, 0, -1):
        mean = work_left / (ranks * meetings_left)
        heaviest_left = falling_works[len(goals)]
        goals += [max(mean, heaviest_left)] * ranks
        work_left = max(0.0, work_left - ranks * goals[-1])
    return np.array(goals)


def _dealt(
    lengths: np.ndarray, goals: np.ndarray, packs_per_rank: int, max_length: int, work: Work
) -> Schedule | None:
    """Return one step whose ranks have about as much work as `goals` says, or None if a sequence finds no space.

    From long to short, each sequence goes to one rank, into its emptiest pack. Graham (1969) takes the rank that lacks
    the most work. Here it is the rank that lacks the most work per free slot: where little space is left for much
    work, only long sequences help, since they have the most work per token.

    Args:
        goals: the work that each rank should have. If ranks meet after each micro-batch, each of its micro-batches is
            a rank here.
    """
    ranks = len(goals)
    works = work.of(lengths)
    pack_of = np.empty(len(lengths), np.int64)
    above_goal = -goals  # of each rank
    space = np.full((ranks, packs_per_rank), max_length)
    empty_packs = ranks * packs_per_rank
    sequences_left = len(lengths)
    for sequence in np.argsort(-lengths, kind="stable").tolist():
        widest = space.max(axis=1)
        must_open = sequences_left == empty_packs  # the last sequences go to empty packs
        fits = widest == max_length if must_open else widest >= lengths[sequence]
        above_goal_by_space = above_goal / np.maximum(space.sum(axis=1), 1)
        rank = int(np.where(fits, above_goal_by_space, np.inf).argmin())
        if not fits[rank]:
            return None
        pack = int(space[rank].argmax())
        empty_packs -= space[rank, pack] == max_length
        pack_of[sequence] = rank * packs_per_rank + pack
        space[rank, pack] -= lengths[sequence]
        above_goal[rank] += works[sequence]
        sequences_left -= 1
    sizes = np.bincount(pack_of)
    sample_ids = np.argsort(pack_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Schedule(sample_ids, offsets, lengths[sample_ids], max_length, ranks, packs_per_rank, 1, work)


def _exchanged(schedule: Schedule) -> Schedule:
    """Exchange sequences of two packs until no exchange makes a step shorter, and no other step longer.

    Or until so many pairs were compared that the step would wait for its schedule.
    The rank that a step waits for gives a sequence to another rank for one of less work.
    """
    pack_of = np.repeat(np.arange(len(schedule)), np.diff(schedule.offsets))
    tokens = schedule.lengths.astype(np.int64)
    works = schedule.work.of(tokens)
    is_settled = np.zeros(schedule.steps, bool)  # no exchange makes this step shorter
    pairs = 0
    while pairs < _EXCHANGES:
        rank_of = pack_of // schedule.packs_per_rank
        space = schedule.max_length - np.bincount(pack_of, tokens)
        rank_works = np.bincount(rank_of, works).reshape(schedule.steps, schedule.ranks)
        longest = rank_works.max(axis=1)
        excess = np.where(is_settled, 0, longest - rank_works.mean(axis=1))
        step = int(excess.argmax())
        if excess[step] <= _NOTHING * longest[step]:
            break
        spare = 0.9 * (longest[:, None] - rank_works)  # if all, two ranks could give the same back and forth
        slowest = step * schedule.ranks + int(rank_works[step].argmax())
        offered = np.flatnonzero(rank_of == slowest)[:: 1 + schedule.packs_per_rank // 16]  # of many, some are enough
        pairs += len(offered) * len(works)
        moved_work = works[offered, None] - works
        moved_tokens = tokens[offered, None] - tokens
        fits = (moved_work <= spare.ravel()[rank_of]) & (moved_tokens <= space[pack_of])
        gain = np.where(fits, np.minimum(moved_work, 2 * excess[step] - moved_work), 0)
        best_offer, best_return = np.unravel_index(gain.argmax(), gain.shape)
        is_settled[step] = gain[best_offer, best_return] <= _NOTHING * longest[step]
        if not is_settled[step]:
            is_settled[rank_of[best_return] // schedule.ranks] = False
            offer, taken_back = offered[best_offer], best_return
            pack_of[offer], pack_of[taken_back] = pack_of[taken_back], pack_of[offer]
    order = np.argsort(pack_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pack_of))])
    return replace(schedule, sample_ids=schedule.sample_ids[order], offsets=offsets, lengths=schedule.lengths[order])
