"""The habits of batching: their names, the batches that each makes, and a picture of their padding."""

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
    """Draw a bar for each habit, as long as its share of padding, with name and value."""
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
    """Yield the batches of a habit, as indices of `lengths`, to look at or to simulate.

    The arguments are those of `padding_waste`. Batches are not shuffled in the end; those of "maximum" are as "random".
    """
    one_of("habit", habit, HABITS)
    whole_number("batch_size", batch_size, 1)
    lengths = as_lengths(lengths)
    order = np.random.default_rng(seed).permutation(len(lengths))
    if habit == "buckets":
        bounds = bucket_bounds(int(lengths.max()), buckets)
        bucket_of_sequence = np.searchsorted(bounds, lengths[order])
        groups = [order[bucket_of_sequence == bucket] for bucket in range(len(bounds))]
    elif habit in ("sorted", "megabatches"):
        size = len(lengths) if habit == "sorted" else batch_size * whole_number("window", window, 1)
        windows = [order[start : start + size] for start in range(0, len(order), size)]
        groups = [sequences[np.argsort(lengths[sequences], kind="stable")] for sequences in windows]
    else:
        groups = [order]
    for group in groups:
        yield from (group[start : start + batch_size] for start in range(0, len(group), batch_size))
