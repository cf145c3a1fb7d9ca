"""The work of a pack: what it is, where its two costs come from, and that sums of squares are exact."""

import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import nnls

from packlib.packing import Packs, plan
from packlib.work import Work, context_shards, share_sequences, waiting

LENGTHS = [5, 3, 3, 2, 8, 1]
BEST = plan(LENGTHS, 8)


def test_packs_and_plans_agree_about_their_work():
    best, packs = BEST, BEST.assign(LENGTHS)
    work = Work(10, 3)
    by_hand = [sum(10 * LENGTHS[i] + 3 * LENGTHS[i] ** 2 for i in ids) for ids in packs]
    assert work.of(packs).tolist() == by_hand
    assert np.repeat(np.add.reduceat(work.of(best.items), best.offsets[:-1]), best.repeats).tolist() == by_hand
    assert work.of(LENGTHS).sum() == sum(by_hand)


def test_a_bert_costs_what_its_matrix_products_do():
    layers, width, inner, length = 3, 8, 20, 5
    # four projections, two of the feed-forward
    linear = 4 * 2 * length * width * width + 2 * 2 * length * width * inner
    pairs = 2 * 2 * length * length * width
    assert Work.bert(layers, width, inner).of([length]) == [layers * (linear + pairs)]
    assert Work.bert(1, 1, 1) == Work(12, 4) and Work.bert() == Work.bert(layers=24, width=1024, feed_forward=4096)


def test_a_decoder_costs_what_its_matrix_products_do():
    layers, width, inner, heads, groups, each, length = 2, 12, 20, 4, 2, 3, 5
    products = (
        [(length, width, heads * each)] * 2 + [(length, width, groups * each)] * 2 + [(length, width, inner)] * 3
    )
    linear = sum(2 * rows * inside * columns for rows, inside, columns in products)
    pairs = sum(2 * 2 * each * heads for query in range(length) for _ in range(query + 1))  # a score, and its sum
    work = Work.decoder(layers, width, inner, heads, groups, each)
    assert work.of([length]) == [layers * (linear + pairs)]
    llama = dict(layers=32, width=4096, feed_forward=14336, heads=32, key_value_heads=8, head_width=128)
    assert Work.decoder() == Work.decoder(**llama)
    assert Work.decoder(1, 1, 1, 1, 1, 1) == Work(8 + 6 + 2, 2)


def test_measured_seconds_give_their_costs_back():
    rng = np.random.default_rng(0)
    tokens, squares = rng.integers(1, 10**4, 20), rng.integers(1, 10**9, 20)
    fit = Work.fitted(tokens, squares, 2e-6 * tokens + 3e-11 * squares)
    assert np.allclose([fit.per_token, fit.per_square], [2e-6, 3e-11])
    assert Work.fitted([1, 2, 3], [9, 4, 1], [1, 2, 3]).per_square == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_fit_of_noisy_seconds_is_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    tokens, squares = rng.integers(1, 10**3, 12), rng.integers(1, 10**5, 12)
    seconds = rng.uniform(0, 1, 12) * (tokens + 1e-3 * squares)  # some fits have a cost of 0
    fit, (known, _) = Work.fitted(tokens, squares, seconds), nnls(np.stack([tokens, squares], axis=1), seconds)
    assert np.allclose([fit.per_token, fit.per_square], known, rtol=1e-9, atol=1e-12)


def test_squares_of_the_longest_rows_are_exact_and_those_of_a_length_may_be_beyond_64_bits():
    lengths = [2**24 - 1] * 3 + [2**12 - 1] * 4
    packs = Packs(range(7), [0, 1, 2, 3, 7], lengths, max_length=2**24)
    assert Work(0, 1).of(packs).tolist() == [(2**24 - 1) ** 2] * 3 + [4 * (2**12 - 1) ** 2]
    assert Work(0, 1).of([2**32, 3]).tolist() == [2.0**64, 9.0]


