"""What notebook 09 draws: cells, cuts and the steps of the ranks."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from packlib.distributed import load_imbalance
from packlib.workbook.chapters.n09_distributed_sorting.runs import step_loads
from packlib.workbook.figures import INK, OKABE_ITO, label_ends, new_figure, percent, plain_ticks

PLAIN = {"color": OKABE_ITO[1], "marker": "s", "linestyle": "--"}  # cuts at splitters from samples
COUNTED = {"color": OKABE_ITO[0], "marker": "o", "linestyle": "-"}  # cuts that are counted
HISTOGRAMS = {"color": OKABE_ITO[3], "marker": "D", "linestyle": "-."}
IDS = {"color": OKABE_ITO[2], "marker": "P", "linestyle": "-"}

THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


def draw_cells(
    ax: Axes, rows: Sequence[np.ndarray], title: str, shades: Sequence | None = None, texts: Sequence | None = None
) -> None:
    """A line of cells for each rank: a cell is a sample and says its length, and so does its shade."""
    shades, texts = (rows if other is None else other for other in (shades, texts))
    grid = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, values in zip(grid, shades, strict=True):
        line[: len(values)] = values
    colors = ax.imshow(grid, aspect="auto").to_rgba(grid)[..., :3]
    luminance = colors**2.2 @ (0.2126, 0.7152, 0.0722)
    for row, column in np.argwhere(~np.isnan(grid)):
        color = "white" if luminance[row, column] < 0.18 else "black"  # a contrast of 4.5 on either side
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
    title = f"Sort all, then deal out: imbalance {uneven['dealt']:.2f} instead of {uneven['local']:.2f}"
    fig.suptitle(title, fontsize=15)
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
    cuts = f"{inside.sum()} of {ranks - 1} cuts {'falls' if inside.sum() == 1 else 'fall'}"
    ax.set_title(f"{cuts if inside.any() else 'No cut falls'} into the jump of {percent(jump)}")
    return fig, (
        f"Share of the rows up to each length, and {ranks - 1} cuts at equal distances in height. Lengths at the cuts: "
        f"{', '.join(map(str, found))}. The highest jump, at length {spike}, is {percent(jump)} of the rows; "
        f"cuts that fall into it: {inside.sum()}."
    )


def draw_steps(loads: dict[str, np.ndarray], title: str) -> tuple[Figure, str]:
    """Tokens at each step: from the rank with the least to the rank with the most, one panel for each of `loads`."""
    fig, axes = new_figure(1, len(loads), sharey=True)
    words = []
    for ax, (name, tokens) in zip(axes, loads.items(), strict=True):
        steps = np.arange(1, len(tokens) + 1)
        ax.fill_between(steps, tokens.min(axis=1), tokens.max(axis=1), color=OKABE_ITO[4], alpha=0.6)
        ax.plot(steps, tokens.max(axis=1), color=OKABE_ITO[3], linestyle="--", label="rank with the most")
        ax.plot(steps, tokens.mean(axis=1), color=INK, linestyle="-", label="mean of the ranks")
        words.append(f"{name} {load_imbalance(tokens):.4f}")
        ax.set(xlabel="step", title=f"{name.capitalize()}: imbalance {load_imbalance(tokens):.2f}")
        ax.yaxis.set_major_formatter(THOUSANDS)
        ax.title.set_fontsize(13)
    axes[0].set_ylabel("tokens of a rank in a step")
    axes[-1].legend(loc="lower right")
    fig.suptitle(title, fontsize=15)
    return fig, f"Tokens of the ranks at each of {len(tokens)} steps. Imbalance: {', '.join(words)}."


def draw_piling(ranks: Sequence[int], uneven: Sequence[float], jump: float) -> tuple[Figure, str]:
    """The imbalance of plain sample sort by the number of ranks; `jump` is the share of the most frequent length."""
    fig, ax = new_figure()
    (plain,) = ax.loglog(ranks, uneven, **PLAIN)
    (counted,) = ax.loglog(ranks, np.ones(len(ranks)), **COUNTED)
    ax.plot(ranks, [max(1, jump * p) for p in ranks], color="#999999", linestyle=":", zorder=0)
    plain_ticks(ax.xaxis, ranks)
    plain_ticks(ax.yaxis, [1, 10, 100])
    ax.set(xlabel="ranks", ylabel="imbalance")
    ax.set_title(f"Imbalance {uneven[2]:.2g} on {ranks[2]} ranks, {uneven[-1]:,.3g} on {ranks[-1]:,}")
    label_ends({plain: "splitters\nfrom samples", counted: "counted cuts"})
    listed = ", ".join(f"{value:.4g} on {p:,}" for p, value in zip(ranks, uneven, strict=True))
    return fig, (
        f"Imbalance of plain sample sort in one process, by the number of ranks: {listed}. With counted cuts it is 1. "
        f"The dotted line is {jump:.3f} times the number of ranks."
    )


def draw_loads(plain: Sequence[int], counted: Sequence[int]) -> tuple[Figure, str]:
    """Rows of the ranks after a sort, both ways."""
    fig, ax = new_figure()
    places = np.arange(len(plain))
    ax.bar(places - 0.2, plain, 0.4, color=PLAIN["color"], hatch="//", label="splitters from samples")
    ax.bar(places + 0.2, counted, 0.4, color=COUNTED["color"], label="counted cuts")
    ax.set(xlabel="rank", ylabel="rows", ylim=(0, 1.2 * max(plain)), xticks=places)
    ax.yaxis.set_major_formatter(THOUSANDS)
    each = f"{min(counted):,} to {max(counted):,}" if len(set(counted)) > 1 else f"{counted[0]:,}"
    ax.set_title(f"Counted cuts give each rank {each} rows")
    ax.legend(loc="upper left")
    return fig, (
        f"Rows of the ranks after a sort. Splitters from samples: {', '.join(f'{n:,}' for n in plain)}. "
        f"Counted cuts: {min(counted):,} to {max(counted):,} on each rank."
    )


def draw_scale(ranks: np.ndarray, parts: dict[str, Sequence[float]], sequences: int) -> tuple[Figure, str]:
    """GB that a rank sends to pack, by the number of ranks: "histograms" and "sample ids"."""
    fig, ax = new_figure()
    styles = {"histograms": HISTOGRAMS, "sample ids": IDS}
    lines = {ax.loglog(ranks, parts[kind], **styles[kind], markevery=10)[0]: kind for kind in styles}
    above = np.flatnonzero(np.greater(parts["histograms"], parts["sample ids"]))
    ax.set(xlabel="ranks", ylabel="GB that a rank sends")
    plain_ticks(ax.xaxis, [10**k for k in range(3, 7)])
    plain_ticks(ax.yaxis, [0.01, 0.1, 1])
    label_ends(lines)
    crossing = f"some {round(ranks[above[0]], -4):,.0f} ranks" if above.size else ""
    title = f"From {crossing} on, histograms weigh more than ids"
    ax.set_title(title if crossing else "Ids weigh more than histograms")
    listed = "; ".join(
        f"{kind} {values[0]:.4f} on {ranks[0]:,.0f}, {values[-1]:.4f} on {ranks[-1]:,.0f}"
        for kind, values in parts.items()
    )
    return fig, (
        f"GB that a rank sends for {sequences:,} sequences: {listed}. "
        f"They cross at {crossing or 'no number of ranks'}."
    )
