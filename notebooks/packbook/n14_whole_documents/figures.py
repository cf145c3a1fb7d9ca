"""What notebook 14 draws."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from packbook.figures import (
    EMPTY,
    INK,
    OKABE_ITO,
    label_ends,
    name_rows,
    new_figure,
    plain_ticks,
    series,
    show,
    styled,
)
from packbook.guesses import said
from packbook.n14_whole_documents.runs import in_words, letter
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Interval
from packlib.packing import DocumentRows

CUT = OKABE_ITO[1]  # the pieces of documents that are cut


def draw_rows(ax: Axes, rows: DocumentRows, least: int = 0) -> None:
    """Draw a line for each row: whole documents are blue, pieces of cut ones orange with a black edge at each cut.

    Args:
        least: leave room for so many rows.
    """
    top, edge = rows.max_length, 0.012 * rows.max_length
    for at, row in enumerate(rows):
        begin = 0
        for document, first, length in row.tolist():
            whole = length == rows.document_lengths[document]
            color = series("packed")["color"] if whole else CUT
            ax.barh(at, length, left=begin, height=0.8, color=color, ec="white", lw=1.5)
            name = f"{letter(document)} {length}"
            if length > 0.045 * len(name) * top:
                look = {"color": "white", "fontsize": 11, "fontweight": "bold"}
                ax.text(begin + length / 2, at, name, ha="center", va="center", **look)
            if first > 0:
                ax.barh(at, edge, left=begin, height=0.8, color=INK)
            if first + length < rows.document_lengths[document]:
                ax.barh(at, -edge, left=begin + length, height=0.8, color=INK)
            begin += length
        ax.barh(at, top - begin, left=begin, height=0.8, **EMPTY)
    drawn = {length == rows.document_lengths[document] for row in rows for document, _, length in row.tolist()}
    parts = {"whole": (True, series("packed")["color"]), "a piece; bars mark cuts": (False, CUT)}
    keys = {name: Patch(color=color) for name, (whole, color) in parts.items() if whole in drawn}
    ax.legend(keys.values(), keys, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=11)
    ax.set_yticks([])
    ax.set(xlim=(0, top), ylim=(max(len(rows), least) - 0.4, -0.6), xlabel="slots")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines["left"].set_visible(False)


@styled()
def show_documents(rows: DocumentRows, title: str, name: str) -> None:
    """Draw a few documents in rows, and how often they are cut."""
    fig, ax = new_figure()
    draw_rows(ax, rows)
    ax.set_title(title)
    letters = f"{letter(0)} to {letter(len(rows.document_lengths) - 1)}"
    alt = f"Documents {letters} in rows of {rows.max_length}: {in_words(rows)}. "
    alt += f"{said(rows.cut_documents, 'documents')} cut, in {said(rows.cuts, 'places')}."
    show(fig, alt=alt, name=name)


@styled()
def show_by_row_length(across: Mapping[int, float], longer: Mapping[int, float], name: str) -> None:
    """Draw documents that wrapping cuts, and that splitting cuts, in percent by the slots in a row."""
    fig, ax = new_figure()
    ticks = list(across)
    lines = {
        ax.plot(ticks, list(across.values()), **series("unpacked"))[0]: "wrapped",
        ax.plot(ticks, list(longer.values()), **series("packed"))[0]: "split: the fewest",
    }
    slot_axis(ax, ticks)
    ax.set(ylabel=f"documents that are cut, %; {name}", ylim=(-6, 102))
    label_ends(lines)
    ax.set_title(f"In rows of 256, wrapping cuts {across[256]:.0f} % and splitting {longer[256]:.0f} %")
    alt = "; ".join(f"{top:,} slots: {across[top]:.1f} and {longer[top]:.1f} %" for top in ticks)
    show(fig, alt=f"Documents that wrapping and splitting cut, {name}. {alt}.", name="by-row-length")


@styled()
def show_after_a_cut(curves: Mapping[float, Sequence[float]]) -> None:
    """Draw by p: how much larger the loss is on each token after a cut, in percent."""
    fig, ax = new_figure()
    styles = {0.6: ":", 0.75: "--", 0.9: "-"}
    lines = {
        ax.plot(range(1, len(curve) + 1), curve, styles[p], color=INK)[0]: f"p = {p}" for p, curve in curves.items()
    }
    ax.set(xlabel="tokens after the cut", ylabel="larger loss, %", xticks=[1, 5, 10, 15, 20], ylim=(-0.9, None))
    label_ends(lines)
    ax.set_title("The stronger the tie, the more a cut costs, and the sooner its cost fades")
    ends = {p: f"{curve[0]:.1f} % at first, {curve[-1]:.2f} % at the twentieth" for p, curve in curves.items()}
    alt = "; ".join(f"p = {p}: {end}" for p, end in ends.items())
    show(fig, alt=f"How much larger the loss is after a cut. {alt}.", name="after-a-cut")


def slot_axis(ax: Axes, ticks: Sequence[int]) -> None:
    """Draw a logarithmic axis of row lengths, with plain numbers."""
    ax.set_xscale("log", base=2)
    plain_ticks(ax.xaxis, ticks)
    ax.set_xlabel("slots in a row")


@styled()
def show_ends(ended: Mapping[str, np.ndarray], baselines: Mapping[str, float]) -> None:
    """Show the final losses of the recorded runs next to the losses of counting."""
    fig, ax = new_figure()
    draw_ends(ax, ended, baselines)
    ends = [loss for losses in ended.values() for loss in losses]
    below = sum(loss < baselines["bigram"] for loss in ends)
    runs = f"All {len(ends)} runs" if below == len(ends) else f"{below} of {len(ends)} runs"
    ax.set_title(f"{runs} ended below the bigram", pad=28)
    seeds = {len(losses) for losses in ended.values()}
    alt = "; ".join(f"{arm} {losses.mean():.2f}" for arm, losses in ended.items())
    counts = ", ".join(f"{name} {loss:.2f}" for name, loss in baselines.items())
    means = f"Held-out loss in nats, means of {min(seeds)} seeds: {alt}; counting alone: {counts}."
    show(fig, alt=means, name="documents-ends")


@styled()
def show_differences(found: Mapping[str, Interval]) -> None:
    """Draw the differences of the recorded runs' losses, seed by seed."""
    fig, ax = new_figure()
    draw_intervals(ax, found)
    ax.set_xlabel("difference of the held-out loss, seed by seed")
    open_ones = sum(one.verdict == "inconclusive" for one in found.values())
    title = f"{open_ones} of {len(found)} intervals include 0"
    if open_ones == len(found):
        title = "What cuts cost is inconclusive: every interval includes 0"
    fig.suptitle(title, fontsize=15)
    listed = "; ".join(f"{name} {one}, {one.verdict}" for name, one in found.items())
    show(fig, alt=f"Differences of the held-out loss, 95 % intervals: {listed}.", name="documents-differences")


def draw_ends(ax: Axes, ended: Mapping[str, np.ndarray], baselines: Mapping[str, float]) -> None:
    """Draw a row for each run's kind: a seed is a circle, the mean a bar, and the losses of counting dashed lines."""
    for row, values in enumerate(ended.values()):
        ax.plot(values, np.full(len(values), row), linestyle="", marker="o", color=OKABE_ITO[0], fillstyle="none")
        ax.plot([values.mean()] * 2, [row - 0.3, row + 0.3], color=INK, linewidth=2, linestyle="-", marker="")
    for name, loss in baselines.items():
        ax.axvline(loss, color="#777777", linestyle="--", linewidth=1.5)
        ax.text(loss, -0.62, name, ha="center", va="bottom")
    name_rows(ax, list(ended), above=0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("held-out loss at the end, each seed")
