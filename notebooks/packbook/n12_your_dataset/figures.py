"""What notebook 12 draws: your lengths, and the numbers that row length, batches and updates are chosen by."""

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

RING = {  # a mark around the advised row length
    "marker": "o", "markersize": 20, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 2,
}  # fmt: skip
ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}
LOST = OKABE_ITO[1]  # color of tokens that do not fit into rows


def percentiles(histogram: LengthHistogram, shares: tuple[float, ...] = (0.5, 0.9, 0.99)) -> list[int]:
    """Return, for each share, the smallest length that this share of the sequences does not exceed."""
    share_up_to = np.cumsum(histogram.counts) / histogram.num_sequences
    return [int(np.searchsorted(share_up_to, share - 1e-12)) for share in shares]  # 0.9 of 10 sequences is 9


@styled()
def show_lengths(whole: LengthHistogram, row: int) -> None:
    """Show the histogram of lengths before sequences are cut, the current row length, and three percentiles.

    Args:
        whole: all sequences, uncut.
        row: slots in a row now.
    """
    median, percentile_90, percentile_99 = percentiles(whole)
    fig, ax = new_figure()
    draw_lengths(ax, whole, row)
    beyond = whole.counts[row + 1 :].sum() / whole.num_sequences
    shortest = int(whole.counts.nonzero()[0][0])
    at_most = f"Half of the sequences have at most {plural(median, 'token')}"
    spread = f"half of them have at most {plural(median, 'token')}, "
    spread += f"90 % at most {percentile_90:,}, 99 % at most {percentile_99:,}"
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
    """Draw a histogram over a logarithmic axis, so that short and long sequences are seen alike, and the row length."""
    longest = int(histogram.counts.nonzero()[0][-1])
    shortest = int(histogram.counts.nonzero()[0][0])
    low, high = min(shortest, row) * 0.8, max(longest, row) * 1.25
    edges = np.unique(np.rint(np.geomspace(max(1, low), high + 1, 49)).astype(int))
    sequences_up_to = np.concatenate([[0], np.cumsum(histogram.counts[1:])])  # each length
    below_edges = sequences_up_to[np.minimum(edges - 1, len(sequences_up_to) - 1)]
    heights = 100 * np.diff(below_edges) / histogram.num_sequences  # percent of the sequences
    ax.stairs(heights, edges, fill=True, color=series("packed")["color"])
    top = heights.max()
    shares_by_length: dict[int, list[str]] = {}  # two percentiles may be the same length
    for share, length in zip((50, 90, 99), percentiles(histogram), strict=True):
        shares_by_length.setdefault(length, []).append(f"{share} %")
    middle = (low * high) ** 0.5  # of the axis
    for number, (length, shares) in enumerate(shares_by_length.items()):
        height = top * (1.4 - 0.11 * number)  # lower and lower, so that no line crosses an earlier text
        ax.vlines(length, 0, height, color=INK, linestyle=":", linewidth=1.5)
        text = f"{' and '.join(shares)} up to {length:,}"
        if length > middle:  # the text stands on the side with more room
            place = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right"}
        else:
            place = {"xytext": (4, 0), "textcoords": "offset points", "ha": "left"}
        ax.annotate(text, (length, height), va="center", bbox=ON_WHITE, **place)
    ax.vlines(row, 0, top * 1.6, color=LOST, linewidth=2)
    ax.text(row, top * 1.6, f" row now: {row:,} ", ha="right" if row > middle else "left", va="center")
    ax.set_xscale("log", base=2)
    ticks = [2**power for power in range(1, 24) if low <= 2**power <= high]
    plain_ticks(ax.xaxis, ticks[:: max(1, len(ticks) // 7)] or [row])
    ax.set(xlabel="tokens", ylabel="% of the sequences", xlim=(low, high), ylim=(0, 1.7 * top))


@styled()
def show_rows(advice: Advice, mine: int, mine_slots: float, mine_beyond: float) -> None:
    """Show slots for each token, and tokens that do not fit, by row length, for the advice and for the learner.

    Args:
        mine: row length that the learner chose.
        mine_slots: slots for each token in these rows.
        mine_beyond: share of the tokens that do not fit into these rows.
    """
    rows = advice.row_lengths
    lengths = [row.max_length for row in rows]
    slots = [row.slots_a_token for row in rows]
    beyond = [100 * row.tokens_cut / advice.whole.num_tokens for row in rows]  # percent
    advised = lengths.index(advice.row_length)
    words = "cut into pieces" if advice.overlong == "split" else "lost"
    fig, axes = new_figure(1, 2)
    chosen = advice.chosen
    for ax, values, own, style in (
        (axes[0], slots, mine_slots, series("packed")),
        (axes[1], beyond, 100 * mine_beyond, {"color": LOST, "marker": "o"}),
    ):
        ax.plot(lengths, values, **style)
        ax.plot(lengths[advised], values[advised], clip_on=False, label="advice", linestyle="none", **RING)
        ax.plot(mine, own, "s", markersize=11, color=INK, clip_on=False, label="yours")
        ax.set_xscale("log", base=2)
        plain_ticks(ax.xaxis, sorted({lengths[0], lengths[advised], lengths[-1]}))
        ax.set(xlabel="row length", ylim=(0, 1.15 * max(*values, own, 1)))
        ax.set_xlim(min(mine, *lengths) * 0.8, max(mine, *lengths) * 1.25)
    axes[0].set_ylabel("slots for each token")
    axes[1].set_ylabel(f"tokens {words}, %")
    axes[1].legend(loc="upper right")
    axes[0].set_title(f"Advice: {chosen.slots_a_token:.3f} slots per token")
    axes[1].set_title(f"{percent(chosen.tokens_cut / advice.whole.num_tokens, 2)} {words}")
    row_lengths = ", ".join(f"{row.max_length:,}" for row in rows)
    slots_per_token = ", ".join(f"{row.slots_a_token:.3f}" for row in rows)
    tokens_beyond = ", ".join(f"{row.tokens_cut:,}" for row in rows)
    alt = f"Rows of {row_lengths} slots. Slots per token: {slots_per_token}. Tokens {BEYOND[advice.overlong]}: "
    alt += f"{tokens_beyond}. Advised are rows of {chosen.max_length:,}, yours are of {mine:,}."
    show(fig, alt=alt, name="row-lengths")


@styled()
def show_slots(advice: Advice, mine: Bill, mark: Callable[..., None]) -> None:
    """Show the slots of one pass as batches are made today, by other habits, and packed, as multiples of the learner's.

    Args:
        mine: the bill of the learner's packs.
        mark: draws the reader's guess, as `Questions.mark`.
    """
    names = {
        "random": "random batches",
        "sorted": "sorted batches",
        "maximum": "fixed rows",
        "buckets": "buckets",
        "megabatches": "sorted windows",
        "packed": "in order",
    }
    bars: list[tuple[str, str, float]] = []  # name, series that gives the color, slots
    for batches in (advice.today, *advice.habits):
        name = names[batches.habit] if bars else f"today: {names[batches.habit]}"
        color_of: str = "next_fit" if batches.habit == "packed" else batches.habit
        bars.append((name, color_of, batches.slots))
    bars += [("advice", "packed", advice.slots), ("your packs", "packed", mine.slots)]
    fig, ax = new_figure()
    for row, (_, color_of, slots) in enumerate(bars):
        ax.barh(row, slots / mine.slots, height=0.7, color=series(color_of)["color"])
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
    """Show how near each micro batch comes to today's sequences per update, at its best accumulation.

    Args:
        factor: sequences in an average pack of the learner's.
        most: the largest micro batch that has no more slots than an average batch today.
        mine: the learner's micro batch and accumulation.
    """
    assert advice.update is not None  # the notebook gives the advice a batch size
    packs_due = advice.update.before.sequences_per_update / factor  # packs with as many sequences as an update today
    largest = max(1, min(most, int(packs_due) + 1))
    sizes = range(1, largest + 1)  # of the micro batch
    errors = []  # of the sequences per update, in percent, at the best accumulation
    for size in sizes:
        accumulations = {max(1, int(packs_due / size)), int(packs_due / size) + 1}
        errors.append(100 * min((size * steps / packs_due - 1 for steps in accumulations), key=abs))
    my_size, my_steps = mine
    my_error = 100 * (my_size * my_steps / packs_due - 1)
    fig, ax = new_figure()
    ax.axhspan(-2, 2, color=INK, alpha=0.12, linewidth=0)
    ax.plot(sizes, errors, "o", color=series("packed")["color"], label="best accumulation")
    reach = max(6, *map(abs, errors)) * 1.3  # of the axis, to both sides of 0
    inside = abs(my_error) <= reach and my_size <= largest + 0.5
    if inside:
        ax.plot(my_size, my_error, "s", markersize=11, fillstyle="none", markeredgewidth=2, color=INK, label="yours")
    ax.set(xlabel="micro batch, packs", ylabel="sequences per update, % off", ylim=(-reach, 1.35 * reach))
    ax.set_xlim(0.5, largest + 0.5)
    ax.text(largest + 0.4, 2, "within 2 % ", ha="right", va="bottom")
    ax.legend(loc="upper right", ncols=2)  # above all points
    near = [size for size, error in zip(sizes, errors, strict=True) if abs(error) <= 2]
    title = f"Micro batches within 2 % of today's sequences per update: {len(near)} of {len(sizes)}"
    ax.set_title(title)
    where = "" if inside else ", outside of the picture"
    sentence = f"Yours are {my_size:,} × {plural(my_steps, 'pack')}, {my_error:+,.1f} %{where}."
    show(fig, alt=f"{title}. {_ranges(near)} {sentence}", name="updates")


def _ranges(sizes: list[int]) -> str:
    """Return ascending numbers in words, consecutive ones as a range: "They are 1, 3 to 5."."""
    if not sizes:
        return "None is."
    gaps = [(size, following) for size, following in pairwise(sizes) if following > size + 1]
    starts = [sizes[0], *(following for _, following in gaps)]
    ends = [*(size for size, _ in gaps), sizes[-1]]
    ranges = ", ".join(
        f"{start:,}" if start == end else f"{start:,} to {end:,}" for start, end in zip(starts, ends, strict=True)
    )
    return f"They are {ranges}." if len(sizes) > 1 else f"It is {ranges}."
