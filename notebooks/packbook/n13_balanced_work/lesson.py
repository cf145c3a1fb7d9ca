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
    return packed(long_tail(number, max_length, seed), max_length)


class WindowsExplorer(Explorer):
    """Show the waiting and the mix that windows leave, for rows, ranks and packs of a rank."""

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
        """Return, by row, ranks and packs a rank, the share waited at random, and what windows leave."""
        controls = [[value for _, value in control.options] for control in self.widgets.values()]
        settings = {}
        for setting in itertools.product(*controls):
            rows, at_random = self._found(*setting)
            plain = [{name: np.array(value).tolist() for name, value in row.items()} for row in rows]
            settings["-".join(map(str, setting))] = {"random": at_random, "found": plain}
        return settings

    def _found(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[list[dict], float]:
        number = enough(20_000, max_length, ranks * packs_per_rank)
        packs = in_whole_steps(_long_packs(number, max_length, self.seed), ranks, packs_per_rank, self.seed)
        at_random = random_waiting(packs, ranks, packs_per_rank, self.work, self.seed)
        return by_window(packs, ranks, packs_per_rank, self.work, self.seed), at_random

    def draw(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[Figure, str]:
        rows_by_window, at_random = self._found(max_length, ranks, packs_per_rank)
        fig = draw_windows(rows_by_window, at_random, fixed=True)
        packs = f"{packs_per_rank} pack{'s' * (packs_per_rank > 1)}"
        return (
            fig,
            f"{ranks} ranks, {packs} each, rows of {max_length:,}. {windows_in_words(rows_by_window, at_random)}",
        )


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
