"""Notebook 01: what padding costs."""

from collections.abc import Iterable

import numpy as np
from matplotlib.figure import Figure

from packlib.lengths import load, padding_waste
from packlib.workbook.chapters.shared.habits import HABIT_NAMES, draw_waste
from packlib.workbook.chapters.shared.histograms import shown_name
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import INK, new_figure, percent, series

EXPLORED = ("wordnet", "wordnet-pairs", "docstrings", "squad", "wikipedia", "log-normal", "uniform", "two-humped")


def bert_examples(documents: Iterable[int], max_length: int, shortened: float, rng: np.random.Generator) -> np.ndarray:
    """Lengths of the examples that BERT's preprocessing cuts from documents (simplified).

    An example takes `max_length` tokens, or what is left of its document. A share `shortened` of the
    examples takes a random number of tokens instead, so that the model sees short inputs too.

    Args:
        documents: tokens of each document.

    Returns:
        int64, shape (number of examples,).
    """
    lengths = []
    for left in documents:
        while left > 0:
            target = int(rng.integers(2, max_length + 1)) if rng.random() < shortened else max_length
            lengths.append(min(target, left))
            left -= target
    return np.array(lengths)


class WasteExplorer(Explorer):
    """Data set, batch size and habit against the share of padding."""

    title = "How much of the work is padding?"

    def __init__(self, dataset: str = "wikipedia") -> None:
        self.dataset = dataset
        self.histograms = {name: load(name) for name in dict.fromkeys((dataset, *EXPLORED))}
        super().__init__()

    def controls(self):
        names = [(shown_name(histogram), name) for name, histogram in self.histograms.items()]
        return {
            "dataset": choice("Lengths", names, self.dataset),
            "batch_size": choice("Batch size", [2**k for k in range(1, 11)], 32),
            "habit": choice("Habit", [(label, name) for name, label in HABIT_NAMES.items()], "random"),
        }

    def draw(self, dataset: str, batch_size: int, habit: str) -> tuple[Figure, str]:
        histogram = self.histograms[dataset]
        waste = {name: padding_waste(histogram, batch_size, name).padding_fraction for name in HABIT_NAMES}
        fig, (left, right) = new_figure(1, 2, width_ratios=(2, 3))
        heights, edges = np.histogram(
            np.arange(histogram.max_length + 1), bins=min(64, histogram.max_length), weights=histogram.counts
        )
        left.stairs(100 * heights / histogram.num_sequences, edges, fill=True, color=series("packed")["color"])
        left.set(xlabel="tokens", ylabel="% of the sequences", title=shown_name(histogram))
        draw_waste(right, waste)
        chosen = list(waste).index(habit)
        right.get_yticklabels()[chosen].set_fontweight("bold")
        right.patches[chosen].set(edgecolor=INK, linewidth=2.5)
        right.set_title(f"{percent(waste[habit])} padding")
        others = ", ".join(f"{HABIT_NAMES[name]} {percent(share)}" for name, share in waste.items() if name != habit)
        return fig, (
            f"{shown_name(histogram)}, batches of {batch_size}: {HABIT_NAMES[habit]} makes "
            f"{percent(waste[habit])} of the slots padding. The other habits: {others}. "
            f"The best packing factor is {histogram.max_packing_factor:.2f}."
        )


# Exercises


def padding_share(lengths, max_length):
    """The share of slots that are padding when each sequence is padded to `max_length`."""
    return 1 - sum(lengths) / (len(lengths) * max_length)


def slots_of_batches(lengths, batch_size):
    """The slots of all batches, cut in the given order, each padded to its longest sequence."""
    batches = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    return sum(len(batch) * max(batch) for batch in batches)


def best_factor(counts):
    """`counts[l]` sequences have length l; the last index is the maximum length."""
    tokens = sum(length * count for length, count in enumerate(counts))
    return (len(counts) - 1) * sum(counts) / tokens


EXERCISES = Exercises([
    Exercise(
        "padding_share", padding_share,
        cases=(([4], 4), ([1], 4), ([1, 3], 4), ([2, 2, 8], 8), ([5, 7, 7, 1], 16)),
        wrong={
            "share of tokens": lambda lengths, max_length: sum(lengths) / (len(lengths) * max_length),
            "pads to the longest": lambda lengths, max_length: 1 - sum(lengths) / (len(lengths) * max(lengths)),
            "forgets the number of sequences": lambda lengths, max_length: 1 - sum(lengths) / max_length,
        },
        hint="count the slots of the whole rectangle first.",
    ),
    Exercise(
        "slots_of_batches", slots_of_batches,
        cases=(([3], 1), ([1, 3], 2), ([1, 3], 1), ([4, 1, 2], 2), ([2, 5, 1, 1, 6, 3, 2], 3)),
        wrong={
            "one width for all": lambda lengths, batch_size: len(lengths) * max(lengths),
            "drops the smaller last batch": lambda lengths, batch_size: slots_of_batches(
                lengths[: len(lengths) // batch_size * batch_size], batch_size),
            "fills up the last batch": lambda lengths, batch_size: sum(
                batch_size * max(lengths[i : i + batch_size]) for i in range(0, len(lengths), batch_size)),
            "sorts first": lambda lengths, batch_size: slots_of_batches(sorted(lengths), batch_size),
        },
        hint="the last batch may hold fewer sequences; it still is a rectangle.",
    ),
    Exercise(
        "best_factor", best_factor,
        cases=(([0, 1],), ([0, 2, 0],), ([0, 1, 1],), ([0, 3, 0, 1, 2],), ([0] + [1] * 512,)),
        wrong={
            "longest that occurs": lambda counts: (
                max(n for n, c in enumerate(counts) if c) * sum(counts) / sum(n * c for n, c in enumerate(counts))),
            "one slot too many": lambda counts: len(counts) * sum(counts) / sum(n * c for n, c in enumerate(counts)),
            "mean over lengths, not sequences": lambda counts: (
                (len(counts) - 1) / np.mean([n for n, c in enumerate(counts) if c])),
        },
        hint="the maximum length, over the mean length of a sequence.",
    ),
])  # fmt: skip
check = EXERCISES
