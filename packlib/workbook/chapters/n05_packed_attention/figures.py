"""What notebook 05 draws: masks, and who moves whom."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from torch import Tensor

from packlib.model.attention import allowed_pairs
from packlib.workbook.chapters.shared.segments import name_segments, spans
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, name_rows

OWN, STRANGER = OKABE_ITO[0], OKABE_ITO[1]  # pairs within a sequence, pairs across
LOOKS = {  # of the forms of the mask
    "dense mask": {"color": "#000000", "marker": "x", "linestyle": ":"},
    "block mask": {"color": OKABE_ITO[3], "marker": "D", "linestyle": "-."},
    "bounds": {"color": OKABE_ITO[2], "marker": "P", "linestyle": "-"},
    "segment ids": {"color": "#999999", "marker": "v", "linestyle": "--"},
}
WORK = ListedColormap(["#f4f4f4", STRANGER, OWN])  # pairs that are left out, computed in vain, needed


def draw_mask(ax: Axes, segment_ids: Tensor, allowed: Tensor, title: str) -> None:
    """Which query (row) may look at which key (column): of one color within a sequence, crossed to a stranger."""
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


def draw_work(ax: Axes, computed: Tensor, allowed: Tensor, title: str) -> None:
    """The pairs of a pack: needed ones, those that are computed in vain (hatched), and those that are left out."""
    ax.imshow(computed.int() + (computed & allowed).int(), cmap=WORK, vmin=0, vmax=2)
    wasted = (computed & ~allowed).double().numpy()
    if wasted.any():
        ax.contourf(wasted, levels=(0.5, 1.5), colors="none", hatches=("///",))
    ax.set_title(title, fontsize=13)
    ax.set(xlabel="key", xticks=range(0, 513, 128), yticks=range(0, 513, 128))


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


def draw_realized(ax: Axes, rows: Sequence[Mapping], noise: float) -> None:
    """The share of the packing factor that packed runs reach, by the factor and the head; the noise as a gray band."""
    ax.axhspan(100 - noise, 100 + noise, color="#e8e8e8")
    ax.axhline(100, color="#999999", linestyle=":", linewidth=1.5)
    looks = {"fixed slots": (OKABE_ITO[0], "o", "-"), "masked tokens only": (OKABE_ITO[2], "P", "--")}
    lines = {}
    for head, (color, marker, style) in looks.items():
        found = [(row["packing factor"], 100 * row["realized / factor"]) for row in rows if row["MLM head"] == head]
        lines[ax.plot(*zip(*found, strict=True), color=color, marker=marker, linestyle=style)[0]] = f"head on\n{head}"
    label_ends(lines)
    ax.set(xlabel="packing factor; gray: noise of runs at factor 1", ylabel="realized speed-up, % of the factor")


def draw_pairs(ax: Axes, ratios: Mapping[str, Mapping[str, float]]) -> None:
    """Pairs that each form of the mask computes for one that is needed: a group of bars for each data set."""
    for column, form in enumerate(next(iter(ratios.values()))):
        rows = np.arange(len(ratios)) + 0.27 * (column - 1)
        values = [ratio[form] for ratio in ratios.values()]
        ax.barh(rows, values, height=0.25, color=LOOKS[form]["color"])
        for row, value in zip(rows, values, strict=True):
            ax.text(value + 0.05, row, f"{form} {value:.1f}", va="center", fontsize=11)
    name_rows(ax, list(ratios))
    ax.set_xlabel("pairs computed for one that is needed; packs of so many slots")
