"""Notebook 13: equal tokens, unequal work."""

import itertools
from functools import cache

import numpy as np
from matplotlib.figure import Figure

from packbook.exercises import Exercises
from packbook.explorers import Explorer, choice
from packbook.figures import new_figure
from packbook.n13_balanced_work.figures import draw_windows, windows_in_words
from packbook.n13_balanced_work.runs import by_window, long_tail, packed
from packbook.questions import Questions
from packlib.packing import Packs
from packlib.work import Work, waiting


@cache
def _long_packs(max_length: int, seed: int) -> Packs:
    return packed(long_tail(20_000, max_length, seed), max_length)


class WindowsExplorer(Explorer):
    """What windows leave of waiting, and what they do to the mix, for rows, ranks and packs of a rank."""

    title = "How much waiting does a window leave?"

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.work = seed, Work.decoder()
        super().__init__()

    def controls(self):
        return {
            "max_length": choice("Row, tokens", [(f"{top:,}", top) for top in (8192, 32_768, 65_536)], 32_768),
            "ranks": choice("Ranks", [2, 4, 8, 16], 8),
            "packs_per_rank": choice("Packs a rank", [1, 2, 4, 8], 1),
        }

    def data(self):
        """By row, ranks and packs a rank: the share waited at random, and what windows leave."""
        controls = [[value for _, value in control.options] for control in self.widgets.values()]
        made = {}
        for setting in itertools.product(*controls):
            found, at_random = self._found(*setting)
            plain = [{name: np.array(value).tolist() for name, value in row.items()} for row in found]
            made["-".join(map(str, setting))] = {"random": at_random, "found": plain}
        return made

    def _found(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[list[dict], float]:
        packs = _long_packs(max_length, self.seed)
        at_random = waiting(self.work.of(packs), ranks, packs_per_rank).mean
        return by_window(packs, ranks, packs_per_rank, self.work, self.seed), at_random

    def draw(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[Figure, str]:
        found, at_random = self._found(max_length, ranks, packs_per_rank)
        fig, axes = new_figure(1, 2)
        draw_windows(axes, found, at_random, fixed=True)
        packs = f"{packs_per_rank} pack{'s' * (packs_per_rank > 1)}"
        return fig, f"{ranks} ranks, {packs} each, rows of {max_length:,}. {windows_in_words(found, at_random)}"


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "two_packs": lambda long, short: long / short,
        "waiting_now": lambda now: 100 * now,
        "waiting_then": lambda schedule: 100 * schedule.waiting,
        "sharing": lambda seconds: min(seconds, key=seconds.get),
    },
    reasons={
        "sharing": lambda seconds: (
            "In shares of an even deal without padding: "
            + ", ".join(f"{sharding} {time:.3f}" for sharding, time in seconds.items())
            + ". Cut sequences are even but padded, a cut pack is uneven, and one whole sequence can be most of a "
            "pack's work."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def pack_work(lengths, per_token, per_square):
    """The work of a pack: `per_token` for each token, `per_square` for each squared token of length."""
    return sum(per_token * length + per_square * length**2 for length in lengths)


def share_waited(steps):
    """The share of the time that the average rank waits; `steps` has the work of each rank in each step."""
    slowest = sum(max(ranks) for ranks in steps)
    mean = sum(sum(ranks) / len(ranks) for ranks in steps)
    return 1 - mean / slowest


def time_in_windows(works, ranks, window):
    """How long all steps take if packs are sorted within windows of so many steps."""
    size = window * ranks
    windows = [sorted(works[start : start + size]) for start in range(0, len(works), size)]
    return sum(sum(window[ranks - 1 :: ranks]) for window in windows)


check = Exercises.beside(__file__, pack_work, share_waited, time_in_windows)
