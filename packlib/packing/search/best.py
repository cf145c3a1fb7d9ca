"""The best plan and the best bound so far: what all steps of a search share."""

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks, number_of_packs
from packlib.packing.proofs import Proof
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.progress import Callback, Progress
from packlib.packing.search.sums import direct_bound


class Best:
    """The state of a search. Each step offers the plans that it finds, and the bounds that it proves.

    A search with a later deadline first does all that one with an earlier deadline does. So its plan has at most as
    many packs, and its bound is at least as high.

    Attributes:
        histogram, limit: the lengths to pack, and the depth limit or None; they never change.
        strategies, num_packs: the best plan and its packs, at first one for each sequence; only `offer` changes them.
        lower_bound, proof: the best bound, and what proves it, None for sums; only `prove` changes them.
        deadline: how long the search may go on; every step asks it, and spends its rounds and steps.
    """

    def __init__(
        self,
        histogram: LengthHistogram,
        max_sequences_per_pack: int | None,
        deadline: Deadline,
        progress: Callback = None,
    ) -> None:
        self.histogram, self.limit = histogram, max_sequences_per_pack
        self.deadline, self._progress = deadline, progress
        self.lower_bound = direct_bound(histogram.counts, max_sequences_per_pack)
        self.proof: Proof | None = None
        self.strategies: list[EqualPacks] = [((length,), n) for length, n in enumerate(histogram.counts.tolist()) if n]
        self.num_packs = histogram.num_sequences

    def done(self) -> bool:
        """Return whether the bound is met, or nothing is left of the deadline."""
        return self.num_packs == self.lower_bound or self.deadline.seconds_left() <= 0

    def offer(self, strategies: list[EqualPacks]) -> bool:
        """Keep a plan if it has fewer packs than the best so far; return whether it has."""
        packs = number_of_packs(strategies)
        if packs >= self.num_packs:
            return False
        self.strategies, self.num_packs = strategies, packs
        return True

    def prove(self, bound: int, proof: Proof) -> None:
        """Keep a bound that is at least as high as the best so far.

        Of equal bounds the later proof is kept: the step that offers it proves more in fractions of a pack.
        """
        if bound >= self.lower_bound:
            self.lower_bound, self.proof = bound, proof

    def report(self, stage: str, strategies: int) -> None:
        """Call the `progress` callback after a round; the search ends if it returns False.

        Args:
            stage: of `Progress`.
            strategies: how many are known.
        """
        if self._progress:
            now = Progress(stage, strategies, self.num_packs, self.lower_bound, self.deadline.seconds())
            if self._progress(now) is False:
                self.deadline.stop()
