"""`optimal` against an exact model that shares no code with it: every pack is a column of an integer program."""

import os
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from packlib.lengths import LengthHistogram
from packlib.packing import plan

INSTANCES = 2000 if os.environ.get("PACKLIB_ALL") else 200


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


@pytest.mark.parametrize("part", range(4))
def test_optimal_needs_as_few_packs_as_an_integer_program(part):
    """Between long and short sequences, few and many, with and without a depth limit."""
    rng = np.random.default_rng(part)
    for _ in range(INSTANCES // 4):
        top = int(rng.integers(6, 41))
        shortest = int(rng.integers(max(1, top // 8), top // 3 + 2))
        counts = np.zeros(top + 1, np.int64)
        lengths = rng.integers(shortest, top + 1, rng.integers(2, 8))
        np.add.at(counts, lengths, rng.integers(1, rng.choice([4, 60]), len(lengths)))
        depth = rng.choice([2, 3, 4, None])
        made = plan(LengthHistogram(counts), method="optimal", max_sequences_per_pack=depth)
        fewest = fewest_by_integer_program(made.histogram.counts, depth)
        assert made.lower_bound <= fewest == made.num_packs, (made.histogram.counts.tolist(), depth)
