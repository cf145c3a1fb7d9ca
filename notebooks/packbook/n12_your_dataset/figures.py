"""What notebook 12 draws: your lengths, and what the decisions rest on."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, name_rows, new_figure, percent, plain_ticks, series, show, styled
from packbook.n12_your_dataset.runs import ALIKE, BEYOND, Bill
from packbook.shared.histograms import shown_name
from packlib.arguments import plural
from packlib.lengths import LengthHistogram
from packlib.tools.advice import Advice
from packlib.tools.advice.words import share_of

RING = {  # around what is advised
    "marker": "o", "markersize": 20, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 2,
}  # fmt: skip
ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}
LOST = OKABE_ITO[1]  # tokens beyond the rows


def percentiles(histogram: LengthHistogram, shares: tuple[float, ...] = (0.5, 0.9, 0.99)) -> list[int]:
    """Return the lengths that so many of the sequences do not pass."""
    below = np.cumsum(histogram.counts) / histogram.num_sequences
    return [int(np.searchsorted(below, share - 1e-12)) for share in shares]


@styled()
def show_lengths(whole: LengthHistogram, row: int) -> None:
    """Draw the share of the sequences by length, before they are cut; the row of now, and three percentiles."""
    half, nine, most = percentiles(whole)
    fig, ax = new_figure()
    draw_lengths(ax, whole, row)
    beyond = whole.counts[row + 1 :].sum() / whole.num_sequences
    shortest = int(whole.counts.nonzero()[0][0])
    at_most = f"Half of the sequences have at most {plural(half, 'token')}"
    spread = f"half of them have at most {plural(half, 'token')}, 90 % at most {nine:,}, 99 % at most {most:,}"
    if shortest == int(whole.counts.nonzero()[0][-1]):
        at_most, spread = f"All sequences have {plural(shortest, 'token')}", f"all have {plural(shortest, 'token')}"
    longer = f"{share_of(beyond)} are longer" if beyond else "none is longer"
    ax.set_title(f"{at_most}; {longer} than a row")
    alt = (
        f"{plural(whole.num_sequences, 'sequence')} of {shown_name(whole)}: {spread}. "
        f"A row has {plural(row, 'slot')} now, and {longer}."
    )
    show(fig, alt=alt, name="lengths")


def draw_lengths(ax: Axes, histogram: LengthHistogram, row: int) -> None:
    """Draw bars over a logarithmic axis, so that short and long sequences are seen alike."""
    longest = int(histogram.counts.nonzero()[0][-1])
    shortest = int(histogram.counts.nonzero()[0][0])
    low, high = min(shortest, row) * 0.8, max(longest, row) * 1.25
    edges = np.unique(np.rint(np.geomspace(max(1, low), high + 1, 49)).astype(int))
    below = np.concatenate([[0], np.cumsum(histogram.counts[1:])])
    upto = below[np.minimum(edges - 1, len(below) - 1)]
    heights = 100 * np.diff(upto) / histogram.num_sequences
    ax.stairs(heights, edges, fill=True, color=series("packed")["color"])
    top = heights.max()
    shares_at: dict[int, list[str]] = {}
    for share, length in zip((50, 90, 99), percentiles(histogram), strict=True):
        shares_at.setdefault(length, []).append(f"{share} %")
    middle = (low * high) ** 0.5
    for at, (length, shares) in enumerate(shares_at.items()):
        height = top * (1.4 - 0.11 * at)
        ax.vlines(length, 0, height, color=INK, linestyle=":", linewidth=1.5)  # no line crosses an earlier text
        text = f"{' and '.join(shares)} up to {length:,}"
        right = length > middle  # the words stand on the side with more room, over the lines that they cross
        beside = {"xytext": (-4 if right else 4, 0), "textcoords": "offset points", "ha": "right" if right else "left"}
        ax.annotate(text, (length, height), va="center", bbox=ON_WHITE, **beside)
    ax.vlines(row, 0, top * 1.6, color=LOST, linewidth=2)
    ax.text(row, top * 1.6, f" row now: {row:,} ", ha="right" if row > middle else "left", va="center")
    ax.set_xscale("log", base=2)
    ticks = [2**power for power in range(1, 24) if low <= 2**power <= high]
    plain_ticks(ax.xaxis, ticks[:: max(1, len(ticks) // 7)] or [row])
    ax.set(xlabel="tokens", ylabel="% of the sequences", xlim=(low, high), ylim=(0, 1.7 * top))


@styled()
def show_rows(advice: Advice, mine: int, mine_slots: float, mine_beyond: float) -> None:
    """Draw slots for a token, and tokens beyond the rows, over the row length; a ring is the advice, a square yours."""
    rows = advice.row_lengths
    tops = [row.max_length for row in rows]
    slots = [row.slots_a_token for row in rows]
    beyond = [100 * row.tokens_cut / advice.whole.num_tokens for row in rows]
    at = tops.index(advice.row_length)
    words = "cut into pieces" if advice.overlong == "split" else "lost"
    fig, axes = new_figure(1, 2)
    chosen = advice.chosen
    for ax, values, own, style in (
        (axes[0], slots, mine_slots, series("packed")),
        (axes[1], beyond, 100 * mine_beyond, {"color": LOST, "marker": "o"}),
    ):
        ax.plot(tops, values, **style)
        ax.plot(tops[at], values[at], clip_on=False, label="advice", linestyle="none", **RING)
        ax.plot(mine, own, "s", markersize=11, color=INK, clip_on=False, label="yours")
        ax.set_xscale("log", base=2)
        plain_ticks(ax.xaxis, sorted({tops[0], tops[at], tops[-1]}))
        ax.set(xlabel="row length", ylim=(0, 1.15 * max(*values, own, 1)))
        ax.set_xlim(min(mine, *tops) * 0.8, max(mine, *tops) * 1.25)
    axes[0].set_ylabel("slots for each token")
    axes[1].set_ylabel(f"tokens {words}, %")
    axes[1].legend(loc="upper right")
    axes[0].set_title(f"Advice: {chosen.slots_a_token:.3f} slots per token")
    axes[1].set_title(f"{percent(chosen.tokens_cut / advice.whole.num_tokens, 2)} {words}")
    sentences = "; ".join(
        f"{row.max_length:,}: {row.slots_a_token:.3f} slots per token, {plural(row.tokens_cut, 'token')} "
        f"{BEYOND[advice.overlong]}"
        for row in rows
    )
    show(
        fig,
        alt=f"Row lengths. {sentences}. Advised are {chosen.max_length:,}, yours are {mine:,}.",
        name="row-lengths",
    )


@styled()
def show_slots(advice: Advice, mine: Bill, mark: Callable[..., None]) -> None:
    """Draw slots of one pass as it is made today, by other habits, and packed, as multiples of yours."""
    names = {
        "random": "random batches",
        "sorted": "sorted batches",
        "maximum": "fixed rows",
        "buckets": "buckets",
        "megabatches": "sorted windows",
        "packed": "in order",
    }
    bars: list[tuple[str, str, float]]
    orders = (advice.today, *advice.habits)
    bars = [(names[one.habit], "next_fit" if one.habit == "packed" else one.habit, one.slots) for one in orders]
    bars[0] = (f"today: {bars[0][0]}", *bars[0][1:])
    bars += [("advice", "packed", advice.slots), ("your packs", "packed", mine.slots)]
    fig, ax = new_figure()
    for row, (_, color, slots) in enumerate(bars):
        ax.barh(row, slots / mine.slots, height=0.7, color=series(color)["color"])
        ax.text(slots / mine.slots, row, f" {slots / 1e6:,.4g} million slots", va="center", bbox=ON_WHITE | {"pad": 0})
    name_rows(ax, [name for name, *_ in bars], above=0.9)  # room for the name of a guess
    most = max(slots for *_, slots in bars) / mine.slots
    ax.set(xlim=(0, 1.5 * most), xlabel="slots of one pass; your packs are 1")
    saved = 1 - mine.slots / advice.today.slots
    if saved > ALIKE:
        title = f"Your packs take {percent(saved)} fewer slots than today's batches"
    elif saved < -ALIKE:
        title = f"Your packs take {percent(-saved)} more slots than today's batches"
    else:
        title = "Your packs take as many slots as today's batches, within 2 %"
    ax.set_title(title)
    mark(ax, "fewer")
    listed = "; ".join(f"{name} {slots:,.0f}" for name, _, slots in bars)
    show(fig, alt=f"Slots of one pass: {listed}. {title}.", name="slots")


@styled()
def show_updates(advice: Advice, factor: float, most: int, mine: tuple[int, int]) -> None:
    """Draw how near each micro batch comes to today's sequences per update, at its best accumulation.

    Args:
        factor: sequences in an average pack of yours.
        most: the largest micro batch that has no more slots than an average batch today.
        mine: your micro batch and accumulation.
    """
    assert advice.update is not None  # the notebook says its batch
    before = advice.update.before.sequences_per_update
    rows = before / factor
    sizes = range(1, max(1, min(most, int(rows) + 1)) + 1)
    off = [
        100 * min((size * n / rows - 1 for n in {max(1, int(rows / size)), int(rows / size) + 1}), key=abs)
        for size in sizes
    ]
    own = 100 * (mine[0] * mine[1] / rows - 1)
    fig, ax = new_figure()
    ax.axhspan(-2, 2, color=INK, alpha=0.12, linewidth=0)
    ax.plot(sizes, off, "o", color=series("packed")["color"], label="best accumulation")
    reach = max(6, *map(abs, off)) * 1.3
    inside = abs(own) <= reach and mine[0] <= max(sizes) + 0.5
    if inside:
        ax.plot(mine[0], own, "s", markersize=11, fillstyle="none", markeredgewidth=2, color=INK, label="yours")
    ax.set(xlabel="micro batch, packs", ylabel="sequences per update, % off", ylim=(-reach, 1.35 * reach))
    ax.set_xlim(0.5, max(sizes) + 0.5)
    ax.text(max(sizes) + 0.4, 2, "within 2 % ", ha="right", va="bottom")
    ax.legend(loc="upper right", ncols=2)  # above all points
    near = [size for size, value in zip(sizes, off, strict=True) if abs(value) <= 2]
    title = f"Micro batches within 2 % of today's sequences per update: {len(near)} of {len(sizes)}"
    ax.set_title(title)
    where = "" if inside else ", outside of the picture"
    sentence = f"Yours are {mine[0]:,} × {plural(mine[1], 'pack')}, {own:+,.1f} %{where}."
    show(fig, alt=f"{title}. {_ranges(near)} {sentence}", name="updates")


def _ranges(sizes: list[int]) -> str:
    """Return the numbers in words, neighbors as a range."""
    if not sizes:
        return "None is."
    starts = [sizes[0], *(b for a, b in pairwise(sizes) if b > a + 1)]
    ends = [*(a for a, b in pairwise(sizes) if b > a + 1), sizes[-1]]
    ranges = ", ".join(f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in zip(starts, ends, strict=True))
    return f"They are {ranges}." if len(sizes) > 1 else f"It is {ranges}."
