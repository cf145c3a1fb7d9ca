"""What notebook 06 draws: weights in a mean, other packings, first tokens, and how far the mean of means is off."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

import numpy as np
from matplotlib.axes import Axes

from packlib.batches import PackedBatch
from packlib.workbook.chapters.n06_unpacking_losses.runs import weights
from packlib.workbook.figures import INK, OKABE_ITO

LOOKS = {  # of the three means
    "token": {"color": OKABE_ITO[2], "linestyle": "--", "marker": "P"},
    "sequence": {"color": OKABE_ITO[0], "linestyle": "-", "marker": "o"},
    "pack": {"color": OKABE_ITO[1], "linestyle": ":", "marker": "s"},
}
SHADES = ("#666666", "#dddddd")  # of packs, in turn


def draw_weights(
    ax: Axes, packs: list[list[int]], least: float = 0.12, names: Sequence[str] = ascii_uppercase
) -> None:
    """One bar for each mean, cut by how much each sequence counts; two shades take turns from pack to pack.

    Sequences of a weight over `least` are labeled with it beside their name.
    """
    pack_of = [row for row, pack in enumerate(packs) for _ in pack]
    for row, shares in enumerate(weights(packs).values()):
        starts = 100 * (np.cumsum(shares) - shares)
        for i, (start, share) in enumerate(zip(starts, shares, strict=True)):
            shade = pack_of[i] % 2
            ax.barh(row, 100 * share, 0.6, left=start, color=SHADES[shade], edgecolor="white", linewidth=2)
            if share > 0.03:
                text = f"{names[i]} {100 * share:.0f} %" if share > least else names[i]
                look = {"color": INK if shade else "white", "fontweight": "bold"}
                ax.text(start + 50 * share, row, text, ha="center", va="center", **look)
    ax.set_yticks(range(3), [f"mean over {name}s" for name in LOOKS])
    ax.set(xlim=(0, 100), ylim=(2.5, -0.5), xlabel="weight in the mean, %")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def draw_repacked(ax: Axes, moving: Sequence[float], steady: Mapping[str, float]) -> None:
    """The mean over packs of each packing as a histogram, and a line for each mean that stays."""
    ends = min(moving) - 1e-3, max(moving) + 1e-3
    top = 1.05 * ax.hist(moving, bins=24, range=ends, color=LOOKS["pack"]["color"])[0].max()
    for mean, value in steady.items():
        ax.axvline(value, color=LOOKS[mean]["color"], linestyle=LOOKS[mean]["linestyle"])
        side = "left" if value < np.mean(moving) else "right"
        ax.text(value, 1.06 * top, f" over {mean}s: {value:.3f} ", ha=side)
    ax.set(xlabel="loss; the bars are the mean over packs", ylabel=f"packings, of {len(moving)}", ylim=(0, 1.2 * top))
    ax.yaxis.get_major_locator().set_params(integer=True)


def draw_first_tokens(ax: Axes, batch: PackedBatch) -> None:
    """Packs as rows; a filled circle at position 0, an open one where another sequence begins."""
    rows, slots = np.divmod(batch.sequence_starts[: batch.num_sequences].numpy(), batch.max_length)
    used = (batch.segment_ids > 0).sum(1)
    ax.barh(range(batch.num_packs), used, height=0.75, color="#dbe9f4")
    dot = {"marker": "o", "linestyle": "", "color": OKABE_ITO[0], "markersize": 6, "markeredgewidth": 1.5}
    for at_start, face in ((slots == 0, OKABE_ITO[0]), (slots > 0, "white")):
        ax.plot(slots[at_start], rows[at_start], **dot, markerfacecolor=face, clip_on=False)
    ax.set(xlabel="slot", ylabel="pack", ylim=(batch.num_packs - 0.5, -0.5), xlim=(0, batch.max_length))
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])


def draw_errors(ax: Axes, shuffled: Mapping[int, Sequence[float]], in_order: Mapping[int, float]) -> None:
    """By the number of micro-batches: a dot for each shuffle of the packs, a triangle for the packer's order."""
    for place, (parts, errors) in enumerate(shuffled.items()):
        beside = place - 0.25 + 0.5 * np.arange(len(errors)) / len(errors)
        ax.plot(beside, errors, marker="o", linestyle="", color="#666666", alpha=0.6, markersize=5)
        ax.plot(place, in_order[parts], marker="^", color=INK, markersize=12)
        label = f"{in_order[parts]:.0f} %" if place else f"{in_order[parts]:.0f} % in the packer's order"
        ax.annotate(label, (place, in_order[parts]), (10, 4), textcoords="offset points")
    ax.set_xticks(range(len(shuffled)), list(shuffled))
    ax.set(ylim=(0, None), xlim=(-0.5, len(shuffled) - 0.2), xlabel="micro-batches of one update")
    ax.set_ylabel("gradient off, % of its length")
