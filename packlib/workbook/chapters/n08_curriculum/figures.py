"""What notebook 08 draws: words, batches, and what a sweep of the rate came to."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from packlib.batches import TokenBatches
from packlib.batches.variable_rate import RATE_RULES
from packlib.workbook.chapters.shared.recorded_runs import Swept, best_rates
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, plain_ticks

PALE = ("#BBDDF5", "#F5D79B", "#A8DCC8")  # of sentences A, B, C, under dark words
LOOKS = {  # a rule is no batching habit, so it has a line and a marker and no color
    rule: {"color": INK, "linestyle": line, "marker": marker}
    for rule, line, marker in zip(RATE_RULES, ("-", "--", ":"), "osx", strict=True)
}
ARMS = {  # of the length warm-up
    "no warm-up": {"color": INK, "linestyle": "--", "marker": "o"},
    "0.3, truncated": {"color": OKABE_ITO[0], "linestyle": "-", "marker": "s"},
    "0.6, truncated": {"color": OKABE_ITO[2], "linestyle": "-.", "marker": "^"},
    "0.3, reshaped": {"color": OKABE_ITO[1], "linestyle": ":", "marker": "D"},
}


def draw_tokens(ax: Axes, rows: Sequence[Sequence[str]], owners: Sequence[int], width: int, title: str) -> None:
    """The words of a batch, a cell each, in a picture of `width` cells; "[PAD]" is gray.

    `owners` says which sentence a row came from.
    """
    for y, (words, owner) in enumerate(zip(rows, owners, strict=True)):
        ax.text(-0.25, y + 0.5, "ABC"[owner], ha="right", va="center", fontsize=12)
        for x, word in enumerate(words):
            blank = word == "[PAD]"
            color = PADDING if blank else PALE[owner]
            ax.add_patch(Rectangle((x, y + 0.08), 1, 0.84, facecolor=color, edgecolor="white"))
            ax.text(x + 0.5, y + 0.5, "" if blank else word, ha="center", va="center", fontsize=10)
    ax.set(xlim=(-0.5, width), ylim=(len(rows), 0))
    ax.set_title(title, fontsize=13, loc="left")
    ax.axis("off")


def draw_batches(ax: Axes, batches: TokenBatches, lengths: np.ndarray, budget: int) -> None:
    """A bar a batch: its samples stacked by their tokens, then its padding in gray; the budget is a line."""
    ordered, sizes = np.asarray(lengths)[batches.sample_ids], batches.sizes
    tops = np.cumsum(ordered)
    bottoms = tops - ordered - np.repeat(np.cumsum(batches.tokens) - batches.tokens, sizes)
    x, end = np.repeat(np.arange(len(batches)), sizes), bottoms + ordered
    corners = np.array([(x - 0.4, bottoms), (x + 0.4, bottoms), (x + 0.4, end), (x - 0.4, end)])
    colors = [OKABE_ITO[0], OKABE_ITO[4]] * len(x)
    ax.add_collection(PolyCollection(corners.transpose(2, 0, 1), facecolors=colors, edgecolor="white", linewidth=0.4))
    padding = batches.rows * batches.widths - batches.tokens
    ax.bar(range(len(batches)), padding, 0.8, batches.tokens, color=PADDING)
    ax.axhline(budget, color=INK, linestyle="--", linewidth=1)
    ax.set_xlim(-0.6, len(batches) - 0.4)
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    ax.yaxis.set_major_formatter("{x:,.0f}")


def draw_micro_batches(ax: Axes, batches: TokenBatches, lengths: np.ndarray, ranks: int, steps: int) -> None:
    """The first update: micro-batch m is of rank m % ranks (a row of the picture) in step m // ranks."""
    shown = range(ranks * steps)
    wide, high = 1.12 * max(batches.widths[list(shown)]), 1.3 * max(batches.rows[list(shown)])
    for m in shown:
        rows, width = int(batches.rows[m]), int(batches.widths[m])
        x, y = (m // ranks) * wide, (m % ranks) * high
        filled = np.zeros(rows, np.int64)
        filled[: batches.sizes[m]] = lengths[batches[m]]
        picture = np.full((rows, width, 3), to_rgb(PADDING))
        picture[np.arange(width) < filled[:, None]] = to_rgb(OKABE_ITO[0])
        ax.imshow(picture, extent=(x, x + width, y + rows, y), aspect="auto", interpolation="nearest")
        ax.add_patch(Rectangle((x, y), width, rows, fill=False, edgecolor=INK))
        ax.text(x, y - 0.03 * high, f"{rows} × {width}", va="bottom", fontsize=11)
    ax.set(xlim=(-0.01 * wide, steps * wide), ylim=(ranks * high, -0.14 * high))
    ax.set_xticks([(i + 0.45) * wide for i in range(steps)], [f"step {i + 1}" for i in range(steps)])
    ax.set_yticks([(i + 0.4) * high for i in range(ranks)], [f"process {i + 1}" for i in range(ranks)])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def rates(losses: Swept, norms: Swept) -> tuple[Figure, str]:
    """Each arm over the rate, every seed a mark: the loss at the end with the mean as a line, and the largest norm.

    Args:
        losses, norms: what each run of the sweep came to.

    Returns:
        The figure and its alt text.
    """
    fig, (left, right) = new_figure(1, 2, width_ratios=(5, 3))
    lines, listed = {}, []
    for arm, by_rate in losses.items():
        ends, largest = np.array(list(by_rate.values())), np.array(list(norms[arm].values()))
        marks = {**ARMS[arm], "linestyle": "", "markersize": 5}
        lines[left.plot(list(by_rate), ends.mean(1), **{**ARMS[arm], "marker": ""})[0]] = arm
        left.plot(list(by_rate), ends, **marks)
        right.plot(list(by_rate), largest, **marks)
        means = ", ".join(f"{loss:.3f}" for loss in ends.mean(1))
        listed.append(f"{arm} {means}, largest gradient norm {largest.max():.1f}")
    best, seeds = best_rates(losses), ends.shape[1]
    lowest = ", ".join(f"{arm} at {rate:g}" for arm, rate in best.items())
    left.set(xlabel="highest rate", ylabel=f"held-out loss at the end, {seeds} seeds")
    right.set(xlabel="highest rate", ylabel="largest gradient norm of the run", ylim=(0, None))
    for ax in (left, right):
        ax.set_xscale("log")
        plain_ticks(ax.xaxis, list(by_rate))
        ax.tick_params(axis="x", labelrotation=45)
    label_ends(lines)
    truncated = " and ".join(sorted({f"{rate:g}" for arm, rate in best.items() if "truncated" in arm}))
    fig.suptitle(f"Full rows end lowest at {best['no warm-up']:g}, truncated rows at {truncated}")
    tried = ", ".join(f"{rate:g}" for rate in by_rate)
    return fig, f"Means of {seeds} seeds at the rates {tried}: {'; '.join(listed)}. Lowest: {lowest}."
