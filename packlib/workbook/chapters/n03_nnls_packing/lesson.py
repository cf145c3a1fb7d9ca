"""Notebook 03: packing by least squares."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from matplotlib.figure import Figure

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.workbook.chapters.n03_nnls_packing.figures import draw_above, draw_misses
from packlib.workbook.chapters.n03_nnls_packing.runs import about, published_result, solve
from packlib.workbook.chapters.shared.histograms import in_blocks, shown_name
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure
from packlib.workbook.questions import Question, Questions

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet-pairs")
BLOCKS = 64  # of the explorer


class WeightExplorer(Explorer):
    """Weight and cutoff against what is left over and how many packs that costs; lengths in at most 64 blocks."""

    title = "What do the weights buy?"
    telling = ("weight", "depth")

    def __init__(
        self, dataset: str = "wikipedia", own: Sequence[int] = (5, 5, 5, 5, 3, 3, 2, 2, 2, 1), slots: int = 8
    ) -> None:
        self.dataset = dataset
        self.grids = {name: in_blocks(load(name), BLOCKS) for name in dict.fromkeys((dataset, *EXPLORED))}
        self.grids["your own"] = in_blocks(LengthHistogram.from_lengths(own, slots, name="your own"), BLOCKS)
        self.best = cache(lambda name, depth: plan(self.grids[name], max_sequences_per_pack=depth, time_limit=2))
        super().__init__()

    def controls(self):
        names = [(shown_name(grid), name) for name, grid in self.grids.items()]
        return {
            "dataset": choice("Lengths", names, self.dataset),
            "depth": choice("Depth limit", [2, 3, 4], 3),
            "cutoff": slider("Cutoff, in blocks", 0, 32, value=8),
            "weight": choice("Weight up to it", [0.01, 0.03, 0.09, 0.3, 1.0], 0.09),
        }

    def draw(self, dataset: str, depth: int, cutoff: int, weight: float) -> tuple[Figure, str]:
        grid, best = self.grids[dataset], self.best(dataset, depth)
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
        draw_above(right, above)
        right.set_title(f"Depth limit {depth}")
        told = ", ".join(f"{way} {about(number)}" for way, number in above.items())
        return fig, (
            f"{shown_name(grid)} in {grid.max_length} blocks, depth limit {depth}, weight {weight:g} up to length "
            f"{cutoff}: {about(left_over.sum())} sequences find no place, {about(empty.sum())} places find no "
            f"sequence. Packs above the lower bound: {told}."
        )


def _by_number(strategies: Sequence[tuple[int, ...]]) -> str:
    parts = Counter(map(len, strategies))
    return f"{parts[1]} for a single length, {parts[2]} for two and {parts[3]} for three"


QUESTIONS = Questions(
    full_strategies=Question(
        "How many full strategies are there?",
        unit="strategies",
        by_factor=True,
        truth=lambda strategies: len(strategies),
        why=lambda strategies: f"Count by how many lengths share the pack: {_by_number(strategies)}.",
    ),
    columns=Question(
        "How many times as many columns are there at depth 5?",
        unit="times",
        by_factor=True,
        truth=lambda three, five: round(five / three),
        why=lambda three, five: (
            "Each further sequence may take nearly any length. In numbers of 8 bytes, 512 a column, the matrix grows "
            f"from {three * 512 * 8 / 1e6:.0f} MB to {five * 512 * 8 / 1e9:.0f} GB."
        ),
    ),
    fives=Question(
        "How many places does the solution have for the four sequences of length 5?",
        unit="places",
        truth=lambda places: round(places, 2),
        why="Three of the fives find partners that sum to 3: a 3, another 3, and 2 + 1. The fourth has none. Least "
        "squares knows nothing of whole packs, and spreads the error over several lengths.",
    ),
    used=Question(
        "Of all full strategies, how many does the solution use, in percent?",
        unit="%",
        by_factor=True,
        truth=lambda used, columns, rows: round(100 * used / columns),
        why=lambda used, columns, rows: (
            f"The solver never needs more strategies than there are rows, {rows} here; it takes {used}."
        ),
    ),
    weights=Question(
        "With the low weight, are more sequences left over in the end, or fewer?",
        truth=lambda equal, low: "more" if low > equal else "fewer",
        why=lambda equal, low: f"{about(equal)} are left over with equal weights, {about(low)} with the low one.",
        choices={
            "more": "Errors on long rows now cost more than errors on short ones, so the long sequences get places.",
            "fewer": "This data has many short sequences, and errors on their rows have become cheap.",
        },
    ),
    depth_two=Question(
        "How full are the packs of the public code at depth 2, in percent?",
        unit="%",
        truth=lambda efficiency, share: round(100 * efficiency, 2),
        why=lambda efficiency, share: f"{100 * share:.0f} % of the sequences find no place of their length.",
    ),
    filled=Question(
        "How many packs above the fewest does the least-squares packing need now?",
        unit="packs",
        truth=lambda filled, best: filled - best,
        why=lambda filled, best: (
            f"{best:,} packs are proven to be needed (notebook 04 shows how). The places that stayed empty were all "
            "that was wrong."
        ),
    ),
    rounding=Question(
        "With 300 sequences, which rounding needs fewer packs on average: down, nearest or neither?",
        truth=lambda down, nearest: "neither" if down == nearest else "down" if down < nearest else "nearest",
        why=lambda down, nearest: (
            f"Rounded down, {down:.1f} % more packs than the best; to the nearest, {nearest:.1f} %. Rounded "
            "down, every strategy that is used less than once vanishes, and LPFHP packs its sequences."
        ),
        choices={
            "down": "With so few sequences, many strategies are used less than once.",
            "nearest": "Some places are then too many, and shorter sequences fill them badly here.",
            "neither": "The means differ.",
        },
    ),
    small_case=Question(
        "How many packs does the public code open for these eight?",
        unit="packs",
        truth=lambda packs, left: packs,
        why=lambda packs, left: (
            f"Least squares uses 5 + 3 and 6 + 2, two packs of each, and {left} sequences find no place. No "
            "sequence has length 3 or 6, so each of the eight stays alone."
        ),
    ),
    better=Question(
        "Which needs fewer packs at your depth: NNLSHP with filled places, LPFHP or neither?",
        truth=lambda nnlshp, lpfhp: "neither" if nnlshp == lpfhp else "NNLSHP" if nnlshp < lpfhp else "LPFHP",
        why=lambda nnlshp, lpfhp: (
            f"NNLSHP needs {about(nnlshp)} packs, and LPFHP {about(lpfhp)}. Least squares sees all lengths at once and "
            "a greedy rule sees one, but only least squares insists on packs that are full."
        ),
        choices={
            "NNLSHP": "Here too few packs can be full, and what is left over is packed greedily anyway.",
            "LPFHP": "The depth limit is tight here, and a greedy rule wastes it.",
            "neither": "They differ.",
        },
    ),
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


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


def _mirror_pairs(lengths, max_length):
    """Only pairs that fill the pack exactly."""
    rest, packs = sorted(lengths), 0
    while rest:
        longest = rest.pop()
        if max_length - longest in rest:
            rest.remove(max_length - longest)
        packs += 1
    return packs


def _rounded(counts, strategies, x, way=round):
    """A learner's sum: empty places are set off against sequences without one."""
    repeats = [way(times) for times in x]
    places = sum(len(s) * n for s, n in zip(strategies, repeats, strict=True))
    return sum(repeats) + max(0, sum(counts) - places)


