"""Times as ratios within one run: these machines are noisy, so nothing else can be compared."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A line of the table: what was done, how long it took, and the peer's time in the same run."""

    work: str
    seconds: float
    peer: str
    peer_seconds: float
    must: str  # what the ratio, or the figure in `note`, has to be
    note: str = ""

    @property
    def times_faster(self) -> float:
        return self.peer_seconds / self.seconds


def seconds_of(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turn(ours: Callable[[], object], peer: Callable[[], object], runs: int) -> tuple[float, float]:
    """The median seconds of both, run one after the other so that noise falls on both."""
    pairs = [(seconds_of(ours), seconds_of(peer)) for _ in range(runs)]
    return tuple(statistics.median(column) for column in zip(*pairs, strict=True))


def median_of(run: Callable[[], object], runs: int) -> float:
    return statistics.median(seconds_of(run) for _ in range(runs))
