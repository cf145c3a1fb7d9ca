"""How long ranks wait for each other when they train on packs that others made, from the work of each pack."""

import numpy as np

from packlib.arguments import percent
from packlib.work import Waiting, Work, waiting
from packlib.work.windows import deal_in_windows

_MOST = 1 << 20  # packs that are dealt: more would take minutes
_WINDOW = 8  # updates, as `balance` has it by default


def waiting_of(
    work_of_packs: np.ndarray, ranks: int, packs_per_rank: int, work: Work
) -> tuple[Waiting, float, str] | None:
    """Estimate how long ranks wait on packs, by the work of each; None where the packs fill no update.

    Only the first packs are dealt, as many as make whole updates, and about a million at most.

    Returns:
        Waiting where packs are dealt at random, its share where `balance` deals them, and both in a sentence
        that says what they rest on.
    """
    packs_per_update = ranks * packs_per_rank
    most = min(len(work_of_packs), max(_MOST, packs_per_update))
    packs = most // packs_per_update * packs_per_update
    if packs == 0:
        return None
    waiting_time = waiting(work_of_packs[:packs], ranks, packs_per_rank)
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(work_of_packs[:packs])
    of_ranks = shuffled[deal_in_windows(shuffled, ranks, packs_per_rank, _WINDOW, rng)].sum(axis=2)
    balanced = max(0.0, 1 - float(of_ranks.mean(axis=1).sum() / of_ranks.max(axis=1).sum()))
    sentence = (
        f"If the first {packs:,} packs are dealt at random to {ranks:,} ranks, {packs_per_rank:,} each in an update, "
        f"the average rank waits {percent(waiting_time.mean)} of the time for the slowest (95 % interval: "
        f"{percent(waiting_time.low)} to {percent(waiting_time.high)}), at least {percent(waiting_time.least)} in any "
        f"deal of them, and {percent(balanced)} where packlib.balance deals them in windows of {_WINDOW} "
        f"updates. This is an estimate for {work.in_words}, without padding, communication and loading."
    )
    return waiting_time, balanced, sentence
