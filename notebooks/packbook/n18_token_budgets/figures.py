"""What notebook 18 draws: batches to scale, rates, and rows as walks in a rectangle."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from packbook.figures import INK, OKABE_ITO, PADDING, new_figure, percent, show, styled
from packbook.n18_token_budgets.runs import middle_row, zigzag
from packlib.batches import TokenBatches
from packlib.batches.variable_rate import RATE_RULES
from packlib.packing import PairPacks

Rows = Sequence[Sequence[int]]  # the lengths in each row of a batch

LOOKS = {  # a rule is no batching habit, so it has a line and a marker and no color
    rule: {"color": INK, "linestyle": line, "marker": marker}
    for rule, line, marker in zip(RATE_RULES, ("-", "--", ":"), "osx", strict=True)
}


@styled()
def show_shapes(drawn: Mapping[str, Sequence[Rows]], row: int) -> None:
    """Show batches to scale, each as wide as its longest row and as high as it has rows; padding is gray.

    Args:
        drawn: the batches by name: first those in random order, last those of "packed", with rows of `row` slots.
    """
    most_rows = [max(map(len, batches)) for batches in drawn.values()]  # of a batch, in each panel
    fig, axes = new_figure(len(drawn), 1, height_ratios=most_rows)
    gap = 8  # tokens between two batches
    listed, shapes_in_words, ends = [], [], []
    for ax, (name, batches) in zip(axes, drawn.items(), strict=True):
        shapes = []  # rows and slots of each batch
        for rows in batches:
            width = row if name == "packed" else max(map(sum, rows))
            shapes.append((len(rows), width))
        tokens = sum(sum(lengths) for rows in batches for lengths in rows)
        padding = 1 - tokens / sum(num_rows * width for num_rows, width in shapes)

        left = 0.0
        for rows, (_, width) in zip(batches, shapes, strict=True):
            _draw_rows(ax, rows, width, left)
            left += width + gap
        ends.append(left)
        num_shapes = len(set(shapes))
        shapes_in_words.append(f"{num_shapes} shape{'s' * (num_shapes > 1)}")
        ax.set_title(f"{name}: {shapes_in_words[-1]}, {percent(padding, 0)} padding", fontsize=13, pad=3)
        ax.axis("off")
        listed_shapes = ", ".join(f"{num_rows} × {width}" for num_rows, width in shapes)
        listed.append(f"{name}: {listed_shapes}; {percent(padding)} padding")
    for ax, num_rows in zip(axes, most_rows, strict=True):
        ax.set(xlim=(0, max(ends)), ylim=(num_rows, 0))
    first, *_, last = shapes_in_words
    fig.suptitle(f"One budget of tokens: {first} in random order, {last} packed")
    show(fig, alt=f"Batches to scale, rows × width in tokens. {'. '.join(listed)}.", name="shapes")


def _draw_rows(ax: Axes, rows: Rows, width: float, left: float) -> None:
    """Draw a batch from x = `left` on, `width` slots wide, with its samples in two shades of blue in turn."""
    ax.add_patch(Rectangle((left, 0), width, len(rows), color=PADDING, linewidth=0))
    corners, colors = [], []
    for number, row in enumerate(rows):
        top, bottom = number + 0.1, number + 0.9
        start = left
        for index, length in enumerate(row):
            end = start + length
            corners.append([(start, top), (end, top), (end, bottom), (start, bottom)])
            colors.append(OKABE_ITO[0] if index % 2 == 0 else OKABE_ITO[4])
            start = end
    ax.add_collection(PolyCollection(np.array(corners), facecolors=colors))


def draw_batches(ax: Axes, batches: TokenBatches, lengths: np.ndarray, budget: int) -> None:
    """Draw a bar for each batch: its samples stacked by their tokens, then its padding in gray; the budget is a line.

    Args:
        lengths: tokens of all samples.
        budget: most tokens in a batch.
    """
    # of all samples, in the order of the batches
    sample_lengths = np.asarray(lengths)[batches.sample_ids]
    tokens_before = np.cumsum(sample_lengths) - sample_lengths
    tokens_before_batch = np.cumsum(batches.tokens) - batches.tokens
    bottoms = tokens_before - np.repeat(tokens_before_batch, batches.sizes)  # tokens before a sample in its batch
    tops = bottoms + sample_lengths
    x = np.repeat(np.arange(len(batches)), batches.sizes)
    corners = np.array([(x - 0.4, bottoms), (x + 0.4, bottoms), (x + 0.4, tops), (x - 0.4, tops)])  # (4, 2, samples)
    colors = [OKABE_ITO[0], OKABE_ITO[4]] * len(x)
    ax.add_collection(PolyCollection(corners.transpose(2, 0, 1), facecolors=colors, edgecolor="white", linewidth=0.4))
    padding = batches.sizes * batches.widths - batches.tokens
    ax.bar(range(len(batches)), padding, 0.8, batches.tokens, color=PADDING)
    ax.axhline(budget, color=INK, linestyle="--", linewidth=1)
    ax.set_xlim(-0.6, len(batches) - 0.4)
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    ax.yaxis.set_major_formatter("{x:,.0f}")


@styled()
def show_walks(
    next_fit: Sequence[Sequence[int]],
    packs: PairPacks,
    tokens: np.ndarray,
    tiles: np.ndarray,
    budgets: tuple[int, int],
) -> None:
    """Show a row as a walk in a rectangle, a sample as an arrow: a row of next fit, and one of `pack_pairs`.

    Of each kind the row is drawn that is full in the middle; the ends of the other rows are dots.

    Args:
        next_fit: the samples of each row of next fit.
        packs: the rows of `pack_pairs`.
        tokens: of each sample.
        tiles: of each sample.
        budgets: most tokens and most tiles of a row.
    """
    fig, axes = new_figure(1, 2, sharex=True, sharey=True)
    pair_rows = [row.tolist() for row in packs]
    arrow = {"arrowstyle": "-|>", "lw": 2, "shrinkA": 0, "shrinkB": 0}
    sentences = []
    for ax, (name, rows) in zip(axes, {"next fit": next_fit, "pack_pairs": pair_rows}.items(), strict=True):
        index = middle_row(rows, tokens, tiles, budgets)
        row = list(rows[index])
        if name != "next fit":  # whose order is that of the data
            row = [row[i] for i in zigzag(tokens[row], tiles[row], budgets)]
        ends = np.array([(tokens[list(samples)].sum(), tiles[list(samples)].sum()) for samples in rows])
        ax.plot(*ends.T, ".", color="#888888", markersize=6, zorder=1)
        steps = np.stack([tokens[row], tiles[row]], axis=1)
        positions = np.vstack([(0, 0), np.cumsum(steps, axis=0)])
        for start, end in pairwise(positions):
            ax.annotate("", end, start, arrowprops={**arrow, "color": OKABE_ITO[0]})
        if name == "next fit" and index + 1 < len(rows):  # the sample that did not fit begins the next row
            refused = rows[index + 1][0]
            outside = positions[-1] + (tokens[refused], tiles[refused])
            look = {**arrow, "color": OKABE_ITO[1], "ls": "--"}
            ax.annotate("", outside, positions[-1], annotation_clip=False, arrowprops=look)
        ax.add_patch(Rectangle((0, 0), *budgets, fill=False, edgecolor=INK, linewidth=1.5))
        ax.set_title(f"{name}: {len(rows):,} rows", fontsize=13)
        ax.set_xlabel("tokens")
        shares_used = positions[-1] / np.array(budgets)
        shares = f"{percent(shares_used[0], 0)} of the tokens and {percent(shares_used[1], 0)} of the tiles"
        sentences.append(f"{name}: {len(rows):,} rows; the one drawn ends at {shares}")
    axes[0].set(xlim=(0, 1.3 * budgets[0]), ylim=(0, 1.3 * budgets[1]), ylabel="tiles")
    axes[0].xaxis.set_major_formatter("{x:,.0f}")
    axes[0].xaxis.get_major_locator().set_params(nbins=4)
    fig.suptitle(
        f"Next fit takes {len(next_fit) / len(pair_rows) - 1:.0%} more rows; gray: where rows end".replace("%", " %")
    )
    alt = "A row as a walk in a rectangle of two budgets, a sample as an arrow"
    show(fig, alt=f"{alt}. {'; '.join(sentences)}. At least {packs.lower_bound:,} rows are needed.", name="walks")
