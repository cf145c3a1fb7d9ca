"""NNLSHP and its extended variant: the strategy matrix, soundness at every depth, refusals."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.packing.nnls import full_strategies, nnls_problem, num_full_strategies, strategy_matrix


def coarse(name, top):
    """A data set with its lengths scaled down, so that least squares is quick."""
    fine = load(name)
    lengths = -(-np.arange(fine.max_length + 1) * top // fine.max_length)
    return LengthHistogram(np.bincount(lengths, weights=fine.counts).astype(int), f"{name}, coarse")


def test_the_ten_strategies_of_eight_slots():
    assert ["".join(map(str, s)) for s in full_strategies(8, 3)] == [
        "116", "125", "134", "17", "224", "233", "26", "35", "44", "8",
    ]  # fmt: skip
    matrix = strategy_matrix(8, 3)
    assert matrix.shape == (8, 10)
    assert (np.arange(1, 9) @ matrix == 8).all() and matrix[:, 0].tolist() == [2, 0, 0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("top", range(1, 13))
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_full_strategies_against_all_multisets(top, depth):
    slow = [
        lengths
        for size in range(1, depth + 1)
        for lengths in combinations_with_replacement(range(1, top + 1), size)
        if sum(lengths) == top
    ]
    assert sorted(full_strategies(top, depth)) == sorted(slow)
    assert num_full_strategies(top, depth) == len(slow)


def test_published_numbers_of_columns():
    assert [num_full_strategies(512, depth) for depth in (3, 4, 5)] == [22_102, 959_631, 25_287_483]
    assert num_full_strategies(384, 3) == 12_481


def test_a_matrix_that_would_not_fit_is_refused_with_its_size():
    with pytest.raises(ValueError, match="25,287,483 columns"):
        plan(load("wikipedia"), "nnlshp", 5)
    with pytest.raises(ValueError, match="depth 8 has"):
        plan(load("wikipedia"), "ennlshp", 8)


def test_depth_two_meets_the_bound_on_wikipedia():
    """The public code packs 61.96 % there, since it has no way to use a pack that is not full."""
    wikipedia = load("wikipedia")
    best = plan(wikipedia, "optimal", 2)
    assert plan(wikipedia, "nnlshp", 2).num_packs == best.num_packs == best.lower_bound


@pytest.mark.parametrize("method", ["nnlshp", "ennlshp"])
@pytest.mark.parametrize("rounding", ["down", "nearest"])
def test_close_to_the_best_at_depth_three(method, rounding):
    histogram = coarse("wikipedia", 64)
    best = plan(histogram, "optimal", 3).num_packs
    assert plan(histogram, method, 3, rounding=rounding).num_packs <= best * 1.0001
    assert plan(histogram, method).max_sequences_per_pack == 3  # the default depth


def test_weights_and_cutoff():
    histogram = coarse("wikipedia", 16)
    matrix, target = nnls_problem(histogram, 3, cutoff=4, weight=0.5)
    assert np.array_equal(matrix[:4], 0.5 * strategy_matrix(16, 3)[:4])
    assert np.array_equal(target[4:], histogram.counts[5:]) and target[0] == 0.5 * histogram.counts[1]
    for options in ({"weight": 0}, {"weight": float("nan")}, {"cutoff": -1}, {"rounding": "up"}):
        with pytest.raises(ValueError, match=str(*options)):
            plan(histogram, "nnlshp", 3, **options)
    with pytest.raises(ValueError, match="penalty"):
        plan(histogram, "ennlshp", 3, penalty=-1)
    with pytest.raises(TypeError, match="weight must be a number above 0, not 'low'"):
        plan(histogram, "nnlshp", 3, weight="low")


@pytest.mark.slow
def test_squad_as_published():
    """97.386 % on the original histogram; down-rounding and filled slots lose less."""
    assert plan(load("squad"), "nnlshp", 3).efficiency >= 0.97386 - 0.0025
