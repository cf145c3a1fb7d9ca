"""What a search for a better plan says while it runs."""

from collections.abc import Callable
from dataclasses import dataclass


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
        return f"{self.seconds:.0f} s, {self.stage}: {self.num_packs:,} packs, at most {gap:.4%} above the best"


Told = Callable[[Progress], None] | None  # whom a search tells its progress
