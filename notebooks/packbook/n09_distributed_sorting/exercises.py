"""The exercises of notebook 09, in its order."""

from collections import Counter
from itertools import accumulate

import numpy as np

from packbook.exercises import Exercise, Exercises
from packbook.n09_distributed_sorting.runs import plain_loads


def buckets(lengths, splitters):
    """Count the lengths that each rank gets. A length equal to a splitter goes to the rank behind it."""
    return [sum(sum(s <= x for s in splitters) == rank for x in lengths) for rank in range(len(splitters) + 1)]


def draw_lengths_and_splitters(rng):
    """Draw a few lengths, many of which equal a splitter; splitters may be equal too."""
    splitters = sorted(rng.randint(2, 8) for _ in range(rng.randint(1, 3)))
    return [rng.randint(1, 9) for _ in range(rng.randint(1, 8))], splitters


def tie_cuts(ties, wanted):
    """Return how many of each rank's `ties[r]` rows go before the cut: `wanted` in all, in the order of ranks."""
    return [min(max(wanted - sum(ties[:rank]), 0), count) for rank, count in enumerate(ties)]


def draw_ties(rng):
    """Draw how many equal rows each rank has, and how many of them all go before the cut."""
    ties = [rng.randint(0, 5) for _ in range(rng.randint(1, 5))]
    return ties, rng.randint(0, sum(ties))


def shared_evenly(ties, wanted):
    """Return how many of each rank's rows go before the cut if ranks give one in turn."""
    before_cut, missing = [0] * len(ties), wanted
    while missing:
        for rank, count in enumerate(ties):
            if missing and before_cut[rank] < count:
                before_cut[rank] += 1
                missing -= 1
    return before_cut


def uneven_fault(got):
    """Return why `got` is not 16 lengths of which plain sample sort gives 7 or more to one rank; None if it is."""
    if len(got) != 16 or any(isinstance(x, bool) or x != int(x) or x < 1 for x in got):
        return "it must be 16 whole numbers of at least 1."
    length, times = Counter(got).most_common(1)[0]
    if times > 4:
        return f"{length} comes {times} times; 4 times is a fair share, and all that is allowed."
    loads = plain_loads(np.array(got, np.int64).reshape(4, 4), samples=4)
    return None if loads.max() >= 7 else f"the ranks end with {', '.join(map(str, loads))} rows; one needs 7."


check = Exercises(
    [
        Exercise(
            "buckets",
            buckets,
            level=1,
            minutes=5,
            draw=draw_lengths_and_splitters,
            cases=[([1], [2]), ([2], [2]), ([3, 1, 2], [2, 3]), ([5, 5, 5, 1], [5])],
            hint="the rank of a length is the number of splitters that are at most as large.",
            slips={
                "what equals a splitter goes behind it, to the higher rank.": (
                    lambda lengths, splitters: buckets(lengths, [s + 1 for s in splitters])
                ),
                "those are sums from the first rank on; asked is the number of each rank.": (
                    lambda lengths, splitters: list(accumulate(buckets(lengths, splitters)))
                ),
                "the last rank is missing: there is one more rank than there are splitters.": (
                    lambda lengths, splitters: buckets(lengths, splitters)[:-1]
                ),
            },
        ),
        Exercise(
            "tie_cuts",
            tie_cuts,
            level=2,
            minutes=10,
            draw=draw_ties,
            cases=[([2], 1), ([1, 1], 1), ([3, 2, 4], 4), ([0, 5, 1], 5), ([2, 2, 2], 0)],
            hint="a rank gives what is still wanted after the ranks before it: at least 0, at most what it has.",
            slips={
                "all ranks together give `wanted`, so a rank has to know what those before it gave.": (
                    lambda ties, wanted: [min(wanted, count) for count in ties]
                ),
                "a rank gives a part of its ties, if fewer than all of them are still wanted.": (
                    lambda ties, wanted: [
                        count if sum(ties[: rank + 1]) <= wanted else 0 for rank, count in enumerate(ties)
                    ]
                ),
                "that takes one of each rank in turn; the first rank gives all that it can, then the second.": (
                    shared_evenly
                ),
            },
        ),
        Exercise(
            "uneven",
            [1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5],
            level=3,
            minutes=15,
            fault=uneven_fault,
            hint="in the sorted list, give the splitter where this rank begins ties on its left, and the next none.",
            slips={
                "without ties every rank gets four; some lengths have to come several times.": list(range(1, 17)),
                "one length alone is too frequent there; at most four may be equal.": [1] * 9 + list(range(2, 9)),
                "sixteen lengths are needed, four for each rank.": [1, 2, 2, 2, 2],
            },
        ),
    ]
)
