"""The least size of a batch against every cut there is, and what happens where shapes cannot be made equal."""

import numpy as np
import pytest
from batches_cases import LENGTHS, fits, in_order
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packlib.batches import batch_by_tokens
from packlib.batches.token_budget import ORDERS


def every_cut(sizes, room, fewest):
    """All cuts of a row of samples whose batches fit, of `fewest` at least but for the last, as sizes."""
    if not sizes:
        yield ()
    for take in range(1, len(sizes) + 1):
        if (take >= fewest or take == len(sizes)) and room(sizes[:take]):
            for rest in every_cut(sizes[take:], room, fewest):
                yield (take, *rest)


@settings(max_examples=300)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(9, 24),
    st.integers(2, 4),
    st.integers(0, 2),
    st.sampled_from(ORDERS),
    st.sampled_from([False, True]),
)
@example([4, 4, 4, 3, 7, 5, 9, 1, 1], 15, 3, 9, "dataset", False)  # greedy: 4 samples, and then two
def test_min_batch_refuses_only_what_no_cut_keeps(lengths, budget, fewest, more, order, count_padding):
    def room(sizes):
        slots = len(sizes) * max(sizes) if count_padding else sum(sizes)
        return slots <= budget and len(sizes) <= fewest + more

    ordered = [lengths[i] for i in in_order(lengths, order)]
    cuts = list(every_cut(ordered, room, fewest))
    options = {"min_batch": fewest, "max_batch": fewest + more, "order": order, "count_padding": count_padding}
    if cuts:
        found = batch_by_tokens(lengths, budget, **options)
        assert tuple(found.sizes.tolist()) == max(cuts)  # the greediest: the first batch takes most, then the second
    else:
        with pytest.raises(ValueError, match=f"^min_batch {fewest} cannot be kept in this order within max_tokens"):
            batch_by_tokens(lengths, budget, **options)


@settings(max_examples=300)
@given(LENGTHS, st.integers(12, 60), st.integers(2, 4), st.integers(2, 4), st.sampled_from(ORDERS))
def test_min_batch_and_one_shape_go_together(lengths, budget, every, fewest, order):
    options = {"min_batch": fewest, "order": order, "same_shape_every": every}
    try:
        found = batch_by_tokens(lengths, budget, **options)
    except ValueError as error:
        assert any(words in str(error) for words in ("cannot be kept", "are left over", "needs as many samples"))
        return
    assert sorted(found.sample_ids.tolist()) == list(range(len(lengths)))
    assert (found.rows[:-every] >= fewest).all() and all(fits(b, lengths, budget, False) for b in found)


def test_where_min_batch_fails_a_sample_is_named():
    lengths = [4, 1, 1, 6, 2, 2, 2, 5, 1, 1, 1]
    assert batch_by_tokens(lengths, 18, min_batch=3, order="descending").sizes[:-1].min() >= 3
    assert batch_by_tokens(lengths, 18, min_batch=4).sizes.tolist() == [7, 4]  # 6 and 5 are over 18 / 4
    with pytest.raises(ValueError, match=r"begins with sample 3 takes 3, and no other cut leaves enough"):
        batch_by_tokens(lengths, 16, min_batch=4, order="descending")


def test_a_least_size_costs_few_batches():
    lengths = np.random.default_rng(0).integers(1, 101, 100_000)
    greedy = batch_by_tokens(lengths, 1000)
    found = batch_by_tokens(lengths, 1000, min_batch=int(greedy.sizes[:-1].min()) + 1)
    assert len(greedy) <= len(found) < 1.001 * len(greedy)


def test_where_blank_rows_do_not_fit_the_samples_are_named_and_can_be_left_out():
    with pytest.raises(
        ValueError,
        match=r"^14 samples make no multiple of 3 batches of one shape: no batch has room for a blank row, and 2 are "
        r"left over: sample 12 with 7, sample 13 with 7\. Leave these samples out\.$",
    ):
        batch_by_tokens([7] * 14, 10, same_shape_every=3)
    assert len(batch_by_tokens([7] * 12, 10, same_shape_every=3)) == 12


def test_blank_rows_are_the_last_rows_of_the_last_batches_of_the_first_group():
    found = batch_by_tokens([2] * 10 + [5] * 4, 10, same_shape_every=4)
    assert found.rows.tolist() == [3] * 4 + [1] * 4 and found.sizes.tolist() == [3, 3, 2, 2, 1, 1, 1, 1]
    assert [batch.tolist() for batch in found][:4] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
