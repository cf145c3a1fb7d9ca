"""What notebook 03 draws: the strategy matrix, and what does not meet."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, name_rows, new_figure, percent, plain_ticks, series, show, styled
from packbook.n03_nnls_packing.runs import about
from packbook.results import show_recorded
from packbook.shared.histograms import shown_name
from packbook.shared.pack_drawings import draw_packs
from packbook.tables import Table
from packlib.lengths import LengthHistogram

Mark = Callable[..., None]  # draws a guess


def draw_misses(ax: Axes, left_over: np.ndarray, empty: np.ndarray) -> None:
    """Draw by length: sequences without a place upward, places without a sequence downward; logarithmic from 10 on."""
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


@styled()
def show_matrix(strategies: Sequence[Sequence[int]], matrix: np.ndarray) -> None:
    """Draw full packs, and beside them the matrix that counts their lengths."""
    fig, (left, right) = new_figure(1, 2)
    draw_packs(left, strategies, len(matrix), labels=[str(n) for n in range(1, len(strategies) + 1)])
    left.set(title=f"The {len(strategies)} full packs", ylabel="strategy")
    right.imshow(matrix, cmap="Blues", vmax=2 * matrix.max(), aspect="auto")
    for row, column in np.ndindex(matrix.shape):
        right.text(column, row, str(int(matrix[row, column]) or "·"), ha="center", va="center", color=INK)
    right.set_xticks(range(len(strategies)), [str(n + 1) for n in range(len(strategies))])
    right.set_yticks(range(len(matrix)), [str(n + 1) for n in range(len(matrix))])
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    right.set(title=f"The same packs as {len(strategies)} columns", xlabel="strategy", ylabel="length")
    listed = ", ".join("+".join(map(str, s)) for s in strategies)
    alt = (
        f"The {len(strategies)} full packs of {len(matrix)} slots and at most three sequences: {listed}; beside them "
    )
    alt += f"the strategy matrix of {len(matrix)} rows and {len(matrix[0])} columns that counts the lengths in them."
    show(fig, alt=alt, name="strategy-matrix")


@styled()
def show_misses(results: Mapping[str, tuple], histogram: LengthHistogram, limit: int) -> None:
    """Show sequences without a place and empty places as two bars for each choice of weights."""
    fig, ax = new_figure()
    parts = ("sequences without a place", series("packed")["color"]), ("places without a sequence", "#777777")
    misses = {title: (int(left_over.sum()), int(empty.sum())) for title, (left_over, empty, _) in results.items()}
    largest = max(1, *(number for pair in misses.values() for number in pair))
    for row, pair in enumerate(misses.values()):
        for side, ((_, color), number) in enumerate(zip(parts, pair, strict=True)):
            at = row + 0.4 * side - 0.2
            ax.barh(at, number, height=0.36, color=color)
            ax.text(number + largest / 100, at, about(number), va="center", color=INK)
    for side, (name, _) in enumerate(parts):
        at = 0.4 * side - 0.2
        ax.annotate(name, (next(iter(misses.values()))[side], at), (64, 0), textcoords="offset points", va="center")
    name_rows(ax, list(misses), above=0.6, below=0.6)
    ax.set_xlim(0, 1.6 * largest)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel(f"sequences, or places; {shown_name(histogram)}, depth limit {limit}")
    (first, (one, _)), (second, (other, _)) = misses.items()
    ax.set_title(f"Sequences without a place: {about(one)} with {first}, {about(other)} with {second}")
    listed = "; ".join(
        f"{title}: {about(left)} sequences without a place, {about(empty)} places without a sequence"
        for title, (left, empty) in misses.items()
    )
    show(fig, alt=f"{shown_name(histogram)}, depth limit {limit}. {listed}.", name="weights")


@styled()
def show_mirror_images(pair: tuple[int, int, int], wikipedia: LengthHistogram, places: np.ndarray, mark: Mark) -> None:
    """Draw left one pair of mirror images, with the guess that `mark` draws; right all lengths of Wikipedia.

    Args:
        pair: sequences of a length, of its mirror image, and the packs from least squares.
        places: from least squares, for each length from 1 up.
    """
    wanted, mirror = wikipedia.counts[:-1], np.append(0, wikipedia.counts[1:-1][::-1])
    provided = np.append(0, places[:-1])
    looks = {
        "sequences": series("packed"),
        "places": series("nnlshp"),
        "mirror images": {"color": "#999999", "marker": "<", "linestyle": "--"},
    }
    fig, (left, right) = new_figure(1, 2, width_ratios=(3, 5))
    for at, (name, number) in enumerate(zip(("sequences", "mirror images", "places"), pair, strict=True)):
        left.bar(at, number, color=looks[name]["color"], width=0.7)
        left.text(at, number, f"{number:,}", ha="center", va="bottom")
    left.set_xticks(range(3), ["sequences", "mirror\nimages", "packs"])
    left.set(title="One pair", ylim=(0, 1.25 * max(pair)), yticks=[])
    left.spines["left"].set_visible(False)
    mark(left, "mirror", "y")
    curves = dict(zip(looks, (wanted, provided, mirror), strict=True))
    sides = ((12, 0), "left"), ((4, -62), "left"), ((-6, 6), "right")
    for (name, y), (beside, side) in zip(curves.items(), sides, strict=True):
        right.plot(y, markevery=0.15, **looks[name])
        top = int(np.argmax(y))
        right.annotate(name, (top, y[top]), beside, textcoords="offset points", ha=side)
    plain_ticks(right.yaxis, range(0, 80_001, 20_000))
    right.set(title="All lengths of Wikipedia", xlabel="length")
    fig.suptitle("Least squares meets the mirror image halfway")
    off = np.abs(provided - (wanted + mirror) / 2)[9:-8].max() / wanted.max()
    one, other, packs = pair
    alt = f"{one:,} sequences, {other:,} mirror images: {packs:,} packs from least squares. Wikipedia: sequences of "
    alt += "each length, their mirror images, and the places from least squares: beyond the cutoff at most "
    show(fig, alt=f"{alt}{percent(off, 0)} off the mean of both.", name="mirror-images")


def show_wikipedia() -> Table:
    """Show published and recorded results on all of Wikipedia at depth 3."""
    lines = [["NNLSHP, published", "8,155,059", "99.746", "22 to 28"]]
    lines += [["extended NNLSHP, published", "8,155,058", "99.746", "189 to 284"]]
    lines += [
        [str(row["way"]), f"{row['packs']:,}", f"{row['efficiency, %']:.3f}", str(row["CPU seconds"])]
        for row in show_recorded("packing_nnls")
    ]
    return Table(("way", "packs", "efficiency, %", "seconds"), lines, right=True)
