"""What notebook 03 draws: the strategy matrix, what does not meet, and packs above the bound."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packlib.workbook.chapters.n03_nnls_packing.runs import about
from packlib.workbook.chapters.shared.above import draw_above as above_the_bound
from packlib.workbook.chapters.shared.packs import draw_packs
from packlib.workbook.figures import INK, plain_ticks, series

__all__ = ["draw_above", "draw_columns", "draw_matrix", "draw_misses", "draw_packs", "draw_rounding"]

GRAYS = ("#999999", "#666666", INK)  # of lines that are no methods
WAYS = {  # what is done with the solution of least squares, and how it looks
    "as published": {**series("nnlshp"), "markerfacecolor": "white"},
    "NNLSHP": series("nnlshp"),
    "extended NNLSHP": series("ennlshp"),
    "SPFHP": series("spfhp"),
    "LPFHP": series("lpfhp"),
    "optimal": series("optimal"),
}


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


def draw_columns(ax: Axes, columns: Mapping[int, Sequence[int]], limit: int) -> dict:
    """How many columns there are at each depth, a line for each number of slots; returns the lines with their labels.

    Args:
        limit: so many columns fill the memory at the most slots.
    """
    depths = range(1, len(next(iter(columns.values()))) + 1)
    looks = [{"color": color, "marker": marker} for color, marker in zip(GRAYS, "osD", strict=True)]
    ax.axhline(limit, color=INK, linestyle=":", linewidth=1.5)
    ax.text(1, 1.4 * limit, f"at {max(columns)} slots: 16 GiB of memory", va="bottom")
    ax.set(xlabel="depth", ylabel="columns", yscale="log")
    found = zip(columns.items(), looks, strict=True)
    return {ax.plot(depths, n, linestyle="-", **look)[0]: f"{slots} slots" for (slots, n), look in found}


def draw_misses(ax: Axes, left_over: np.ndarray, empty: np.ndarray) -> None:
    """By length: sequences without a place upward, places without a sequence downward; logarithmic from 10 on."""
    lengths = np.arange(len(left_over))
    ax.bar(lengths, left_over, width=1, color=series("packed")["color"])
    ax.bar(lengths, -empty, width=1, color="#999999")
    ax.axhline(0, color=INK, linewidth=1)
    largest = max(left_over.max(), empty.max(), 10)
    ax.set_yscale("symlog", linthresh=10, linscale=0.5)
    ticks = [tick for tick in (100, 10_000, 1_000_000) if tick <= 10 * largest]
    ticks = [*(-tick for tick in ticks[::-1]), 0, *ticks]
    ax.set_yticks(ticks, [f"{abs(tick):,}" for tick in ticks])
    ax.minorticks_off()
    ax.set(ylim=(-30 * largest, 30 * largest), xlim=(0, len(lengths)))
    ax.text(0.98, 0.97, "sequences without a place", ha="right", va="top", transform=ax.transAxes)
    ax.text(0.98, 0.03, "places without a sequence", ha="right", va="bottom", transform=ax.transAxes)


def draw_above(ax: Axes, above: Mapping[str, int]) -> None:
    """Packs above the lower bound, by way in `WAYS`."""
    above_the_bound(ax, above, [WAYS[way] for way in above], about)


def draw_rounding(ax: Axes, sizes: Sequence[int], cost: Mapping[str, np.ndarray]) -> None:
    """Packs above the best by sample size: a pale marker for each draw, and a line through the means."""
    looks = {"down": {"linestyle": "-"}, "nearest": {"linestyle": "--", "marker": "o"}}
    for rounding, draws in cost.items():
        look = {**series("nnlshp"), **looks[rounding]}
        for draw in draws.T:
            ax.plot(sizes, draw, **{**look, "linestyle": ""}, alpha=0.35, markersize=5)
        ax.plot(sizes, draws.mean(axis=1), **look)
        ax.annotate(rounding, (sizes[0], draws[0].mean()), (14, 9), textcoords="offset points")
    ax.set(xscale="log", xlabel="sequences drawn", ylabel="packs above the best, %", ylim=(-0.1, None))
    plain_ticks(ax.xaxis, sizes)
