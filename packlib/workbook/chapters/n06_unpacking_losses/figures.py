"""What notebook 06 draws: weights in a mean, other packings, first tokens, and how far the mean of means is off."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

import numpy as np
from matplotlib.axes import Axes

from packlib.batches import PackedBatch
from packlib.workbook.chapters.n06_unpacking_losses.runs import weights
from packlib.workbook.figures import INK, OKABE_ITO, new_figure, percent, show

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


def show_weights(packs: list[list[int]], means: Mapping[str, float]) -> None:
    """How much each sequence counts in each mean."""
    fig, ax = new_figure()
    draw_weights(ax, packs)
    fig.suptitle("The mean over packs depends on which sequences share a row")
    for row, value in enumerate(means.values()):
        ax.text(102, row, f"= {value:g}", va="center")
    listed = "; ".join(
        f"over {name}s {', '.join(percent(share, 0) for share in shares)}, mean {means[name]:g}"
        for name, shares in weights(packs).items()
    )
    show(fig, alt=f"Weights of A, alone in a pack, and B and C, together in one: {listed}.", name="weights")


def show_repacked(moving: Sequence[float], steady: Mapping[str, float]) -> None:
    """The mean over packs of each packing as a histogram, and a line for each mean that stays."""
    fig, ax = new_figure()
    ends = min(moving) - 1e-3, max(moving) + 1e-3
    top = 1.05 * ax.hist(moving, bins=24, range=ends, color=LOOKS["pack"]["color"])[0].max()
    for mean, value in steady.items():
        ax.axvline(value, color=LOOKS[mean]["color"], linestyle=LOOKS[mean]["linestyle"])
        side = "left" if value < np.mean(moving) else "right"
        ax.text(value, 1.06 * top, f" over {mean}s: {value:.3f} ", ha=side)
    ax.set(xlabel="loss; the bars are the mean over packs", ylabel=f"packings, of {len(moving)}", ylim=(0, 1.2 * top))
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_title("Here " + ("only the mean over packs moves" if np.ptp(moving) > 1e-10 else "no mean moves"))
    alt = f"Over 200 packings of the same sequences the mean over packs goes from {min(moving):.3f} to "
    alt += f"{max(moving):.3f}. Steady: " + ", ".join(f"over {m}s {v:.3f}" for m, v in steady.items()) + "."
    show(fig, alt=alt, name="repack")


def show_first_tokens(batch: PackedBatch) -> None:
    """Packs as rows; a filled circle at position 0, an open one where another sequence begins."""
    rows, slots = np.divmod(batch.sequence_starts[: batch.num_sequences].numpy(), batch.max_length)
    at_zero = int((slots == 0).sum())
    fig, ax = new_figure()
    ax.barh(range(batch.num_packs), (batch.segment_ids > 0).sum(1), height=0.75, color="#dbe9f4")
    dot = {"marker": "o", "linestyle": "", "color": OKABE_ITO[0], "markersize": 6, "markeredgewidth": 1.5}
    for some, face in ((slots == 0, OKABE_ITO[0]), (slots > 0, "white")):
        ax.plot(slots[some], rows[some], **dot, markerfacecolor=face, clip_on=False)
    ax.set(xlabel="slot", ylabel="pack", ylim=(batch.num_packs - 0.5, -0.5), xlim=(0, batch.max_length), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.set_title(f"Position 0 has {at_zero:,} of {batch.num_sequences:,} first tokens")
    alt = f"{batch.num_packs} packs as rows, {batch.num_sequences} first tokens as circles. {at_zero} stand at "
    alt += "the start of a pack and are filled; the others are open."
    show(fig, alt=alt, name="first-tokens")


def show_gradients(apart: Mapping[str, np.ndarray], worst: Mapping[str, str]) -> None:
    """How far the gradients of each mean are from those of the unpacked run."""
    fig, ax = new_figure()
    for row, (mean, differences) in enumerate(apart.items()):
        look = {**LOOKS[mean], "linestyle": "", "alpha": 0.5}
        ax.plot(differences + 1e-19, np.full(len(differences), row), **look)
    ax.axvline(1e-10, color=INK, linestyle=":", linewidth=1.5)
    ax.set(xscale="log", ylim=(2.5, -0.5), xlim=(5e-20, 1), title="Unpacked means have the unpacked gradients")
    ax.set_yticks(range(3), [f"over {mean}s" for mean in apart])
    ax.set_xlabel("largest difference of a parameter's gradients (dotted: 1e-10)")
    listed = ", ".join(f"over {mean}s {value}" for mean, value in worst.items())
    alt = f"Largest difference of the gradients of {len(differences)} parameters: {listed}."
    show(fig, alt=alt, name="gradients")


def show_errors(errors: Mapping[int, Sequence[float]], in_order: Mapping[int, float]) -> None:
    """How far the mean of means is from the gradient: a dot for each shuffle, a triangle for the packer's order."""
    fig, ax = new_figure()
    for place, (parts, found) in enumerate(errors.items()):
        beside = place - 0.25 + 0.5 * np.arange(len(found)) / len(found)
        ax.plot(beside, found, marker="o", linestyle="", color="#666666", alpha=0.6, markersize=5)
        ax.plot(place, in_order[parts], marker="^", color=INK, markersize=12)
        label = f"{in_order[parts]:.0f} %" if place else f"{in_order[parts]:.0f} % in the packer's order"
        ax.annotate(label, (place, in_order[parts]), (10, 4), textcoords="offset points")
    ax.set_xticks(range(len(errors)), list(errors))
    ax.set(ylim=(-1, None), xlim=(-0.5, len(errors) - 0.2), xlabel="micro-batches of one update")
    ax.set_ylabel("gradient off, % of its length")
    average = ", ".join(f"{np.mean(found):.0f}" for found in errors.values())
    ax.set_title(f"The mean of means misses the gradient, on average by {average} %")
    listed = "; ".join(
        f"{n} micro-batches: {min(e):.0f} to {max(e):.0f} %, packer's order {in_order[n]:.0f} %"
        for n, e in errors.items()
    )
    show(fig, alt=f"Error of the gradient over {len(errors[2])} shuffles. {listed}.", name="accumulation")
