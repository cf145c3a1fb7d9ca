"""Batches by tokens: against a plain loop, every sample once, of one shape, and the public faults."""

import numpy as np
import pytest
import torch
from batches_cases import LENGTHS, fits, greedy, in_order
from hypothesis import example, given
from hypothesis import strategies as st
from model_cases import make_model, masking, store

from packlib.batches import batch_by_tokens, collate, pad
from packlib.batches.token_budget import ORDERS


@given(LENGTHS, st.integers(12, 60), st.integers(1, 9), st.sampled_from(ORDERS), st.sampled_from([False, True]))
@example([10, 5, 5, 5], 20, 9, "descending", True)  # the longest came before the run of equal lengths
def test_it_is_the_plain_loop(lengths, budget, most, order, count_padding):
    for max_batch in (None, most):
        found = batch_by_tokens(lengths, budget, max_batch=max_batch, order=order, count_padding=count_padding)
        expected = greedy(lengths, budget, max_batch or len(lengths), order, count_padding)
        assert [batch.tolist() for batch in found] == expected
        assert found.tokens.tolist() == [sum(lengths[i] for i in batch) for batch in expected]
        assert found.widths.tolist() == [max(lengths[i] for i in batch) for batch in expected]
        assert found.rows.tolist() == [len(batch) for batch in expected]
        assert found.padding_fraction == pytest.approx(1 - sum(lengths) / (found.rows @ found.widths))
        assert found.shape_cost == 0


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60),
    st.integers(12, 60),
    st.one_of(st.none(), st.integers(12, 60)),
    st.sampled_from(ORDERS),
    st.integers(1, 9),
)
@example([(1, 9), (1, 9), (9, 1)], 12, None, "dataset", 9)  # the target alone ends the first batch
def test_source_and_target_have_a_budget_each(pairs, budget, targets, order, most):
    source, target = map(list, zip(*pairs, strict=True))
    found = batch_by_tokens(
        source, budget, max_batch=most, order=order, target_lengths=target, max_target_tokens=targets
    )
    expected: list[list[int]] = []
    for i in in_order(source, order):
        more = [*expected[-1], i] if expected else []
        room = sum(source[j] for j in more) <= budget and sum(target[j] for j in more) <= (targets or budget)
        if expected and room and len(more) <= most:
            expected[-1] = more
        else:
            expected.append([i])
    assert [batch.tolist() for batch in found] == expected
    assert found.tokens.tolist() == [sum(source[i] for i in batch) for batch in expected]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_target_tokens": 9}, "max_target_tokens needs target_lengths"),
        ({"target_lengths": [1, 2]}, "target_lengths must have one length for each of the 3 samples"),
        ({"target_lengths": [1, 2, 11]}, "max_target_tokens 10 allows 10 tokens a sample; 1 have more"),
        ({"target_lengths": [1, 2, 3], "max_target_tokens": 0}, "max_target_tokens must be at least 1, not 0"),
        ({"target_lengths": [1, 2, 3], "count_padding": True}, "goes with neither same_shape_every nor count_padding"),
        ({"target_lengths": [1, 2, 3], "same_shape_every": 1}, "goes with neither same_shape_every nor count_padding"),
    ],
)
def test_target_lengths_that_cannot_be(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        batch_by_tokens([4, 5, 6], 10, **options)


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=200),
    st.integers(300, 6000),
    st.sampled_from(["dataset", "random"]),
)
def test_small_and_large_batches_are_cut_alike(lengths, budget, order):
    """One sample at a time, or by jumps: both ways are met, depending on the samples a batch."""
    assert [b.tolist() for b in batch_by_tokens(lengths, budget, order=order)] == greedy(
        lengths, budget, len(lengths), order, False
    )


@given(
    LENGTHS,
    st.integers(12, 60),
    st.integers(2, 6),
    st.sampled_from(ORDERS),
    st.sampled_from([False, True]),
    st.integers(2, 9),
)
@example([12, 12, 1, 1, 1, 1, 1], 12, 2, "descending", False, 9)  # the first group has no room for a blank row
def test_batches_in_turn_have_one_shape(lengths, budget, every, order, count_padding, most):
    try:
        found = batch_by_tokens(
            lengths, budget, max_batch=most, order=order, count_padding=count_padding, same_shape_every=every
        )
    except ValueError as error:
        assert len(lengths) % every  # nothing to fill up, nothing to refuse
        if len(lengths) < every:
            assert f"same_shape_every {every} needs as many samples; there are {len(lengths)}." in str(error)
            return
        left = in_order(lengths, order)[-(len(lengths) % every) :]
        assert f"{len(left)} are left over: sample {left[0]} with {lengths[left[0]]}" in str(error)
        return
    assert sorted(found.sample_ids.tolist()) == list(range(len(lengths)))
    assert len(found) % every == 0 and found.rows.max() <= most
    shapes = list(zip(found.rows.tolist(), found.widths.tolist(), strict=True))
    for at in range(0, len(found), every):
        assert len(set(shapes[at : at + every])) == 1
        assert shapes[at][1] == found.longest[at : at + every].max()
    for batch, (rows, width) in zip(found, shapes, strict=True):
        assert len(batch) in (rows, rows - 1) and fits(batch, lengths, budget, count_padding)
        if count_padding:
            assert rows * width <= budget
    blank = int((found.rows - found.sizes).sum())
    assert blank == -len(lengths) % every
    own = sum(len(batch) * max(lengths[i] for i in batch) for batch in found)
    assert found.shape_cost == pytest.approx(1 - own / sum(rows * width for rows, width in shapes))
    if not blank:
        assert [batch.tolist() for batch in found] == greedy(lengths, budget, most, order, count_padding, every)


