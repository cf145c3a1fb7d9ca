"""Figures of notebook 10: where padding arises, and who compiles when."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packbook.figures import INK, OKABE_ITO, PADDING, name_rows, new_figure, percent, series, show, styled
from packbook.guesses import said
from packbook.n10_compilation.buckets import Buckets, choose_buckets
from packlib.lengths import LengthHistogram


class Look(NamedTuple):
    """What a way to choose buckets is called in figures, and the style of its line."""

    name: str
    style: dict


LOOKS = {  # of the ways to choose buckets, by the names of `choose_buckets`
    "optimal": Look("optimal", series("optimal")),
    "equal_count": Look("equal counts", series("megabatches")),
    "geometric": Look("geometric", series("random")),
}


def draw_padding(ax: Axes, histogram: LengthHistogram, buckets: Buckets) -> None:
    """Draw the tokens of the sequences of each length, and on top their padding; lengths are in bins of equal width."""
    present = np.flatnonzero(histogram.counts)  # the lengths that occur
    edges = np.array(buckets.lengths)
    padding = edges[np.searchsorted(edges, present)] - present  # of a sequence of each length
    counts = histogram.counts[present]

    bin_width = max(1, histogram.max_length // 128)
    num_bins = -(-histogram.max_length // bin_width) + 1
    tokens_in_bin, padding_in_bin = np.zeros(num_bins), np.zeros(num_bins)
    np.add.at(tokens_in_bin, present // bin_width, counts * present)
    np.add.at(padding_in_bin, present // bin_width, counts * padding)

    last = present[-1] // bin_width  # this bin is left out: the pile at the maximum would dwarf all others
    x = np.arange(last) * bin_width
    tokens_in_bin, padding_in_bin = tokens_in_bin[:last], padding_in_bin[:last]
    ax.fill_between(x, tokens_in_bin, step="post", color=OKABE_ITO[4])
    ax.fill_between(x, tokens_in_bin, tokens_in_bin + padding_in_bin, step="post", color=PADDING)
    for edge in edges:
        ax.axvline(edge, color=INK, linestyle=":", linewidth=1)
    # fixed by the tokens, so that they stay where they are; with one or two buckets the highest padding is cut off
    ax.set(xlim=(0, histogram.max_length), ylim=(0, 3 * tokens_in_bin.max(initial=1)))


def show_choices(histogram: LengthHistogram, number: int, multiple: int, mark: Callable[..., None]) -> None:
    """Show the padding of `number` buckets, by each way to choose them, with the guess that `mark` draws."""
    fig, alt = draw_choices(histogram, {way: choose_buckets(histogram, number, multiple, way) for way in LOOKS})
    mark(fig.axes[0], "padding")
    show(fig, alt=alt, name="choices")


def show_onset(runs: dict[str, np.ndarray]) -> None:
    """Show the ranks that compile in each step."""
    fig, alt = draw_onset(runs)
    show(fig, alt=alt, name="onset")


@styled()
def draw_choices(histogram: LengthHistogram, choices: dict[str, Buckets]) -> tuple[Figure, str]:
    """Draw a bar for each way to choose buckets, cut into the padding of each bucket, in percent of all slots.

    Args:
        choices: the buckets by the names of `LOOKS`.

    Returns:
        The figure and its alt text.
    """
    fig, ax = new_figure()
    present = np.flatnonzero(histogram.counts)  # the lengths that occur
    longest_bar = 100 * max(buckets.padding_fraction for buckets in choices.values())  # percent
    words = []
    for row, (way, buckets) in enumerate(choices.items()):
        bucket_of_length = np.searchsorted(buckets.lengths, present)
        padding_of_length = histogram.counts[present] * (np.array(buckets.lengths)[bucket_of_length] - present)
        padding_of_bucket = np.bincount(bucket_of_length, padding_of_length, len(buckets.lengths))  # slots
        shares = 100 * padding_of_bucket / buckets.slots  # percent of the slots of all buckets
        for edge, share, end in zip(buckets.lengths, shares, np.cumsum(shares), strict=True):
            ax.barh(row, share, 0.6, left=end - share, color=LOOKS[way].style["color"], edgecolor="white", lw=2)
            if share > 0.06 * longest_bar:  # there is room for a number
                look = {"color": INK if way == "equal_count" else "white", "fontweight": "bold", "fontsize": 11}
                ax.text(end - share / 2, row, f"{edge:,}", ha="center", va="center", **look)
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # the line of a guess may pass
        ax.text(sum(shares), row, f" {percent(buckets.padding_fraction)}", va="center", bbox=behind)
        listed = ", ".join(f"{edge:,} with {share:.1f} %" for edge, share in zip(buckets.lengths, shares, strict=True))
        words.append(f"{LOOKS[way].name} {listed}")
    name_rows(ax, [LOOKS[way].name for way in choices])
    ax.set_xlabel("padding, % of all slots; in the bars, the length padded to")
    ax.set_xlim(0, 1.15 * max(1, longest_bar))  # behind the bars is room for their percentages
    best = choices["optimal"]
    lengths = f"{len(best.lengths)} length{'s' * (len(best.lengths) > 1)}"
    if all(buckets.slots == best.slots for buckets in choices.values()):
        ax.set_title(f"All three ways to choose {lengths} waste {percent(best.padding_fraction)}")
    else:
        ax.set_title(f"The best {lengths} waste least: {percent(best.padding_fraction)} of the slots")
    return fig, f"{histogram.name} ({histogram.kind}), padding of each bucket in all slots: {'; '.join(words)}."


@styled()
def draw_onset(runs: dict[str, np.ndarray]) -> tuple[Figure, str]:
    """Draw a row for each rank, a column for each step: dark where it compiles, gray where it waits for another.

    Args:
        runs: by name, where a rank meets a new shape, as from `meets_new`, bool, shape (ranks, steps).

    Returns:
        The figure and its alt text.
    """
    fig, axes = new_figure(len(runs), 1, sharex=True)
    words = []
    for ax, (name, compiles) in zip(axes, runs.items(), strict=True):
        num_ranks, num_steps = compiles.shape
        stalled = compiles.any(axis=0)  # steps in which some rank compiles
        picture = np.empty((num_ranks, num_steps, 3))
        picture[:] = np.array([0xE5, 0xF2, 0xFA]) / 255
        picture[:, stalled] = np.array([0xC4] * 3) / 255
        picture[compiles] = np.array([0xD5, 0x5E, 0x00]) / 255
        edges = (0.5, num_steps + 0.5, num_ranks - 0.5, -0.5)  # steps are counted from 1, ranks from 0 on top
        ax.imshow(picture, aspect="auto", interpolation="nearest", extent=edges)
        ranks, steps = compiles.nonzero()
        ax.plot(steps + 1, ranks, marker="o", linestyle="", color="white", markersize=4)
        ax.hlines(np.arange(1, num_ranks) - 0.5, 0.5, num_steps + 0.5, color="white", linewidth=1.5, linestyle="-")
        ax.set_yticks([0, num_ranks - 1], ["rank 0", f"rank {num_ranks - 1}"])
        ax.set_title(f"{name}: some rank compiles in {stalled.sum()} of {num_steps} steps", fontsize=13)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        often = said(int(stalled.sum()), "steps")
        words.append(f"{name}: in {often}, the last of them step {np.flatnonzero(stalled)[-1] + 1}")
    axes[-1].set_xlabel("step (dot: the rank compiles; gray: it waits for one that does)")
    return fig, (
        f"{num_ranks} ranks, {num_steps} steps; when some rank compiles a shape that is new to it, all wait. "
        f"{'; '.join(words)}."
    )
