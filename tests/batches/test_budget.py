"""Batches by tokens: against a plain search that shares no code with packlib, every sample once, of one shape."""

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packlib.batches import batch_by_tokens
from packlib.batches.token_budget import ORDERS


def in_order(lengths, order):
    """Return the samples in the order that is asked for, by Python's own stable sort."""
    ids = range(len(lengths))
    if order == "random":
        return np.random.default_rng(0).permutation(len(lengths)).tolist()
    if order == "dataset":
        return list(ids)
    return sorted(ids, key=lambda i: lengths[i] if order == "ascending" else -lengths[i])


def greediest(rows, fewest, fits):
    """Cut rows into groups that fit, the first as large as can be; all but the last hold at least `fewest` rows.

    None if there is no such cut.
    """

    @cache
    def cut(start):
        if start == len(rows):
            return []
        for end in range(len(rows), start, -1):
            enough = end - start >= fewest or end == len(rows)
            if enough and fits(rows[start:end]) and (rest := cut(end)) is not None:
                return [rows[start:end], *rest]
        return None

    return cut(0)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=30),
    st.integers(12, 60),
    st.integers(1, 4),
    st.none() | st.integers(0, 5),
    st.sampled_from(ORDERS),
    st.integers(1, 4),
    st.sampled_from(["sum", "padding", "targets"]),
)
@example([(10, 1), (5, 1), (5, 1), (5, 1)], 20, 1, 8, "descending", 1, "padding")  # the longest came before equal ones
@example([(1, 9), (1, 9), (9, 1)], 12, 1, 8, "dataset", 1, "targets")  # the target alone ends the first batch
@example(
    [(n, 1) for n in (4, 4, 4, 3, 7, 5, 9, 1, 1)], 15, 3, 9, "dataset", 1, "sum"
)  # 4 leave two for the next batch
@example([(n, 1) for n in (4, 4, 4, 3, 7, 5, 9, 1)], 15, 3, 9, "dataset", 1, "sum")  # no cut keeps it
def test_each_batch_takes_all_that_leaves_enough_to_the_others(pairs, budget, fewest, more, order, every, kind):
    every = 1 if kind == "targets" else every
    lengths, targets = map(list, zip(*pairs * every, strict=True))
    most = None if more is None else fewest + more

    def fits(group):
        if len(group) > (most or len(group)):
            return False
        if kind == "padding":
            return len(group) * max(lengths[i] for row in group for i in row) <= budget
        counted = [lengths, targets] if kind == "targets" else [lengths]
        return all(sum(of[i] for i in column) <= budget for column in zip(*group, strict=True) for of in counted)

    ids = in_order(lengths, order)
    cut = greediest([ids[at : at + every] for at in range(0, len(ids), every)], fewest, fits)
    options = {"padding": {"count_padding": True}, "targets": {"target_lengths": targets}, "sum": {}}[kind]
    options |= {"min_batch": fewest, "max_batch": most, "order": order, "same_shape_every": every}
    if cut is None:
        with pytest.raises(ValueError, match=f"^min_batch {fewest} cannot be kept: .* max_tokens {budget} leaves"):
            batch_by_tokens(lengths, budget, **options)
        return
    found = batch_by_tokens(lengths, budget, **options)
    expected = [list(column) for group in cut for column in zip(*group, strict=True)]
    assert [batch.tolist() for batch in found] == expected
    assert found.tokens.tolist() == [sum(lengths[i] for i in batch) for batch in expected]
    longest = np.array([max(lengths[i] for i in batch) for batch in expected])
    assert found.widths.tolist() == np.repeat(longest.reshape(-1, every).max(1), every).tolist()
    assert found.slots == found.sizes @ found.widths
    assert found.padding_fraction == pytest.approx(1 - sum(lengths) / found.slots)
    assert found.shape_cost == pytest.approx(1 - found.sizes @ longest / found.slots)


def test_a_seed_permutes_what_is_equally_difficult():
    lengths = [5, 3, 5, 3, 5, 3] * 20
    plain = batch_by_tokens(lengths, 15, order="ascending").sample_ids
    assert plain.tolist() == [*range(1, 120, 2), *range(0, 120, 2)]
    seeded = [batch_by_tokens(lengths, 15, order="ascending", seed=s).sample_ids for s in (1, 1, 2)]
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(seeded[0], seeded[2])
    assert (np.array(lengths)[seeded[0]] == np.array(lengths)[plain]).all()
    other = [batch_by_tokens(lengths, 15, order="random", seed=s).sample_ids.tolist() for s in (None, 0, 1)]
    assert other[0] == other[1] != other[2]


