"""The explorer and the questions of notebook 01."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice
from packbook.figures import INK, new_figure, percent, styled
from packbook.n01_padding_waste.figures import draw_batches
from packbook.questions import Questions
from packbook.shared.habits import HABIT_NAMES, draw_waste, make_batches
from packbook.shared.histograms import choice_of_lengths, sample_lengths, sets_to_explore, shown_name
from packlib.lengths import padding_waste
from packlib.lengths.waste import BatchingHabit

EXPLORED = ("wordnet", "wordnet-pairs", "docstrings", "squad", "wikipedia", "log-normal", "uniform", "two-humped")
MOST = 20_000  # sequences to make the explorer's batches of
ROWS = 128  # of these batches that are drawn, about


class WasteExplorer(Explorer):
    """Show the batches of a data set under a habit, and the share of padding under each habit.

    Args:
        dataset: chosen at first.
        own: lengths of a data set of the reader's own.
        slots: its maximum length.
    """

    title = "How much of the work is padding?"
    shown_controls = ("habit", "batch_size")

    def __init__(
        self, dataset: str = "wikipedia", own: Sequence[int] = (12, 15, 9, 120, 14, 11, 13, 10), slots: int = 128
    ) -> None:
        self.dataset = dataset
        self.histograms = sets_to_explore(dataset, EXPLORED, own, slots)
        super().__init__()

    def controls(self):
        return {
            "dataset": choice_of_lengths(self.histograms, self.dataset),
            "batch_size": choice("Batch size", [2**k for k in range(1, 11)], 32),
            "habit": choice("Habit", [(label, name) for name, label in HABIT_NAMES.items()], "random"),
        }

    @styled()
    def draw(self, dataset: str, batch_size: int, habit: BatchingHabit) -> tuple[Figure, str]:
        histogram = self.histograms[dataset]
        is_small = histogram.num_sequences <= MOST
        lengths = histogram.expand() if is_small else sample_lengths(histogram, MOST, 0)
        waste = {name: padding_waste(histogram, batch_size, name).padding_fraction for name in HABIT_NAMES}
        batches = list(make_batches(lengths, batch_size, habit))
        num_drawn = max(2, ROWS // batch_size)
        drawn = np.unique(np.linspace(0, len(batches) - 1, num_drawn).round().astype(int))  # from first to last
        drawn_batches = [lengths[batches[i]] for i in drawn]
        widths = [histogram.max_length if habit == "maximum" else int(batch.max()) for batch in drawn_batches]

        fig, (left, right) = new_figure(1, 2, width_ratios=(2, 3))
        draw_batches(left, drawn_batches, widths, histogram.max_length)
        left.set_title(f"{len(drawn_batches)} of {len(batches):,} batches" if len(batches) > 1 else "one batch")
        draw_waste(right, waste)
        row = list(waste).index(habit)
        right.get_yticklabels()[row].set_fontweight("bold")
        right.patches[row].set(edgecolor=INK, linewidth=2.5)
        right.set_title(f"{shown_name(histogram)}\n{percent(waste[habit])} padding")
        others = ", ".join(f"{HABIT_NAMES[name]} {percent(share)}" for name, share in waste.items() if name != habit)
        wide = f"{min(widths)} to {max(widths)}" if min(widths) < max(widths) else f"all {widths[0]}"
        return fig, (
            f"{shown_name(histogram)}, batches of {batch_size}, {HABIT_NAMES[habit]}: {percent(waste[habit])} of the "
            f"slots are padding. The batches shown are {wide} slots wide. The other habits: {others}. "
            f"The best packing factor is {histogram.max_packing_factor:.2f}."
        )


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
