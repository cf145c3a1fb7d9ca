"""Notebook 03: packing by least squares."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from packbook.exercises import Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import new_figure, series
from packbook.n03_nnls_packing.figures import draw_misses
from packbook.n03_nnls_packing.runs import about, published_result, solve
from packbook.questions import Questions, compare
from packbook.shared.above import draw_above
from packbook.shared.histograms import choice_of_lengths, in_blocks, sets_to_explore, shown_name
from packlib.packing import plan

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet-pairs")
BLOCKS = 64  # of the explorer


class WeightExplorer(Explorer):
    """Weight and cutoff against what is left over and how many packs that costs; lengths in at most 64 blocks."""

    title = "What do the weights buy?"
    shown_controls = ("weight", "depth")

    def __init__(
        self, dataset: str = "wikipedia", own: Sequence[int] = (5, 5, 5, 5, 3, 3, 2, 2, 2, 1), slots: int = 8
    ) -> None:
        self.dataset = dataset
        sets = sets_to_explore(dataset, EXPLORED, own, slots)
        self.grids = {name: in_blocks(histogram, BLOCKS) for name, histogram in sets.items()}
        super().__init__()

    def controls(self):
        return {
            "dataset": choice_of_lengths(self.grids, self.dataset),
            "depth": choice("Depth limit", [2, 3, 4], 3),
            "cutoff": slider("Cutoff, in blocks", 0, 32, value=8),
            "weight": choice("Weight up to it", [0.01, 0.03, 0.09, 0.3, 1.0], 0.09),
        }

    def draw(self, dataset: str, depth: int, cutoff: int, weight: float) -> tuple[Figure, str]:
        grid = self.grids[dataset]
        best = plan(grid, max_sequences_per_pack=depth, time_limit=2)
        left_over, empty, published = published_result(grid, depth, solve(grid, depth, cutoff, weight))
        packs = {
            "as published": published,
            "NNLSHP": plan(
                grid, method="nnlshp", max_sequences_per_pack=depth, cutoff=cutoff, weight=weight
            ).num_packs,
            "LPFHP": plan(grid, method="lpfhp", max_sequences_per_pack=depth).num_packs,
            "optimal": best.num_packs,
        }
        above = {way: number - best.lower_bound for way, number in packs.items()}
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        left.axvspan(0.5, cutoff + 0.5, color="#eeeeee")
        draw_misses(left, left_over, empty)
        left.set(xlabel="blocks; shaded up to the cutoff", title=f"{about(left_over.sum())} left over")
        looks = [series("nnlshp"), series("nnlshp"), series("lpfhp"), series("optimal")]
        draw_above(right, above, [{**looks[0], "markerfacecolor": "white"}, *looks[1:]], about)
        right.set_title(f"Depth limit {depth}")
        listed = ", ".join(f"{way} {about(number)}" for way, number in above.items())
        return fig, (
            f"{shown_name(grid)} in {grid.max_length} blocks, depth limit {depth}, weight {weight:g} up to length "
            f"{cutoff}. Sequences without a place: {about(left_over.sum())}; places without a sequence: "
            f"{about(empty.sum())}. Packs above the lower bound: {listed}."
        )


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "full_strategies": lambda strategies: len(strategies),
        "columns": lambda three, five: round(five / three),
        "fives": lambda places: round(places, 2),
        "used": lambda used, columns, rows: round(100 * used / columns),
        "weights": lambda equal, low: "more" if low > equal else "fewer",
        "depth_two": lambda efficiency, share: round(100 * efficiency, 2),
        "filled": lambda filled, best: filled - best,
        "rounding": lambda down, nearest: compare(down, nearest, "down", "neither", "nearest"),
        "small_case": lambda packs, left: packs,
        "better": lambda nnlshp, lpfhp: compare(nnlshp, lpfhp, "NNLSHP", "neither", "LPFHP"),
    },
    reasons={
        "columns": lambda three, five: (
            "Each further sequence may take nearly any length. In numbers of 8 bytes, 512 a column, the matrix grows "
            f"from {three * 512 * 8 / 1e6:.0f} MB to {five * 512 * 8 / 1e9:.0f} GB."
        ),
        "weights": lambda equal, low: (
            f"{about(equal)} are left over with equal weights, {about(low)} with the low one."
        ),
        "better": lambda nnlshp, lpfhp: (
            f"NNLSHP needs {about(nnlshp)} packs, and LPFHP {about(lpfhp)}. Least squares sees all lengths at once and "
            "a greedy rule sees one, but only least squares insists on packs that are full."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def column(lengths, max_length):
    """The column of the strategy matrix for the pack `lengths`: a list of `max_length` numbers."""
    return [lengths.count(length) for length in range(1, max_length + 1)]


def fewest_pairs(lengths, max_length):
    """The fewest packs when a pack holds at most two sequences."""
    packs, rest = 0, sorted(lengths)
    while rest:
        longest = rest.pop()
        if rest and rest[0] + longest <= max_length:
            rest.pop(0)  # the shortest; if it does not fit beside the longest, none does
        packs += 1
    return packs


def rounded_packs(counts, strategies, x):
    """Round `x` to the nearest; each sequence without a place opens a pack. How many packs are there?"""
    left, packs = list(counts), 0
    for strategy, times in zip(strategies, x, strict=True):
        packs += round(times)
        for length in strategy:
            left[length] = max(0, left[length] - round(times))
    return packs + sum(left)


def filled_lengths(places, lengths):
    """The lengths of the sequences that take the places, from long to short."""
    left, taken = sorted(lengths), []
    for place in sorted(places, reverse=True):
        fits = [length for length in left if length <= place]
        if fits:
            taken.append(fits[-1])
            left.remove(fits[-1])
    return taken


check = Exercises.beside(__file__, column, fewest_pairs, rounded_packs, filled_lengths)
