"""What notebook 06 draws: the weights of sequences in a mean, and the error of a mean of means."""

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

    Args:
        packs: for each pack, the predicted tokens of each of its sequences.
        least: weight from which a sequence is labeled with its weight, and not with its name alone.
        names: of the sequences.
    """
    pack_of = [number for number, pack in enumerate(packs) for _ in pack]  # of each sequence
    for row, shares in enumerate(weights(packs).values()):
        starts = 100 * (np.cumsum(shares) - shares)
        for i, (start, share) in enumerate(zip(starts, shares, strict=True)):
            shade = pack_of[i] % 2
            ax.barh(row, 100 * share, 0.6, left=start, color=SHADES[shade], edgecolor="white", linewidth=2)
            if share > 0.03:  # there is room for a letter
                text = f"{names[i]} {100 * share:.0f} %" if share > least else names[i]
                look = {"color": INK if shade else "white", "fontweight": "bold"}
                ax.text(start + 50 * share, row, text, ha="center", va="center", **look)
    ax.set_yticks(range(3), [f"mean over {name}s" for name in LOOKS])
    ax.set(xlim=(0, 100), ylim=(2.5, -0.5), xlabel="weight in the mean, %")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


@styled()
def show_weights(packs: list[list[int]], means: Mapping[str, float]) -> None:
    """Show the weight of each sequence in each mean, and the means of their losses.

    Args:
        packs: for each pack, the predicted tokens of each of its sequences.
        means: the loss by each mean.
    """
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
    weights_of_a = {name: 100 * float(shares[0]) for name, shares in weights(packs).items()}
    show(fig, alt=alt, name="weights", numbers=weights_of_a)


@styled()
def show_errors(errors: Mapping[int, Sequence[float]], in_order: Mapping[int, float]) -> None:
    """Show the error of the gradient if the means of micro-batches are averaged.

    Args:
        errors: by number of micro-batches, the error for each shuffle of the packs, in percent of the gradient's norm.
        in_order: the same in the packer's order.
    """
    fig, ax = new_figure()
    for column, (parts, values) in enumerate(errors.items()):
        dots_at = column - 0.25 + 0.5 * np.arange(len(values)) / len(values)  # side by side, so that all are seen
        ax.plot(dots_at, values, marker="o", linestyle="", color="#666666", alpha=0.6, markersize=5)
        ax.plot(column, in_order[parts], marker="^", color=INK, markersize=12)
        label = f"{in_order[parts]:.0f} %"
        if column == 0:
            label += " in the\npacker's order"
        ax.text(column + 0.28, in_order[parts], label, va="center")  # right of the dots
    ax.set_xticks(range(len(errors)), list(errors))
    highest = max(*map(max, errors.values()), *in_order.values())
    ax.set(xlim=(-0.5, len(errors) - 0.2), ylim=(-1, max(5, 1.1 * highest)), xlabel="micro-batches of one update")
    ax.set_ylabel("gradient off, % of its length")
    averages = [np.mean(values) for values in errors.values()]
    title = f"The mean of means misses the gradient, on average by {', '.join(f'{mean:.0f}' for mean in averages)} %"
    if max(averages) < 0.05:  # percent: all micro-batches hold the same number of sequences
        title = "Equal micro-batches: the mean of means has the right gradient"
    ax.set_title(title)
    listed = "; ".join(
        f"{parts} micro-batches: {span(values)} %, packer's order {in_order[parts]:.0f} %"
        for parts, values in errors.items()
    )
    alt = f"Error of the gradient over {len(errors[2])} shuffles. {listed}."
    numbers = {f"parts {parts}": float(average) for parts, average in zip(errors, averages, strict=True)}
    show(fig, alt=alt, name="accumulation", numbers=numbers)