def _first_that_fits(places, lengths):
    """Each place takes the shortest sequence."""
    left, taken = sorted(lengths), []
    for place in sorted(places, reverse=True):
        if left and left[0] <= place:
            taken.append(left.pop(0))
    return taken


EXERCISES = Exercises([
    Exercise(
        "column", column,
        cases=(([1], 1), ([2], 2), ([1, 3], 4), ([2, 2], 4), ([1, 1, 6], 8)),
        wrong={
            "forgets that a length can come twice": lambda lengths, max_length: column([*{*lengths}], max_length),
            "has a row for length 0": lambda lengths, max_length: [0, *column(lengths, max_length)],
        },
        hint="the first number is for length 1, and it counts how often 1 occurs in the pack.",
        level=1,
        minutes=5,
    ),
    Exercise(
        "fewest_pairs", fewest_pairs,
        cases=(([4], 4), ([2, 2], 4), ([3, 2], 4), ([1, 2], 4), ([1, 1, 1], 4), ([1, 1, 2, 3, 4], 4),
               ([5, 5, 4, 3, 2, 1], 8), ([5, 5, 5], 8)),
        wrong={
            "only pairs that fill the pack": _mirror_pairs,
            "two in every pack": lambda lengths, max_length: -(-len(lengths) // 2),
            "tokens over slots": lambda lengths, max_length: -(-sum(lengths) // max_length),
            "the larger of both bounds": lambda lengths, max_length: max(
                -(-len(lengths) // 2), -(-sum(lengths) // max_length)),
        },
        hint="the longest sequence has the least choice, so let it choose first: which one may share its pack?",
        level=2,
        minutes=10,
    ),
    Exercise(
        "rounded_packs", rounded_packs,
        cases=(([0, 1], [[1]], [1.0]), ([0, 3], [[1]], [2.2]), ([0, 3], [[1]], [2.7]), ([0, 0, 3], [[2]], [0.4]),
               ([0, 0, 2, 2], [[1, 3], [2, 2]], [1.6, 0.7]), ([0, 1, 3, 2, 0, 4], [[1, 2, 5], [2, 2, 4], [3, 5]],
               [1.4, 0.6, 2.3])),
        wrong={
            "rounds up": lambda counts, strategies, x: rounded_packs(counts, strategies, [-(-t // 1) for t in x]),
            "rounds down": lambda counts, strategies, x: rounded_packs(counts, strategies, [t // 1 for t in x]),
            "forgets what is left over": lambda counts, strategies, x: sum(map(round, x)),
            "puts any sequence into an empty place": _rounded,
        },
        hint="count the places of each length first. Only then do you know how many sequences of that length are left.",
        level=2,
        minutes=15,
    ),
    Exercise(
        "filled_lengths", filled_lengths,
        cases=(([4], [4]), ([4], [3]), ([3], [4]), ([4, 4], [3, 4, 4]), ([6, 4], [5, 4, 4]), ([5, 3, 8], [2, 8, 8, 4]),
               ([9, 7, 7, 2, 1], [8, 7, 6, 6, 3, 3])),
        wrong={
            "the exact length only": lambda places, lengths: sorted(
                (Counter(places) & Counter(lengths)).elements(), reverse=True),
            "the shortest that fits": _first_that_fits,
            "the longest, fit or not": lambda places, lengths: sorted(lengths, reverse=True)[: len(places)],
            "from short to long": lambda places, lengths: filled_lengths(places, lengths)[::-1],
        },
        hint="a place takes the longest sequence left that is not longer than the place.",
        level=3,
        minutes=15,
    ),
])  # fmt: skip
check = EXERCISES
