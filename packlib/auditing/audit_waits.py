"""How long ranks wait for each other when they train on packs that others made, from the work of each pack."""

from dataclasses import dataclass

import numpy as np

from packlib.checks import percent
from packlib.work import Work, waiting
from packlib.work.windows import deal_in_windows

_MOST = 1 << 20  # packs that are dealt: more would take minutes
_WINDOW = 8  # of `Packs.balance`, by default


@dataclass(frozen=True)
class Waits:
    """Shares of the time that the average rank waits for the slowest; ranks meet once in an update.

    Attributes:
        ranks, packs_per_rank: every rank trains on so many packs in every update.
        packs: how many were dealt, from the first of the file on: whole updates, of about a million at most.
        work: what a pack costs.
        at_random, interval: where packs are dealt at random, and the interval of 95 % or more.
        least: in any deal of these packs.
        balanced: where packs are dealt in windows of 8 updates, as `Packs.balance` does it.
    """

    ranks: int
    packs_per_rank: int
    packs: int
    work: Work
    at_random: float
    interval: tuple[float, float]
    least: float
    balanced: float

    @property
    def sentence(self) -> str:
        """What was found, and what it rests on."""
        return (
            f"If the first {self.packs:,} packs are dealt at random to {self.ranks:,} ranks, {self.packs_per_rank:,} "
            f"each in an update, the average rank waits {percent(self.at_random)} of the time for the slowest (95 % "
            f"interval: {' to '.join(map(percent, self.interval))}), at least {percent(self.least)} in any deal of "
            f"them, and {percent(self.balanced)} where packs.balance deals them in windows of {_WINDOW} updates. This "
            f"is an estimate for {self.work.in_words}, without padding, communication and loading."
        )


def waits_of(each: np.ndarray, ranks: int, packs_per_rank: int, work: Work) -> Waits | None:
    """How long ranks wait on packs, by the work of each; None where they fill no update."""
    step = ranks * packs_per_rank
    if not (packs := min(len(each), max(_MOST, step)) // step * step):
        return None
    mean, low, high, least = waiting(each[:packs], ranks, packs_per_rank)
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(each[:packs])
    of_ranks = shuffled[deal_in_windows(shuffled, ranks, packs_per_rank, _WINDOW, rng)].sum(axis=2)
    balanced = max(0.0, 1 - float(of_ranks.mean(axis=1).sum() / of_ranks.max(axis=1).sum()))
    return Waits(ranks, packs_per_rank, packs, work, mean, (low, high), least, balanced)
