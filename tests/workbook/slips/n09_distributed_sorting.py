"""Answers to the exercises of notebook 09 that its checkers must refuse, by the slip."""

import numpy as np

from packlib.workbook.chapters.n09_distributed_sorting.lesson import buckets, tie_cuts

SLIPS = {
    "buckets": {
        "ties go before": lambda lengths, splitters: buckets(lengths, [s + 1 for s in splitters]),
        "forgets the last rank": lambda lengths, splitters: buckets(lengths, splitters)[:-1],
        "adds up": lambda lengths, splitters: np.cumsum(buckets(lengths, splitters)).tolist(),
    },
    "tie_cuts": {
        "each gives as many as it can": lambda ties, wanted: [min(wanted, count) for count in ties],
        "the last rank first": lambda ties, wanted: tie_cuts(ties[::-1], wanted)[::-1],
        "all in one piece": lambda ties, wanted: [wanted if count >= wanted else 0 for count in ties],
    },
    "uneven": {
        "no ties": list(range(1, 17)),
        "four of each": [1, 2, 3, 4] * 4,
        "too often": [1] * 9 + list(range(2, 9)),
        "too few": [1, 2, 2, 2, 2],
    },
}
