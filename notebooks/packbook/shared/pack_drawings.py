"""Packs as pictures, and a depth limit in words."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import EMPTY, INK, series


def spoken(depth: int | None) -> str:
    """Return a depth limit in words."""
    return "no limit" if depth is None else f"depth {depth}"


def draw_packs(
    ax: Axes, packs: Sequence[Sequence[int]], max_length: int, rows: int | None = None, new: int | None = None,
    labels: Sequence[str] = (),
) -> None:  # fmt: skip
    """Draw a row for each pack: its sequences in blue with their lengths, what stays empty gray and hatched.

    Args:
        rows: leave room for so many packs.
        new: the pack whose last sequence stands out.
        labels: a text for each pack, written to its left.
    """
    digit = 0.018 * max_length * ax.get_gridspec().ncols  # the slots that one takes up
    for row, lengths in enumerate(packs):
        starts = np.cumsum([0, *lengths])
        ax.barh(row, max_length - starts[-1], left=starts[-1], height=0.8, **EMPTY)
        for place, (start, length) in enumerate(zip(starts, lengths, strict=False)):
            fresh = row == new and place == len(lengths) - 1
            color = INK if fresh else series("packed")["color"]
            ax.barh(row, length, left=start, height=0.8, color=color, ec="white", lw=1.5)
            if length > digit * len(str(length)):
                style = {"color": "white", "fontsize": 11, "fontweight": "bold" if fresh else "normal"}
                ax.text(start + length / 2, row, str(length), ha="center", va="center", **style)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, max_length), ylim=((rows or len(packs)) - 0.4, -0.6), xlabel="slots")
    ax.spines["left"].set_visible(False)