def test_numbers_beyond_64_bits_set_no_limit_or_are_refused():
    for fewest in (1, 2):
        assert [*map(list, batch_by_tokens([5, 3, 4, 1], 2**70, fewest, 2**70))] == [[0, 1, 2, 3]]
    with pytest.raises(ValueError, match="the sum of lengths must be from 1 to 4611686018427387904"):
        batch_by_tokens([2**60] * 8, 2**63 - 1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"order": "sorted"}, "not 'sorted'"),
        ({"min_batch": 3, "max_batch": 2}, "max_batch must be at least 3, not 2"),
        ({"same_shape_every": 4}, "same_shape_every must be at most 3, as there are samples, not 4"),
        (
            {"same_shape_every": 2, "max_batch": 1},
            "leaves 1 of the last 2 batches without a sample: pass blank_batches=True, leave out 1 of 3 samples",
        ),
        ({"target_lengths": [1, 2]}, "target_lengths must have one length for each of the 3 samples"),
        ({"target_lengths": [1, 2, 11]}, "1 of target_lengths have more: sample 2 with 11"),
        ({"target_lengths": [1, 2, 3], "count_padding": True}, "goes with neither same_shape_every nor count_padding"),
        ({"target_lengths": [1, 2, 3], "same_shape_every": 3}, "goes with neither same_shape_every nor count_padding"),
    ],
)
def test_bad_input_gets_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        batch_by_tokens([4, 5, 6], 10, **options)


def test_overlong_samples_are_named_and_nothing_is_dropped():
    """The public code drops them."""
    with pytest.raises(
        ValueError,
        match=r"max_tokens 30 .* 6 of lengths have more: sample 1 with 31, .* sample 7 with 33, …\. Raise max_tokens",
    ):
        batch_by_tokens([5, 31, 7, 40, 30, 31, 32, 33, 34], 30)


def test_it_prints_well():
    found = batch_by_tokens([3, 9, 4, 8], 16, order="ascending", same_shape_every=2)
    assert repr(found) == (
        "TokenBatches(2 batches, 4 samples, 2.0 a batch of 12 tokens, 33.33 % padding, "
        "5.56 % for one shape in every 2 batches)"
    )


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_lengths_above_16_bits_are_in_order(order):
    lengths = [70_000, 3, 131_071, 65_535, 65_536, 1, 65_541, 99_999]
    found = batch_by_tokens(lengths, 131_071, max_batch=1, order=order)
    assert found.sample_ids.tolist() == in_order(lengths, order)
    assert found.widths.tolist() == sorted(lengths, reverse=order == "descending")


@pytest.mark.parametrize("count_padding", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3, 9, 10, 11])
def test_no_batch_has_more_samples_than_it_may(most, count_padding):
    """Where the budget would allow all of them."""
    found = batch_by_tokens([1] * 10, 100, max_batch=most, count_padding=count_padding)
    assert found.sizes.tolist() == [most] * (10 // most) + [10 % most] * (10 % most > 0)


@pytest.mark.parametrize("samples", [9, 15, 17, 33])
def test_sums_beyond_64_bits_are_refused_as_they_are(samples):
    """In 64 bits the sum of 17 of them would be that of one."""
    with pytest.raises(ValueError, match=f"the sum of lengths must be from 1 to .*, not {samples << 60}"):
        batch_by_tokens([1 << 60] * samples, (1 << 63) - 1)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(24, 60), st.integers(2, 5),
       st.sampled_from(ORDERS))  # fmt: skip
def test_where_samples_are_not_a_multiple_the_last_batches_have_blank_rows(lengths, budget, every, order):
    """Each sample comes once, batches of one shape have equal rows, and no batch is above the budget or empty."""
    try:
        found = batch_by_tokens(lengths, budget, order=order, same_shape_every=every)
    except ValueError as error:
        assert len(lengths) < every or "without a sample: leave out" in str(error)
        return
    assert sorted(found.sample_ids.tolist()) == list(range(len(lengths))) and len(found) % every == 0
    assert found.sizes.min() > 0 and found.tokens.max() <= budget
    for name in ("rows", "widths"):
        assert (getattr(found, name).reshape(-1, every) == getattr(found, name)[::every, None]).all()
    assert (found.rows - found.sizes).sum() == -len(lengths) % every and (found.rows == found.sizes)[:-every].all()
    assert found.slots == found.rows @ found.widths
