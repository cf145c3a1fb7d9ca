"""What notebook 04 draws: the worth of packs."""

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.axes import Axes

from packlib.workbook.figures import INK, OKABE_ITO


def draw_worth(ax: Axes, packs: Sequence[Sequence[int]], prices: dict[int, Fraction]) -> None:
    """What each pack is worth at `prices`, sequence by sequence; the dotted line is what a pack costs."""
    colors = dict(zip(sorted(prices), OKABE_ITO, strict=False))
    for row, pack in enumerate(packs):
        left = Fraction(0)
        for length in pack:
            price = prices[length]
            ax.barh(row, float(price), left=float(left), height=0.7, color=colors[length], ec="white", lw=2)
            ax.text(
                float(left + price / 2), row, str(length), ha="center", va="center", color="white", fontweight="bold"
            )
            left += price
        ax.text(float(left) + 0.03, row, str(left), va="center")
    ax.axvline(1, color=INK, linestyle=":", linewidth=2, zorder=0)
    ax.set_yticks(range(len(packs)), [" + ".join(map(str, pack)) for pack in packs])
    ax.set(xlim=(0, 1.4), ylim=(len(packs) - 0.4, -0.6), xlabel="worth, in packs")
