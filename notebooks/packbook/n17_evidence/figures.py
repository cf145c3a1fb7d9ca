"""What notebook 17 draws beside ends and intervals."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, name_rows, plain_ticks, series

_MARKERS = "os^Dv"
_LINES = ("-", "--", "-.", ":")
_SWEPT = (  # padded and divided look as in notebook 07, and the two that keep the batch are gray
    series("unpacked"),
    series("packed"),
    {"color": "#777777", "marker": "^", "linestyle": "-."},
    {"color": "#777777", "marker": "s", "linestyle": "--"},
)


def draw_pairs(ax: Axes, ended: Mapping[str, np.ndarray]) -> None:
    """An arm a column, and a line for each seed from arm to arm."""
    values = np.array(list(ended.values()))
    for seed, line in enumerate(values.T):
        look = {"marker": _MARKERS[seed % 5], "linestyle": _LINES[seed % 4], "color": OKABE_ITO[seed % 5]}
        ax.plot(range(len(values)), line, **look, label=f"seed {seed}")
    ax.set_xticks(range(len(values)), list(ended))
    ax.set_xlim(-0.3, len(values) - 0.7)
    ax.set_ylabel("held-out loss at the end")
    ax.legend()


def draw_sweep(ax: Axes, swept: Mapping[str, Mapping[float, np.ndarray]]) -> None:
    """A line an arm, over the rate: the mean of its seeds, and each of them as a small mark."""
    for (arm, by_rate), look in zip(swept.items(), _SWEPT, strict=True):
        rates, ends = list(by_rate), np.array(list(by_rate.values()))
        ax.plot(rates, ends.mean(1), label=arm, **look)
        ax.plot(rates, ends, **{**look, "linestyle": "", "markersize": 4}, alpha=0.6)
    ax.set(xscale="log", xlabel="highest rate", ylabel="held-out loss at the end")
    plain_ticks(ax.xaxis, rates)


def draw_distances(ax: Axes, distances: Mapping[str, tuple[float, float]]) -> None:
    """A row an experiment: from its lowest to its highest run, by the loss at the end less that of the bigram."""
    for row, (low, high) in enumerate(distances.values()):
        ax.plot([low, high], [row, row], color=OKABE_ITO[0], linewidth=3, marker="o", linestyle="-")
    ax.axvline(0, color=INK, linewidth=1.5)
    name_rows(ax, list(distances), above=0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("held-out loss less the bigram's, lowest and highest run")


def draw_experiments(ax: Axes, means: np.ndarray, halves: np.ndarray) -> None:
    """Intervals of many experiments, from low to high; those that exclude 0 are filled."""
    order = np.argsort(means)
    ax.axhline(0, color=INK, linewidth=1.5)
    for x, at in enumerate(order):
        seen = abs(means[at]) > halves[at]
        look = {"color": OKABE_ITO[1] if seen else "#777777", "fillstyle": "full" if seen else "none"}
        ax.errorbar(x, means[at], yerr=halves[at], marker="o", linestyle="", markersize=6, **look)
    ax.set(xticks=[], xlabel="simulated experiments, by their mean", ylabel="difference, in deviations")
