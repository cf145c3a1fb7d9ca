"""What notebook 06 draws: weights in a mean, other packings, and how far the mean of means is off."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, OKABE_ITO, new_figure, percent, show, styled
from packbook.n06_unpacking_losses.runs import weights
from packbook.shared.spans import span

LOOKS = {  # of the three means
    "token": {"color": OKABE_ITO[2], "linestyle": "--", "marker": "P"},
    "sequence": {"color": OKABE_ITO[0], "linestyle": "-", "marker": "o"},
    "pack": {"color": OKABE_ITO[1], "linestyle": ":", "marker": "s"},
}
SHADES = ("#666666", "#dddddd")  # of packs, in turn


def draw_weights(
    ax: Axes, packs: list[list[int]], least: float = 0.12, names: Sequence[str] = ascii_uppercase
) -> None:
    """Draw one bar for each mean, cut by how much each sequence counts; two shades take turns from pack to pack.

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


@styled()
def show_weights(packs: list[list[int]], means: Mapping[str, float]) -> None:
    """Show the weight of each sequence in each mean."""
    fig, ax = new_figure()
    draw_weights(ax, packs)
    fig.suptitle("The mean over packs depends on which sequences share a row")
    for row, value in enumerate(means.values()):
        ax.text(102, row, f"= {value:g}", va="center")
    listed = "; ".join(
        f"over {name}s {', '.join(percent(share, 0) for share in shares)}, mean {means[name]:g}"
        for name, shares in weights(packs).items()
    )
    alt = f"Weights of A, alone in a pack, and B and C, together in one: {listed}."
    show(
        fig, alt=alt, name="weights", numbers={name: 100 * float(shares[0]) for name, shares in weights(packs).items()}
    )


@styled()
def show_errors(errors: Mapping[int, Sequence[float]], in_order: Mapping[int, float]) -> None:
    """Show the mean of means' distance to the gradient: dots for shuffles, a triangle for the packer's order."""
    fig, ax = new_figure()
    for place, (parts, values) in enumerate(errors.items()):
        beside = place - 0.25 + 0.5 * np.arange(len(values)) / len(values)
        ax.plot(beside, values, marker="o", linestyle="", color="#666666", alpha=0.6, markersize=5)
        ax.plot(place, in_order[parts], marker="^", color=INK, markersize=12)
        label = f"{in_order[parts]:.0f} %" if place else f"{in_order[parts]:.0f} % in the\npacker's order"
        ax.text(place + 0.28, in_order[parts], label, va="center")  # right of the dots
    ax.set_xticks(range(len(errors)), list(errors))
    highest = max(*map(max, errors.values()), *in_order.values())
    ax.set(xlim=(-0.5, len(errors) - 0.2), ylim=(-1, max(5, 1.1 * highest)), xlabel="micro-batches of one update")
    ax.set_ylabel("gradient off, % of its length")
    averages = [np.mean(values) for values in errors.values()]
    listed = ", ".join(f"{average:.0f}" for average in averages)
    equal = max(averages) < 0.05  # percent: all micro-batches hold the same number of sequences
    title = "Equal micro-batches: the mean of means has the right gradient"
    ax.set_title(title if equal else f"The mean of means misses the gradient, on average by {listed} %")
    listed = "; ".join(
        f"{n} micro-batches: {span(e)} %, packer's order {in_order[n]:.0f} %" for n, e in errors.items()
    )
    alt = f"Error of the gradient over {len(errors[2])} shuffles. {listed}."
    numbers = {f"parts {n}": float(average) for n, average in zip(errors, averages, strict=True)}
    show(fig, alt=alt, name="accumulation", numbers=numbers)
