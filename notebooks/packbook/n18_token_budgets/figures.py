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
    """Draw batches to scale, each as wide as its longest row and as high as it has rows; padding is gray.

    Args:
        drawn: the batches by name; those of "packed" have rows of `row` slots.
    """
    highest = [max(map(len, batches)) for batches in drawn.values()]
    fig, axes = new_figure(len(drawn), 1, height_ratios=highest)
    listed, shapes, ends, gap = [], {}, [], 8
    for ax, (name, batches) in zip(axes, drawn.items(), strict=True):
        sizes = [(len(rows), row if name == "packed" else max(map(sum, rows))) for rows in batches]
        tokens = sum(sum(one) for rows in batches for one in rows)
        padding = 1 - tokens / sum(number * width for number, width in sizes)
        shapes[name] = len(set(sizes))
        left = 0.0
        for rows, (_, width) in zip(batches, sizes, strict=True):
            _draw_rows(ax, rows, width, left)
            left += width + gap
        ends.append(left)
        several = "s" * (shapes[name] > 1)
        ax.set_title(f"{name}: {shapes[name]} shape{several}, {percent(padding, 0)} padding", fontsize=13, pad=3)
        ax.axis("off")
        listed.append(
            f"{name}: {', '.join(f'{number} × {width}' for number, width in sizes)}; {percent(padding)} padding"
        )
    for ax, high in zip(axes, highest, strict=True):
        ax.set(xlim=(0, max(ends)), ylim=(high, 0))
    first, *_, last = shapes
    several = "s" * (shapes[last] > 1)
    at_random = f"{shapes[first]} shape{'s' * (shapes[first] > 1)}"
    fig.suptitle(f"One budget of tokens: {at_random} in random order, {shapes[last]} shape{several} packed")
    show(fig, alt=f"Batches to scale, rows × width in tokens. {'. '.join(listed)}.", name="shapes")


def _draw_rows(ax: Axes, rows: Rows, width: float, left: float) -> None:
    ax.add_patch(Rectangle((left, 0), width, len(rows), color=PADDING, linewidth=0))
    corners, colors = [], []
    for number, row in enumerate(rows):
        start = left
        for place, length in enumerate(row):
            end = start + length
            corners.append([(start, number + 0.1), (end, number + 0.1), (end, number + 0.9), (start, number + 0.9)])
            colors.append(OKABE_ITO[0] if place % 2 == 0 else OKABE_ITO[4])
            start = end
    ax.add_collection(PolyCollection(np.array(corners), facecolors=colors))


def draw_batches(ax: Axes, batches: TokenBatches, lengths: np.ndarray, budget: int) -> None:
    """Draw a bar a batch: its samples stacked by their tokens, then its padding in gray; the budget is a line."""
    ordered, sizes = np.asarray(lengths)[batches.sample_ids], batches.sizes
    tops = np.cumsum(ordered)
    bottoms = tops - ordered - np.repeat(np.cumsum(batches.tokens) - batches.tokens, sizes)
    x, end = np.repeat(np.arange(len(batches)), sizes), bottoms + ordered
    corners = np.array([(x - 0.4, bottoms), (x + 0.4, bottoms), (x + 0.4, end), (x - 0.4, end)])
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
    """Draw a row as a walk in a rectangle, a sample as an arrow: a row of next fit, and one of `pack_pairs`.

    Of each kind the row is drawn that is full in the middle; the ends of the others are dots.
    """
    fig, axes = new_figure(1, 2, sharex=True, sharey=True)
    ours = [row.tolist() for row in packs]
    sentences = []
    for ax, (name, rows) in zip(axes, {"next fit": next_fit, "pack_pairs": ours}.items(), strict=True):
        at = middle_row(rows, tokens, tiles, budgets)
        row = list(rows[at])
        if name != "next fit":
            row = [row[i] for i in zigzag(tokens[row], tiles[row], budgets)]
        ends = np.array([(tokens[list(one)].sum(), tiles[list(one)].sum()) for one in rows])
        ax.plot(*ends.T, ".", color="#888888", markersize=6, zorder=1)
        corners = np.vstack([(0, 0), np.cumsum(np.stack([tokens[row], tiles[row]], axis=1), axis=0)])
        for (x, y), (to_x, to_y) in pairwise(corners):
            ax.annotate(
                "",
                (to_x, to_y),
                (x, y),
                arrowprops={"arrowstyle": "-|>", "color": OKABE_ITO[0], "lw": 2, "shrinkA": 0, "shrinkB": 0},
            )
        if name == "next fit" and at + 1 < len(rows):
            refused = rows[at + 1][0]
            over = corners[-1] + (tokens[refused], tiles[refused])
            ax.annotate(
                "",
                over,
                corners[-1],
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": OKABE_ITO[1],
                    "lw": 2,
                    "ls": "--",
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
        ax.add_patch(Rectangle((0, 0), *budgets, fill=False, edgecolor=INK, linewidth=1.5))
        ax.set_title(f"{name}: {len(rows):,} rows", fontsize=13)
        ax.set_xlabel("tokens")
        shares_used = corners[-1] / np.array(budgets)
        shares = f"{percent(shares_used[0], 0)} of the tokens and {percent(shares_used[1], 0)} of the tiles"
        sentences.append(f"{name}: {len(rows):,} rows; the one drawn ends at {shares}")
    axes[0].set(xlim=(0, 1.3 * budgets[0]), ylim=(0, 1.3 * budgets[1]), ylabel="tiles")
    axes[0].xaxis.set_major_formatter("{x:,.0f}")
    axes[0].xaxis.get_major_locator().set_params(nbins=4)
    fig.suptitle(
        f"Next fit takes {len(next_fit) / len(ours) - 1:.0%} more rows; gray: where rows end".replace("%", " %")
    )
    alt = "A row as a walk in a rectangle of two budgets, a sample as an arrow"
    show(fig, alt=f"{alt}. {'; '.join(sentences)}. At least {packs.lower_bound:,} rows are needed.", name="walks")