def test_a_seed_permutes_what_is_equally_difficult():
    lengths = [5, 3, 5, 3, 5, 3] * 20
    plain = batch_by_tokens(lengths, 15, order="ascending").sample_ids
    assert plain.tolist() == [*range(1, 120, 2), *range(0, 120, 2)]
    seeded = [batch_by_tokens(lengths, 15, order="ascending", seed=s).sample_ids for s in (1, 1, 2)]
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(seeded[0], seeded[2])
    assert (np.array(lengths)[seeded[0]] == np.array(lengths)[plain]).all()
    other = [batch_by_tokens(lengths, 15, order="random", seed=s).sample_ids.tolist() for s in (None, 0, 1)]
    assert other[0] == other[1] != other[2]


@given(LENGTHS, st.integers(12, 40), st.integers(1, 8), st.sampled_from(ORDERS))
@example([4, 4, 4, 12], 12, 4, "dataset")  # halved twice, for a batch of one cannot be halved
def test_a_multiple_of_batches_keeps_every_sample_and_budget(lengths, budget, multiple, order):
    plain = batch_by_tokens(lengths, budget, order=order)
    needed = -(-len(plain) // multiple) * multiple
    if needed > len(lengths):
        with pytest.raises(ValueError, match=f"{len(lengths)} samples in {len(plain)} batches cannot fill"):
            batch_by_tokens(lengths, budget, order=order, num_batches_multiple_of=multiple)
        return
    found = batch_by_tokens(lengths, budget, order=order, num_batches_multiple_of=multiple)
    assert len(found) == needed and found.sizes.min() > 0 and found.sample_ids.tolist() == plain.sample_ids.tolist()
    assert all(fits(batch, lengths, budget, False) for batch in found)
    assert set(plain.offsets.tolist()) <= set(found.offsets.tolist())


@pytest.mark.parametrize("every", [None, 2])
def test_numbers_beyond_64_bits_set_no_limit_or_are_refused(every):
    lengths = [5, 3, 4, 1]
    for order in ("dataset", "ascending"):
        plain = batch_by_tokens(lengths, 99, order=order, same_shape_every=every)
        for fewest in (1, 2):
            found = batch_by_tokens(lengths, 2**70, fewest, 2**70, order, every)
            assert [*map(list, found)] == [*map(list, plain)]
    with pytest.raises(
        ValueError, match="the sum of lengths must be from 1 to 4611686018427387904, not 9223372036854775808"
    ):
        batch_by_tokens([2**60] * 8, 2**63 - 1, same_shape_every=every)


class TestPublicFaults:
    """What PUBLISHED.md says of the public code, as cases that it fails and this passes."""

    def test_overlong_samples_are_named_and_nothing_is_dropped(self):
        lengths = [5, 31, 7, 40, 30, 31, 32, 33, 34]
        with pytest.raises(
            ValueError,
            match=r"max_tokens 30 allows 30 tokens a sample; 6 have more: sample 1 with 31, sample 3 with 40, "
            r"sample 5 with 31, sample 6 with 32, sample 7 with 33, …\. Raise max_tokens",
        ):
            batch_by_tokens(lengths, 30)


def test_blank_rows_change_no_loss():
    found = batch_by_tokens(store().lengths, 256, order="random", same_shape_every=7, seed=4)
    (blank, *more) = np.flatnonzero(found.rows > found.sizes).tolist()
    assert len(more) + 1 == -len(store()) % 7
    sequences, rows, width = store().take(found[blank]), int(found.rows[blank]), int(found.widths[blank])
    sequences = masking()(sequences, 0)
    batch = collate(sequences, [1] * len(sequences), width, blank_packs=rows - len(sequences))
    assert batch.input_ids.shape == (rows, width) and batch.num_packs > batch.num_sequences
    model = make_model("bert").eval()
    with torch.no_grad():
        without = model(**pad(batch, 128))  # one sequence a row, and no others
        assert torch.allclose(model(**batch).loss, without.loss, atol=1e-12)


def test_bad_input_gets_one_sentence():
    for error, match, call in (
        (ValueError, "max_batch must be at least 3, not 2", lambda: batch_by_tokens([1], 9, 3, 2)),
        (ValueError, "not 'sorted'", lambda: batch_by_tokens([1], 9, order="sorted")),
        (TypeError, "count_padding must be True or False, not 'sum'", lambda: batch_by_tokens(
            [1], 9, count_padding="sum")),
        (ValueError, "num_batches_multiple_of must divide same_shape_every 4; 3 does not", lambda: batch_by_tokens(
            [1] * 9, 9, same_shape_every=4, num_batches_multiple_of=3)),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            call()


def test_it_prints_well():
    found = batch_by_tokens([3, 9, 4, 4, 8], 16, order="ascending", same_shape_every=2)
    assert repr(found) == (
        "TokenBatches(4 batches, 5 samples, 1.2 a batch of 7 tokens, 17.65% padding, "
        "14.71% for one shape in every 2 batches)"
    )
