"""What notebook 09 draws: cells, cuts and the steps of the ranks."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.distributed import load_imbalance
from packlib.workbook.chapters.n09_distributed_sorting.runs import step_loads
from packlib.workbook.figures import INK, OKABE_ITO, new_figure, percent, series

PLAIN, COUNTED = series("random"), series("packed")  # lend their styles


def draw_cells(
    ax: Axes, rows: Sequence[np.ndarray], title: str, shades: Sequence | None = None, texts: Sequence | None = None
) -> None:  # fmt: skip
    """A line of cells for each rank: a cell is a sample and says its length, and so does its shade."""
    shades, texts = (rows if other is None else other for other in (shades, texts))
    grid = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, values in zip(grid, shades, strict=True):
        line[: len(values)] = values
    ax.imshow(grid, aspect="auto")
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for (row, column), shade in np.ndenumerate(grid):
        if not np.isnan(shade):
            color = "white" if shade <= middle else INK
            ax.text(column, row, texts[row][column], ha="center", va="center", color=color, fontsize=10)
    ax.set_xticks([])
    ax.set_xticks(np.arange(grid.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.set_yticks(range(len(rows)), [f"rank {rank}" for rank in range(len(rows))], fontsize=10)
    ax.grid(which="minor", color="white", linestyle="-", linewidth=3)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=12)


def draw_six(lengths: np.ndarray, stages: Sequence[dict[str, np.ndarray]]) -> tuple[Figure, str]:
    """The way from a data set to a balanced curriculum, and the imbalance of its steps."""
    pictures = {name: [stage[name] for stage in stages] for name in stages[0]}
    uneven = {name: load_imbalance(step_loads(rows, 1)) for name, rows in pictures.items()}
    fig, axes = new_figure(2, 3)
    axes = axes.ravel()
    draw_cells(axes[0], list(lengths.reshape(2, -1)), "1 Data set")
    axes[0].set_yticks([])
    draw_cells(axes[1], pictures["loaded"], "2 Loaded in turn")
    draw_cells(axes[2], pictures["local"], "3 Local curriculum")
    draw_cells(axes[3], pictures["global"], "4 Global sort")
    places = np.arange(len(lengths)).reshape(len(stages), -1) % len(stages)
    texts = [[f"→ {rank}" for rank in line] for line in places]
    draw_cells(axes[4], pictures["global"], "5 Dealt out in turn", texts=texts)
    draw_cells(axes[5], pictures["dealt"], "6 Balanced")
    for at, name in ((1, "loaded"), (2, "local"), (3, "global"), (5, "dealt")):
        axes[at].set_xlabel(f"imbalance {uneven[name]:.2f}", fontsize=11)
    fig.suptitle("Sort all, then deal out: each step is as fair as can be", x=0.02, ha="left", fontsize=15)
    return fig, (
        f"{len(lengths)} samples on {len(stages)} ranks, a step a column. Imbalance of the steps: loaded in turn "
        f"{uneven['loaded']:.2f}, local curriculum {uneven['local']:.2f}, global sort {uneven['global']:.2f}, "
        f"dealt out in turn {uneven['dealt']:.2f}. After that rank 0 has {', '.join(map(str, pictures['dealt'][0]))}."
    )


def draw_cuts(lengths: np.ndarray, ranks: int) -> tuple[Figure, str]:
    """Rows up to each length, and where the counted cuts meet the curve."""
    counts = np.bincount(lengths)
    shares = np.cumsum(counts) / len(lengths)
    bounds = len(lengths) * np.arange(1, ranks) // ranks
    found = np.sort(lengths)[bounds]
    spike = int(counts.argmax())
    inside = (found == spike) & (bounds > (lengths < spike).sum())
    fig, ax = new_figure()
    ax.plot(np.arange(len(shares)), 100 * shares, color=INK, linestyle="-", drawstyle="steps-post")
    heights = 100 * bounds / len(lengths)
    ax.hlines(heights, 0, found, color="#999999", linestyle=":", linewidth=1.5)
    ax.plot(found, heights, **{**COUNTED, "linestyle": ""}, clip_on=False)
    labels = [f"cut {b}: length {length}" for b, length in enumerate(found, 1)]
    for label, length, height in zip(labels, found, heights, strict=True):
        offset, side = ((-8, 5), "right") if length > len(counts) / 2 else ((8, -12), "left")
        ax.annotate(label, (length, height), offset, textcoords="offset points", ha=side, fontsize=10)
    jump = counts[spike] / len(lengths)
    ax.set(xlabel="length, tokens", ylabel="rows up to this length, %", ylim=(0, 102), xlim=(0, len(counts)))
    title = f"{inside.sum()} of {ranks - 1} cuts in the jump of {percent(jump)}: it must be parted there"
    ax.set_title(title if inside.any() else f"No cut falls into the jump of {percent(jump)}")
    return fig, (
        f"Share of the rows up to each length, and {ranks - 1} cuts at equal distances in height. Lengths at the cuts: "
        f"{', '.join(map(str, found))}. The highest jump, at length {spike}, is {percent(jump)} of the rows; "
        f"{inside.sum()} of the cuts fall into it."
    )


def draw_steps(loads: dict[str, np.ndarray], title: str) -> tuple[Figure, str]:
    """Tokens at each step: from the rank with the least to the rank with the most, one panel for each of `loads`."""
    fig, axes = new_figure(1, len(loads), sharey=True)
    words = []
    for ax, (name, tokens) in zip(axes, loads.items(), strict=True):
        steps = np.arange(1, len(tokens) + 1)
        ax.fill_between(steps, tokens.min(axis=1), tokens.max(axis=1), color=OKABE_ITO[4], alpha=0.6)
        ax.plot(steps, tokens.max(axis=1), **{**PLAIN, "marker": ""}, label="slowest rank")
        ax.plot(steps, tokens.mean(axis=1), color=INK, linestyle="-", label="mean of the ranks")
        words.append(f"{name} {load_imbalance(tokens):.4f}")
        ax.set(xlabel="step", title=f"{name.capitalize()}: {load_imbalance(tokens):.2f}")
        ax.title.set_fontsize(13)
    axes[0].set_ylabel("tokens of a rank")
    axes[-1].legend(loc="lower right")
    fig.suptitle(title, x=0.02, ha="left", fontsize=15)
    return fig, f"Tokens of the ranks at each of {len(tokens)} steps. Imbalance: {', '.join(words)}."
