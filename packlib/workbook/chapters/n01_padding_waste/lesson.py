"""Notebook 01: what padding costs."""

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.lengths import LengthHistogram, load, padding_waste
from packlib.markup import one_line
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import INK, PADDING, new_figure, percent, series
from packlib.workbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "batch_size": Whole(1, 4096)}

HABIT_NAMES = {  # the names of `padding_waste`, and how people say it
    "maximum": "pad to the maximum",
    "random": "random batches",
    "buckets": "buckets",
    "megabatches": "sorted windows",
    "sorted": "all sorted",
}
EXPLORED = (
    "wordnet",
    "wordnet-pairs",
    "docstrings",
    "squad",
    "wikipedia",
    "log-normal",
    "uniform",
    "two-humped",
)


def shown_name(histogram: LengthHistogram) -> str:
    """The name for figures, where little room is: what was not measured says so."""
    name = one_line(histogram.name, 30)
    return name if histogram.kind == "measured" else f"{name} ({histogram.kind})"


def bert_examples(
    documents: Iterable[int], max_length: int, shortened: float, rng: np.random.Generator
) -> np.ndarray:
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


def draw_batch(ax: Axes, lengths: Sequence[int], max_length: int) -> None:
    """A batch as a rectangle: a row for each sequence, tokens in blue, padding gray and hatched."""
    longest, rows = max(lengths), np.arange(len(lengths))
    empty = {"height": 0.8, "edgecolor": "white", "linewidth": 0}
    ax.barh(rows, max_length - longest, left=longest, color="#eeeeee", **empty)
    ax.barh(rows, [longest - n for n in lengths], left=lengths, color=PADDING, hatch="///", **empty)
    ax.barh(rows, lengths, color=series("packed")["color"], height=0.8)
    for row, length in zip(rows, lengths, strict=True):
        ax.text(length - 0.5, row, str(length), color="white", va="center", ha="right", fontweight="bold")
    ax.set(xlim=(0, max_length), ylim=(len(rows) - 0.4, -1.4), yticks=[], xlabel="slots")
    ax.spines["left"].set_visible(False)
    for start, end, text in (
        (0, longest, "longest in the batch"),
        (longest, max_length, "up to the maximum length"),
    ):
        ax.annotate("", (end, -0.75), (start, -0.75), arrowprops={"arrowstyle": "<->", "color": INK})
        ax.text((start + end) / 2, -0.9, text, ha="center", va="bottom", fontsize=12)


def draw_ridges(ax: Axes, histograms: Sequence[LengthHistogram], bins: int = 64) -> None:
    """Histograms one above the other, each over its own share of the maximum length."""
    for row, histogram in enumerate(histograms):
        shares = np.arange(1, histogram.max_length + 1) / histogram.max_length
        heights, edges = np.histogram(shares, bins=bins, range=(0, 1), weights=histogram.counts[1:])
        ax.stairs(
            0.85 * heights / heights.max() - row,
            edges,
            baseline=-row,
            fill=True,
            color=series("packed")["color"],
        )
        ax.text(-0.02, 0.25 - row, one_line(histogram.name, 30), ha="right")
        mark = "" if histogram.kind == "measured" else f", {histogram.kind}"
        ax.text(-0.02, -row, f"{histogram.max_length} tokens{mark}", ha="right", fontsize=10)
        ax.text(1.02, 0.2 - row, percent(histogram.padding_fraction))
        mean = histogram.mean_length / histogram.max_length
        ax.plot([mean, mean], [-row, 0.6 - row], color=INK, linestyle="-", linewidth=2)
    ax.text(1.02, 0.6, "padding", fontsize=11)
    ax.set(xlim=(0, 1), yticks=[], xlabel="length, as a share of the maximum; the bar marks the mean")
    ax.spines["left"].set_visible(False)


def draw_waste(ax: Axes, waste: dict[str, float]) -> None:
    """Padding shares by habit as bars, labeled with name and value."""
    for row, (habit, share) in enumerate(waste.items()):
        ax.barh(row, 100 * share, height=0.7, color=series(habit)["color"])
        ax.text(100 * share + 1, row, percent(share), va="center")
    ax.set_yticks(range(len(waste)), [HABIT_NAMES[habit] for habit in waste])
    ax.set(xlim=(0, 100), ylim=(len(waste) - 0.5, -0.5), xlabel="padding, % of all slots")


