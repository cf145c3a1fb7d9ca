"""Notebook 03: packing by least squares."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.packing.nnls import nnls_problem, strategy_matrix
from packlib.workbook.chapters.n01_padding_waste.lesson import shown_name
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, PADDING, new_figure, percent, series
from packlib.workbook.parameters import Dataset, Number, Whole

PARAMETERS = {
    "dataset": Dataset(),
    "max_sequences_per_pack": Whole(2, 4),
    "cutoff": Whole(0, 512),
    "weight": Number(0.001, 1.0),
}
EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet-pairs")
BLOCKS = 64  # of the explorer


def in_blocks(histogram: LengthHistogram, blocks: int) -> LengthHistogram:
    """The histogram with lengths in blocks of `max_length / blocks` tokens, rounded up, so that a packing still holds.

    A maximum of at most `blocks` tokens stays as it is.
    """
    blocks = min(blocks, histogram.max_length)
    lengths = -(-np.arange(histogram.max_length + 1) * blocks // histogram.max_length)
    counts = np.zeros(blocks + 1, np.int64)
    np.add.at(counts, lengths, histogram.counts)
    return replace(histogram, counts=counts, max_length=blocks)


def solve(histogram: LengthHistogram, depth: int, cutoff: int = 8, weight: float = 0.09) -> np.ndarray:
    """How often NNLSHP uses each strategy, before rounding; float64, shape (number of strategies,)."""
    from scipy.optimize import nnls

    matrix, target = nnls_problem(histogram, depth, cutoff, weight)
    return nnls(matrix, target, maxiter=10 * matrix.shape[1])[0]


def published_result(
    histogram: LengthHistogram, depth: int, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Round to the nearest; a sequence without a place opens a pack; a place without a sequence stays empty.

    Returns:
        Sequences left over and empty places, both int64, shape (max_length + 1,); and the number of packs.
    """
    repeats = np.rint(x).astype(np.int64)
    places = (strategy_matrix(histogram.max_length, depth).astype(np.int64) @ repeats).tolist()
    more = histogram.counts - np.array([0, *places])
    left_over = np.maximum(more, 0)
    return left_over, left_over - more, int(repeats.sum() + left_over.sum())


def about(number: float) -> str:
    """A number to two digits: what rounding leaves differs a little from one computer to another."""
    return f"{float(f'{number:.1e}'):,.0f}"


def draw_packs(ax: Axes, packs: Iterable[Sequence[int]], max_length: int, labels: Sequence[str] = ()) -> None:
    """A row for each pack: its sequences in blue with their lengths, what stays empty gray and hatched."""
    for row, lengths in enumerate(packs):
        starts = np.cumsum([0, *lengths])
        ax.barh(row, max_length - starts[-1], left=starts[-1], height=0.8, color=PADDING, hatch="///", lw=0)
        for start, length in zip(starts, lengths, strict=False):
            ax.barh(row, length, left=start, height=0.8, color=series("packed")["color"], ec="white", lw=2)
            if length >= 0.04 * max_length:
                ax.text(start + length / 2, row, str(length), color="white", ha="center", va="center")
    rows = row + 1
    ax.set_yticks(range(rows), labels or [""] * rows)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, max_length), ylim=(rows - 0.4, -0.6), xlabel="slots")
    ax.spines["left"].set_visible(False)


def draw_matrix(ax: Axes, matrix: np.ndarray) -> None:
    """The strategy matrix as a table of squares: its numbers, and the darker the more."""
    ax.imshow(matrix, cmap="Blues", vmax=2 * matrix.max(), aspect="auto")
    for row, column in np.ndindex(matrix.shape):
        entry = int(matrix[row, column])
        ax.text(column, row, str(entry or "·"), ha="center", va="center", color=INK)
    rows, columns = matrix.shape
    ax.set_xticks(range(columns), [str(n) for n in range(1, columns + 1)])
    ax.set_yticks(range(rows), [str(n) for n in range(1, rows + 1)])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="strategy", ylabel="length")


def draw_misses(ax: Axes, left_over: np.ndarray, empty: np.ndarray) -> None:
    """By length: sequences without a place upward, places without a sequence downward."""
    lengths = np.arange(len(left_over))
    ax.bar(lengths, left_over, width=1, color=series("spfhp")["color"])
    ax.bar(lengths, -empty, width=1, color="#666666")
    ax.axhline(0, color=INK, linewidth=1)
    largest = max(left_over.max(), empty.max(), 1)
    ax.set(ylim=(-1.25 * largest, 1.25 * largest), xlim=(0, len(lengths)))
    ax.text(0.98, 0.97, "sequences without a place", ha="right", va="top", transform=ax.transAxes)
    ax.text(0.98, 0.03, "places without a sequence", ha="right", va="bottom", transform=ax.transAxes)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")


def draw_bars(ax: Axes, percents: dict[str, float], styles: Sequence[str]) -> None:
    """Percentages as labeled bars, in the colors of the methods `styles`."""
    for row, (value, style) in enumerate(zip(percents.values(), styles, strict=True)):
        ax.barh(row, value, height=0.6, color=series(style)["color"])
        ax.annotate(f"{value:.2f} %", (value, row), (6, 0), textcoords="offset points", va="center")
    ax.set_xlim(0, 1.25 * max(*percents.values(), 0.01))
    ax.set_yticks(range(len(percents)), list(percents))
    ax.set_ylim(len(percents) - 0.4, -0.6)


