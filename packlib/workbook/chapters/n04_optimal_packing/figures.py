"""What notebook 04 draws: the worth of packs, two prices of each length, and what a depth limit costs."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes

from packlib.workbook.figures import INK, label_ends, name_rows, plain_ticks, series


def draw_worth(ax: Axes, packs: Sequence[Sequence[int]], prices: dict[int, Fraction]) -> None:
    """What each pack is worth at `prices`, sequence by sequence; the dotted line is what a pack costs."""
    for row, pack in enumerate(packs):
        left = Fraction(0)
        for length in pack:
            price = prices[length]
            look = {"color": series("packed")["color"], "ec": "white", "lw": 2}
            ax.barh(row, float(price), left=float(left), height=0.7, **look)
            ax.text(
                float(left + price / 2), row, str(length), ha="center", va="center", color="white", fontweight="bold"
            )
            left += price
        ax.text(float(left) + 0.03, row, str(left), va="center")
    ax.axvline(1, color=INK, linestyle=":", linewidth=2, zorder=0)
    name_rows(ax, [" + ".join(map(str, pack)) for pack in packs], above=0.6, below=0.6)
    ax.set(xlim=(0, 1.4), xlabel="worth, in packs")


def draw_rounds(ax: Axes, solutions: Sequence[float], bounds: Sequence[int]) -> None:
    """Packs of each round's solution and the best bound so far, both relative to the last bound."""
    at = range(1, len(bounds) + 1)
    looks = {"packs, in fractions": (solutions, series("optimal")), "bound": (bounds, {"color": INK, "marker": "^"})}
    for name, (heights, look) in looks.items():
        ax.plot(at, np.array(heights) / bounds[-1], markevery=0.1, **look)
        ax.annotate(name, (1, heights[0] / bounds[-1]), (8, 6), textcoords="offset points")
    ax.margins(y=0.12)
    ax.set(xlabel="round", ylabel="relative to the last bound")
    ax.xaxis.get_major_locator().set_params(integer=True)


def draw_prices(ax: Axes, lengths: np.ndarray, prices: Mapping[str, np.ndarray]) -> None:
    """The price of each length, a line for each depth limit with its name beside it."""
    for (name, price), color, line in zip(prices.items(), (INK, "#888888"), ("-", "--"), strict=True):
        ax.plot(lengths, price, color=color, linestyle=line)
        one = 3 * len(lengths) // 4
        ax.annotate(name, (lengths[one], price[one]), (0, 10), textcoords="offset points", ha="right")
    ax.set(xlabel="length", ylabel="price, in packs")


def draw_depths(ax: Axes, depths: Sequence[int | None], more: Mapping[str, Sequence[float]]) -> None:
    """Packs above the fewest without a limit, in percent, by depth; a logarithmic axis that begins with 0."""
    names = dict(spfhp="SPFHP", lpfhp="LPFHP", optimal="optimal")
    lines = {ax.plot(range(len(depths)), more[name], **series(name))[0]: said for name, said in names.items()}
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    plain_ticks(ax.yaxis, (0, 0.01, 0.1, 1, 10, 100))
    ax.set_xticks(range(len(depths)), [str(depth or "none") for depth in depths])
    ax.set(ylim=(-0.002, 300), xlabel="depth limit", ylabel="packs above no limit, %")
    label_ends(lines)
