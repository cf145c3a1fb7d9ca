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
    """Draw a row for each pack: its sequences in blue with their lengths, empty slots gray and hatched.

    Args:
        packs: the lengths in each pack.
        max_length: slots of a pack.
        rows: packs to leave room for; by default as many as there are.
        new: index of the pack whose last sequence stands out.
        labels: a text for each pack, written to its left.
    """
    digit_width = 0.018 * max_length * ax.get_gridspec().ncols  # slots
    for row, lengths in enumerate(packs):
        bounds = np.cumsum([0, *lengths])
        ax.barh(row, max_length - bounds[-1], left=bounds[-1], height=0.8, **EMPTY)
        for index, (start, length) in enumerate(zip(bounds[:-1], lengths, strict=True)):
            is_new = row == new and index == len(lengths) - 1
            color = INK if is_new else series("packed")["color"]
            ax.barh(row, length, left=start, height=0.8, color=color, ec="white", lw=1.5)
            if length > digit_width * len(str(length)):
                style = {"color": "white", "fontsize": 11, "fontweight": "bold" if is_new else "normal"}
                ax.text(start + length / 2, row, str(length), ha="center", va="center", **style)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, max_length), ylim=((rows or len(packs)) - 0.4, -0.6), xlabel="slots")
    ax.spines["left"].set_visible(False)
