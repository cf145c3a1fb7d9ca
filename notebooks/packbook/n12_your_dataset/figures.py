"""What notebook 12 draws: your lengths, and what the decisions rest on."""

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, name_rows, plain_ticks, series
from packlib.lengths import LengthHistogram
from packlib.tools.advice import Advice

RING = {  # around what was chosen
    "marker": "o", "markersize": 20, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 2,
}  # fmt: skip


def percentiles(histogram: LengthHistogram, shares: tuple[float, ...] = (0.5, 0.9, 0.99)) -> list[int]:
    """The lengths that so many of the sequences do not pass."""
    below = np.cumsum(histogram.counts) / histogram.num_sequences
    return [int(np.searchsorted(below, share - 1e-12)) for share in shares]


def draw_lengths(ax: Axes, histogram: LengthHistogram) -> None:
    """The share of the sequences by length, and the lengths that 50, 90 and 99 % do not pass."""
    bins = min(64, histogram.max_length)
    heights, edges = np.histogram(
        np.arange(1, histogram.max_length + 1),
        bins=bins,
        range=(0.5, histogram.max_length + 0.5),
        weights=histogram.counts[1:],
    )
    ax.stairs(100 * heights / histogram.num_sequences, edges, fill=True, color=series("packed")["color"])
    top = 100 * heights.max() / histogram.num_sequences
    said: dict[int, list[str]] = {}
    for share, length in zip((50, 90, 99), percentiles(histogram), strict=True):
        said.setdefault(length, []).append(str(share))
    for row, (length, shares) in enumerate(said.items()):
        side = "right" if 2 * length > histogram.max_length else "left"
        *first, last = shares
        text = f" {', '.join(first)}{' and ' * bool(first)}{last} % up to {length:,} "
        at = top * (1.32 - 0.1 * row)
        ax.vlines(length, 0, at, color=INK, linestyle=":", linewidth=1.5)  # no line crosses the text of an earlier one
        ax.text(length, at, text, ha=side, va="center")
    ax.set(xlabel="tokens", ylabel="% of the sequences", xlim=(0, histogram.max_length * 1.01), ylim=(0, 1.38 * top))


def draw_rows(left: Axes, right: Axes, advice: Advice) -> None:
    """Slots for a token, and tokens that are cut, over the row length; a ring marks the choice."""
    tops = [row.max_length for row in advice.row_lengths]
    slots = [row.slots_a_token for row in advice.row_lengths]
    cut = [100 * row.tokens_cut / advice.whole.num_tokens for row in advice.row_lengths]
    at = tops.index(advice.row_length)
    for ax, values, style in ((left, slots, series("packed")), (right, cut, series("next_fit"))):
        ax.plot(tops, values, **style)
        ax.plot(tops[at], values[at], clip_on=False, **RING)
        ax.set_xscale("log", base=2)
        plain_ticks(ax.xaxis, sorted({tops[0], tops[at], tops[-1]}))
        ax.set(xlabel="row length", ylim=(0, 1.1 * max(*values, 1)))
    left.set_ylabel("slots for each token")
    right.set_ylabel("tokens cut, %")


def draw_slots(ax: Axes, advice: Advice) -> None:
    """Slots of one pass as it is made today, by other habits, and packed; the first and the last are compared."""
    names = {
        "random": "random batches",
        "sorted": "sorted batches",
        "maximum": "fixed rows",
        "buckets": "buckets",
        "megabatches": "sorted windows",
        "packed": "in order",
    }
    made = (advice.today, *advice.habits)
    bars = [(names[one.habit], "next_fit" if one.habit == "packed" else one.habit, one.slots) for one in made]
    for row, (name, color, slots) in enumerate([*bars, ("packed", "packed", advice.slots)]):
        ax.barh(row, slots / 1e6, height=0.7, color=series(color)["color"])
        times = "" if name == "packed" else f", {slots / advice.slots:.2f} times"
        ax.text(slots / 1e6, row, f" {slots / 1e6:,.4g}{times}", va="center")
    said = [f"today: {bars[0][0]}", *(name for name, *_ in bars[1:]), "packed"]
    name_rows(ax, said, above=0.9)  # room for the name of a guess
    most = max(advice.slots, *(slots for *_, slots in bars)) / 1e6
    ax.set(xlim=(0, 1.45 * most), xlabel="slots of one pass, in millions")


def draw_updates(ax: Axes, advice: Advice) -> None:
    """How near each micro batch comes to the old sequences an update, at its best accumulation."""
    update = advice.update
    assert update is not None  # the notebook says its batch
    rows = update.before.sequences_per_update / update.after.replicas / update.after.packing_factor
    sizes = range(1, min(update.most, int(rows) + 1) + 1)
    off = [
        100 * min((update.off_with(size, n) for n in {max(1, int(rows / size)), int(rows / size) + 1}), key=abs)
        for size in sizes
    ]
    ax.axhspan(-2, 2, color=INK, alpha=0.12, linewidth=0)
    ax.plot(sizes, off, "o", color=series("packed")["color"])
    chosen = update.after.micro_batch
    ax.plot(chosen, off[chosen - 1], clip_on=False, **RING)
    reach = max(6, *map(abs, off)) * 1.15
    ax.set(xlabel="micro batch, packs", ylabel="sequences an update, % off", ylim=(-reach, reach))
    ax.set_xlim(0.5, max(sizes) + 0.5)
    ax.text(max(sizes) + 0.4, 2, "within 2 % ", ha="right", va="bottom")
