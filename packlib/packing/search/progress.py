"""What a search for a better plan says while it runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from packlib.checks import percent


@dataclass(frozen=True)
class Progress:
    """What is known after a round; given to the `progress` callback of `optimal`."""

    stage: str  # "pricing", "rounding" or "refilling"
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
