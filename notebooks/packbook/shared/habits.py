"""The habits of batching: what they are called, the batches that each makes, and the padding that it leaves."""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import name_rows, percent, series
from packlib.arguments import one_of, whole_number
from packlib.lengths.counting import as_lengths
from packlib.lengths.waste import HABITS, BatchingHabit, bucket_bounds

HABIT_NAMES: dict[BatchingHabit, str] = {  # the names of `padding_waste`, and how people say it
    "maximum": "pad to the maximum",
    "random": "random batches",
    "buckets": "buckets",
    "megabatches": "sorted windows",
    "sorted": "all sorted",
}


def draw_waste(ax: Axes, waste: dict[BatchingHabit, float]) -> None:
    """Draw padding shares by habit as bars, labeled with name and value."""
    for row, (habit, share) in enumerate(waste.items()):
        ax.barh(row, 100 * share, height=0.7, color=series(habit)["color"])
        ax.text(100 * share + 1, row, percent(share), va="center")
    name_rows(ax, [HABIT_NAMES[habit] for habit in waste])
    ax.set(xlim=(0, 100), xlabel="padding, % of all slots")


def make_batches(
    lengths: np.ndarray,
    batch_size: int,
    habit: BatchingHabit = "random",
    seed: int = 0,
    buckets: int = 8,
    window: int = 50,
) -> Iterator[np.ndarray]:
    """Make the batches of a habit, to look at or to simulate: yields the positions in `lengths` of each.

    The batches are not shuffled in the end. Arguments as in `padding_waste`; "maximum" batches like "random".
    """
    one_of("habit", habit, HABITS)
    whole_number("batch_size", batch_size, 1)
    lengths = as_lengths(lengths)
    order = np.random.default_rng(seed).permutation(len(lengths))
    if habit == "buckets":
        bounds = bucket_bounds(int(lengths.max()), buckets)
        bucket = np.searchsorted(bounds, lengths[order])
        groups = [order[bucket == i] for i in range(len(bounds))]
    elif habit in ("sorted", "megabatches"):
        size = len(lengths) if habit == "sorted" else batch_size * whole_number("window", window, 1)
        windows = (order[i : i + size] for i in range(0, len(order), size))
        groups = [window[np.argsort(lengths[window], kind="stable")] for window in windows]
    else:
        groups = [order]
    for group in groups:
        yield from (group[i : i + batch_size] for i in range(0, len(group), batch_size))
