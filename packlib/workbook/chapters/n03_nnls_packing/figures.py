"""What notebook 03 draws: the strategy matrix, what does not meet, and packs above the bound."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packlib.lengths import LengthHistogram
from packlib.packing import num_full_strategies, plan
from packlib.workbook.chapters.n03_nnls_packing.runs import about
from packlib.workbook.chapters.shared.above import draw_above as above_the_bound
from packlib.workbook.chapters.shared.histograms import shown_name
from packlib.workbook.chapters.shared.packs import draw_packs
from packlib.workbook.figures import INK, PADDING, label_ends, new_figure, percent, plain_ticks, series, show
from packlib.workbook.results import show_recorded
from packlib.workbook.tables import Table

GRAYS = ("#999999", "#666666", INK)  # of lines that are no methods
WAYS = {  # what is done with the solution of least squares, and how it looks
    "as published": {**series("nnlshp"), "markerfacecolor": "white"},
    "NNLSHP": series("nnlshp"),
    "extended NNLSHP": series("ennlshp"),
    "SPFHP": series("spfhp"),
    "LPFHP": series("lpfhp"),
    "optimal": series("optimal"),
}


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


def draw_above(ax: Axes, above: Mapping[str, int]) -> None:
    """Packs above the lower bound, by way in `WAYS`."""
    above_the_bound(ax, above, [WAYS[way] for way in above], about)


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


def show_columns(mark: Callable[..., None]) -> None:
    """How many columns there are by depth and slots, with the guess that `mark` draws."""
    columns = {top: [num_full_strategies(top, depth) for depth in range(1, 9)] for top in (64, 128, 512)}
    limit = 16 * 2**30 // (8 * 512)  # columns that fill the memory at 512 slots
    fig, ax = new_figure()
    ax.axhline(limit, color=INK, linestyle=":", linewidth=1.5)
    ax.text(1, 1.4 * limit, "at 512 slots: 16 GiB of memory", va="bottom")
    lines = {}
    for (top, n), color, marker in zip(columns.items(), GRAYS, "osD", strict=True):
        lines[ax.plot(range(1, 9), n, linestyle="-", color=color, marker=marker)[0]] = f"{top} slots"
    ax.set(title="Each step in depth multiplies the columns", xlabel="depth", ylabel="columns", yscale="log")
    label_ends(lines)
    listed = "; ".join(f"{top} slots {n[2]:,}, {n[3]:,} and {n[4]:,}" for top, n in columns.items())
    mark(ax, "columns", "y", at=lambda times: times * columns[512][2])
    show(fig, alt=f"Columns of the strategy matrix at depth 3, 4 and 5: {listed}.", name="columns-by-depth")


def show_fit(counts: np.ndarray, places: np.ndarray, mark: Callable[..., None]) -> None:
    """Sequences and places of each length, with the guess that `mark` draws."""
    lengths = range(1, len(counts) + 1)
    fig, ax = new_figure()
    ax.bar(lengths, counts, width=0.8, color=PADDING)
    ax.plot(lengths, places, **{**series("nnlshp"), "linestyle": "none"}, markersize=11)
    for length, (wanted, got) in enumerate(zip(counts, places, strict=True), 1):
        ax.text(length, max(wanted, got) + 0.1, f"{got:.2f}", ha="center", va="bottom")
    ax.set(
        title="Least squares spreads the error over the lengths",
        xlabel="length",
        ylim=(-0.2, 4.6),
        ylabel="sequences (bars), places (crosses)",
        xticks=lengths,
    )
    each = ", ".join(f"{got:.2f} places for {wanted}" for wanted, got in zip(counts, places, strict=True))
    mark(ax, "fives", "y")
    show(
        fig,
        alt=f"What least squares provides for the sequences of length 1 to {len(counts)}: {each}.",
        name="toy-fit",
    )


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


def show_depth_two(above: Mapping[str, int], mark: Callable[..., None]) -> None:
    """Packs above the fewest at depth 2, with the guess that `mark` draws."""
    fig, ax = new_figure()
    draw_above(ax, above)
    one, other = f"{above['NNLSHP']:,}", about(above["as published"])
    ax.set(title=f"Places filled: {one} packs too many instead of {other}")
    listed = ", ".join(f"{way} {about(number)}" for way, number in above.items())
    mark(ax, "filled")
    show(fig, alt=f"Wikipedia at depth 2, packs above the lower bound: {listed}.", name="depth-two")


def show_rounding(sizes: Sequence[int], found: Mapping[str, Sequence], histogram: LengthHistogram) -> None:
    """Packs above the best by sample size, for both ways of rounding."""
    fig, ax = new_figure()
    cost = {way: np.array(draws) for way, draws in found.items()}  # shape (sizes, draws)
    looks = {"down": {"linestyle": "-"}, "nearest": {"linestyle": "--", "marker": "o"}}
    for rounding, draws in cost.items():  # a pale marker for each draw, and a line through the means
        look = {**series("nnlshp"), **looks[rounding]}
        ax.plot(sizes, draws, **{**look, "linestyle": ""}, alpha=0.35, markersize=5)
        ax.plot(sizes, draws.mean(axis=1), **look)
        ax.annotate(rounding, (sizes[0], draws[0].mean()), (14, 9), textcoords="offset points")
    ax.set(xscale="log", xlabel="sequences drawn", ylabel="packs above the best, %", ylim=(-0.1, None))
    plain_ticks(ax.xaxis, sizes)
    down, nearest = (cost[way][0].mean() for way in ("down", "nearest"))
    ax.set(title=f"300 sequences: down {down:.1f} % above the best, nearest {nearest:.1f} %")
    means = {way: ", ".join(f"{c:.2f} %" for c in costs.mean(axis=1)) for way, costs in cost.items()}
    listed = "; ".join(f"{way} {costs}" for way, costs in means.items())
    drawn = ", ".join(f"{n:,}" for n in sizes)
    alt = f"{shown_name(histogram)}, packs above the best for samples of {drawn} sequences, "
    alt += f"mean of {cost['down'].shape[1]}: "
    show(fig, alt=f"{alt}{listed}.", name="rounding")


def show_variants(eight: LengthHistogram) -> None:
    """The packs of a small case as published, with its places filled, and extended."""
    alone: list[tuple[int, ...]] = [(length,) for length in eight.expand().tolist()]
    made = {"As published": alone}
    for way, one in {
        "Places filled": plan(eight, method="nnlshp", max_sequences_per_pack=2),
        "Extended": plan(eight, method="ennlshp", max_sequences_per_pack=2),
    }.items():
        made[way] = [s for s, n in zip(one.strategies, one.repeats, strict=True) for _ in range(n)]
    fig, axes = new_figure(1, 3)
    for ax, (way, packs) in zip(axes, made.items(), strict=True):
        draw_packs(ax, packs, 8, len(eight.expand()))
        ax.set(title=f"{way}:\n{len(packs)} packs")
    listed = "; ".join(f"{way} {len(packs)}" for way, packs in made.items())
    show(fig, alt=f"Packs of eight slots for four sequences of 5 and four of 2: {listed}.", name="extended")


def show_methods(above: Mapping[str, int], histogram: LengthHistogram, blocks: int, limit: int) -> None:
    """Packs above the bound, by method."""
    fig, ax = new_figure()
    draw_above(ax, above)
    squares, greedy = about(above["NNLSHP"]), about(above["LPFHP"])
    ax.set(
        title=f"NNLSHP {squares} packs above the bound, LPFHP {greedy}",
        xlabel=f"packs above the bound; {shown_name(histogram)}, {blocks} blocks",
    )
    listed = ", ".join(f"{way} {about(number)}" for way, number in above.items())
    alt = f"{shown_name(histogram)} in {blocks} blocks, packs above the lower bound at depth {limit}: "
    show(fig, alt=f"{alt}{listed}.", name="methods")


def show_wikipedia() -> Table:
    """What was published and recorded on all of Wikipedia at depth 3."""
    lines = [["NNLSHP, published", "8,155,059", "99.746", "22 to 28"]]
    lines += [["extended NNLSHP, published", "8,155,058", "99.746", "189 to 284"]]
    lines += [
        [str(row["way"]), f"{row['packs']:,}", f"{row['efficiency, %']:.3f}", str(row["CPU seconds"])]
        for row in show_recorded("packing_nnls")
    ]
    return Table(("way", "packs", "efficiency, %", "seconds"), lines, right=True)
