"""What notebook 02 draws."""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.packing import PackingPlan
from packlib.workbook.chapters.n02_greedy_packing.runs import newest, one_by_one
from packlib.workbook.chapters.shared.packs import draw_packs
from packlib.workbook.figures import new_figure
from packlib.workbook.tables import Table


def draw_strip(lengths: Sequence[int], slots: int, rule: str) -> Figure:
    """One small picture for each sequence that is placed; takes an even number of lengths."""
    steps = [[], *one_by_one(lengths, slots, rule)]
    fig, axes = new_figure(2, len(lengths) // 2)
    for ax, (before, packs) in zip(axes.flat, itertools.pairwise(steps), strict=True):
        new = newest(packs, before)
        draw_packs(ax, packs, slots, 5, new)
        *there, length = packs[new]
        title = f"{length} joins {' + '.join(map(str, there))}" if there else f"{length}: new pack"
        ax.set_title(title, fontsize=12)
        ax.set(xticks=[], xlabel="")
        ax.spines["bottom"].set_visible(False)
    return fig


def draw_strategies(ax: Axes, best: PackingPlan, number: int = 6) -> None:
    """The most frequent kinds of packs, with how many packs are filled so."""
    chosen = np.argsort(-best.repeats, kind="stable")[:number].tolist()
    labels = [f"{best.repeats[s]:,} ×" for s in chosen]
    draw_packs(ax, [best.strategies[s] for s in chosen], best.histogram.max_length, number, labels=labels)


def log_axes(ax: Axes, ticks: Sequence[int]) -> None:
    """Both axes logarithmic with plain numbers; the y axis reaches down to 0."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.4)
    ax.set_yticks((shown := [0, 0.01, 0.1, 1, 10, 100]), shown)
    ax.set_ylim(-0.001, 1.5 * ax.dataLim.ymax + 0.01)
    ax.minorticks_off()


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Numbers written as text, as a table."""
    from IPython.display import display

    display(Table(tuple(columns), rows, right=True))
