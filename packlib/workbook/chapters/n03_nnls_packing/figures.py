"""What notebook 03 draws: the strategy matrix, and what does not meet."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from packlib.workbook.figures import INK, series


def draw_matrix(ax: Axes, matrix: np.ndarray) -> None:
    """The strategy matrix as a table of squares: its numbers, and the darker the more."""
    ax.imshow(matrix, cmap="Blues", vmax=2 * matrix.max(), aspect="auto")
    for row, column in np.ndindex(matrix.shape):
        entry = int(matrix[row, column])
        ax.text(column, row, str(entry or "·"), ha="center", va="center", color=INK)
    rows, columns = matrix.shape
    ax.set_xticks(range(columns), [str(n) for n in range(1, columns + 1)])
    ax.set_yticks(range(rows), [str(n) for n in range(1, rows + 1)])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="strategy", ylabel="length")


def draw_misses(ax: Axes, left_over: np.ndarray, empty: np.ndarray) -> None:
    """By length: sequences without a slot upward, slots without a sequence downward."""
    lengths = np.arange(len(left_over))
    ax.bar(lengths, left_over, width=1, color=series("spfhp")["color"])
    ax.bar(lengths, -empty, width=1, color="#666666")
    ax.axhline(0, color=INK, linewidth=1)
    largest = max(left_over.max(), empty.max(), 1)
    ax.set(ylim=(-1.25 * largest, 1.25 * largest), xlim=(0, len(lengths)))
    ax.text(0.98, 0.97, "sequences without a slot", ha="right", va="top", transform=ax.transAxes)
    ax.text(0.98, 0.03, "slots without a sequence", ha="right", va="bottom", transform=ax.transAxes)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")


def draw_bars(ax: Axes, percents: dict[str, float], styles: Sequence[str]) -> None:
    """Percentages as labeled bars, in the colors of the methods `styles`."""
    for row, (value, style) in enumerate(zip(percents.values(), styles, strict=True)):
        ax.barh(row, value, height=0.6, color=series(style)["color"])
        ax.annotate(f"{value:.2f} %", (value, row), (6, 0), textcoords="offset points", va="center")
    ax.set_xlim(0, 1.25 * max(*percents.values(), 0.01))
    ax.set_yticks(range(len(percents)), list(percents))
    ax.set_ylim(len(percents) - 0.4, -0.6)
