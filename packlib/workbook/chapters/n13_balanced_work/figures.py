"""What notebook 13 draws."""

import numpy as np
from matplotlib.axes import Axes

from packlib.work import Work
from packlib.workbook.figures import INK, OKABE_ITO, PADDING

TOKENS, PAIRS = OKABE_ITO[0], OKABE_ITO[1]


def draw_ranks(ax: Axes, tokens: np.ndarray, squares: np.ndarray, work: Work) -> None:
    """A bar for each rank of one step: the work of tokens, the work of pairs, and waiting, in units of the mean."""
    parts = work.per_token * np.asarray(tokens, float), work.per_square * np.asarray(squares, float)
    mean = (parts[0] + parts[1]).mean()
    linear, pairs = (part / mean for part in parts)
    rows, slowest = np.arange(len(linear)), (linear + pairs).max()
    ax.barh(rows, linear, 0.8, color=TOKENS)
    ax.barh(rows, pairs, 0.8, left=linear, color=PAIRS, hatch="...", edgecolor="white", linewidth=0)
    rest = slowest - linear - pairs
    ax.barh(rows, rest, 0.8, left=linear + pairs, color=PADDING, hatch="///", edgecolor="white", linewidth=0)
    ax.axvline(1, color=INK, linewidth=1)
    ax.set_yticks(rows, [f"rank {rank}" for rank in rows] if len(rows) <= 16 else [""] * len(rows))
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, max(1.3, slowest)), xlabel="work; 1 is the mean of the ranks")
    ax.spines["left"].set_visible(False)


def told(tokens: np.ndarray, squares: np.ndarray, work: Work) -> str:
    """The same in words: the slowest, the fastest, and the share of the time that ranks wait."""
    each = work.total(tokens, squares)
    wait = 1 - each.mean() / each.max()
    slow, fast = int(each.argmax()), int(each.argmin())
    return (
        f"rank {slow} is the slowest with {each[slow] / each.mean():.2f} times the mean work, rank {fast} the fastest "
        f"with {each[fast] / each.mean():.2f}; the average rank waits {100 * wait:.1f} % of the time"
    )


def draw_peers(ax: Axes, rows: list[dict], names: dict[str, tuple[str, str]]) -> None:
    """How far each way is above the mean work, a point for each recorded setting, on a log scale.

    The record has three decimals, so nothing below 0.05 % can be told apart.
    """
    for y, (column, (label, marker)) in enumerate(names.items()):
        above = [max(100 * (float(row[column]) - 1), 0.05) for row in rows]
        ax.plot(above, np.full(len(above), y), marker, color=TOKENS if column == "ours" else INK, alpha=0.7)
        ax.text(0.04, y - 0.28, label, fontsize=11, va="center")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xscale("log")
    ax.set(ylim=(len(names) - 0.5, -0.6), xlim=(0.04, 200), xlabel="slowest rank above the mean, %")
    ax.set_xticks([0.05, 0.1, 1, 10, 100], ["≤ 0.05", "0.1", "1", "10", "100"])