def draw_spread(ax: Axes, spread: dict[str, Sequence[float]]) -> None:
    """Low, middle and high slots in a batch, by habit, as bars with a circle."""
    for row, (habit, (low, middle, high)) in enumerate(spread.items()):
        ax.barh(row, max(high - low, high / 200), left=low, height=0.3, color=series(habit)["color"])
        ax.plot(middle, row, marker="o", color="white", markeredgecolor=INK)
    ax.set_yticks(range(len(spread)), [HABIT_NAMES[habit] for habit in spread])
    ax.set(ylim=(len(spread) - 0.5, -0.5), xlim=(0, None))
    ax.set_xlabel("slots in a batch: 5th percentile, median (circle), 95th")


def draw_factors(ax: Axes, factors: dict[str, float]) -> None:
    """Best packing factors as a labeled dot plot, the largest on top."""
    ranked = sorted(factors.items(), key=lambda item: item[1])
    for row, (_, factor) in enumerate(ranked):
        ax.plot([1, factor], [row, row], color="#999999", linestyle="-", linewidth=1.5)
        ax.plot(factor, row, marker="o", color=series("packed")["color"])
        ax.text(factor + 0.15, row, f"{factor:.2f}", va="center")
    ax.set_yticks(range(len(ranked)), [name for name, _ in ranked])
    ax.set(xlabel="best packing factor", xlim=(1, 1.1 * ranked[-1][1] + 0.5))


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
        left.stairs(
            100 * heights / histogram.num_sequences, edges, fill=True, color=series("packed")["color"]
        )
        left.set(xlabel="tokens", ylabel="% of the sequences", title=shown_name(histogram))
        draw_waste(right, waste)
        chosen = list(waste).index(habit)
        right.get_yticklabels()[chosen].set_fontweight("bold")
        right.patches[chosen].set(edgecolor=INK, linewidth=2.5)
        right.set_title(f"{percent(waste[habit])} padding")
        others = ", ".join(
            f"{HABIT_NAMES[name]} {percent(share)}" for name, share in waste.items() if name != habit
        )
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


EXERCISES = Exercises(
    [
        Exercise(
            "padding_share",
            padding_share,
            cases=(([4], 4), ([1], 4), ([1, 3], 4), ([2, 2, 8], 8), ([5, 7, 7, 1], 16)),
            wrong={
                "share of tokens": lambda lengths, max_length: sum(lengths) / (len(lengths) * max_length),
                "pads to the longest": lambda lengths, max_length: (
                    1 - sum(lengths) / (len(lengths) * max(lengths))
                ),
                "forgets the number of sequences": lambda lengths, max_length: 1 - sum(lengths) / max_length,
            },
            hint="count the slots of the whole rectangle first.",
        ),
        Exercise(
            "slots_of_batches",
            slots_of_batches,
            cases=(([3], 1), ([1, 3], 2), ([1, 3], 1), ([4, 1, 2], 2), ([2, 5, 1, 1, 6, 3, 2], 3)),
            wrong={
                "one width for all": lambda lengths, batch_size: len(lengths) * max(lengths),
                "drops the smaller last batch": lambda lengths, batch_size: slots_of_batches(
                    lengths[: len(lengths) // batch_size * batch_size], batch_size
                ),
                "fills up the last batch": lambda lengths, batch_size: sum(
                    batch_size * max(lengths[i : i + batch_size]) for i in range(0, len(lengths), batch_size)
                ),
                "sorts first": lambda lengths, batch_size: slots_of_batches(sorted(lengths), batch_size),
            },
            hint="the last batch may hold fewer sequences; it still is a rectangle.",
        ),
        Exercise(
            "best_factor",
            best_factor,
            cases=(([0, 1],), ([0, 2, 0],), ([0, 1, 1],), ([0, 3, 0, 1, 2],), ([0] + [1] * 512,)),
            wrong={
                "longest that occurs": lambda counts: (
                    max(n for n, c in enumerate(counts) if c)
                    * sum(counts)
                    / sum(n * c for n, c in enumerate(counts))
                ),
                "one slot too many": lambda counts: (
                    len(counts) * sum(counts) / sum(n * c for n, c in enumerate(counts))
                ),
                "mean over lengths, not sequences": lambda counts: (
                    (len(counts) - 1)
                    / (sum(n for n, c in enumerate(counts) if c) / sum(1 for c in counts if c))
                ),
            },
            hint="the maximum length, over the mean length of a sequence.",
        ),
    ]
)
check = EXERCISES.check
