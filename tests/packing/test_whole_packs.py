"""Lists of the packs that matter, and integer programs over them."""

import itertools
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, fewest_packs, histograms

from benchmarks.bench_hard import full_packs, tight
from packlib.packing import PackingPlan, plan
from packlib.packing.proofs import PricesAndList
from packlib.packing.search.best import Best
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.dives import Dives
from packlib.packing.search.exact import ExactProgram
from packlib.packing.search.knapsack import NOT_FOR_SALE, Knapsack, fillable_packs, solve_knapsack
from packlib.packing.search.listing import list_packs
from packlib.packing.search.optimal import prove_exactly, search
from packlib.packing.search.starts import start
from packlib.packing.search.whole_packs import choose, flat, ruled_out


@st.composite
def priced(draw):
    """Some sequences, a depth limit, and a price for each length."""
    histogram, depth = draw(histograms(largest=14, most=8)), draw(st.sampled_from(DEPTHS))
    size = len(histogram.counts)
    prices = np.array(draw(st.lists(st.integers(0, 15), min_size=size, max_size=size)))
    prices[histogram.counts > 0] += 1
    return histogram, depth, prices * (PRICE_OF_A_PACK // 16)


@given(priced(), st.data())
@settings(max_examples=100, deadline=None)
def test_every_pack_that_is_worth_enough_is_listed(case, data):
    histogram, depth, prices = case
    counts, lengths = histogram.counts, histogram.expand().tolist()
    packs = {pack for size in range(1, (depth or 8) + 1) for pack in combinations(lengths, size)}
    worth = {pack: int(prices[list(pack)].sum()) for pack in packs if sum(pack) <= histogram.max_length}
    least = data.draw(st.sampled_from(sorted(worth.values())))
    expected = sorted(pack for pack in worth if worth[pack] >= least)
    knapsack = solve_knapsack(np.where(counts > 0, prices, NOT_FOR_SALE), depth)
    listed = knapsack.packs_worth(least, counts, len(expected))
    assert sorted(flat(pack)[::-1] for pack in listed) == expected
    assert knapsack.packs_worth(least, counts, len(expected) - 1) is None


@given(priced())
@settings(max_examples=100, deadline=None)
def test_the_best_fillable_pack_of_each_shortest_length_is_found(case):
    histogram, depth, prices = case
    lengths = histogram.expand().tolist()
    packs = {pack for size in range(1, (depth or 8) + 1) for pack in combinations(lengths, size)}
    worth = {pack: int(prices[list(pack)].sum()) for pack in packs if sum(pack) <= histogram.max_length}
    best = {length: max(worth[pack] for pack in worth if pack[0] == length) for length in lengths}
    found = [flat(pack)[::-1] for pack in fillable_packs(histogram.counts, prices, depth)]
    assert {pack[0]: worth[pack] for pack in found} == best and len(found) == len(best)


@given(priced(), st.integers(0, 2))
@settings(max_examples=200, deadline=None)
def test_what_prices_and_a_list_prove_is_true_by_brute_force(case, more):
    """With any prices, also where the list proves one more pack than the prices do."""
    histogram, depth, prices = case
    bound = certified_bound(histogram.counts, prices, depth)
    best = fewest_packs(histogram.expand().tolist(), histogram.max_length, depth)
    assert bound <= best
    assert not (ruled_out(histogram.counts, prices, depth, bound - 1 + more) and bound - 1 + more >= best)


def hard(seed):
    """Some 160 to 200 lengths up to 800 in packs of 1,000: the linear program takes nearly a whole number of packs."""
    return tight(np.random.default_rng([seed, 0]).integers(1, 801, (160, 180, 200)[seed % 3]).tolist(), 1000)


@pytest.mark.parametrize(("seed", "packs", "listed"), [(5, 81, True), (15, 65, False)])
def test_hard_cases_are_closed_from_both_sides(seed, packs, listed):
    made = plan(hard(seed), method="optimal")
    assert (made.num_packs, made.lower_bound, made.listed) == (packs, packs, listed)
    assert ("of a list of all packs that matter" in repr(made)) == listed
    text = made.to_json()
    assert PackingPlan.from_json(text).verify().listed == listed
    if not listed:
        with pytest.raises(ValueError, match="states that a list of packs proves more than its prices"):
            replace(made, proof=PricesAndList(made.prices))


@pytest.mark.parametrize("sequences", [15, 31])
def test_an_integer_program_ends_where_its_caller_says_so(sequences):
    """Pairs of an odd number of sequences: that no choice holds each of them once takes some branching."""
    pairs = [((long, 1), (short, 1)) for short, long in combinations(range(1, sequences + 1), 2)]
    each = np.append(0, np.ones(sequences, int))
    asked = itertools.count()
    assert choose(pairs, each, sequences, 2000, lambda: next(asked) == 2) is None and next(asked) == 3
    assert choose(pairs, each, sequences, 2000, lambda: True) is None
    assert choose(pairs, each, sequences, 2000) == []
    assert sum(repeats for _, repeats in choose([*pairs, ((1, 1),)], each, sequences, 2000)) == sequences // 2 + 1


def test_a_list_of_some_packs_proves_nothing(monkeypatch):
    """All packs that a plan at the bound can have are asked for. They are too many, and of fewer none is found."""
    best, least = Best(hard(5), None, Deadline()), []

    def packs_worth(self, worth, counts, most):
        least.append(worth)
        return None if len(least) == 1 else []

    monkeypatch.setattr(Knapsack, "packs_worth", packs_worth)
    exact = ExactProgram(best, start(best, exact_first=True))
    assert prove_exactly(exact) and not exact.done()
    bound = best.lower_bound
    list_packs(exact)
    assert least[0] == exact.best_pack_value - exact.total_waste(bound) < least[1] and len(least) == 2
    assert best.lower_bound == bound


def test_that_no_pack_is_good_enough_is_a_proof_too():
    made = plan([44] * 2 + [33] * 3 + [12] * 6, max_length=132, method="optimal")
    assert (made.num_packs, made.lower_bound, made.listed) == (3, 3, True)
    assert PackingPlan.from_json(made.to_json()).verify().lower_bound == 3
    best = Best(made.histogram, None, Deadline())
    search(best)
    assert best.lower_bound == best.proof.bound(made.histogram.counts, None) == 3, "the search ends where it says that"


def test_a_search_that_gains_nothing_ends(monkeypatch):
    """By the work done and not by the clock: no plan meets the bound here, which only a list shows."""
    dives, dive = [], Dives.dive
    monkeypatch.setattr("packlib.packing.search.dives._WORK", 10**8)
    for module in ("dives", "listing"):
        monkeypatch.setattr(f"packlib.packing.search.{module}.choose", lambda *given: None)
    monkeypatch.setattr(Dives, "dive", lambda self, attempt: dives.append(self) or dive(self, attempt))
    assert plan(hard(5), method="optimal").gap == 1
    assert 12 < len(dives) < 400 and dives[-1].work_left < 0


def test_the_integer_program_of_a_dive_looks_for_a_better_plan(monkeypatch):
    """With the packs that the dive has chosen already, whatever it finds has fewer packs than the best plan so far."""
    asked, seen, offer = [], [], ExactProgram.offer

    def checked(self, chosen, rest):
        if asked:
            seen.append(chosen.total() + asked.pop() < self.best.num_packs)
        offer(self, chosen, rest)

    monkeypatch.setattr("packlib.packing.search.dives.choose", lambda packs, left, most, *rest: asked.append(most))
    monkeypatch.setattr(ExactProgram, "offer", checked)
    plan(full_packs(20, 1000, np.random.default_rng([0, 20])), method="optimal", rounds=60)
    assert seen and all(seen)


@pytest.mark.parametrize(("packs", "most", "seed"), [(20, 1000, 0), (40, 1000, 1), (67, 2500, 0), (67, 2500, 3)])
def test_full_packs_are_found(packs, most, seed):
    assert plan(full_packs(packs, most, np.random.default_rng([seed, packs])), method="optimal").num_packs == packs
