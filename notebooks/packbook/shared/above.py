"""How far packings are from the lower bound, as a picture."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes

from packbook.figures import name_rows, plain_ticks


def draw_above(
    ax: Axes, above: Mapping[str, int], looks: Sequence[Mapping[str, str]], write_number: Callable[[int], str]
) -> None:
    """Draw packs above the lower bound, a row for each method: markers on a logarithmic axis that begins with 0.

    Args:
        above: by method, how many packs it makes above the bound.
        looks: color and marker of each row.
        write_number: how a number is written beside its marker.
    """
    for row, (packs, look) in enumerate(zip(above.values(), looks, strict=True)):
        ax.axhline(row, color="#dddddd", linewidth=1, linestyle="-", zorder=0)
        ax.plot(packs, row, **{**look, "linestyle": ""}, markersize=10, clip_on=False)
        ax.annotate(write_number(packs), (packs, row), (10, 0), textcoords="offset points", va="center")
    largest = max(*above.values(), 10)  # or the axis would end at 0
    ax.set_xscale("symlog", linthresh=1, linscale=0.5)
    ticks = [tick for tick in (0, 1, 1_000, 1_000_000) if tick <= 3 * largest]
    plain_ticks(ax.xaxis, ticks)
    ax.set(xlim=(-0.2, 300 * largest), xlabel="packs above the lower bound")
    name_rows(ax, list(above), above=0.6, below=0.6)
