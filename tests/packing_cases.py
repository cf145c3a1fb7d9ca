"""Small histograms, and slow ways to pack and to check that share no code with packlib."""

from collections import Counter
from functools import cache

import numpy as np
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram
from packlib.packing import METHODS

DEPTHS = (1, 2, 3, 4, 8, None)
FAST = [method for method in METHODS if "nnls" not in method]  # the others list all full packs, as published


@st.composite
def histograms(draw, largest=40, most=60):
    top = draw(st.integers(1, largest))
    lengths = draw(st.lists(st.integers(1, top), min_size=1, max_size=most))
    return LengthHistogram.from_lengths(lengths, top)


@st.composite
def large_histograms(draw, largest=24):
    top = draw(st.integers(2, largest))
    used = draw(st.lists(st.integers(1, top), min_size=1, max_size=8, unique=True))
    counts = np.zeros(top + 1, int)
    for length in used:
        counts[length] = draw(st.integers(1, 10_000))
    return LengthHistogram(counts)


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


def check_slowly(plan, histogram, depth):
    """Open every pack of the plan, one by one, and tick the sequences off a list."""
    to_pack = Counter({length: int(n) for length, n in enumerate(histogram.counts) if n})
    packs = 0
    for strategy, repeats in zip(plan.strategies, plan.repeats, strict=True):
        for _ in range(int(repeats)):
            packs += 1
            assert sum(strategy) <= histogram.max_length
            assert depth is None or len(strategy) <= depth
            for length in strategy:
                to_pack[length] -= 1
                assert to_pack[length] >= 0
    assert not +to_pack and packs == plan.num_packs
