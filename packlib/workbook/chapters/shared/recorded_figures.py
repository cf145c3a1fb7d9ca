"""Recorded experiments as pictures: where each seed ended, and what their differences can tell."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes

from packlib.workbook.chapters.shared.recorded_runs import Interval
from packlib.workbook.figures import INK, OKABE_ITO, name_rows

COUNTED = "#777777"  # what counting tokens reaches
ZERO = "#999999"
_LOOKS = {  # a verdict has a color and a marker
    "lower": {"color": OKABE_ITO[0], "marker": "v"},
    "higher": {"color": OKABE_ITO[1], "marker": "^"},
    "cannot be told": {"color": INK, "marker": "o"},
}


def draw_ends(ax: Axes, ended: Mapping[str, np.ndarray], baselines: Mapping[str, float]) -> None:
    """A row an arm: each seed a circle, the mean a bar; the losses of counting are dashed lines with their names."""
    for row, values in enumerate(ended.values()):
        ax.plot(values, np.full(len(values), row), linestyle="", marker="o", color=OKABE_ITO[0], fillstyle="none")
        ax.plot([values.mean()] * 2, [row - 0.3, row + 0.3], color=INK, linewidth=2, linestyle="-", marker="")
    for name, loss in baselines.items():
        ax.axvline(loss, color=COUNTED, linestyle="--", linewidth=1.5)
        ax.text(loss, -0.62, name, ha="center", va="bottom")
    _name_rows(ax, ended)
    ax.set_xlabel("held-out loss at the end, each seed")


def draw_intervals(ax: Axes, found: Mapping[str, Interval]) -> None:
    """A row a difference: its mean and its interval; one seed has a hollow marker and no interval."""
    ax.axvline(0, color=ZERO, linewidth=1.5)
    for row, one in enumerate(found.values()):
        look = {**_LOOKS[one.verdict], "linestyle": "", "markersize": 9}
        if np.isfinite(one.half):
            ax.errorbar(one.mean, row, xerr=one.half, capsize=5, **look)
        else:
            ax.plot(one.mean, row, fillstyle="none", **look)
    _name_rows(ax, found)


def _name_rows(ax: Axes, names: Iterable[str]) -> None:
    names = list(names)
    name_rows(ax, names, above=0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
