"""Notebook 09: sort and pack what no rank holds alone."""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from packlib.distributed import load_imbalance
from packlib.workbook.chapters.n09_distributed_sorting.figures import COUNTED, PLAIN
from packlib.workbook.chapters.n09_distributed_sorting.runs import plain_loads
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure


class BucketExplorer(Explorer):
    """Ranks, samples and skew against the rows that each rank ends with."""

    title = "How many rows does each rank end with?"
    most = 64

    def controls(self):
        return {
            "ranks": choice("Ranks", [2, 4, 8, 16, 32, 64], 8),
            "each": choice("Samples of a rank", [16, 64, 256, 1024], 1024),
            "skew": slider("Share of length 512, %", 0, 90, value=25, step=5),
            "offers": choice("Lengths that a rank offers", [1, 4, 16, 100], 100),
        }

    def draw(self, ranks, each, skew, offers) -> tuple[Figure, str]:
        rng = np.random.default_rng(0)
        all_lengths = rng.integers(1, 513, (self.most, each))
        all_lengths[rng.random(all_lengths.shape) < skew / 100] = 512
        loads = plain_loads(all_lengths[:ranks], min(offers, each))
        numbers = [2**k for k in range(1, 7)]
        curve = [load_imbalance(plain_loads(all_lengths[:p], min(offers, each))) for p in numbers]
        uneven = load_imbalance(loads)
        fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
        left.bar(range(ranks), loads, color=PLAIN["color"], label="splitters from samples")
        left.axhline(each, **{**COUNTED, "marker": ""}, label="counted cuts")
        left.set(xlabel="rank", ylabel="rows", ylim=(0, 1.3 * max(loads.max(), each)))
        left.set_title(f"{loads.max():,} rows instead of {each:,}")
        left.legend(loc="upper left")
        right.loglog(numbers, curve, **PLAIN)
        right.loglog(numbers, np.ones(6), **COUNTED)
        right.axvline(ranks, color="#999999", linestyle=":", zorder=0)
        right.set(xlabel="ranks", ylabel="imbalance", ylim=(0.8, 80), title=f"Imbalance {uneven:.2f}")
        right.set_xticks(numbers, numbers)
        right.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        right.minorticks_off()
        return fig, (
            f"{ranks} ranks with {each:,} samples each, {skew} % of them of length 512; a rank offers "
            f"{min(offers, each)} lengths. The fullest rank ends with {loads.max():,} rows, the emptiest with "
            f"{loads.min():,}: imbalance {uneven:.2f}. With counted cuts all have {each:,}."
        )


# Exercises


def buckets(lengths, splitters):
    """How many of the lengths each rank gets. What equals a splitter goes behind it."""
    return [sum(sum(s <= x for s in splitters) == rank for x in lengths) for rank in range(len(splitters) + 1)]


def tie_cuts(ties, wanted):
    """`ties[r]` rows of rank r tie at a cut; how many of each go before it, `wanted` in all, in the order of ranks."""
    return [min(max(wanted - sum(ties[:rank]), 0), count) for rank, count in enumerate(ties)]


def uneven_fault(got):
    """Whether 16 lengths, none too often, make plain sample sort give one of 4 ranks at least 7."""
    if len(got) != 16 or any(isinstance(x, bool) or x != int(x) or x < 1 for x in got):
        return "it must be 16 whole numbers of at least 1."
    length, times = Counter(got).most_common(1)[0]
    if times > 4:
        return f"{length} comes {times} times; 4 times is a fair share, and all that is allowed."
    loads = plain_loads(np.array(got, np.int64).reshape(4, 4), samples=4)
    return None if loads.max() >= 7 else f"the ranks end with {', '.join(map(str, loads))} rows; one needs 7."


EXERCISES = Exercises([
    Exercise(
        "buckets", buckets,
        cases=(([1], [2]), ([2], [2]), ([3, 1, 2], [2, 3]), ([5, 5, 5, 1], [5]), ([1, 4, 4, 9], [4, 4, 8])),
        wrong={
            "ties go before": lambda lengths, splitters: buckets(lengths, [s + 1 for s in splitters]),
            "forgets the last rank": lambda lengths, splitters: buckets(lengths, splitters)[:-1],
            "adds up": lambda lengths, splitters: np.cumsum(buckets(lengths, splitters)).tolist(),
        },
        hint="the rank of a length is the number of splitters that are at most as large.",
    ),
    Exercise(
        "tie_cuts", tie_cuts,
        cases=(([2], 1), ([1, 1], 1), ([3, 2, 4], 4), ([0, 5, 1], 5), ([2, 2, 2], 0), ([1, 0, 3, 2], 6)),
        wrong={
            "each gives as many as it can": lambda ties, wanted: [min(wanted, count) for count in ties],
            "the last rank first": lambda ties, wanted: tie_cuts(ties[::-1], wanted)[::-1],
            "all in one piece": lambda ties, wanted: [wanted if count >= wanted else 0 for count in ties],
        },
        hint="a rank gives what is still wanted after the ranks before it, but no less than 0 and no more than it has.",
    ),
    Exercise(
        "uneven", [1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5], fault=uneven_fault,
        wrong={
            "no ties": list(range(1, 17)),
            "four of each": [1, 2, 3, 4] * 4,
            "too often": [1] * 9 + list(range(2, 9)),
            "too few": [1, 2, 2, 2, 2],
        },
        hint="in the sorted list, give the splitter where this rank begins ties on its left, and the next one none.",
    ),
])  # fmt: skip
check = EXERCISES