def test_costs_may_be_any_real_numbers():
    half = Work(np.float32(0.5), Fraction(1, 4))
    assert half == Work(0.5, 0.25) and half.of(BEST.assign(LENGTHS)).dtype == np.float64
    assert Work.bert(width=np.int32(20_000)) == Work.bert(width=20_000)
    assert Work.decoder(layers=np.int32(32)) == Work.decoder()


INF, NAN = float("inf"), float("nan")
PLAN = plan([4, 4, 8], 8)
PACKS, WORK = Packs([0, 1, 2], [0, 2, 3], [4, 4, 8], max_length=8), Work(1, 0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Work(-1, 1), "per_token must be at least 0, not -1."),
        (lambda: Work(1, INF), "per_square must be at least 0, not inf."),
        (lambda: Work(1, NAN), "per_square must be at least 0, not nan."),
        (lambda: Work(0, 0), "per_token and per_square must not both be 0."),
        (lambda: Work("1", 0), "per_token must be a number at least 0, not '1'."),
        *(
            (lambda make=make, name=name: make(**{name: 0}), f"{name} must be at least 1, not 0.")
            for make, names in (
                (Work.bert, ("layers", "width", "feed_forward")),
                (Work.decoder, ("layers", "width", "feed_forward", "heads", "head_width")),
            )
            for name in names
        ),
        (lambda: Work.decoder(key_value_heads=33), "key_value_heads must be from 1 to 32, not 33."),
        (lambda: Work.fitted([1], [1], [1]), "tokens, squares and seconds must be two or more"),
        (lambda: Work.fitted([1, 2], [1, INF], [1, 1]), "squares must be at least 0 and finite, not [1.0, inf]."),
        (lambda: WORK.of(PLAN), "Lengths must be an array or a list of whole numbers, not PackingPlan("),
        (lambda: WORK.of([3, 0]), "Length 0 at position 1 is not allowed: lengths start at 1."),
        (lambda: context_shards(PACKS, 0, work=WORK), "ranks must be from 1 to 1024, not 0."),
        (lambda: context_shards(PACKS, 2, "row", work=WORK), "sharding must be 'sequence', 'pack' or 'whole', not"),
        (lambda: context_shards([[0]], 2, work=WORK), "packs must be Packs, not [[0]]."),
        (lambda: context_shards(PACKS, 2, work=3), "work must be Work, not 3."),
        (lambda: share_sequences([5], 0, 50), "ranks must be at least 1"),
        (lambda: share_sequences([5], 2.5, 50), "ranks must be a whole number"),
        (lambda: share_sequences([5], 4, 0), "max_length must be at least 1"),
        (lambda: share_sequences([], 4, 50), "There are no lengths"),
        (lambda: share_sequences([5], 4, 50, work=3), "work must be Work"),
        (
            lambda: share_sequences([5, 300], 12, 20),
            "max_length 20 allows 240 tokens on all 12 ranks together; sequence 1",
        ),
        (lambda: share_sequences([36], 4, 9), "sequence 0 has 36, padded to 40 there"),
        (lambda: waiting([1, 2], 3), "at most 2, the number of packs, not 3"),
        (lambda: waiting([1, 0], 2), "each must be above 0 and finite in all, not 0.0"),
        (lambda: waiting([1, NAN], 2), "each must be above 0 and finite in all, not nan"),
        (lambda: waiting([1e308, 1e308], 2), "each must be above 0 and finite in all, not 1e+308"),
        (lambda: waiting([1, 2], 0), "ranks must be at least 1, not 0"),
        (lambda: waiting([[1, 2], [3, 4]], 2), "each must have one dimension, not the shape (2, 2)."),
        (lambda: waiting(None, 2), "each must be numbers, not None."),
        (lambda: waiting([1, 2], 2, packs_per_rank=0), "packs_per_rank must be at least 1, not 0"),
        (lambda: waiting([1, 2], 2, seed=-1), "seed must be at least 0, not -1"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        call()
