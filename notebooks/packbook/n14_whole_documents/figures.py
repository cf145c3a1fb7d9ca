"""What notebook 14 draws."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from packbook.figures import EMPTY, INK, OKABE_ITO, name_rows, plain_ticks, series
from packbook.n14_whole_documents.runs import letter
from packlib.packing import DocumentRows

CUT = OKABE_ITO[1]  # the pieces of documents that are cut


def draw_rows(ax: Axes, rows: DocumentRows, least: int = 0) -> None:
    """A line for each row: whole documents are blue, pieces of cut ones orange with a black edge at each cut.

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


def slot_axis(ax: Axes, ticks: Sequence[int]) -> None:
    """A logarithmic axis of row lengths, with plain numbers."""
    ax.set_xscale("log", base=2)
    plain_ticks(ax.xaxis, ticks)
    ax.set_xlabel("slots in a row")


def draw_ends(ax: Axes, ended: Mapping[str, np.ndarray], baselines: Mapping[str, float]) -> None:
    """A row an arm: each seed a circle, the mean a bar; the losses of counting are dashed lines with their names."""
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
