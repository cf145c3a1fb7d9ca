"""Notebook 03: packing by least squares."""

import bisect
from functools import cache

from matplotlib.figure import Figure

from packlib.lengths import load
from packlib.packing import plan
from packlib.workbook.chapters.n03_nnls_packing.figures import draw_bars, draw_misses
from packlib.workbook.chapters.n03_nnls_packing.runs import about, published_result, solve
from packlib.workbook.chapters.shared.histograms import in_blocks, shown_name
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure, percent

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet-pairs")
BLOCKS = 64  # of the explorer


class WeightExplorer(Explorer):
    """Weight and cutoff against what is left over, and the efficiency; lengths in 64 blocks, to answer at once."""

    title = "What do the weights buy?"

    def __init__(self, dataset: str = "wikipedia") -> None:
        self.dataset = dataset
        self.grids = {name: in_blocks(load(name), BLOCKS) for name in dict.fromkeys((dataset, *EXPLORED))}
        self.best = cache(lambda name, depth: plan(self.grids[name], "optimal", depth, time_limit=2).num_packs)
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
        left.set(xlabel="length, in blocks; gray up to the cutoff", title=f"{about(left_over.sum())} left over")
        draw_bars(right, {name: 100 * share for name, share in efficiency.items()}, ("spfhp", "nnlshp", "optimal"))
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


EXERCISES = Exercises([
    Exercise(
        "column", column,
        cases=(([1], 1), ([2], 2), ([1, 3], 4), ([2, 2], 4), ([1, 1, 6], 8)),
        wrong={
            "forgets that a length can come twice": lambda lengths, max_length: column([*{*lengths}], max_length),
            "has a row for length 0": lambda lengths, max_length: [0, *column(lengths, max_length)],
        },
        hint="the first number is for length 1, and it counts how often 1 occurs in the pack.",
    ),
    Exercise(
        "left_over", left_over,
        cases=(([0, 1], [[1]], [1]), ([0, 3], [[1]], [2]), ([0, 0, 3], [[2]], [1]), ([0, 1, 1], [[1], [2]], [2, 1]),
               ([0, 5, 0, 1, 0], [[1, 3], [1, 1]], [1, 1])),
        wrong={
            "counts empty places as negative": lambda counts, strategies, repeats: [
                count - sum(s.count(length) * n for s, n in zip(strategies, repeats, strict=True))
                for length, count in enumerate(counts)
            ],
            "uses each strategy once": lambda counts, strategies, repeats: left_over(
                counts, strategies, [1] * len(repeats)),
            "forgets that a length can come twice": lambda counts, strategies, repeats: left_over(
                counts, map(set, strategies), repeats),
        },
        hint="count the places of each length over all packs; more places than sequences leave nothing over.",
    ),
    Exercise(
        "fewest_pairs", fewest_pairs,
        cases=(([4], 4), ([2, 2], 4), ([3, 2], 4), ([1, 2], 4), ([1, 1, 1], 4), ([1, 1, 2, 3, 4], 4),
               ([5, 5, 4, 3, 2, 1], 8)),
        wrong={
            "only pairs that fill the pack": _mirror_pairs,
            "two in every pack": lambda lengths, max_length: -(-len(lengths) // 2),
            "tokens over slots": lambda lengths, max_length: -(-sum(lengths) // max_length),
        },
        hint="the longest sequence has the least choice, so let it choose first: who may sit beside it?",
    ),
])  # fmt: skip
check = EXERCISES
