"""Recorded experiments as a picture: intervals of differences, with their verdicts."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, name_rows
from packbook.shared.recorded_runs import Interval

_LOOKS = {  # color and marker of each verdict
    "lower": {"color": OKABE_ITO[0], "marker": "v"},
    "higher": {"color": OKABE_ITO[1], "marker": "^"},
    "inconclusive": {"color": INK, "marker": "o"},
}


def draw_intervals(ax: Axes, intervals: Mapping[str, Interval]) -> None:
    """Draw a row for each difference, with its mean and its interval; of one seed, a hollow marker alone."""
    ax.axvline(0, color="#999999", linewidth=1.5)
    for row, interval in enumerate(intervals.values()):
        look = {**_LOOKS[interval.verdict], "linestyle": "", "markersize": 9}
        if np.isfinite(interval.half):
            ax.errorbar(interval.mean, row, xerr=interval.half, capsize=5, **look)
        else:
            ax.plot(interval.mean, row, fillstyle="none", **look)
    name_rows(ax, list(intervals), above=0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
