"""What notebook 00 draws: rows of texts, and who looks at whom."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packbook.figures import EMPTY, INK, OKABE_ITO, PADDING, new_figure, percent, series, show, styled
from packbook.guesses import said
from packlib.packing import PackingPlan, Packs

if TYPE_CHECKING:  # the first page does not wait for torch
    import torch

COLORS = OKABE_ITO[:6]
FEW = 48  # texts to look at
BAR_HEIGHT = 0.86  # of a row
MASKED = ("padded to the maximum", "padded to the longest", "packed")  # runs of the race that keep texts apart


def draw_rows(ax: Axes, rows: Sequence[Sequence[int]], lengths: np.ndarray, slots: int, most: int) -> None:
    """Draw rows of texts, which have the same color wherever they lie; what is empty is gray.

    Args:
        rows: the texts of each row, as indices of `lengths`.
        lengths: tokens of each text.
        slots: in a row.
        most: rows to leave room for.
    """

    def draw_bars(row: np.ndarray, left: np.ndarray, right: np.ndarray, **look) -> None:
        """Draw a bar for each item of three arrays, from slot `left` to slot `right` of its row."""
        top, bottom = row - BAR_HEIGHT / 2, row + BAR_HEIGHT / 2
        corners = np.stack([left, top, left, bottom, right, bottom, right, top], axis=1).reshape(-1, 4, 2)
        ax.add_collection(PolyCollection(corners, **look))  # faster than a patch for each

    row_numbers = np.arange(len(rows))
    draw_bars(row_numbers, np.zeros(len(rows)), np.full(len(rows), slots), facecolors=PADDING)

    texts = np.concatenate([np.asarray(row) for row in rows])
    row_of_text = np.repeat(row_numbers, [len(row) for row in rows])
    ends = np.concatenate([np.cumsum(lengths[np.asarray(row)]) for row in rows])
    colors = [COLORS[text % len(COLORS)] for text in texts]
    draw_bars(row_of_text, ends - lengths[texts], ends, facecolors=colors, edgecolors="white", linewidths=0.8)

    if (saved := most - len(rows)) > most / 4:  # there is room for the words
        over = {"color": INK, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}  # a guess may cross it
        ax.text(slots / 2, (most + len(rows)) / 2, f"{saved} rows saved", ha="center", va="center", **over)
    ax.set(xlim=(0, slots), ylim=(most - 0.4, -0.6), yticks=[], xlabel="slots")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
    ax.spines["left"].set_visible(False)


def short(text: str) -> str:
    """Return a text on one line of at most 90 characters, cut after a word."""
    return textwrap.shorten(text, 90, placeholder=" …")


@styled()
def show_padded(lengths: np.ndarray, max_length: int) -> None:
    """Show the first texts, each in a row of its own."""
    fig, ax = new_figure()
    draw_rows(ax, [[i] for i in range(FEW)], lengths, max_length, FEW)
    empty = 1 - lengths[:FEW].mean() / max_length
    ax.set(title=f"{FEW} texts in {FEW} rows: {percent(empty, 0)} of the slots are empty")
    numbers = {"empty": 100 * float(empty)}
    alt = f"{FEW} real texts as rows of {max_length} slots. The colored part of each row is text, "
    show(fig, alt=alt + f"the gray part is padding: {percent(empty)} of all slots.", name="waste", numbers=numbers)


@styled()
def show_packed(lengths: np.ndarray, packs: Packs, best: PackingPlan, mark: Callable[..., None]) -> None:
    """Show the first texts in rows of their own, and in packs.

    Args:
        lengths: tokens of all texts.
        packs: of the first texts, under `best`.
        mark: draws the reader's guess, as `Questions.mark`.
    """
    max_length = best.histogram.max_length
    empty = 1 - lengths[:FEW].mean() / max_length
    fig, axes = new_figure(1, 2, sharey=True)
    draw_rows(axes[0], [[i] for i in range(FEW)], lengths, max_length, FEW)
    draw_rows(axes[1], [samples.tolist() for samples in packs], lengths, max_length, FEW)
    axes[0].set_title(f"padded: {FEW} rows, {percent(empty, 0)} empty")
    axes[1].set_title(f"packed: {said(len(packs), 'rows')}, {percent(1 - best.efficiency, 0)} empty")
    mark(axes[1], "rows", "y", at=lambda rows: rows - 0.5)  # at the lower edge of the last row
    alt = f"The same {FEW} texts twice. Padded they take {FEW} rows, {percent(empty)} empty; packed they take "
    alt += f"{said(len(packs), 'rows')}, {percent(1 - best.efficiency)} empty."
    show(fig, alt=alt, name="packed", numbers={"padded": FEW, "packed": len(packs)})


@styled()
def show_looks(segment_ids: "torch.Tensor") -> None:
    """Show which token looks at which in a pack, without a mask and with it.

    Args:
        segment_ids: shape (slots,); 0 is padding.
    """
    from packbook.shared.segments import draw_mask

    is_token = segment_ids > 0
    tokens = is_token[:, None] & is_token  # pairs of slots, shape (slots, slots): both hold a token
    same_segment = segment_ids[:, None] == segment_ids  # the same shape; padding is a segment here
    share = 1 - int((same_segment & tokens).sum()) / int(tokens.sum())
    fig, axes = new_figure(1, 2)
    draw_mask(axes[0], segment_ids, tokens, f"No mask: {percent(share, 0)} of pairs are strangers")
    draw_mask(axes[1], segment_ids, same_segment, "Mask: each text sees itself")
    axes[0].set(xlabel="token that is looked at", ylabel="token that looks")
    axes[1].set(xlabel="token that is looked at")
    texts = said(int(segment_ids.max()), "texts")
    alt = f"Which token looks at which in a pack of {texts}. Without a mask, {percent(share)} of all pairs are of two "
    show(fig, alt=alt + "texts; with it only the blocks of each text are left.", name="mask")


@styled()
def draw_race(rows: Sequence[Mapping[str, Any]]) -> tuple[Figure, str, dict[str, float]]:
    """Draw the processor seconds of the recorded race, and the share of hidden words that each run got right.

    Args:
        rows: of the table `race`, a row for each run and seed; medians of the seeds are drawn.

    Returns:
        The figure, its alt text, and the numbers that a headline may say.
    """
    packed = series("packed")["color"]
    seconds = {way: median(_of_seeds(rows, way, "CPU s")) for way in MASKED}
    right = {way: median(_of_seeds(rows, way, "right")) for way in MASKED}
    fig, ax = new_figure()
    for row, way in enumerate(MASKED):
        ax.barh(row, seconds[way], 0.6, **({"color": packed} if way == "packed" else EMPTY))
        label = f"{seconds[way]:.1f} s: {percent(right[way], 0)} right"
        ax.text(seconds[way] + 0.05, row, label, va="center", fontsize=16)
    _name_ways(ax, MASKED)
    ax.set_xlim(0, 1.5 * max(seconds.values()))
    ax.set_xlabel("processor seconds for the same sentences; median of three seeds", fontsize=13)
    times = seconds["padded to the longest"] / seconds["packed"]
    ax.set_title(f"Packed learns the same, {times:.1f} times as fast as padded to the longest")
    listed = "; ".join(
        f"{way} {seconds[way]:.1f} s, {percent(right[way], 0)} of the hidden words right" for way in MASKED
    )
    alt = f"Processor seconds for the same sentences, median of three seeds: {listed}."
    return fig, alt, {"times": times, "right": 100 * right["packed"]}


@styled()
def draw_right(rows: Sequence[Mapping[str, Any]]) -> tuple[Figure, str]:
    """Draw the share of hidden words that each recorded run got right, with a mark for each seed.

    Returns:
        The figure and its alt text.
    """
    ways = (*MASKED, "packed, no mask")
    right = {way: [100 * share for share in _of_seeds(rows, way, "right")] for way in ways}
    fig, ax = new_figure()
    for row, way in enumerate(ways):
        color = series("packed")["color"] if way == "packed" else INK
        marker = "o" if way in MASKED else "X"
        ax.plot(right[way], [row] * len(right[way]), marker, color=color, markersize=11, alpha=0.6)
    _name_ways(ax, ways)
    ax.set_xlim(0, 104)
    ax.set_xlabel("hidden words that are right, %; a mark for each of three seeds", fontsize=13)
    least, most = min(right["packed, no mask"]), max(right["packed, no mask"])
    masked = median(right["packed"])
    ax.set_title(f"Without the mask {least:.0f} to {most:.0f} % are right, with it {masked:.0f} %")
    listed = "; ".join(f"{way} {', '.join(f'{share:.0f}' for share in right[way])} %" for way in ways)
    return fig, f"Hidden words that are right at the end of each recorded run, for three seeds: {listed}."


def show_race(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show the recorded race in two figures: its seconds, and the share of words that each run got right."""
    fig, alt, numbers = draw_race(rows)
    show(fig, alt=alt, name="race-seconds", numbers=numbers)
    fig, alt = draw_right(rows)
    show(fig, alt=alt, name="race-right")


def _of_seeds(rows: Sequence[Mapping[str, Any]], way: str, column: str) -> list[float]:
    """Return the values of a column for one run, a value for each seed."""
    return [row[column] for row in rows if row["run"] == way]


def _name_ways(ax: Axes, ways: Sequence[str]) -> None:
    """Name the rows at 0, 1, … after runs, the first on top, in large letters and on two lines if they are long."""
    ax.set_yticks(range(len(ways)), [way.replace(" to the ", " to\nthe ") for way in ways], fontsize=16)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(ways) - 0.5, -0.5)
