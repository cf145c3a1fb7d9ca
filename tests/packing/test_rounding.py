"""Lengths rounded up where very many differ: little is added, the packs hold the true ones, and reports try these."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram
from packlib.packing import METHODS, PackingPlan, methods, plan
from packlib.packing.rounding import rounded_up, with_true_lengths
from packlib.tools.advice import advise, row_lengths

RNG = np.random.default_rng(5)
MANY = np.clip(np.exp(RNG.normal(9, 1.5, 30_000)).astype(int), 1, 65_536)  # 65,536 itself is the most frequent one


def of(lengths, max_length=None):
    return LengthHistogram.from_lengths(lengths, max_length)


def test_each_length_is_rounded_up_by_less_than_a_thousandth_and_frequent_ones_stay():
    frequent = range(20_011, 20_019)  # side by side: but for this, one or two of them would be left
    whole = of([*MANY, *[*frequent] * 60], 65_536)
    rounded = rounded_up(whole)
    true, up = whole.expand(), rounded.expand()
    assert (up >= true).all() and (up < 1.001 * true).all()
    assert np.count_nonzero(rounded.counts) < 5500 < 11_000 < np.count_nonzero(whole.counts)
    assert all(rounded.counts[length] >= 60 for length in frequent)
    assert rounded.counts[65_536] >= whole.counts[65_536] > 2000
    assert 1 < rounded.num_tokens / whole.num_tokens < 1.0007


def test_few_lengths_stay_as_they_are():
    few = of(np.arange(1, 4097))
    assert rounded_up(few) is few
    assert rounded_up(of(np.arange(1, 4098))).num_tokens > of(np.arange(1, 4098)).num_tokens


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(1, 60), st.integers(1, 40), min_size=1, max_size=12),
    st.integers(1, 9),
    st.sampled_from([None, 1, 3]),
)
def test_packs_of_rounded_lengths_hold_the_true_ones(copies, step, depth):
    lengths = [length for length, n in copies.items() for _ in range(n)]
    true = of(lengths, 64)
    rounded = of([-(-length // step) * step for length in lengths], 64)
    made = plan(rounded, method="lpfhp", max_sequences_per_pack=depth)
    packs = with_true_lengths(zip(made.strategies, made.repeats.tolist(), strict=True), true)
    again = PackingPlan.from_strategies(true, packs, "lpfhp", max_sequences_per_pack=depth)  # verifies itself
    assert again.num_packs == made.num_packs
    assert len(packs) <= len(made.strategies) + 2 * len(copies), "equal packs stay together"


def test_auto_fills_rounded_lengths_where_the_true_ones_take_too_long(monkeypatch):
    histogram = of(MANY, 65_536)
    exact = plan(histogram, method="exact_filling", max_sequences_per_pack=12)
    filled, fill = [], METHODS["exact_filling"]
    monkeypatch.setitem(METHODS, "exact_filling", lambda given, limit: filled.append(given) or fill(given, limit))
    made = plan(histogram, max_sequences_per_pack=12)
    assert made.method == "exact_filling" and made.gap <= methods.NEAR * made.lower_bound
    assert exact.num_packs <= made.num_packs <= 1.0007 * exact.num_packs
    assert [np.count_nonzero(given.counts) for given in filled] == [np.count_nonzero(rounded_up(histogram).counts)]


@pytest.mark.parametrize("depth", [4, 6])
def test_auto_searches_rounded_lengths_where_the_true_ones_take_too_long(depth, monkeypatch):
    """With true ones, its steps were used up by a method that packs worse than the plan which it had already."""
    histogram, searched, search = of(MANY, 65_536), [], METHODS["optimal"]
    monkeypatch.setattr(methods, "_STEPS", 2 * 10**8)
    monkeypatch.setattr(methods, "_SHARE_FOR_ROUNDED", 3)

    def watched(given, limit, **options):
        searched.append(given)
        return search(given, limit, **options)

    monkeypatch.setitem(METHODS, "optimal", watched)
    made = plan(histogram, max_sequences_per_pack=depth).verify()
    assert searched == [rounded_up(histogram)] and made.histogram == histogram and made.method == "optimal"
    fast = [plan(histogram, method=name, max_sequences_per_pack=depth) for name in ("lpfhp", "exact_filling")]
    assert made.num_packs < min(other.num_packs for other in fast)
    assert made.lower_bound == fast[0].lower_bound, "what rounded lengths need is no bound of the true ones"


def test_few_lengths_are_searched_with_all_steps_however_long_the_rows(monkeypatch):
    lengths = np.clip(np.exp(RNG.normal(6.5, 0.8, 4000)).astype(int), 1, 4096)
    histogram, searched, search = of(lengths, 4096), [], METHODS["optimal"]
    monkeypatch.setattr(methods, "_STEPS", 10**6)

    def watched(given, limit, **options):
        searched.append((given, options["steps"], options["on_interrupt"]))
        return search(given, limit, **options)

    monkeypatch.setitem(METHODS, "optimal", watched)
    plan(histogram, max_sequences_per_pack=5)
    assert searched == [(histogram, 10**6, "return")]


@pytest.mark.parametrize("depth", [None, 6, 64])
def test_a_report_plans_by_the_true_lengths_only_what_it_advises(depth, monkeypatch):
    """With depths and row lengths of all lengths, it took up to 12 seconds for a million of 120,000 different ones."""
    large, filled = [], []

    def watched(method):
        @functools.wraps(method)
        def call(given, *limit, **options):
            large.extend([method] if np.count_nonzero(given.counts) > 10_000 else [])
            filled.extend([(given, *limit)] if method.__name__ == "exact_filling" else [])
            return method(given, *limit, **options)

        return call

    for name in ("lpfhp", "exact_filling", "lpt"):
        monkeypatch.setitem(METHODS, name, watched(METHODS[name]))
    monkeypatch.setattr(row_lengths, "lpfhp", watched(row_lengths.lpfhp))
    advice = advise(MANY, 65_536, max_sequences_per_pack=depth)
    assert len(large) <= 1, "for the plan, and not again to stand beside it"
    assert len(filled) == len(set(filled)), "exact filling for the row length is not made again for the plan"
    assert advice.plan.to_json() == plan(advice.histogram, max_sequences_per_pack=depth).to_json()
    assert all(trial.bound <= trial.packs for trial in advice.depths)
    rows = [row for row in advice.row_lengths if row.max_length != advice.row_length]
    assert all(row.rounded for row in rows) and not advice.chosen.rounded
    for row in rows[::5]:
        lengths = advice.whole.with_max_length(row.max_length, "split")
        exact = plan(lengths, method="lpfhp", max_sequences_per_pack=depth)
        assert row.packs == pytest.approx(exact.num_packs, rel=0.005)
