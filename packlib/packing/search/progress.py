"""The progress of a search: what it says while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from packlib.arguments import percent
from packlib.bars import progress_bar


@dataclass(frozen=True)
class Progress:
    """The state of a search after a round; given to the `progress` callback of `optimal`."""

    stage: str  # "pricing", "rounding" or "refilling"
    strategies: int  # how many kinds of packs the linear program knows; while refilling, those of the best plan
    num_packs: int  # of the best plan so far
    lower_bound: int
    seconds: float  # since the search began

    def __str__(self) -> str:
        gap = self.num_packs / self.lower_bound - 1
        return (
            f"{self.seconds:.0f} s, {self.stage}: {self.num_packs:,} packs, at most {percent(gap, 4)} above the best"
        )


Callback = Callable[[Progress], bool | None] | None  # the search stops where it returns False; None to call nothing


@contextmanager
def shown(progress: bool | Callback) -> Iterator[Callback]:
    """Give the function that a search calls after every round: the given one, or one that draws a bar.

    The bar comes at once if `progress` is True, never if it is False. By default it comes on a terminal after two
    seconds.
    """
    if progress is not None and not isinstance(progress, bool):
        yield progress
        return
    with progress_bar(progress=progress, desc="planning", unit=" rounds", leave=False) as rounds:

        def show(now: Progress) -> None:
            rounds.set_postfix_str(str(now), refresh=False)
            rounds.update()

        yield None if rounds.disable else show
