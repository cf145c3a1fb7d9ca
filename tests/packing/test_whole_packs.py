"""Lists of the packs that matter, and integer programs over them."""

import math
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_packs, histograms, triplets

from packlib.packing import PackingPlan, plan
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound
from packlib.packing.search.knapsack import NOT_FOR_SALE, proper_packs, solve_knapsack
from packlib.packing.search.optimal import _Search
from packlib.packing.search.whole_packs import choose, ruled_out
from tests.benchmarks.bench_hard import full_triplets, tight


@given(histograms(largest=14, most=9), st.sampled_from(DEPTHS), st.data())
@settings(max_examples=150, deadline=None)
def test_every_pack_that_is_worth_enough_is_listed(histogram, depth, data):
    counts, top = histogram.counts, histogram.max_length
    prices = np.array(data.draw(st.lists(st.integers(0, 20), min_size=top + 1, max_size=top + 1)))
    knapsack = solve_knapsack(np.where(counts > 0, prices, NOT_FOR_SALE), depth)
    least = data.draw(st.integers(1, max(1, knapsack.best)))
    lengths = np.flatnonzero(counts).tolist()
    every = (
        Counter(pack)
        for size in range(1, min(depth or top, top) + 1)
        for pack in combinations_with_replacement(lengths, size)
        if sum(pack) <= top
    )
    expected = {
        tuple(sorted(pack.items(), reverse=True))
        for pack in every
        if all(n <= counts[length] for length, n in pack.items())
        and sum(prices[length] * n for length, n in pack.items()) >= least
    }
    listed = knapsack.packs_worth(least, counts, 10**6)
    assert len(listed) == len(expected) and set(listed) == expected
    if expected:
        assert knapsack.packs_worth(least, counts, len(expected) - 1) is None


@given(histograms(largest=14, most=9), st.sampled_from(DEPTHS), st.data())
@settings(max_examples=150, deadline=None)
def test_the_best_proper_pack_of_each_shortest_length_is_found(histogram, depth, data):
    counts, top = histogram.counts, histogram.max_length
    prices = np.array(data.draw(st.lists(st.integers(0, 20), min_size=top + 1, max_size=top + 1)))
    best = Counter[int]()
    for size in range(1, min(depth or top, top) + 1):
        for pack in combinations_with_replacement(np.flatnonzero(counts).tolist(), size):
            if sum(pack) <= top and all(n <= counts[length] for length, n in Counter(pack).items()):
                best[pack[0]] = max(best[pack[0]], sum(prices[list(pack)]))
    found = proper_packs(counts, prices, depth)
    assert all(
        all(n <= counts[length] for length, n in pack)
        and sum(length * n for length, n in pack) <= top
        and sum(n for _, n in pack) <= (depth or top)
        for pack in found
    )
    assert {pack[-1][0]: sum(prices[length] * n for length, n in pack) for pack in found} == best


@given(histograms(largest=14, most=8), st.sampled_from(DEPTHS), st.integers(0, 2), st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_ruled_out_is_impossible_by_brute_force(histogram, depth, more, data):
    """With any prices, also where the list proves one more pack than the prices do."""
    counts, top = histogram.counts, histogram.max_length
    prices = np.array(data.draw(st.lists(st.integers(0, 9), min_size=top + 1, max_size=top + 1)))
    prices[counts > 0] += 1
    prices *= PRICE_OF_A_PACK // 16
    best = fewest_packs(histogram.expand().tolist(), top, depth)
    packs = certified_bound(counts, prices, depth) - 1 + more
    assert not (ruled_out(counts, prices, depth, packs) and packs >= best)


def hard(seed):
    """Some 160 to 200 lengths up to 800 in packs of 1,000: the linear program takes nearly a whole number of packs."""
    return tight(np.random.default_rng([seed, 0]).integers(1, 801, (160, 180, 200)[seed % 3]).tolist(), 1000)


@pytest.mark.parametrize(("seed", "packs", "listed"), [(5, 81, True), (15, 65, False)])
def test_hard_cases_are_closed_from_both_sides(seed, packs, listed):
    made = plan(hard(seed))
    assert (made.num_packs, made.lower_bound, made.listed) == (packs, packs, listed)
    assert PackingPlan.from_json(made.to_json()).verify().listed == listed
    assert ("as a list of all packs that matter shows" in repr(made)) == listed


def test_a_search_that_gains_nothing_ends(monkeypatch):
    """By the work done and not by the clock: no plan meets the bound here, which only a list shows."""
    dives, dive = [], _Search.dive
    monkeypatch.setattr("packlib.packing.search.optimal._WORK", 3 * 10**7)
    monkeypatch.setattr("packlib.packing.search.optimal.choose", lambda *given: None)
    monkeypatch.setattr(_Search, "dive", lambda self, attempt: dives.append(self) or dive(self, attempt))
    assert plan(hard(5)).gap == 1
    assert 8 < len(dives) < 200 and dives[-1].work_left < 0


def test_a_plan_that_claims_a_list_without_one_is_refused():
    made = plan(hard(15))
    text = made.to_json().replace('"listed": false', '"listed": true')
    with pytest.raises(ValueError, match="states that a list of packs proves more than its prices"):
        PackingPlan.from_json(text)
    with pytest.raises(ValueError, match="listed must be True or False, not 1"):
        PackingPlan.from_json(made.to_json().replace('"listed": false', '"listed": 1'))


@pytest.mark.parametrize("packs", [20, 40])
@pytest.mark.parametrize("seed", range(2))
def test_full_packs_of_three_are_found(packs, seed):
    assert plan(triplets(packs, seed), 1000).num_packs == packs


@pytest.mark.parametrize("seed", [0, 3])
def test_67_full_packs_are_found(seed):
    assert plan(full_triplets(67, 2500, np.random.default_rng([seed, 67]))).num_packs == 67


def test_a_program_without_time_or_packs_says_so():
    counts = np.array([0, 0, 1])
    assert choose([((2, 1),)], counts, 1, 10, 0.0) is None
    assert choose([], counts, 1, 10, math.inf) == []
    assert choose([((2, 1),)], counts, 1, 10) == [((2,), 1)]
