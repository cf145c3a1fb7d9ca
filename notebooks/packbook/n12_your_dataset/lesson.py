"""The explorer and the questions of notebook 12."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice
from packbook.figures import INK, OKABE_ITO, label_ends, new_figure, percent, series, styled
from packbook.questions import Questions
from packbook.shared.histograms import shown_name
from packbook.shared.pack_drawings import spoken
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools.advice.data import read_uncut

EXPLORED_DEPTHS = (2, 4, 8, None)


class MaximumExplorer(Explorer):
    """Show the slots for each token, and the tokens lost, by maximum length.

    Args:
        dataset: a name or a file.
        max_length: slots of a row now, which is chosen at first; 0 for half of the longest. The maximum lengths go up
            to the data set's own, or to this one if it is longer.
        own: lengths that take the place of the data set.
    """

    title = "What does a longer row cost?"
    shown_controls = ("max_length", "depth")

    def __init__(self, dataset: str = "docstrings", max_length: int = 0, own: Sequence[int] | None = None) -> None:
        if own is None:
            data = read_uncut(dataset)
            self.whole, longest = data.whole, max(data.max_length, max_length)
        else:
            self.whole = LengthHistogram.from_lengths(own)
            longest = self.whole.max_length
        shortest = int(np.flatnonzero(self.whole.counts)[0])
        self.max_lengths = sorted({max(shortest, longest * eighths // 8) for eighths in range(1, 9)})
        length_now = max_length or longest / 2
        self.first = min(self.max_lengths, key=lambda length: abs(length - length_now))
        self.costs = cache(self._costs)  # the maximum length does not change them
        padded_slots = [padded for drop in (False, True) for padded, *_ in self.costs(EXPLORED_DEPTHS[0], drop)]
        self.top = 1.05 * max(padded_slots)  # of the axis of slots, whatever is chosen
        super().__init__()

    def controls(self):
        return {
            "max_length": choice(
                "Maximum length", [(f"{length:,}", length) for length in self.max_lengths], self.first
            ),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in EXPLORED_DEPTHS], 2),
            "drop": Checkbox(False, description="Leave longer ones out"),
        }

    def _costs(self, depth: int, drop: bool) -> list[tuple[float, float, float]]:
        """Return, for each maximum length, padded and packed slots for each token, and the share of tokens lost.

        Args:
            depth: 0 for no limit.
            drop: whether longer sequences are left out; otherwise they are cut.
        """
        costs = []
        for max_length in self.max_lengths:
            shortened = self.whole.with_max_length(max_length, "drop" if drop else "truncate")
            packs = plan(shortened, method="lpfhp", max_sequences_per_pack=depth or None).num_packs
            padded_slots = shortened.max_length / shortened.mean_length
            packed_slots = packs * shortened.max_length / shortened.num_tokens
            lost = 1 - shortened.num_tokens / self.whole.num_tokens
            costs.append((padded_slots, packed_slots, lost))
        return costs

    @styled()
    def draw(self, max_length: int, depth: int, drop: bool) -> tuple[Figure, str]:
        padded, packed, lost = (np.array(column) for column in zip(*self.costs(depth, drop), strict=True))
        at = self.max_lengths.index(max_length)
        fig, (left, right) = new_figure(1, 2)
        (padded_line,) = left.plot(self.max_lengths, padded, **series("maximum"))
        (packed_line,) = left.plot(self.max_lengths, packed, **series("packed"))
        left.set(ylim=(0, self.top), xlabel="maximum length", ylabel="slots for each token")
        left.set_title(f"{packed[at]:.2f} slots packed, {padded[at]:.2f} padded")
        label_ends({padded_line: "padded", packed_line: "packed"})
        right.plot(self.max_lengths, 100 * lost, color=OKABE_ITO[1], marker="o")
        right.set(ylim=(0, 100), xlabel="maximum length", ylabel="tokens lost, %")
        right.set_title(f"{percent(lost[at])} of the tokens lost")
        for ax in (left, right):
            ax.axvline(max_length, color=INK, linestyle=":")
            ax.xaxis.set_major_formatter("{x:,.0f}")
        treatment = "left out" if drop else "cut"
        return fig, (
            f"{shown_name(self.whole)}, rows of {max_length}, {spoken(depth or None)}, longer sequences {treatment}: "
            f"{packed[at]:.2f} slots for each token packed by LPFHP, {padded[at]:.2f} padded, and {percent(lost[at])} "
            f"of the tokens are lost. In rows of {self.max_lengths[-1]} it is {packed[-1]:.2f} and {padded[-1]:.2f}."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
