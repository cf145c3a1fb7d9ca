"""How long ranks wait for each other when they train on packs that others made, from the work of each pack."""

import numpy as np

from packlib.arguments import percent
from packlib.work import Waiting, Work, waiting
from packlib.work.windows import deal_in_windows

_MOST = 1 << 20  # packs that are dealt: more would take minutes
_WINDOW = 8  # of `balance`, by default


def waiting_of(each: np.ndarray, ranks: int, packs_per_rank: int, work: Work) -> tuple[Waiting, float, str] | None:
    """How long ranks wait on packs, by the work of each; None where they fill no update.

    Only the first packs are dealt, as many as make whole updates, and about a million at most.

    Returns:
        Waiting where packs are dealt at random, its share where `balance` deals them, and both in a sentence
        that says what they rest on.
    """
    step = ranks * packs_per_rank
    if not (packs := min(len(each), max(_MOST, step)) // step * step):
        return None
    found = waiting(each[:packs], ranks, packs_per_rank)
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(each[:packs])
    of_ranks = shuffled[deal_in_windows(shuffled, ranks, packs_per_rank, _WINDOW, rng)].sum(axis=2)
    balanced = max(0.0, 1 - float(of_ranks.mean(axis=1).sum() / of_ranks.max(axis=1).sum()))
    said = (
        f"If the first {packs:,} packs are dealt at random to {ranks:,} ranks, {packs_per_rank:,} each in an update, "
        f"the average rank waits {percent(found.mean)} of the time for the slowest (95 % interval: "
        f"{percent(found.low)} to {percent(found.high)}), at least {percent(found.least)} in any deal of them, and "
        f"{percent(balanced)} where packlib.balance deals them in windows of {_WINDOW} updates. This is an estimate "
        f"for {work.in_words}, without padding, communication and loading."
    )
    return found, balanced, said
