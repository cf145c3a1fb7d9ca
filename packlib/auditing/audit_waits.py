"""How long ranks wait for each other when they train on packs that others made, from the lengths in the packs."""

from dataclasses import dataclass

import numpy as np

from packlib.packing import Packs
from packlib.work import Work, waiting

MOST_HELD = 1 << 20  # sequences whose lengths are kept, 8 bytes each and 8 a pack; the packs after them are not dealt
_WINDOW = 8  # of `Packs.balance`, by default


@dataclass(frozen=True)
class Waits:
    """Shares of the time that the average rank waits for the slowest; ranks meet once in an update.

    Attributes:
        ranks, packs_per_rank: every rank trains on so many packs in every update.
        packs: how many were dealt, from the first of the file on: whole updates, of at most `MOST_HELD` sequences.
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
            f"each in an update, the average rank waits {self.at_random:.1%} of the time for the slowest (95% interval "
            f"{' to '.join(f'{share:.1%}' for share in self.interval)}), at least {self.least:.1%} in any deal of "
            f"them, and {self.balanced:.1%} where packs.balance deals them in windows of {_WINDOW} updates. This is "
            f"an estimate for {self.work.in_words}, without padding, communication and loading."
        )


def waits_of(lengths: np.ndarray, depths: np.ndarray, ranks: int, packs_per_rank: int, work: Work) -> Waits | None:
    """How long ranks wait on packs of `depths` sequences each; None where these fill no update.

    Args:
        lengths: of all sequences, pack after pack.
    """
    ends, step = np.cumsum(depths), ranks * packs_per_rank
    if not (packs := int(np.searchsorted(ends, MOST_HELD, "right")) // step * step):
        return None
    offsets = np.concatenate([[0], ends[:packs]])
    lengths = lengths[: offsets[-1]]
    dealt = Packs(np.arange(len(lengths)), offsets, lengths, int(np.add.reduceat(lengths, offsets[:-1]).max()))
    mean, low, high, least = waiting(work.of(dealt), ranks, packs_per_rank)
    balanced = dealt.balance(ranks, packs_per_rank, _WINDOW, work=work).waiting
    return Waits(ranks, packs_per_rank, packs, work, mean, (low, high), least, balanced)
