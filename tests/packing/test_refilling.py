"""Refilling a few packs at a time: nothing is lost, no pack overflows, and packs are saved."""

import itertools
from collections import Counter

import numpy as np
import pytest

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.packing.search.refilling import Refilling


@pytest.mark.parametrize("depth", [None, 1, 2, 3, 6])
def test_every_sequence_stays_in_a_pack_that_holds_it(depth):
    """After each attempt, and free slots never spread."""
    rng = np.random.default_rng(depth or 0)
    for _ in range(40):
        top = int(rng.integers(4, 80))
        lengths = rng.integers(1, top // 2 + 2, rng.integers(1, 60)).tolist()
        start = plan(lengths, top, "next_fit", max_sequences_per_pack=depth)
        refilling = Refilling(list(zip(start.strategies, start.repeats.tolist(), strict=True)), top, depth)
        packs, squares = start.num_packs, 0
        for _ in range(30):
            saved = refilling.attempt()
            free = [top - sum(pack) + refilling._place * ((depth or 0) - len(pack)) for pack in refilling.packs]
            gone = (start.num_packs - len(refilling.packs)) * refilling._free_of(()) ** 2
            now = sum(n * n for n in free) + gone
            assert free == refilling._free and now >= squares and saved == (len(refilling.packs) < packs)
            packs, squares = len(refilling.packs), now
            assert Counter(itertools.chain(*refilling.packs)) == Counter(lengths)
            assert max(map(sum, refilling.packs)) <= top and max(map(len, refilling.packs)) <= (depth or 60)


def drawn(median, sequences, top):
    lengths = np.random.default_rng(median + top).lognormal(np.log(median), 1, sequences)
    return LengthHistogram.from_lengths(np.clip(np.rint(lengths), 1, top).astype(int), top)


@pytest.mark.parametrize(("median", "top", "depth"), [(600, 4096, 8), (2500, 8192, 8), (2500, 16_384, 8)])
def test_real_sizes_are_packed_to_the_bound(median, top, depth):
    """Here the greedy methods end up to 9 packs above the sum of all tokens, and the search for long rows up to 5."""
    made = plan(drawn(median, 20_000, top), method="optimal", max_sequences_per_pack=depth, rounds=150)
    assert made.gap == 0
