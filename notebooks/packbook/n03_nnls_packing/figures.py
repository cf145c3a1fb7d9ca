"""What notebook 03 draws: the strategy matrix, and what does not meet."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, new_figure, percent, series, show
from packbook.n03_nnls_packing.runs import about
from packbook.results import show_recorded
from packbook.shared.histograms import shown_name
from packbook.shared.pack_drawings import draw_packs
from packbook.tables import Table
from packlib.lengths import LengthHistogram


def draw_misses(ax: Axes, left_over: np.ndarray, empty: np.ndarray) -> None:
    """By length: sequences without a place upward, places without a sequence downward; logarithmic from 10 on."""
    looks = {"color": series("packed")["color"], "marker": "^"}, {"color": "#777777", "marker": "v"}
    for heights, look in zip((left_over, -empty), looks, strict=True):
        (lengths,) = np.nonzero(heights)
        ax.plot(lengths, heights[lengths], linestyle="", markersize=4, **look)
    ax.axhline(0, color=INK, linewidth=1)
    largest = max(left_over.max(), empty.max(), 10)
    ax.set_yscale("symlog", linthresh=10, linscale=0.5)
    ticks = [tick for tick in (100, 10_000, 1_000_000) if tick <= 10 * largest]
    ticks = [*(-tick for tick in ticks[::-1]), 0, *ticks]
    ax.set_yticks(ticks, [f"{abs(tick):,}" for tick in ticks])
    ax.minorticks_off()
    ax.set(ylim=(-30 * largest, 30 * largest), xlim=(0, len(left_over)))
    ax.text(0.02, 0.97, "sequences without a place", va="top", transform=ax.transAxes)
    ax.text(0.98, 0.03, "places without a sequence", ha="right", va="bottom", transform=ax.transAxes)


def show_matrix(strategies: Sequence[Sequence[int]], matrix: np.ndarray) -> None:
    """Full packs, and beside them the matrix that counts their lengths."""
    fig, (left, right) = new_figure(1, 2)
    draw_packs(left, strategies, len(matrix), labels=[str(n) for n in range(1, len(strategies) + 1)])
    left.set(title=f"{len(strategies)} packs are full …", ylabel="strategy")
    right.imshow(matrix, cmap="Blues", vmax=2 * matrix.max(), aspect="auto")
    for row, column in np.ndindex(matrix.shape):
        right.text(column, row, str(int(matrix[row, column]) or "·"), ha="center", va="center", color=INK)
    right.set_xticks(range(len(strategies)), [str(n + 1) for n in range(len(strategies))])
    right.set_yticks(range(len(matrix)), [str(n + 1) for n in range(len(matrix))])
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    right.set(title=f"… and make {len(strategies)} columns", xlabel="strategy", ylabel="length")
    listed = ", ".join("+".join(map(str, s)) for s in strategies)
    alt = (
        f"The {len(strategies)} full packs of {len(matrix)} slots and at most three sequences: {listed}; beside them "
    )
    alt += f"the strategy matrix of {len(matrix)} rows and {len(matrix[0])} columns that counts the lengths in them."
    show(fig, alt=alt, name="strategy-matrix")


def show_misses(results: Mapping[str, tuple], histogram: LengthHistogram, limit: int) -> None:
    """Sequences and places that do not meet, for each choice of weights."""
    fig, axes = new_figure(2, 1, sharex=True, sharey=True)
    for ax, (title, (left_over, empty, _)) in zip(axes, results.items(), strict=True):
        draw_misses(ax, left_over, empty)
        ax.set_title(f"{title}: {about(left_over.sum())} left over")
    axes[1].set_xlabel(f"length, in blocks; {shown_name(histogram)}")
    listed = "; ".join(
        f"{title}: {about(left.sum())} sequences and {about(empty.sum())} places do not meet"
        for title, (left, empty, _) in results.items()
    )
    show(fig, alt=f"{shown_name(histogram)}, depth limit {limit}. {listed}.", name="weights")


def show_mirror_images(wikipedia: LengthHistogram, places: np.ndarray) -> None:
    """Sequences of each length, their mirror images, and the places between them."""
    wanted, mirror = wikipedia.counts[:-1], np.append(0, wikipedia.counts[1:-1][::-1])
    provided = np.append(0, places[:-1])
    curves = {
        "sequences": (wanted, series("packed")),
        "places": (provided, series("nnlshp")),
        "mirror images": (mirror, {"color": "#999999", "marker": "<", "linestyle": "--"}),
    }
    fig, ax = new_figure()
    for (name, (y, style)), beside, side in zip(
        curves.items(), ((12, 0), (0, -54), (-12, 0)), ("left", "left", "right"), strict=True
    ):
        ax.plot(y, markevery=0.15, **style)
        top = int(np.argmax(y))
        ax.annotate(name, (top, y[top]), beside, textcoords="offset points", ha=side)
    ax.set(
        title="Least squares meets the mirror image halfway",
        xlabel="length; wikipedia",
        yticks=range(0, 80_001, 20_000),
        yticklabels=["0", "20,000", "40,000", "60,000", "80,000"],
    )
    off = np.abs(provided - (wanted + mirror) / 2)[9:-8].max() / wanted.max()
    alt = "Wikipedia: sequences of each length, their mirror images, and the places from least squares: "
    alt += f"beyond the cutoff at most {percent(off, 0)} off the mean of both."
    show(fig, alt=alt, name="mirror-images")


def show_wikipedia() -> Table:
    """What was published and recorded on all of Wikipedia at depth 3."""
    lines = [["NNLSHP, published", "8,155,059", "99.746", "22 to 28"]]
    lines += [["extended NNLSHP, published", "8,155,058", "99.746", "189 to 284"]]
    lines += [
        [str(row["way"]), f"{row['packs']:,}", f"{row['efficiency, %']:.3f}", str(row["CPU seconds"])]
        for row in show_recorded("packing_nnls")
    ]
    return Table(("way", "packs", "efficiency, %", "seconds"), lines, right=True)
