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
    name: str
    style: dict


LOOKS = {  # of the ways to choose buckets
    "optimal": Look("optimal", series("optimal")),
    "equal_count": Look("equal counts", series("megabatches")),
    "geometric": Look("geometric", series("random")),
}


def draw_padding(ax: Axes, histogram: LengthHistogram, buckets: Buckets) -> None:
    """Draw tokens by length, and on top the slots that the bucket's length adds; both in equal bins."""
    present = np.flatnonzero(histogram.counts)
    edges = np.array(buckets.lengths)
    extra = edges[np.searchsorted(edges, present)] - present
    top = histogram.max_length
    width = max(1, top // 128)
    bins = np.zeros((2, -(-top // width) + 1))
    for row, slots in zip(bins, (present, extra), strict=True):
        np.add.at(row, present // width, histogram.counts[present] * slots)
    x = np.arange(bins.shape[1]) * width
    last = present[-1] // width  # the pile at the maximum would dwarf the rest
    ax.fill_between(x[:last], bins[0, :last], step="post", color=OKABE_ITO[4])
    ax.fill_between(x[:last], bins[0, :last], bins[:, :last].sum(axis=0), step="post", color=PADDING)
    for edge in edges:
        ax.axvline(edge, color=INK, linestyle=":", linewidth=1)
    # so that tokens stay where they are while padding shrinks; of one or two buckets the highest padding is cut off
    ax.set(xlim=(0, top), ylim=(0, 3 * bins[0, :last].max(initial=1)))


def show_choices(histogram: LengthHistogram, number: int, multiple: int, mark: Callable[..., None]) -> None:
    """Draw the padding of so many lengths, by each way to choose them, with the guess that `mark` draws."""
    fig, alt = draw_choices(histogram, {way: choose_buckets(histogram, number, multiple, way) for way in LOOKS})
    mark(fig.axes[0], "padding")
    show(fig, alt=alt, name="choices")


def show_onset(runs: dict[str, np.ndarray]) -> None:
    """Show the ranks that compile in each step."""
    fig, alt = draw_onset(runs)
    show(fig, alt=alt, name="onset")


@styled()
def draw_choices(histogram: LengthHistogram, choices: dict[str, Buckets]) -> tuple[Figure, str]:
    """Return, for each way to choose buckets a bar, cut into the padding of each bucket, in percent of all slots."""
    fig, ax = new_figure()
    present, words = np.flatnonzero(histogram.counts), []
    for row, (method, buckets) in enumerate(choices.items()):
        inside = np.searchsorted(buckets.lengths, present)
        padded = histogram.counts[present] * (np.array(buckets.lengths)[inside] - present)
        shares = 100 * np.bincount(inside, padded, len(buckets.lengths)) / buckets.slots
        for edge, share, end in zip(buckets.lengths, shares, np.cumsum(shares), strict=True):
            ax.barh(row, share, 0.6, left=end - share, color=LOOKS[method].style["color"], edgecolor="white", lw=2)
            if share > 0.06 * 100 * max(choice.padding_fraction for choice in choices.values()):
                look = {"color": INK if method == "equal_count" else "white", "fontweight": "bold", "fontsize": 11}
                ax.text(end - share / 2, row, f"{edge:,}", ha="center", va="center", **look)
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # the line of a guess may pass
        ax.text(sum(shares), row, f" {percent(buckets.padding_fraction)}", va="center", bbox=behind)
        listed = ", ".join(f"{edge:,} with {share:.1f} %" for edge, share in zip(buckets.lengths, shares, strict=True))
        words.append(f"{LOOKS[method].name} {listed}")
    name_rows(ax, [LOOKS[method].name for method in choices])
    ax.set_xlabel("padding, % of all slots; in the bars, the length padded to")
    ax.set_xlim(0, 115 * max(0.01, *(choice.padding_fraction for choice in choices.values())))
    best = choices["optimal"]
    others = [one for way, one in choices.items() if way != "optimal"]
    lengths = f"{len(best.lengths)} length{'s' * (len(best.lengths) > 1)}"
    if all(one.slots == best.slots for one in others):
        ax.set_title(f"All three ways to choose {lengths} waste {percent(best.padding_fraction)}")
    else:
        ax.set_title(f"The best {lengths} waste least: {percent(best.padding_fraction)} of the slots")
    return fig, f"{histogram.name} ({histogram.kind}), padding of each bucket in all slots: {'; '.join(words)}."


@styled()
def draw_onset(runs: dict[str, np.ndarray]) -> tuple[Figure, str]:
    """Draw a row for each rank, a column for each step: dark where it compiles, gray where it waits for another."""
    fig, axes = new_figure(len(runs), 1, sharex=True)
    words = []
    for ax, (name, new) in zip(axes, runs.items(), strict=True):
        stalled = new.any(axis=0)
        picture = np.empty((*new.shape, 3))
        picture[:] = np.array([0xE5, 0xF2, 0xFA]) / 255
        picture[:, stalled] = np.array([0xC4] * 3) / 255
        picture[new] = np.array([0xD5, 0x5E, 0x00]) / 255
        ax.imshow(
            picture, aspect="auto", interpolation="nearest", extent=(0.5, new.shape[1] + 0.5, len(new) - 0.5, -0.5)
        )
        rows, steps = new.nonzero()
        ax.plot(steps + 1, rows, marker="o", linestyle="", color="white", markersize=4)
        ax.hlines(np.arange(1, len(new)) - 0.5, 0.5, new.shape[1] + 0.5, color="white", linewidth=1.5, linestyle="-")
        ax.set_yticks([0, len(new) - 1], ["rank 0", f"rank {len(new) - 1}"])
        ax.set_title(f"{name}: some rank compiles in {stalled.sum()} of {new.shape[1]} steps", fontsize=13)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        often = said(int(stalled.sum()), "steps")
        words.append(f"{name}: in {often}, the last of them step {np.flatnonzero(stalled)[-1] + 1}")
    axes[-1].set_xlabel("step (dot: the rank compiles; gray: it waits for one that does)")
    return fig, (
        f"{len(new)} ranks, {new.shape[1]} steps; when some rank compiles a shape that is new to it, all wait. "
        f"{'; '.join(words)}."
    )
