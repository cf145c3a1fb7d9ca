"""NNLSHP and its extended variant: the strategy matrix, soundness at every depth, refusals."""

import os
import subprocess
import sys
from functools import partialmethod
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from tqdm import tqdm

from packlib.lengths import LengthHistogram, load
from packlib.packing import nonnegative_least_squares, plan
from packlib.packing.nnls import full_strategies, nnls_problem, num_full_strategies, strategy_matrix


def coarse(name, top):
    """A data set with its lengths scaled down, so that least squares is quick."""
    fine = load(name)
    lengths = -(-np.arange(fine.max_length + 1) * top // fine.max_length)
    return LengthHistogram(np.bincount(lengths, weights=fine.counts).astype(int), f"{name}, coarse")


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_full_strategies_against_all_multisets(depth):
    for top in range(1, 13):
        slow = [
            lengths
            for size in range(1, depth + 1)
            for lengths in combinations_with_replacement(range(1, top + 1), size)
            if sum(lengths) == top
        ]
        found = list(full_strategies(top, depth))
        assert sorted(found) == sorted(slow) and num_full_strategies(top, depth) == len(slow)
        columns = [[lengths.count(length) for length in range(1, top + 1)] for lengths in found]
        assert strategy_matrix(top, depth).T.tolist() == columns


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 30), st.sampled_from([1, 2, 10**6]))
def test_least_squares_come_as_near_as_scipys(seed, rows, columns, scale):
    """Also where columns are equal, zero or dependent, and where rows and columns differ in size."""
    draw = np.random.default_rng(seed)
    matrix = draw.integers(-1, 3, (rows, columns)) * draw.choice([1.0, 0.09, 100.0], (rows, 1))
    target = scale * draw.integers(-1, 20, rows).astype(float)
    x, (_, distance) = nonnegative_least_squares(matrix, target), nnls(matrix, target)
    assert x.min() >= 0 and np.linalg.matrix_rank(matrix[:, x > 0]) == (x > 0).sum()
    assert np.linalg.norm(matrix @ x - target) == pytest.approx(distance, rel=1e-9, abs=1e-9 * scale)


def test_a_matrix_of_zeros_is_not_used():
    assert nonnegative_least_squares(np.zeros((2, 3)), [1, 2]).tolist() == [0, 0, 0]


DIGEST = """
import hashlib
import numpy as np
from packlib.lengths import LengthHistogram, load
from packlib.packing import plan

for name, top in (("wikipedia", 64), ("squad", 48), ("wordnet-pairs", 96)):
    fine = load(name)
    shares = np.bincount(-(-np.arange(fine.max_length + 1) * top // fine.max_length), fine.counts)
    for size in (300, 100_000, fine.num_sequences):
        counts = np.random.default_rng(size).multinomial(size, shares / shares.sum())
        for method in ("nnlshp", "ennlshp"):
            made = plan(LengthHistogram(counts), method=method, max_sequences_per_pack=3)
            print(name, size, method, made.num_packs, hashlib.sha256(made.items.data).hexdigest(), made.repeats)
"""


def test_every_processor_makes_the_same_plan():
    """BLAS and NumPy choose their code by the processor; both can be told to take that of another."""
    vectors = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
    kinds = [{}, {"OPENBLAS_CORETYPE": "Haswell"}]
    kinds.append({"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": vectors})
    command = [sys.executable, "-c", DIGEST]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **kind}) for kind in kinds]
    first, *others = [one.communicate()[0].decode() for one in running]
    assert first.count("nnlshp") == 18 and others == [first] * 2


def test_depth_two_meets_the_bound_on_wikipedia():
    """The public code packs 61.96 % there, since it has no way to use a pack that is not full."""
    wikipedia = load("wikipedia")
    best = plan(wikipedia, method="optimal", max_sequences_per_pack=2)
    assert plan(wikipedia, method="nnlshp", max_sequences_per_pack=2).num_packs == best.num_packs == best.lower_bound


@pytest.mark.parametrize("method", ["nnlshp", "ennlshp"])
@pytest.mark.parametrize("rounding", ["down", "nearest"])
def test_close_to_the_best_at_depth_three(method, rounding):
    histogram = coarse("wikipedia", 64)
    best = plan(histogram, method="optimal", max_sequences_per_pack=3).num_packs
    assert plan(histogram, method=method, max_sequences_per_pack=3, rounding=rounding).num_packs <= best * 1.0001
    assert plan(histogram, method=method).max_sequences_per_pack == 3  # the default depth


def test_weights_and_cutoff():
    histogram = coarse("wikipedia", 16)
    matrix, target = nnls_problem(histogram, 3, cutoff=4, weight=0.5)
    matrix = matrix.toarray()
    assert np.array_equal(matrix[:4], 0.5 * strategy_matrix(16, 3)[:4])
    assert np.array_equal(target[4:], histogram.counts[5:]) and target[0] == 0.5 * histogram.counts[1]


@pytest.mark.slow
def test_squad_as_published():
    """40,778 packs, rounded to the nearest and with empty slots; rounded down and filled, no more are needed."""
    assert plan(load("squad"), method="nnlshp", max_sequences_per_pack=3).num_packs <= 40_778


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_solution_is_not_silent_on_a_terminal(terminal, monkeypatch, capsys):
    monkeypatch.setattr(tqdm, "__init__", partialmethod(tqdm.__init__, mininterval=0))
    monkeypatch.setattr("tqdm.std.time", iter(np.arange(0, 1e6, 3.0)).__next__)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    nonnegative_least_squares(np.eye(5), np.arange(5.0))
    assert ("least squares: " in capsys.readouterr().err) == terminal
