"""What notebook 14 draws: documents in rows, and what cuts cost."""

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

CUT = OKABE_ITO[1]  # color of pieces of documents that are cut


def draw_rows(ax: Axes, rows: DocumentRows, least: int = 0) -> None:
    """Draw a line for each row: whole documents are blue, pieces of cut ones orange with a black edge at each cut.

    Args:
        least: rows to leave room for.
    """
    slots = rows.max_length
    edge = 0.012 * slots  # width of the mark at a cut
    whole_color = series("packed")["color"]
    colors = set()
    for row_number, row in enumerate(rows):
        start = 0  # slot of the row
        for document, first_token, length in row.tolist():
            document_length = rows.document_lengths[document]
            color = whole_color if length == document_length else CUT
            colors.add(color)
            ax.barh(row_number, length, left=start, height=0.8, color=color, ec="white", lw=1.5)
            name = f"{letter(document)} {length}"
            if length > 0.045 * len(name) * slots:  # there is room for it
                look = {"color": "white", "fontsize": 11, "fontweight": "bold"}
                ax.text(start + length / 2, row_number, name, ha="center", va="center", **look)
            if first_token > 0:
                ax.barh(row_number, edge, left=start, height=0.8, color=INK)
            if first_token + length < document_length:
                ax.barh(row_number, -edge, left=start + length, height=0.8, color=INK)
            start += length
        ax.barh(row_number, slots - start, left=start, height=0.8, **EMPTY)
    names = {"whole": whole_color, "a piece; bars mark cuts": CUT}
    keys = {name: Patch(color=color) for name, color in names.items() if color in colors}
    ax.legend(keys.values(), keys, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=11)
    ax.set_yticks([])
    ax.set(xlim=(0, slots), ylim=(max(len(rows), least) - 0.4, -0.6), xlabel="slots")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines["left"].set_visible(False)


@styled()
def show_documents(rows: DocumentRows, title: str, name: str) -> None:
    """Show a few documents in rows, and how often they are cut; `name` is the figure's."""
    fig, ax = new_figure()
    draw_rows(ax, rows)
    ax.set_title(title)
    letters = f"{letter(0)} to {letter(len(rows.document_lengths) - 1)}"
    alt = f"Documents {letters} in rows of {rows.max_length}: {in_words(rows)}. "
    alt += f"{said(rows.cut_documents, 'documents')} cut, in {said(rows.cuts, 'places')}."
    show(fig, alt=alt, name=name)


@styled()
def show_by_row_length(across: Mapping[int, float], longer: Mapping[int, float], name: str) -> None:
    """Show the share of documents that wrapping and splitting cut, by the slots in a row.

    Args:
        across: percent that wrapping cuts, those across the end of a row.
        longer: percent that splitting cuts, those longer than a row.
        name: of the data set.
    """
    fig, ax = new_figure()
    row_lengths = list(across)
    (wrapped,) = ax.plot(row_lengths, list(across.values()), **series("unpacked"))
    (split,) = ax.plot(row_lengths, list(longer.values()), **series("packed"))
    slot_axis(ax, row_lengths)
    ax.set(ylabel=f"documents that are cut, %; {name}", ylim=(-6, 102))
    label_ends({wrapped: "wrapped", split: "split: the fewest"})
    ax.set_title(f"In rows of 256, wrapping cuts {across[256]:.0f} % and splitting {longer[256]:.0f} %")
    listed = "; ".join(f"{slots:,} slots: {across[slots]:.1f} and {longer[slots]:.1f} %" for slots in row_lengths)
    show(fig, alt=f"Documents that wrapping and splitting cut, {name}. {listed}.", name="by-row-length")


@styled()
def show_after_a_cut(curves: Mapping[float, Sequence[float]]) -> None:
    """Show how much larger the loss on each token after a cut is.

    Args:
        curves: by the probability p that a token equals the first one, percent for each token after the cut.
    """
    fig, ax = new_figure()
    styles = {0.6: ":", 0.75: "--", 0.9: "-"}
    label_by_line, listed = {}, []
    for p, curve in curves.items():
        (line,) = ax.plot(range(1, len(curve) + 1), curve, styles[p], color=INK)
        label_by_line[line] = f"p = {p}"
        listed.append(f"p = {p}: {curve[0]:.1f} % at first, {curve[-1]:.2f} % at the twentieth")
    ax.set(xlabel="tokens after the cut", ylabel="larger loss, %", xticks=[1, 5, 10, 15, 20], ylim=(-0.9, None))
    label_ends(label_by_line)
    ax.set_title("The stronger the tie, the more a cut costs, and the sooner its cost fades")
    show(fig, alt=f"How much larger the loss is after a cut. {'; '.join(listed)}.", name="after-a-cut")


def slot_axis(ax: Axes, ticks: Sequence[int]) -> None:
    """Draw a logarithmic axis of row lengths, with plain numbers."""
    ax.set_xscale("log", base=2)
    plain_ticks(ax.xaxis, ticks)
    ax.set_xlabel("slots in a row")


@styled()
def show_ends(ended: Mapping[str, np.ndarray], baselines: Mapping[str, float]) -> None:
    """Show the final losses of the recorded runs next to those of counting tokens, without any training.

    Args:
        ended: by arm, final held-out losses in nats, shape (seeds,).
        baselines: losses of counting in nats, by name; that of "bigram" is needed.
    """
    fig, ax = new_figure()
    draw_ends(ax, ended, baselines)
    final_losses = [loss for losses in ended.values() for loss in losses]
    num_below = sum(loss < baselines["bigram"] for loss in final_losses)
    num_runs = len(final_losses)
    runs = f"All {num_runs} runs" if num_below == num_runs else f"{num_below} of {num_runs} runs"
    ax.set_title(f"{runs} ended below the bigram", pad=28)
    numbers_of_seeds = sorted({len(losses) for losses in ended.values()})
    seeds = " or ".join(map(str, numbers_of_seeds))
    listed = "; ".join(f"{arm} {losses.mean():.2f}" for arm, losses in ended.items())
    counting = ", ".join(f"{name} {loss:.2f}" for name, loss in baselines.items())
    alt = f"Held-out loss in nats, means of {seeds} seeds: {listed}; counting alone: {counting}."
    show(fig, alt=alt, name="documents-ends")


@styled()
def show_differences(found: Mapping[str, Interval]) -> None:
    """Show intervals of the differences between the losses of recorded runs, seed by seed."""
    fig, ax = new_figure()
    draw_intervals(ax, found)
    ax.set_xlabel("difference of the held-out loss, seed by seed")
    num_inconclusive = sum(interval.verdict == "inconclusive" for interval in found.values())
    title = f"{num_inconclusive} of {len(found)} intervals include 0"
    if num_inconclusive == len(found):
        title = "What cuts cost is inconclusive: every interval includes 0"
    fig.suptitle(title, fontsize=15)
    listed = "; ".join(f"{name} {interval}, {interval.verdict}" for name, interval in found.items())
    show(fig, alt=f"Differences of the held-out loss, 95 % intervals: {listed}.", name="documents-differences")


def draw_ends(ax: Axes, ended: Mapping[str, np.ndarray], baselines: Mapping[str, float]) -> None:
    """Draw a row for each arm: a seed is a circle, the mean a bar, and the losses of counting are dashed lines."""
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
