"""Padding waste: the formulas against every order of small data sets, exact fractions, and simulation."""

from fractions import Fraction
from itertools import permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packbook.shared.habits import make_batches
from packlib.lengths import HABITS, LengthHistogram, load, padding_waste

SMALL = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def slots_of(batches):
    return sum(len(batch) * max(batch) for batch in batches)


def cut(lengths, size):
    return [lengths[i : i + size] for i in range(0, len(lengths), size)]


@given(SMALL, st.integers(1, 4), st.integers(1, 4), st.integers(1, 9))
def test_every_habit_costs_the_mean_over_every_order(lengths, batch_size, window, buckets):
    histogram = LengthHistogram.from_lengths(lengths, 9)
    bounds = [9 * (i + 1) // buckets for i in range(buckets)]
    bucket_of = {length: next(bound for bound in bounds if length <= bound) for length in lengths}

    def in_buckets(order):
        parts = [[length for length in order if bucket_of[length] == bound] for bound in bounds]
        return [batch for part in parts for batch in cut(part, batch_size)]

    def in_megabatches(order):
        return [batch for part in cut(order, batch_size * window) for batch in cut(sorted(part), batch_size)]

    orders = list(permutations(lengths))
    for habit, batches in (
        ("random", lambda order: cut(order, batch_size)),
        ("buckets", in_buckets),
        ("megabatches", in_megabatches),
        ("sorted", lambda order: cut(sorted(order), batch_size)),
        ("maximum", lambda order: [(9,)] * len(order)),
    ):
        waste = padding_waste(histogram, batch_size, habit, window=window, buckets=buckets)
        mean = Fraction(sum(slots_of(batches(order)) for order in orders), len(orders))
        assert waste.slots == pytest.approx(float(mean), rel=1e-12)
        assert waste.habit == habit and waste.random == (habit not in ("sorted", "maximum"))
        assert waste.tokens == sum(lengths) and waste.padding_fraction == 1 - waste.tokens / waste.slots


@pytest.mark.parametrize("batch_size", [7, 1000])
def test_random_batches_equal_the_formula_in_fractions(batch_size):
    """Expected maximum = sum over l of 1 - C(shorter than l, b) / C(n, b), for 88,641 sequences."""
    histogram = load("squad")
    total, counts = histogram.num_sequences, histogram.counts.tolist()
    full, rest = divmod(total, batch_size)

    def expected_longest(sample):
        shorter, mean = 0, Fraction(0)
        for length in range(1, len(counts)):
            shorter += counts[length - 1]
            mean += 1 - Fraction(comb(shorter, sample), comb(total, sample))
        return mean

    exact = full * batch_size * expected_longest(batch_size) + rest * expected_longest(rest)
    assert padding_waste(histogram, batch_size).slots == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(
    ("habit", "options"),
    [("buckets", {"buckets": 5}), ("megabatches", {"window": 10})],
)
def test_simulation_agrees_with_the_expected_slots(habit, options):
    lengths = load("squad").expand()[::9]
    runs = [
        sum(len(batch) * int(lengths[batch].max()) for batch in make_batches(lengths, 16, habit, seed, **options))
        for seed in range(40)
    ]
    waste = padding_waste(lengths, 16, habit, **options)
    error = np.std(runs, ddof=1) / np.sqrt(len(runs))
    assert abs(np.mean(runs) - waste.slots) <= 4 * error + 1e-9 * waste.slots


@given(SMALL, st.integers(1, 7), st.sampled_from(sorted(HABITS)), st.integers(0, 3))
def test_batches_use_every_sequence_once(lengths, batch_size, habit, seed):
    batches = [batch.tolist() for batch in make_batches(lengths, batch_size, habit, seed)]
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    again = make_batches(lengths, batch_size, habit, seed)
    assert batches == [batch.tolist() for batch in again]


def test_the_formulas_hold_for_millions_of_sequences():
    """A batch of two from n equal halves of lengths 1 and 2 is 2 long unless both are 1: one in four, about."""
    half = 10**12
    assert padding_waste(LengthHistogram([0, half, half]), 2).slots == pytest.approx(3.5 * half, rel=1e-11)
    assert padding_waste(load("wikipedia"), 64, "megabatches", window=1000).padding_fraction < 0.002


@pytest.mark.parametrize("name", ["wikipedia", "squad"])
@pytest.mark.parametrize("habit", sorted(set(HABITS) - {"maximum"}))
def test_batches_of_one_never_have_less_than_no_padding(name, habit):
    """A sum that rounds below the tokens had been shown as -0.0 %, on some processors."""
    assert 0 <= padding_waste(load(name), 1, habit).padding_fraction < 1e-12


def test_what_is_shown():
    assert "33.33 % padding expected, 6 slots for 4 tokens" in repr(padding_waste([1, 3], 2))
