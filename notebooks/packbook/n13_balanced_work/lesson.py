"""The explorer and the questions of notebook 13."""

import itertools
from functools import cache

import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice
from packbook.n13_balanced_work.figures import draw_windows, windows_in_words
from packbook.n13_balanced_work.runs import by_window, enough, in_whole_steps, long_tail, packed, random_waiting
from packbook.questions import Questions
from packlib.packing import Packs
from packlib.work import Work


@cache
def _long_packs(number: int, max_length: int, seed: int) -> Packs:
    """Return the packs of `number` lengths with a long tail."""
    return packed(long_tail(number, max_length, seed), max_length)


class WindowsExplorer(Explorer):
    """Show the idle time and the mix of lengths that windows leave, for a row length, ranks and packs of a rank."""

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
        """Return, by row length, ranks and packs of a rank, as in "32768-8-1", what each window leaves.

        "random" is the share of the time that the average rank waits if packs are dealt at random, "found" what
        `by_window` returns, in Python's own types.
        """
        values_of_controls = [[value for _, value in control.options] for control in self.widgets.values()]
        settings = {}
        for setting in itertools.product(*values_of_controls):
            windows, at_random = self._measure(*setting)
            plain = [{name: np.array(value).tolist() for name, value in window.items()} for window in windows]
            settings["-".join(map(str, setting))] = {"random": at_random, "found": plain}
        return settings

    def _measure(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[list[dict], float]:
        """Return what `by_window` returns for a setting, and the share waited if packs are dealt at random."""
        number = enough(20_000, max_length, ranks * packs_per_rank)
        packs = in_whole_steps(_long_packs(number, max_length, self.seed), ranks, packs_per_rank, self.seed)
        at_random = random_waiting(packs, ranks, packs_per_rank, self.work, self.seed)
        return by_window(packs, ranks, packs_per_rank, self.work, self.seed), at_random

    def draw(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[Figure, str]:
        windows, at_random = self._measure(max_length, ranks, packs_per_rank)
        fig = draw_windows(windows, at_random, fixed=True)
        packs = f"{packs_per_rank} pack{'s' * (packs_per_rank > 1)}"
        setting = f"{ranks} ranks, {packs} each, rows of {max_length:,}"
        return fig, f"{setting}. {windows_in_words(windows, at_random)}"


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
