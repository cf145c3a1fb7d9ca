"""SPFHP, LPFHP and the baselines against published counts and plain loops over single sequences."""

import itertools
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_cases import DEPTHS, best_fit, first_fit, histograms

from packlib.lengths import LengthHistogram, load
from packlib.packing import METHODS, plan
from packlib.packing.clock import limited_to
from packlib.workbook.chapters.n02_greedy_packing.runs import one_by_one

HYPERBOLA = LengthHistogram(np.concatenate([[0], 10**6 // np.arange(1, 513)]), "10^6 / l")


@pytest.mark.parametrize(
    ("method", "published"),
    [
        ("spfhp", (3755211, 2731266, 2365461, 1509485, 1147963, 1001725)),
        ("lpfhp", (3409122, 2504084, 2066349, 1454323, 1186680, 999885)),
    ],
)
def test_greedy_counts_are_the_original_ones(method, published):
    assert tuple(plan(HYPERBOLA, method, d).num_packs for d in (2, 3, 4, 8, 16, None)) == published


# Depth, efficiency in percent on the original histogram (arXiv 2107.02027); reconstructions come within 0.25 points.
@pytest.mark.parametrize(
    ("name", "method", "depth", "efficiency"),
    [
        ("wikipedia", "spfhp", 1, 49.967), ("wikipedia", "spfhp", 2, 80.525), ("wikipedia", "spfhp", 3, 89.441),
        ("wikipedia", "spfhp", 4, 93.941), ("wikipedia", "spfhp", 8, 98.902), ("wikipedia", "spfhp", 12, 99.604),
        ("wikipedia", "lpfhp", 2, 80.546), ("wikipedia", "lpfhp", 3, 89.485), ("wikipedia", "lpfhp", 4, 93.962),
        ("wikipedia", "lpfhp", 8, 99.108), ("wikipedia", "lpfhp", 12, 99.813), ("wikipedia", "lpfhp", 16, 99.931),
        ("wikipedia", "lpfhp", None, 99.949), ("squad", "spfhp", 2, 87.60), ("squad", "spfhp", 3, 97.547),
        ("squad", "lpfhp", 3, 97.739),
    ],
)  # fmt: skip
def test_reconstructions_pack_as_published(name, method, depth, efficiency):
    assert plan(load(name), method, depth).efficiency * 100 == pytest.approx(efficiency, abs=0.25)


def packs_of(made):
    return Counter(dict(zip(made.strategies, made.repeats.tolist(), strict=True)))


@given(histograms(), st.sampled_from(DEPTHS))
def test_lpfhp_is_best_fit_decreasing(histogram, depth):
    """Copies of one length may share out differently under a depth limit; without one packs are as full as these."""
    lengths = histogram.expand().tolist()
    slow = best_fit(lengths, histogram.max_length, depth)
    fast = plan(histogram, "lpfhp", depth)
    if depth is None:
        assert sorted(map(sum, packs_of(fast).elements())) == sorted(map(sum, slow))
    assert plan(histogram, "best_fit_decreasing", depth).num_packs == fast.num_packs


@given(histograms(), st.sampled_from(DEPTHS))
def test_first_fit_decreasing_makes_the_packs_of_the_plain_loop(histogram, depth):
    slow = Counter(tuple(pack) for pack in first_fit(histogram.expand().tolist(), histogram.max_length, depth))
    assert packs_of(plan(histogram, "first_fit_decreasing", depth)) == slow


@pytest.mark.parametrize("depth", [None, 5])
def test_first_fit_decreasing_among_many_runs(depth):
    """As many lengths as fill several blocks of runs."""
    lengths = np.random.default_rng(0).integers(1, 1000, 2000)
    slow = Counter(tuple(pack) for pack in first_fit(lengths.tolist(), 2000, depth))
    assert packs_of(plan(LengthHistogram.from_lengths(lengths, 2000), "first_fit_decreasing", depth)) == slow


def test_spfhp_by_hand():
    """8 slots: the 6 and the two 5s open packs; a 3 goes to the most space, the 2 and the 1 to what is left."""
    made = plan(LengthHistogram.from_lengths([6, 5, 5, 3, 2, 1], 8), "spfhp")
    assert packs_of(made) == {(6, 1): 1, (5, 3): 1, (5, 2): 1}
    tight = plan(LengthHistogram.from_lengths([6, 5, 5, 3, 2, 1], 8), "lpfhp")
    assert packs_of(tight) == {(6, 2): 1, (5, 3): 1, (5, 1): 1}


def test_next_fit_takes_an_order():
    histogram = LengthHistogram.from_lengths([5, 5, 3, 3], 8)
    assert plan(histogram, "next_fit", order=[5, 3, 5, 3]).num_packs == 2
    assert plan(histogram, "next_fit", order=[3, 3, 5, 5]).num_packs == 3
    assert plan(histogram, "next_fit", 1, order=[5, 3, 5, 3]).num_packs == 4
    with pytest.raises(ValueError, match="each as often as it occurs"):
        plan(histogram, "next_fit", order=[5, 5, 3])


def test_unpacked_is_a_pack_for_each():
    made = plan(HYPERBOLA, "unpacked")
    assert made.num_packs == HYPERBOLA.num_sequences and made.packing_factor == 1 and made.deepest == 1


def test_a_wrong_call_gets_one_sentence():
    with pytest.raises(ValueError, match="not 'spfph': did you mean 'spfhp'"):
        plan(HYPERBOLA, "spfph")
    with pytest.raises(TypeError, match="spfhp has no option 'wieght': it has none"):
        plan(HYPERBOLA, "spfhp", wieght=1)
    with pytest.raises(TypeError, match="nnlshp has no option 'wieght': its options are cutoff, weight, rounding"):
        plan(HYPERBOLA, "nnlshp", 2, wieght=1)
    with pytest.raises(ValueError, match="max_sequences_per_pack must be at least 1, not 0"):
        plan(HYPERBOLA, "lpfhp", 0)
    for depth in (1.5, "3", True):
        with pytest.raises(TypeError, match="max_sequences_per_pack must be a whole number"):
            plan(HYPERBOLA, "lpfhp", depth)
    with pytest.raises(TypeError, match="takes a LengthHistogram, not list"):
        plan([1, 2, 3])
    assert list(METHODS)[-1] == "optimal"


@given(histograms(largest=16, most=16), st.sampled_from(["spfhp", "lpfhp"]), st.sampled_from(DEPTHS))
def test_the_chapter_draws_what_the_library_plans(histogram, method, depth):
    """`one_by_one` places single sequences, for the pictures of notebook 02."""
    *_, packs = one_by_one(histogram.expand().tolist(), histogram.max_length, method, depth)
    drawn = Counter(tuple(sorted(pack, reverse=True)) for pack in packs)
    assert drawn == packs_of(plan(histogram, method, depth))


@given(histograms(), st.sampled_from(DEPTHS))
def test_lpt_is_never_worse_than_best_fit(histogram, depth):
    packs = plan(histogram, "lpt", depth).num_packs
    assert packs <= plan(histogram, "lpfhp", depth).num_packs
    if depth is None:
        assert packs_of(plan(histogram, "lpt")) == packs_of(plan(histogram, "lpfhp"))


@given(st.integers(1, 20), st.integers(2, 6), st.integers(1, 1000), st.data())
def test_lpt_gives_each_long_sequence_its_short_ones(short, depth, packs, data):
    """Packs of one long sequence and as many short ones as fill the places: best fit puts two long ones together."""
    long = data.draw(st.integers((depth - 1) * short + 1, 30 * short * depth))
    counts = np.zeros(2 * long + 1, int)
    counts[[short, long]] = (depth - 1) * packs, packs
    assert plan(LengthHistogram(counts), "lpt", depth).num_packs == packs


def test_lpt_makes_a_trial_if_there_is_as_much_time_as_best_fit_took(monkeypatch):
    """In CPU seconds: a machine that was busy meanwhile (here each look at the clock takes a second) says nothing."""
    histogram, ticks = LengthHistogram.from_lengths([6] * 10 + [2] * 30, 12), itertools.count()
    assert plan(histogram, "lpfhp", 4).num_packs == 13
    plan(histogram, "lpt", 4)  # compiles
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    with limited_to(2):
        assert plan(histogram, "lpt", 4).num_packs == 10
    monkeypatch.setattr(time, "thread_time", lambda: float(next(ticks)))
    with limited_to(2):
        assert plan(histogram, "lpt", 4).num_packs == 13


PARETO = np.clip(100 * (1 + np.random.default_rng(0).pareto(1.1, 100_000)), 100, 4096).astype(int)
LOG_NORMAL = np.clip(np.random.default_rng(0).lognormal(np.log(600), 1.2, 100_000), 1, 16_384).astype(int)


@pytest.mark.parametrize(
    ("lengths", "depth", "percent"),
    [(LOG_NORMAL, 4, 0.1), (LOG_NORMAL, 11, 0.1), (LOG_NORMAL, 14, 0.2), (LOG_NORMAL, 16, 0.4), (PARETO, 8, 1.3),
     (PARETO, 12, 2.2), (load("wikipedia").expand()[::50], 3, 0.7), (load("wikipedia").expand()[::50], 8, 0.4)],
)  # fmt: skip
def test_lpt_is_near_the_bound_where_places_are_scarce(lengths, depth, percent):
    histogram = LengthHistogram.from_lengths(lengths)
    made, best_fit = plan(histogram, "lpt", depth), plan(histogram, "lpfhp", depth)
    assert made.gap <= made.lower_bound * percent / 100 < best_fit.gap / 2
