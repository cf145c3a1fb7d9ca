"""What the exact search and the one for long rows have in common."""

from typing import Any

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.proofs import Proof
from packlib.packing.search.bound import direct_bound
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.progress import Callback, Progress


class Search:
    """What every search has; arguments as of `optimal`.

    What a search looks at before its deadline, one with a later deadline looks at too: its plan has no more packs and
    its bound is no lower.

    Attributes:
        proof: the prices, or prices and a list, that prove the bound; None if only sums prove as much.
        num_packs, lower_bound: so far.
    """

    num_packs: int
    best: Any  # the strategies, an attribute or a property
    master: MasterProblem

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        self.histogram, self.limit = histogram, max_sequences_per_pack
        self.progress, self.deadline = progress, deadline
        self.counts, self.top = histogram.counts, histogram.max_length
        self.lower_bound = direct_bound(self.counts, max_sequences_per_pack)
        self.proof: Proof | None = None

    def run(self) -> None:
        """Search until the bound is met, or the deadline, or nothing more is found."""
        raise NotImplementedError

    def report(self, stage: str) -> None:
        """Call back after a round; that may end the search."""
        if self.progress:
            strategies, seconds = len(self.master.strategies), self.deadline.seconds()
            now = Progress(stage, strategies, self.num_packs, self.lower_bound, seconds)
            if self.progress(now) is False:
                self.deadline.stop()
