"""Exact filling against plain loops over single sequences, and the sets of bits against sets."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_packs, histograms

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.packing.bit_sets import chosen_for, highest, set_of, sums_up_to, up_to
from packlib.packing.exact_filling import _LengthsLeft, fill_exactly

numbers = st.sets(st.integers(0, 70))


def members(bits):
    return {n for n in range(bits.bit_length()) if bits >> n & 1}


@given(numbers, st.integers(0, 80))
def test_bits_are_sets(these, most):
    bits = set_of(these, 71)
    assert members(bits) == these and members(up_to(most, bits)) == {n for n in these if n <= most}
    assert highest(bits) == max(these, default=-1)


@given(st.lists(st.integers(1, 12), max_size=7), st.integers(0, 40), numbers)
def test_sums_are_those_of_all_subsets(sizes, space, start):
    sums = sums_up_to(space, sizes, set_of(start, 71))
    for n, found in enumerate(sums):
        subsets = itertools.product(*[(0, size) for size in sizes[:n]])
        assert members(found) == {one + sum(more) for more in subsets for one in start if one + sum(more) <= space}
    for total in members(sums[-1]):
        chosen, rest = chosen_for(total, sizes, sums)
        assert rest in start and rest + sum(sizes[i] for i in chosen) == total and len({*chosen}) == len(chosen)


def first_subset(lengths, number, total):
    """The first `number` of these lengths (from long to short) that add up to `total`."""
    found = (subset for subset in itertools.combinations(lengths, number) if sum(subset) == total)
    return next(found, ())


def one_by_one(lengths, top):
    """Exact filling without a depth limit, by trying all ones, pairs and triples; the tokens in each pack, in order."""
    left, packs = sorted(lengths, reverse=True), []
    while left:
        pack = [left.pop(0)]
        while fits := [length for length in left if length <= top - sum(pack)]:
            space = top - sum(pack)
            subsets = (first_subset(fits, number, space) for number in (1, 2, 3))
            for length in next(filter(None, subsets), fits[:1]):
                left.remove(length)
                pack.append(length)
        packs.append(tuple(sorted(pack, reverse=True)))
    return sorted(packs)


@given(histograms(most=40))
@settings(max_examples=300)
def test_the_packs_are_those_of_plain_loops(histogram):
    made = plan(histogram, method="exact_filling")
    packs = [pack for pack, n in zip(made.strategies, made.repeats.tolist(), strict=True) for _ in range(n)]
    assert sorted(packs) == one_by_one(histogram.expand().tolist(), histogram.max_length)


@pytest.mark.parametrize("evenly", [False, True])
def test_every_pack_is_closed_only_when_nothing_fits_any_more(evenly):
    """Under a depth limit, too, with both choices for scarce places: no pack could take a sequence of a later one."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        top, depth = int(rng.integers(1, 60)), int(rng.integers(1, 10))
        lengths = rng.integers(1, top + 1, rng.integers(1, 60)) // rng.integers(1, 4)
        histogram = LengthHistogram.from_lengths(np.maximum(lengths, 1), top)
        packs = [pack for pack, n in fill_exactly(histogram, depth, evenly) for _ in range(n)]
        assert sorted(itertools.chain(*packs)) == histogram.expand().tolist()
        for pack, shortest_later in zip(packs, later_minimum(packs), strict=True):
            assert len(pack) <= depth and sum(pack) <= top
            assert len(pack) == depth or sum(pack) + shortest_later > top


def later_minimum(packs):
    """For each pack the shortest sequence in the packs after it."""
    shortest = [min(pack) for pack in packs] + [10**9]
    return [min(shortest[i + 1 :]) for i in range(len(packs))]


def test_places_are_kept_for_short_sequences():
    """Ten packs of a long one and three short ones; best fit puts two long ones together and runs out of places."""
    counts = np.zeros(13, int)
    counts[[2, 6]] = 30, 10
    histogram = LengthHistogram(counts)
    assert sum(n for _, n in fill_exactly(histogram, 4, evenly=False)) == 10
    assert plan(histogram, method="lpfhp", max_sequences_per_pack=4).num_packs == 13


@pytest.mark.parametrize(("pair", "free"), [((5, 4), 1), ((11, 10), 2), ((60, 59), 47), ((60, 59), 48)])
def test_the_last_two_leave_as_few_slots_free_as_two_can(pair, free):
    """Here the longest that fits leaves more, alone. From 48 free slots on it is taken all the same."""
    space = sum(pair) + free
    longest = space - min(pair) + 1
    histogram = LengthHistogram.from_lengths([200, longest, *pair], 200 + space)
    filled = [pack for pack, _ in fill_exactly(histogram, 3, evenly=False)]
    assert filled == ([(200, *pair), (longest,)] if free < 48 else [(200, longest), pair])


@pytest.mark.parametrize(("name", "lpfhp", "exact"), [("docstrings", 15_849, 15_847), ("wordnet", 15_689, 15_646)])
def test_fewer_packs_than_best_fit_where_lengths_are_many(name, lpfhp, exact):
    made = {method: plan(load(name), method=method).num_packs for method in ("lpfhp", "exact_filling")}
    assert made == {"lpfhp": lpfhp, "exact_filling": exact}


@pytest.mark.parametrize("depth", [None, 3, 8])
def test_equal_packs_are_filled_at_once(depth):
    """Sixteen million sequences take some two packs for each length, which is what the time depends on."""
    histogram = load("wikipedia")
    lengths = np.count_nonzero(histogram.counts)
    assert len(fill_exactly(histogram, depth, evenly=False)) < 4 * lengths


def test_deep_packs_take_many_sequences_at_once(monkeypatch):
    taken, take = [], _LengthsLeft.take
    monkeypatch.setattr(_LengthsLeft, "take", lambda self, pack, times: taken.append(pack) or take(self, pack, times))
    made = plan(LengthHistogram.from_lengths([1] * 300_000, 100_000), method="exact_filling")
    assert made.num_packs == 3 and len(taken) < 20


@given(histograms(largest=20, most=9), st.sampled_from(DEPTHS), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_filling_has_fewer_packs_than_brute_force(histogram, depth, evenly):
    packs = fill_exactly(histogram, depth, evenly)
    fewest = fewest_packs(histogram.expand().tolist(), histogram.max_length, depth)
    made = sum(repeats for _, repeats in packs)
    assert made >= fewest and (fewest > 1 or made == 1), "what fits into one pack comes into one"


def test_of_several_triples_the_one_with_the_longest_sequence_is_taken():
    """Beside 8 tokens, 7 + 3 + 2 fill a row of 20, and so do 6 + 4 + 2; no two do."""
    assert plan([8, 7, 6, 4, 3, 2], 20, "exact_filling").strategies == [(8, 7, 3, 2), (6, 4)]
