"""Notebook 12: your own lengths, and the advice."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice
from packbook.figures import INK, label_ends, new_figure, percent, series
from packbook.questions import Questions, compare
from packbook.shared.histograms import shown_name
from packbook.shared.pack_drawings import spoken
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools.advice.data import uncut

EXPLORED_DEPTHS = (2, 4, 8, None)


class MaximumExplorer(Explorer):
    """Maximum length, depth and what is done with longer sequences, against the slots computed and the tokens lost.

    The maximum lengths go up to the data set's own, or to `max_length` if that is longer. `own` lengths take its place.
    """

    title = "What does a longer row cost?"
    shown_controls = ("max_length", "depth")

    def __init__(self, dataset: str = "docstrings", max_length: int = 0, own: Sequence[int] | None = None) -> None:
        if own is None:
            self.whole, longest, _ = uncut(dataset)
            longest = max(longest, max_length)
        else:
            self.whole = LengthHistogram.from_lengths(own)
            longest = self.whole.max_length
        shortest = int(np.flatnonzero(self.whole.counts)[0])
        self.tops = sorted({max(shortest, longest * eighths // 8) for eighths in range(1, 9)})
        self.costs = cache(self._costs)  # a move of another control repeats them
        self.most = 1.05 * max(padded for drop in (False, True) for padded, *_ in self.costs(EXPLORED_DEPTHS[0], drop))
        super().__init__()

    def controls(self):
        return {
            "max_length": choice("Maximum length", self.tops, self.tops[len(self.tops) // 2 - 1]),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in EXPLORED_DEPTHS], 2),
            "drop": Checkbox(False, description="Leave longer ones out"),
        }

    def _costs(self, depth: int, drop: bool) -> list[tuple[float, float, float]]:
        """Padded and packed slots a token, and the share of the tokens that is lost, for each maximum length."""
        found = []
        for top in self.tops:
            cut = self.whole.with_max_length(top, "drop" if drop else "truncate")
            packs = plan(cut, method="lpfhp", max_sequences_per_pack=depth or None).num_packs
            lost = 1 - cut.num_tokens / self.whole.num_tokens
            found.append((cut.max_length / cut.mean_length, packs * cut.max_length / cut.num_tokens, lost))
        return found

    def draw(self, max_length: int, depth: int, drop: bool) -> tuple[Figure, str]:
        padded, packed, lost = (np.array(column) for column in zip(*self.costs(depth, drop), strict=True))
        at = self.tops.index(max_length)
        fig, (left, right) = new_figure(1, 2)
        lines = {
            left.plot(self.tops, padded, **series("maximum"))[0]: "padded",
            left.plot(self.tops, packed, **series("packed"))[0]: "packed",
        }
        left.set(ylim=(0, self.most), xlabel="maximum length", ylabel="slots for each token")
        left.set_title(f"{packed[at]:.2f} slots packed, {padded[at]:.2f} padded")
        label_ends(lines)
        right.plot(self.tops, 100 * lost, **series("next_fit"))
        right.set(ylim=(0, 100), xlabel="maximum length", ylabel="tokens lost, %")
        right.set_title(f"{percent(lost[at])} of the tokens lost")
        for ax in (left, right):
            ax.axvline(max_length, color=INK, linestyle=":")
        how = "left out" if drop else "cut"
        return fig, (
            f"{shown_name(self.whole)}, rows of {max_length}, {spoken(depth or None)}, longer sequences {how}: "
            f"{packed[at]:.2f} slots for each token packed by LPFHP, {padded[at]:.2f} padded, and {percent(lost[at])} "
            f"of the tokens are lost. In rows of {self.tops[-1]} it is {packed[-1]:.2f} and {padded[-1]:.2f}."
        )


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "padding": lambda histogram: 100 * histogram.padding_fraction,
        "longer": lambda now, then: compare(then / now, 1, "fewer", "as many", "more", within=0.02),
        "fewer": lambda times, today, packed: round(times, 2),
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises


def expected_speedup(slots_now, slots_packed, overhead):
    """How many times as fast; `overhead` is the share of the speed that packing costs the model."""
    return slots_now / slots_packed * (1 - overhead)


def smallest_depth(packs, within):
    """The smallest depth whose packs are at most a share `within` above the fewest."""
    most = min(packs.values()) * (1 + within)
    return min(depth for depth, number in packs.items() if number <= most)


def same_update(sequences, factor, most):
    """(micro batch, accumulation) of packs, for as many sequences behind an update as before."""
    pairs = [
        (rows, steps)
        for rows in range(most, 0, -1)
        for steps in {max(1, int(sequences / (rows * factor))), int(sequences / (rows * factor)) + 1}
    ]
    return min(pairs, key=lambda pair: abs(pair[0] * pair[1] * factor - sequences))


def _packable(lengths):
    """What is wrong with ten lengths that should resist packing, or None."""
    lengths = list(lengths)
    if len(lengths) != 10 or any(int(n) != n or not 1 <= n <= 100 for n in lengths):
        return "give ten whole numbers from 1 to 100."
    if (mean := sum(lengths) / 10) > 60:
        return f"their mean is {mean:g}, and should be at most 60."
    packs = plan(LengthHistogram.from_lengths([int(n) for n in lengths], 100))
    if packs.num_packs < 10:
        shared = next(pack for pack in packs.strategies if len(pack) > 1)
        return f"{' + '.join(map(str, shared))} tokens fit into one pack of 100."
    return None


check = Exercises.beside(
    __file__,
    expected_speedup,
    Exercise(
        "smallest_depth",
        smallest_depth,
        cases=(
            ({1: 5}, 0.0),
            ({1: 9, 2: 5}, 0.0),
            ({1: 100, 2: 51, 3: 50}, 0.05),
            ({9: 90, 8: 80, 4: 85, 2: 92}, 0.1),
        ),
    ),
    Exercise("stubborn", [51] * 10, fault=_packable),
    same_update,
)
