"""Pack one step of many ranks, whose sequences are known only when it begins, as in reinforcement learning."""

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

_LITTLE = 0.004  # share of the time that ranks wait: if it is at most this, exchanges are enough
_NOTHING = 0.0001  # of a step's time: no sequences are exchanged for a gain of at most so much
# Budgets count operations and not seconds, so that every rank makes the same schedule, however busy it is. Each of the
# two takes some 50 ms.
_SEARCH = 2 * 10**7  # additions of a search for fewer packs
_LINEAR_PROGRAM = 5 * 10**5  # additions that count for each linear program, beside those that its size asks for
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

    The number of micro-batches is the number of packs of a plan, rounded up to a multiple of the ranks. The plan is
    made by best fit; if fewer packs may be possible, a search with a budget of steps follows, some 50 ms on one core. A
    rank may then still have one micro-batch more than the minimum. Steps are counted, so that the same lengths give the
    same schedule on every rank and on a busy machine.

    No schedule takes less than `Schedule.mean`. So this schedule takes at most the share `waiting` more than the best.

    >>> import numpy as np
    >>> from packlib.work import balance_step
    >>> lengths = np.random.default_rng(1).lognormal(8.7, 0.8, 512).clip(16, 32768).astype(int)
    >>> schedule = balance_step(lengths, ranks=8, max_length=32768)
    >>> schedule.packs_per_rank, schedule.waiting < 0.003
    (15, True)

    Args:
        lengths: the tokens of each sequence.
        ranks: number of ranks that train together.
        max_length: most tokens of a micro-batch.
        meet: when ranks wait for each other. "step": once, after all micro-batches; the schedule has one step of many
            packs a rank. "micro-batch": after each micro-batch, as where weights are gathered again for it; then
            micro-batches are the steps of the schedule.
        work: what a micro-batch costs, by default `Work.decoder()`.
        seed: as in `balance`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong; also if there are fewer sequences than micro-batches.
    """
    one_of("meet", meet, ("step", "micro-batch"))
    work = Work.decoder() if work is None else work
    check_work(work)
    lengths = as_lengths(lengths).astype(np.int64)
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    ranks = whole_number("ranks", ranks, 1)
    best_plan = plan(lengths, max_length, "lpfhp")
    enough_packs = -(-best_plan.lower_bound // ranks) * ranks  # the bound, rounded up: fewer packs would gain nothing
    if best_plan.num_packs > enough_packs and (rounds := _rounds(best_plan.histogram)):

        def goes_on(search: Progress) -> bool:
            """Return True if fewer packs would still make fewer micro-batches."""
            return search.num_packs > enough_packs

        best_plan = plan(lengths, max_length, "optimal", rounds=rounds, progress=goes_on, on_interrupt="raise")
    micro_batches = -(-best_plan.num_packs // ranks)  # of each rank
    meetings, packs_per_rank = (1, micro_batches) if meet == "step" else (micro_batches, 1)
    packs = best_plan.assign(lengths)
    schedule = balance(packs, ranks, packs_per_rank, window=micro_batches, work=work, seed=seed)
    if schedule.waiting > _LITTLE:
        falling_works = np.sort(work.of(lengths))[::-1]
        goals = _goals(falling_works, ranks, meetings)
        by_goals = _schedule_by_goals(lengths, goals, packs_per_rank, max_length, work)
        if by_goals is not None:
            if meet == "micro-batch":
                by_goals = balance(by_goals, ranks, window=micro_batches, work=work, seed=seed)
            schedule = min(schedule, by_goals, key=lambda candidate: candidate.slowest)
    return _with_exchanges(schedule)


def _rounds(histogram: LengthHistogram) -> int:
    """Return how many linear programs a search for fewer packs may solve within the budget `_SEARCH`."""
    num_lengths, slots, _ = exact_size(histogram.counts, None)
    knapsacks = (num_lengths + 4 * histogram.num_sequences) * slots  # those of single sequences take more memory
    additions_of_round = knapsacks + 30 * num_lengths**2 + _LINEAR_PROGRAM
    return _SEARCH // additions_of_round


def _goals(falling_works: np.ndarray, ranks: int, meetings: int) -> np.ndarray:
    """Compute the work that each rank should have before each meeting; shape (meetings × ranks,).

    It is the mean of the remaining work, unless the heaviest remaining sequence has more.

    Args:
        falling_works: the work of each sequence, the heaviest first.
        ranks: number of ranks.
        meetings: how often ranks wait for each other.
    """
    work_left = float(falling_works.sum())
    goals = list[float]()
    for meetings_left in range(meetings, 0, -1):
        mean = work_left / (ranks * meetings_left)
        heaviest_left = falling_works[len(goals)]  # if each rank got one of the heavier ones at each earlier meeting
        goal = max(mean, heaviest_left)
        goals += [goal] * ranks
        work_left = max(0.0, work_left - ranks * goal)
    return np.array(goals)


def _schedule_by_goals(
    lengths: np.ndarray, goals: np.ndarray, packs_per_rank: int, max_length: int, work: Work
) -> Schedule | None:
    """Pack the sequences so that the ranks of one step have about as much work as `goals` says.

    From long to short, each sequence goes to one rank, into its emptiest pack. Graham (1969) takes the rank that lacks
    the most work. Here it is the rank that lacks the most work per free slot: where little space is left for much
    work, only long sequences help, since they have the most work per token.

    Args:
        lengths: the tokens of each sequence; int64.
        goals: the work that each rank should have. If ranks meet after each micro-batch, each of their micro-batches is
            a rank here.
        packs_per_rank: packs that each rank has; none may be empty.
        max_length: slots of a pack.
        work: what a pack costs.

    Returns:
        A schedule of one step, or None if a sequence finds no space.
    """
    ranks = len(goals)
    works = work.of(lengths)
    pack_of = np.empty(len(lengths), np.int64)
    above_goal = -goals  # the work of each rank above its goal, negative below it
    space = np.full((ranks, packs_per_rank), max_length)  # free slots
    empty_packs = ranks * packs_per_rank
    sequences_left = len(lengths)
    for sequence in np.argsort(-lengths, kind="stable").tolist():
        most_space = space.max(axis=1)  # in one pack of each rank
        must_open = sequences_left == empty_packs  # the last sequences go to empty packs
        fits = most_space == max_length if must_open else most_space >= lengths[sequence]
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
    return Schedule(sample_ids, offsets, lengths[sample_ids], max_length, ranks, packs_per_rank, window=1, work=work)


def _with_exchanges(schedule: Schedule) -> Schedule:
    """Exchange sequences of two packs until no exchange makes a step shorter, and no other step longer.

    The rank that a step waits for gives a sequence to another rank for one of less work. The search also ends once
    `_EXCHANGES` pairs of sequences were compared, since training waits for the schedule.
    """
    pack_of = np.repeat(np.arange(len(schedule)), np.diff(schedule.offsets))  # of each sequence
    tokens = schedule.lengths.astype(np.int64)  # of each sequence
    works = schedule.work.of(tokens)  # of each sequence
    is_settled = np.zeros(schedule.steps, bool)  # no exchange makes this step shorter
    pairs_compared = 0
    while pairs_compared < _EXCHANGES:
        rank_of = pack_of // schedule.packs_per_rank  # ranks are numbered through all steps
        space = schedule.max_length - np.bincount(pack_of, tokens)
        rank_works = np.bincount(rank_of, works).reshape(schedule.steps, schedule.ranks)
        step_times = rank_works.max(axis=1)
        excess = np.where(is_settled, 0, step_times - rank_works.mean(axis=1))
        step = int(excess.argmax())
        if excess[step] <= _NOTHING * step_times[step]:
            break
        # the work that each rank may gain; if it were all, two ranks could exchange the same sequences back and forth
        spare = 0.9 * (step_times[:, None] - rank_works)
        slowest_rank = step * schedule.ranks + int(rank_works[step].argmax())
        # the sequences that it may give; if it has very many, a part of them is enough
        offered = np.flatnonzero(rank_of == slowest_rank)[:: 1 + schedule.packs_per_rank // 16]
        pairs_compared += len(offered) * len(works)
        # for each sequence that may be given and each that may be taken for it; shape (offered, all sequences)
        moved_work = works[offered, None] - works
        moved_tokens = tokens[offered, None] - tokens
        fits = (moved_work <= spare.ravel()[rank_of]) & (moved_tokens <= space[pack_of])
        # moving more than the excess makes the slowest rank faster than the mean, which counts against the exchange
        gain = np.where(fits, np.minimum(moved_work, 2 * excess[step] - moved_work), 0)
        best_offer, incoming = np.unravel_index(gain.argmax(), gain.shape)
        is_settled[step] = gain[best_offer, incoming] <= _NOTHING * step_times[step]
        if not is_settled[step]:
            is_settled[rank_of[incoming] // schedule.ranks] = False  # the step of the other rank has changed
            outgoing = offered[best_offer]
            pack_of[outgoing], pack_of[incoming] = pack_of[incoming], pack_of[outgoing]
    by_pack = np.argsort(pack_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pack_of))])
    return replace(
        schedule, sample_ids=schedule.sample_ids[by_pack], offsets=offsets, lengths=schedule.lengths[by_pack]
    )