class WeightExplorer(Explorer):
    """Weight and cutoff against what is left over, and the efficiency; lengths in 64 blocks, to answer at once."""

    title = "What do the weights buy?"

    def __init__(self, dataset: str = "wikipedia") -> None:
        self.dataset = dataset
        self.grids = {name: in_blocks(load(name), BLOCKS) for name in dict.fromkeys((dataset, *EXPLORED))}
        self.best = cache(
            lambda name, depth: plan(self.grids[name], "optimal", depth, time_limit=2).num_packs
        )
        super().__init__()

    def controls(self):
        names = [(shown_name(grid), name) for name, grid in self.grids.items()]
        return {
            "dataset": choice("Lengths", names, self.dataset),
            "depth": choice("Depth", [2, 3, 4], 3),
            "cutoff": slider("Cutoff, in blocks", 0, 32, value=8),
            "weight": choice("Weight up to it", [0.01, 0.03, 0.09, 0.3, 1.0], 0.09),
        }

    def draw(self, dataset: str, depth: int, cutoff: int, weight: float) -> tuple[Figure, str]:
        grid = self.grids[dataset]
        left_over, empty, published = published_result(grid, depth, solve(grid, depth, cutoff, weight))
        packs = {
            "as published": published,
            "places filled": plan(grid, "nnlshp", depth, cutoff=cutoff, weight=weight).num_packs,
            "best possible": self.best(dataset, depth),
        }
        efficiency = {name: grid.num_tokens / (n * grid.max_length) for name, n in packs.items()}
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        left.axvspan(0.5, cutoff + 0.5, color="#eeeeee")
        draw_misses(left, left_over, empty)
        left.set(
            xlabel="length, in blocks; gray up to the cutoff", title=f"{about(left_over.sum())} left over"
        )
        draw_bars(
            right, {name: 100 * share for name, share in efficiency.items()}, ("spfhp", "nnlshp", "optimal")
        )
        right.set(xlim=(0, 150), xticks=(0, 50, 100), xlabel="efficiency, %", title=f"depth {depth}")
        told = ", ".join(f"{name} {percent(share, 2)}" for name, share in efficiency.items())
        return fig, (
            f"{shown_name(grid)} in {grid.max_length} blocks, depth {depth}, weight {weight:g} up to length "
            f"{cutoff}: {about(left_over.sum())} sequences find no place, {about(empty.sum())} places find no "
            f"sequence. Efficiency: {told}."
        )


# Exercises


def column(lengths, max_length):
    """The column of the strategy matrix for the pack `lengths`: a list of `max_length` numbers."""
    return [lengths.count(length) for length in range(1, max_length + 1)]


def left_over(counts, strategies, repeats):
    """How many sequences of each length find no place; `counts[l]` have length l, and so in the answer."""
    left = list(counts)
    for strategy, times in zip(strategies, repeats, strict=True):
        for length in strategy:
            left[length] = max(0, left[length] - times)
    return left


def fewest_pairs(lengths, max_length):
    """The fewest packs when a pack holds at most two sequences."""
    packs, rest = 0, sorted(lengths)
    while rest:
        longest = rest.pop()
        if fits := bisect.bisect_right(rest, max_length - longest):
            rest.pop(fits - 1)  # the longest that fits beside it
        packs += 1
    return packs


def _mirror_pairs(lengths, max_length):
    """Only pairs that fill the pack exactly."""
    rest, packs = sorted(lengths), 0
    while rest:
        longest = rest.pop()
        if max_length - longest in rest:
            rest.remove(max_length - longest)
        packs += 1
    return packs


EXERCISES = Exercises(
    [
        Exercise(
            "column",
            column,
            cases=(([1], 1), ([2], 2), ([1, 3], 4), ([2, 2], 4), ([1, 1, 6], 8)),
            wrong={
                "forgets that a length can come twice": lambda lengths, max_length: [
                    int(length in lengths) for length in range(1, max_length + 1)
                ],
                "has a row for length 0": lambda lengths, max_length: [
                    lengths.count(length) for length in range(max_length + 1)
                ],
            },
            hint="the first number is for length 1, and it counts how often 1 occurs in the pack.",
        ),
        Exercise(
            "left_over",
            left_over,
            cases=(
                ([0, 1], [[1]], [1]),
                ([0, 3], [[1]], [2]),
                ([0, 0, 3], [[2]], [1]),
                ([0, 1, 1], [[1], [2]], [2, 1]),
                ([0, 5, 0, 1, 0], [[1, 3], [1, 1]], [1, 1]),
            ),
            wrong={
                "counts empty places as negative": lambda counts, strategies, repeats: [
                    count - sum(s.count(length) * n for s, n in zip(strategies, repeats, strict=True))
                    for length, count in enumerate(counts)
                ],
                "uses each strategy once": lambda counts, strategies, repeats: left_over(
                    counts, strategies, [1] * len(repeats)
                ),
                "forgets that a length can come twice": lambda counts, strategies, repeats: left_over(
                    counts, [sorted(set(s)) for s in strategies], repeats
                ),
            },
            hint="count the places of each length over all packs; more places than sequences leave nothing over.",
        ),
        Exercise(
            "fewest_pairs",
            fewest_pairs,
            cases=(
                ([4], 4),
                ([2, 2], 4),
                ([3, 2], 4),
                ([1, 2], 4),
                ([1, 1, 1], 4),
                ([1, 1, 2, 3, 4], 4),
                ([5, 5, 4, 3, 2, 1], 8),
            ),
            wrong={
                "only pairs that fill the pack": _mirror_pairs,
                "two in every pack": lambda lengths, max_length: -(-len(lengths) // 2),
                "tokens over slots": lambda lengths, max_length: -(-sum(lengths) // max_length),
            },
            hint="the longest sequence has the least choice, so let it choose first: who may sit beside it?",
        ),
    ]
)
check = EXERCISES.check
