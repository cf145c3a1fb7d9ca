"""Refilling a few packs at a time: nothing is lost, no pack overflows, and packs are saved."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_by_integer_program, fewest_packs, histograms

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.packing.exact_filling import fill_exactly
from packlib.packing.greedy import number_of_packs
from packlib.packing.search.best import Best
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.refilling import Refilling, refill


@pytest.mark.parametrize("depth", [None, 1, 2, 3, 6])
def test_every_sequence_stays_in_a_pack_that_holds_it(depth):
    """After each attempt, and free slots never spread."""
    rng = np.random.default_rng(depth or 0)
    for method in ("next_fit", "unpacked") * 20:  # of unpacked sequences an attempt saves several packs at once
        top = int(rng.integers(4, 80))
        lengths = rng.integers(1, top // 2 + 2, rng.integers(1, 60)).tolist()
        start = plan(lengths, top, method, max_sequences_per_pack=depth)
        refilling = Refilling(list(zip(start.strategies, start.repeats.tolist(), strict=True)), top, depth)
        packs, squares = start.num_packs, 0
        for _ in range(30):
            saved = refilling.attempt()
            free = [
                top - sum(pack) + refilling._slots_a_place * ((depth or 0) - len(pack)) for pack in refilling.packs
            ]
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


@given(histograms(largest=20, most=9), st.sampled_from(DEPTHS))
@settings(max_examples=100, deadline=None)
def test_refilling_a_pack_for_each_sequence_comes_near_brute_force(histogram, depth):
    """It starts from the worst plan there is, and is within a pack of the fewest; it never claims fewer."""
    best = Best(histogram, depth, Deadline(steps=10**7))
    fewest = fewest_packs(histogram.expand().tolist(), histogram.max_length, depth)
    assert best.lower_bound <= fewest
    refill(best, patience=2)
    assert fewest <= best.num_packs <= fewest + 1
    assert Counter(itertools.chain(*(pack * repeats for pack, repeats in best.strategies))) == Counter(
        histogram.expand().tolist()
    )


@pytest.mark.parametrize("seed", range(3))
def test_filling_and_refilling_end_at_the_plans_of_an_integer_program(seed):
    """HiGHS over all packs: no filling has fewer, and refilling the best of them has as many."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        top, depth = int(rng.integers(12, 41)), rng.choice([2, 3, 4, None])
        lengths = rng.integers(top // 6 + 1, top + 1, 5)
        histogram = LengthHistogram.from_lengths(rng.choice(lengths, rng.integers(8, 60)), top)
        fewest = fewest_by_integer_program(histogram.counts, depth)
        best = Best(histogram, depth, Deadline(steps=5 * 10**7))
        for evenly in (False, True):
            filled = fill_exactly(histogram, depth, evenly)
            assert number_of_packs(filled) >= fewest
            best.offer(filled)
        refill(best, patience=2)
        assert best.num_packs == fewest
