"""What notebook 06 draws: the weights in a mean, first tokens, micro-batches."""

import numpy as np
from matplotlib.axes import Axes

from packlib.batches import PackedBatch
from packlib.workbook.chapters.n06_unpacking_losses.runs import weights
from packlib.workbook.figures import INK, OKABE_ITO, series

LOOKS = {"token": series("sorted"), "sequence": series("packed"), "pack": series("random")}  # of the three means


def draw_weights(ax: Axes, packs: list[list[int]], least: float = 0.12) -> None:
    """One bar for each mean, cut by how much each sequence counts; packs differ in color.

    Sequences of a weight over `least` are labeled with it.
    """
    colors = [OKABE_ITO[row % 6] for row, pack in enumerate(packs) for _ in pack]
    for row, shares in enumerate(weights(packs).values()):
        starts = 100 * (np.cumsum(shares) - shares)
        for i, (start, share) in enumerate(zip(starts, shares, strict=True)):
            ax.barh(row, 100 * share, 0.6, left=start, color=colors[i], edgecolor="white", linewidth=2)
            if share > 0.03:
                text = f"{chr(65 + i)} {100 * share:.0f} %" if share > least else chr(65 + i)
                ax.text(start + 50 * share, row, text, ha="center", va="center", color="white", fontweight="bold")
    ax.set_yticks(range(3), [f"mean over {name}s" for name in LOOKS])
    ax.set(xlim=(0, 100), ylim=(2.5, -0.5), xlabel="weight in the mean, %")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def draw_first_tokens(ax: Axes, batch: PackedBatch) -> None:
    """Packs as rows; a filled circle at position 0, an open one where another sequence begins."""
    rows, slots = np.divmod(batch.sequence_starts[: batch.num_sequences].numpy(), batch.max_length)
    used = (batch.segment_ids > 0).sum(1)
    ax.barh(range(batch.num_packs), used, height=0.75, color="#dbe9f4")
    for at_start, face in ((slots == 0, OKABE_ITO[0]), (slots > 0, "white")):
        ax.plot(slots[at_start], rows[at_start], marker="o", linestyle="", color=OKABE_ITO[0], markerfacecolor=face,
                markersize=6, markeredgewidth=1.5, clip_on=False)  # fmt: skip
    ax.set(xlabel="slot", ylabel="pack", ylim=(batch.num_packs - 0.5, -0.5), xlim=(0, batch.max_length))
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])


def draw_micro_batches(ax: Axes, parts: list[tuple[int, float]]) -> None:
    """Mean loss of micro-batches, given as (sequences, mean), and both ways to join them."""
    for place, (count, mean) in enumerate(parts):
        ax.plot(place, mean, marker="o", color=LOOKS["sequence"]["color"], markersize=3 * count**0.5)
        ax.annotate(f"{count} sequences", (place, mean), (18, -4), textcoords="offset points")
    counts, means = np.array(parts).T
    joined = {"mean of means": means.mean(), "sums / counts": counts @ means / counts.sum()}
    for (text, value), line in zip(joined.items(), (":", "-"), strict=True):
        ax.axhline(value, color=INK, linestyle=line, linewidth=1.5)
        above = value == max(joined.values())
        ax.text(len(parts) + 0.2, value, f"{text} {value:.3f}", va="bottom" if above else "top", ha="right")
    ax.set(xlim=(-0.3, len(parts) + 0.2), xlabel="micro-batch", ylabel="mean loss", xticks=range(len(parts)))
