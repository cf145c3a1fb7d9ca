"""What notebook 01 draws: batches, histograms and padding."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from packlib.lengths import LengthHistogram
from packlib.markup import one_line
from packlib.workbook.chapters.shared.habits import HABIT_NAMES
from packlib.workbook.figures import INK, PADDING, percent, series


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
    for start, end, text in ((0, longest, "longest in the batch"), (longest, max_length, "up to the maximum length")):
        ax.annotate("", (end, -0.75), (start, -0.75), arrowprops={"arrowstyle": "<->", "color": INK})
        ax.text((start + end) / 2, -0.9, text, ha="center", va="bottom", fontsize=12)


def draw_ridges(ax: Axes, histograms: Sequence[LengthHistogram], bins: int = 64) -> None:
    """Histograms one above the other, each over its own share of the maximum length."""
    for row, histogram in enumerate(histograms):
        shares = np.arange(1, histogram.max_length + 1) / histogram.max_length
        heights, edges = np.histogram(shares, bins=bins, range=(0, 1), weights=histogram.counts[1:])
        ax.stairs(
            0.85 * heights / heights.max() - row, edges, baseline=-row, fill=True, color=series("packed")["color"]
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
