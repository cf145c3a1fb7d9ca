"""What notebook 03 draws: the strategy matrix, and sequences and places that do not match."""

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

Mark = Callable[..., None]  # draws the reader's guess, as `Questions.mark`


def draw_misses(ax: Axes, left_over: np.ndarray, empty: np.ndarray) -> None:
    """Draw by length: sequences without a place upward, places without a sequence downward; logarithmic from 10 on.

    Args:
        left_over: sequences without a place, shape (max_length + 1,).
        empty: places without a sequence, same shape.
    """
    looks = {"color": series("packed")["color"], "marker": "^"}, {"color": "#777777", "marker": "v"}
    for heights, look in zip((left_over, -empty), looks, strict=True):
        (lengths,) = np.nonzero(heights)
        ax.plot(lengths, heights[lengths], linestyle="", markersize=4, **look)
    ax.axhline(0, color=INK, linewidth=1)
    largest = max(left_over.max(), empty.max(), 10)
    ax.set_yscale("symlog", linthresh=10, linscale=0.5)
    ticks_above = [tick for tick in (100, 10_000, 1_000_000) if tick <= 10 * largest]
    ticks = [*(-tick for tick in ticks_above[::-1]), 0, *ticks_above]
    ax.set_yticks(ticks, [f"{abs(tick):,}" for tick in ticks])
    ax.minorticks_off()
    ax.set(ylim=(-30 * largest, 30 * largest), xlim=(0, len(left_over)))
    ax.text(0.02, 0.97, "sequences without a place", va="top", transform=ax.transAxes)
    ax.text(0.98, 0.03, "places without a sequence", ha="right", va="bottom", transform=ax.transAxes)


@styled()
def show_matrix(strategies: Sequence[Sequence[int]], matrix: np.ndarray) -> None:
    """Show full packs, and next to them the matrix that counts their lengths.

    Args:
        strategies: the lengths in each pack.
        matrix: how often each strategy has each length from 1 up, shape (slots of a pack, strategies).
    """
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
    """Show sequences without a place and places without a sequence, as two bars for each of two choices of weights.

    Args:
        results: of `published_result`, by the name of the choice.
        limit: the depth limit.
    """
    fig, ax = new_figure()
    kinds = ("sequences without a place", series("packed")["color"]), ("places without a sequence", "#777777")
    offsets = (-0.2, 0.2)  # of the two bars from the middle of their row
    misses: dict[str, tuple[int, int]] = {}  # sequences without a place, places without a sequence
    for title, (left_over, empty, _) in results.items():
        misses[title] = (int(left_over.sum()), int(empty.sum()))
    largest = max(1, *(number for numbers in misses.values() for number in numbers))
    for row, numbers in enumerate(misses.values()):
        for (_, color), offset, number in zip(kinds, offsets, numbers, strict=True):
            ax.barh(row + offset, number, height=0.36, color=color)
            ax.text(number + largest / 100, row + offset, about(number), va="center", color=INK)
    first_numbers = next(iter(misses.values()))
    for (name, _), offset, number in zip(kinds, offsets, first_numbers, strict=True):  # names in the first row
        ax.annotate(name, (number, offset), (64, 0), textcoords="offset points", va="center")
    name_rows(ax, list(misses), above=0.6, below=0.6)
    ax.set_xlim(0, 1.6 * largest)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel(f"sequences, or places; {shown_name(histogram)}, depth limit {limit}")
    (first, (first_left_over, _)), (second, (second_left_over, _)) = misses.items()
    ax.set_title(
        f"Sequences without a place: {about(first_left_over)} with {first}, {about(second_left_over)} with {second}"
    )
    listed = "; ".join(
        f"{title}: {about(left_over)} sequences without a place, {about(empty)} places without a sequence"
        for title, (left_over, empty) in misses.items()
    )
    show(fig, alt=f"{shown_name(histogram)}, depth limit {limit}. {listed}.", name="weights")


@styled()
def show_mirror_images(pair: tuple[int, int, int], wikipedia: LengthHistogram, places: np.ndarray, mark: Mark) -> None:
    """Show that least squares uses as many packs of a length and its mirror image as the mean of their two counts.

    The mirror image of a length fills a pack with it. One pair is on the left, all lengths of Wikipedia on the right.

    Args:
        pair: sequences of a length, of its mirror image, and the packs from least squares.
        places: from least squares, for each length from 1 up, shape (max_length,).
        mark: draws the reader's guess.
    """
    # by length from 0 to the maximum length - 1: a full sequence has no mirror image
    counts = wikipedia.counts[:-1]
    mirror_counts = np.append(0, wikipedia.counts[1:-1][::-1])
    places_by_length = np.append(0, places[:-1])
    looks = {
        "sequences": series("packed"),
        "places": series("nnlshp"),
        "mirror images": {"color": "#999999", "marker": "<", "linestyle": "--"},
    }
    fig, (left, right) = new_figure(1, 2, width_ratios=(3, 5))
    for column, (name, number) in enumerate(zip(("sequences", "mirror images", "places"), pair, strict=True)):
        left.bar(column, number, color=looks[name]["color"], width=0.7)
        left.text(column, number, f"{number:,}", ha="center", va="bottom")
    left.set_xticks(range(3), ["sequences", "mirror\nimages", "packs"])
    left.set(title="One pair", ylim=(0, 1.25 * max(pair)), yticks=[])
    left.spines["left"].set_visible(False)
    mark(left, "mirror", "y")
    curves = {"sequences": counts, "places": places_by_length, "mirror images": mirror_counts}
    label_places = ((12, 0), "left"), ((4, -62), "left"), ((-6, 6), "right")  # offset from the peak in points
    for (name, heights), (offset, alignment) in zip(curves.items(), label_places, strict=True):
        right.plot(heights, markevery=0.15, **looks[name])
        peak = int(np.argmax(heights))
        right.annotate(name, (peak, heights[peak]), offset, textcoords="offset points", ha=alignment)
    plain_ticks(right.yaxis, range(0, 80_001, 20_000))
    right.set(title="All lengths of Wikipedia", xlabel="length")
    fig.suptitle("Least squares meets the mirror image halfway")
    means = (counts + mirror_counts) / 2
    beyond_cutoff = slice(9, -8)  # lengths over 8 whose mirror images are over 8, too
    off = np.abs(places_by_length - means)[beyond_cutoff].max() / counts.max()
    sequences, mirror_images, packs = pair
    alt = f"{sequences:,} sequences, {mirror_images:,} mirror images: {packs:,} packs from least squares. Wikipedia: "
    alt += (
        "sequences of each length, their mirror images, and the places from least squares: beyond the cutoff at most "
    )
    show(fig, alt=f"{alt}{percent(off, 0)} off the mean of both.", name="mirror-images")


def show_wikipedia() -> Table:
    """Show where results were recorded; return a table of them and published ones, on all of Wikipedia at depth 3."""
    lines = [
        ["NNLSHP, published", "8,155,059", "99.746", "22 to 28"],
        ["extended NNLSHP, published", "8,155,058", "99.746", "189 to 284"],
    ]
    for row in show_recorded("packing_nnls"):
        efficiency = f"{row['efficiency, %']:.3f}"
        lines.append([str(row["way"]), f"{row['packs']:,}", efficiency, str(row["CPU seconds"])])
    return Table(("way", "packs", "efficiency, %", "seconds"), lines, right=True)
