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
MASKED = ("padded to the maximum", "padded to the longest", "packed")  # runs of the race that keep texts apart


def draw_rows(ax: Axes, rows: Sequence[Sequence[int]], lengths: np.ndarray, slots: int, most: int) -> None:
    """Draw rows of text ids, room for `most` of them. A text has the same color wherever it lies; gray is empty."""

    def bars(y: np.ndarray, left: np.ndarray, right: np.ndarray, **look) -> None:
        corners = np.stack([left, y - 0.43, left, y + 0.43, right, y + 0.43, right, y - 0.43], axis=1)
        ax.add_collection(PolyCollection(corners.reshape(-1, 4, 2), **look))  # faster than a patch each

    every, ids = np.arange(len(rows)), np.concatenate([np.asarray(row) for row in rows])
    bars(every, np.zeros(len(rows)), np.full(len(rows), slots), facecolors=PADDING)
    ends = np.concatenate([np.cumsum(lengths[np.asarray(row)]) for row in rows])
    colors = [COLORS[i % len(COLORS)] for i in ids]
    at = np.repeat(every, [len(row) for row in rows])
    bars(at, ends - lengths[ids], ends, facecolors=colors, edgecolors="white", linewidths=0.8)
    if (saved := most - len(rows)) > most / 4:
        over = {"color": INK, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}}  # a guess may cross it
        ax.text(slots / 2, (most + len(rows)) / 2, f"{saved} rows saved", ha="center", va="center", **over)
    ax.set(xlim=(0, slots), ylim=(most - 0.4, -0.6), yticks=[], xlabel="slots")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
    ax.spines["left"].set_visible(False)


def short(text: str) -> str:
    """Return a text on one line, cut after a word."""
    return textwrap.shorten(text, 90, placeholder=" …")


@styled()
def show_padded(lengths: np.ndarray, max_length: int) -> None:
    """Draw the first texts, each in a row of its own."""
    fig, ax = new_figure()
    draw_rows(ax, [[i] for i in range(FEW)], lengths, max_length, FEW)
    empty = 1 - lengths[:FEW].mean() / max_length
    ax.set(title=f"{FEW} texts in {FEW} rows: {percent(empty, 0)} of the slots are empty")
    numbers = {"empty": 100 * float(empty)}
    alt = f"{FEW} real texts as rows of {max_length} slots. The colored part of each row is text, "
    show(fig, alt=alt + f"the gray part is padding: {percent(empty)} of all slots.", name="waste", numbers=numbers)


@styled()
def show_packed(lengths: np.ndarray, packs: Packs, best: PackingPlan, mark: Callable[..., None]) -> None:
    """Draw the first texts in rows of their own, and in the packs of a plan, with the guess that `mark` draws."""
    max_length = best.histogram.max_length
    empty = 1 - lengths[:FEW].mean() / max_length
    fig, axes = new_figure(1, 2, sharey=True)
    draw_rows(axes[0], [[i] for i in range(FEW)], lengths, max_length, FEW)
    draw_rows(axes[1], [samples.tolist() for samples in packs], lengths, max_length, FEW)
    axes[0].set_title(f"padded: {FEW} rows, {percent(empty, 0)} empty")
    axes[1].set_title(f"packed: {said(len(packs), 'rows')}, {percent(1 - best.efficiency, 0)} empty")
    mark(axes[1], "rows", "y", at=lambda rows: rows - 0.5)  # below so many rows
    alt = f"The same {FEW} texts twice. Padded they take {FEW} rows, {percent(empty)} empty; packed they take "
    alt += f"{said(len(packs), 'rows')}, {percent(1 - best.efficiency)} empty."
    show(fig, alt=alt, name="packed", numbers={"padded": FEW, "packed": len(packs)})


@styled()
def show_looks(segment_ids: "torch.Tensor") -> None:
    """Draw who looks at whom in a pack, without a mask and with it."""
    from packbook.shared.segments import draw_mask

    ids, real = segment_ids, segment_ids > 0
    own, pairs = ids[:, None] == ids, real[:, None] & real
    fig, axes = new_figure(1, 2)
    share = 1 - int((own & pairs).sum()) / int(pairs.sum())
    draw_mask(axes[0], ids, pairs, f"No mask: {percent(share, 0)} of pairs are strangers")
    draw_mask(axes[1], ids, own, "Mask: each text sees itself")
    axes[0].set(xlabel="token that is looked at", ylabel="token that looks")
    axes[1].set(xlabel="token that is looked at")
    texts = said(int(ids.max()), "texts")
    alt = f"Which token looks at which in a pack of {texts}. Without a mask, {percent(share)} of all pairs are of two "
    show(fig, alt=alt + "texts; with it only the blocks of each text are left.", name="mask")


@styled()
def draw_race(rows: Sequence[Mapping[str, Any]]) -> tuple[Figure, str, dict[str, float]]:
    """Return the recorded race as a figure, an alt text and numbers: seconds and words right, median of the seeds."""
    packed = series("packed")["color"]
    seconds = {way: median(_of_seeds(rows, way, "CPU s")) for way in MASKED}
    right = {way: median(_of_seeds(rows, way, "right")) for way in MASKED}
    fig, ax = new_figure()
    for at, way in enumerate(MASKED):
        ax.barh(at, seconds[way], 0.6, **({"color": packed} if way == "packed" else EMPTY))
        label = f"{seconds[way]:.1f} s: {percent(right[way], 0)} right"
        ax.text(seconds[way] + 0.05, at, label, va="center", fontsize=16)
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
    """Return the hidden words that each recorded run got right, a mark for each seed, and an alt text."""
    ways = (*MASKED, "packed, no mask")
    right = {way: [100 * share for share in _of_seeds(rows, way, "right")] for way in ways}
    fig, ax = new_figure()
    for at, way in enumerate(ways):
        color = series("packed")["color"] if way == "packed" else INK
        marker = "o" if way in MASKED else "X"
        ax.plot(right[way], [at] * len(right[way]), marker, color=color, markersize=11, alpha=0.6)
    _name_ways(ax, ways)
    ax.set_xlim(0, 104)
    ax.set_xlabel("hidden words that are right, %; a mark for each of three seeds", fontsize=13)
    least, most = min(right["packed, no mask"]), max(right["packed, no mask"])
    masked = median(right["packed"])
    ax.set_title(f"Without the mask {least:.0f} to {most:.0f} % are right, with it {masked:.0f} %")
    listed = "; ".join(f"{way} {', '.join(f'{one:.0f}' for one in right[way])} %" for way in ways)
    return fig, f"Hidden words that are right at the end of each recorded run, for three seeds: {listed}."


def show_race(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the recorded race: its seconds, and what each run got right."""
    fig, alt, numbers = draw_race(rows)
    show(fig, alt=alt, name="race-seconds", numbers=numbers)
    fig, alt = draw_right(rows)
    show(fig, alt=alt, name="race-right")


def _of_seeds(rows: Sequence[Mapping[str, Any]], way: str, column: str) -> list[float]:
    return [row[column] for row in rows if row["run"] == way]


def _name_ways(ax: Axes, ways: Sequence[str]) -> None:
    ax.set_yticks(range(len(ways)), [way.replace(" to the ", " to\nthe ") for way in ways], fontsize=16)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(ways) - 0.5, -0.5)
