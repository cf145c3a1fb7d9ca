"""What a search for a better plan has found, and what it says while it runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from packlib.checks import percent
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.search.bound import direct_bound
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.master import MasterProblem


@dataclass(frozen=True)
class Progress:
    """What is known after a round; given to the `progress` callback of `optimal`."""

    stage: str  # "pricing" or "rounding"
    strategies: int
    num_packs: int
    lower_bound: int
    seconds: float

    def __str__(self) -> str:
        gap = self.num_packs / self.lower_bound - 1
        return (
            f"{self.seconds:.0f} s, {self.stage}: {self.num_packs:,} packs, at most {percent(gap, 4)} above the best"
        )


_PATIENCE = 2  # seconds

Callback = Callable[[Progress], bool | None] | None  # the search stops where it returns False


@contextmanager
def shown(progress: bool | Callback) -> Iterator[Callback]:
    """The function that a search calls after every round: that one, or one that draws a bar.

    The bar comes at once if `progress` is True, never if it is False. By default it comes on a terminal after two
    seconds.
    """
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
        return
    if progress is not None and progress is not True:
        yield progress
        return
    from tqdm import tqdm  # here, since few calls need it

    with tqdm(desc="planning", unit=" rounds", delay=0 if progress else _PATIENCE, leave=False) as bar:

        def show(now: Progress) -> None:
            bar.set_postfix_str(str(now), refresh=False)
            bar.update()

        yield show


class Search:
    """What every search has; arguments as of `optimal`.

    What a search looks at before its deadline, one with a later deadline looks at too: its plan has no more packs and
    its bound is no lower.

    Attributes:
        proof: the prices that prove the bound, or None if `direct_bound` proves as much.
        listed: whether a list of packs proves one more than the prices do.
        num_packs, lower_bound: so far.
    """

    num_packs: int
    master: MasterProblem

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        self.histogram, self.limit = histogram, max_sequences_per_pack
        self.progress, self.deadline = progress, deadline
        self.counts, self.top = histogram.counts, histogram.max_length
        self.lower_bound = direct_bound(self.counts, max_sequences_per_pack)
        self.proof: np.ndarray | None = None
        self.listed = False

    def report(self, stage: str) -> None:
        """Call back after a round; that may end the search."""
        if self.progress:
            strategies, seconds = len(self.master.strategies), self.deadline.seconds()
            now = Progress(stage, strategies, self.num_packs, self.lower_bound, seconds)
            if self.progress(now) is False:
                self.deadline.stop()
