"""The habits of batching: what they are called, and the padding that each leaves."""

from matplotlib.axes import Axes

from packlib.workbook.figures import percent, series

HABIT_NAMES = {  # the names of `padding_waste`, and how people say it
    "maximum": "pad to the maximum",
    "random": "random batches",
    "buckets": "buckets",
    "megabatches": "sorted windows",
    "sorted": "all sorted",
}


def draw_waste(ax: Axes, waste: dict[str, float]) -> None:
    """Padding shares by habit as bars, labeled with name and value."""
    for row, (habit, share) in enumerate(waste.items()):
        ax.barh(row, 100 * share, height=0.7, color=series(habit)["color"])
        ax.text(100 * share + 1, row, percent(share), va="center")
    ax.set_yticks(range(len(waste)), [HABIT_NAMES[habit] for habit in waste])
    ax.set(xlim=(0, 100), ylim=(len(waste) - 0.5, -0.5), xlabel="padding, % of all slots")
