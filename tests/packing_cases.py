"""Small histograms, and two slow ways to pack that share no code with packlib."""

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from packlib.lengths import LengthHistogram
from packlib.packing import METHODS

DEPTHS = (1, 2, 3, 4, 8, None)
FAST = [method for method in METHODS if "nnls" not in method]  # the others list all full packs, as published


@st.composite
def histograms(draw, largest=40, most=60):
    top = draw(st.integers(1, largest))
    lengths = draw(st.lists(st.integers(1, top), min_size=1, max_size=most))
    return LengthHistogram.from_lengths(lengths, top)


def fewest_packs(lengths, top, depth):
    """The optimum by trying, for the longest sequence left, every set of others beside it."""
    depth = depth or len(lengths)

    @cache
    def best(left):
        if not left:
            return 0
        first, rest = left[0], left[1:]
        return 1 + min(best(after) for after in completions(rest, top - first, depth - 1))

    def completions(rest, room, more):
        found = {rest}
        if more:
            for i, length in enumerate(rest):
                if length <= room and (i == 0 or rest[i - 1] != length):
                    for after in completions(rest[i + 1 :], room - length, more - 1):
                        found.add(rest[:i] + after)
        return found

    return best(tuple(sorted(lengths, reverse=True)))


def fewest_by_integer_program(counts, depth):
    """The fewest packs, by HiGHS' branch and bound over all packs that cannot take another sequence."""
    top = len(counts) - 1
    used = [length for length in range(1, top + 1) if counts[length]]
    deepest = min(depth or top, top // used[0])
    packs = [
        pack for k in range(1, deepest + 1) for pack in combinations_with_replacement(used, k) if sum(pack) <= top
    ]
    full = [pack for pack in packs if len(pack) == deepest or sum(pack) + used[0] > top]
    columns = np.array([[pack.count(length) for pack in full] for length in used])
    wanted = LinearConstraint(columns, lb=np.array([counts[length] for length in used]))
    solved = milp(np.ones(len(full)), constraints=wanted, integrality=np.ones(len(full)), bounds=Bounds(0, np.inf))
    assert solved.success
    return round(solved.fun)
