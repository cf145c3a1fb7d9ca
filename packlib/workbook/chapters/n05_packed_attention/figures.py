"""What notebook 05 draws: masks, and who moves whom."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from torch import Tensor

from packlib.model.attention import allowed_pairs
from packlib.workbook.chapters.n05_packed_attention.runs import WAYS
from packlib.workbook.chapters.shared.segments import name_segments, spans
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, series

OWN, STRANGER = OKABE_ITO[0], OKABE_ITO[1]  # pairs within a sequence, pairs across
COLORS = {form: series(name)["color"] for form, name in zip(WAYS, ("maximum", "megabatches", "packed"), strict=True)}
WORK = ListedColormap(["#f4f4f4", STRANGER, OWN])  # pairs that are left out, computed in vain, needed


def draw_mask(ax: Axes, segment_ids: Tensor, allowed: Tensor, title: str) -> None:
    """Which query (row) may look at which key (column): blue within a sequence, red and crossed to a stranger."""
    own = allowed_pairs(segment_ids[None])[0]
    real = (segment_ids > 0)[:, None] & (segment_ids > 0)[None]
    picture = np.full((*allowed.shape, 3), to_rgb("#f4f4f4"))
    for where, color in ((allowed & own & real, OWN), (allowed & ~own, STRANGER), (allowed & own & ~real, PADDING)):
        picture[where.numpy()] = to_rgb(color)
    ax.imshow(picture)
    rows, columns = (allowed & ~own).nonzero().numpy().T
    ax.plot(columns, rows, color="white", marker="x", markersize=4, linestyle="", markeredgewidth=1)
    for _, start, _ in spans(segment_ids)[1:]:
        ax.axhline(start - 0.5, color=INK, linestyle="-", linewidth=1)
        ax.axvline(start - 0.5, color=INK, linestyle="-", linewidth=1)
    name_segments(ax, segment_ids)
    ax.set_title(title, fontsize=13)


def draw_influence(ax: Axes, matrix: np.ndarray, title: str) -> None:
    """Each row in percent of its sum; an exact zero is white and says 0, so that the least leak is seen."""
    shares = 100 * matrix / matrix.sum(1, keepdims=True)
    ax.imshow(np.ma.masked_equal(shares, 0), vmin=0, vmax=100)
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if 0 < share < 50 else INK
        ax.text(column, row, f"{share:.0f}", ha="center", va="center", color=color, fontsize=11)
    names = [chr(65 + i) for i in range(len(matrix))]
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="embeddings of", ylabel="loss of")
    ax.set_title(title, fontsize=13, pad=6)
    ax.set_anchor("N")  # the label below stays inside the figure
    ax.tick_params(length=0)
