"""PackedBatch, collate and pad against a plain loop; and one clear sentence for bad input."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import MAX_LENGTH, make_batch, masking, store

from packlib.batches import IGNORED, PackedBatch, PackingCollator, TokenStore, collate, pad


def ragged(lengths, vocabulary=100, seed=0):
    rng, total = np.random.default_rng(seed), int(np.sum(lengths))
    return TokenStore(
        rng.integers(1, vocabulary, total),
        rng.integers(0, 2, total),
        offsets=np.cumsum([0, *lengths]),
        sequence_labels=rng.integers(0, 2, len(lengths)),
        sample_ids=rng.permutation(1000)[: len(lengths)],
    )


packs_of_lengths = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(packs_of_lengths, st.integers(0, 5))
def test_collate_equals_a_plain_loop(packs, extra):
    lengths = [length for pack in packs for length in pack]
    sequences, top = ragged(lengths), max(map(sum, packs)) + extra
    batch, number = collate(sequences, [len(p) for p in packs], top), 0
    starts = []
    for row, pack in enumerate(packs):
        slot = 0
        for segment, length in enumerate(pack, start=1):
            sample, span = sequences[number], slice(slot, slot + length)
            assert batch.input_ids[row, span].tolist() == sample["input_ids"].tolist()
            assert batch.token_type_ids[row, span].tolist() == sample["token_type_ids"].tolist()
            assert batch.position_ids[row, span].tolist() == list(range(length))
            assert set(batch.segment_ids[row, span].tolist()) == {segment}
            starts.append(row * top + slot)
            slot, number = slot + length, number + 1
        for name in ("input_ids", "segment_ids", "position_ids", "token_type_ids"):
            assert not batch[name][row, slot:].any()
    assert batch.sequence_starts.tolist() == starts
    assert batch.sequence_labels.tolist() == sequences.sequence_labels.tolist()
    assert batch.sample_ids.tolist() == sequences.sample_ids.tolist()
    assert batch.lengths.tolist() == lengths
    assert (batch.num_sequences, batch.useful_tokens) == (len(lengths), sum(lengths))
    # what follows from the ids and segments alone is the same
    derived = PackedBatch(input_ids=batch.input_ids, segment_ids=batch.segment_ids)
    for name in ("position_ids", "sequence_starts", "num_sequences", "useful_tokens"):
        assert torch.equal(torch.as_tensor(derived[name]), torch.as_tensor(batch[name]))


@settings(max_examples=30, deadline=None)
@given(packs_of_lengths)
def test_padded_twin_holds_the_same_tokens_in_the_same_order(packs):
    sequences = ragged([length for pack in packs for length in pack])
    batch = collate(replace(sequences, labels=sequences.input_ids), [len(p) for p in packs], 50)
    twin = pad(batch)
    assert twin.input_ids.shape == (batch.num_sequences, 50)
    for name in ("input_ids", "position_ids", "token_type_ids", "labels"):
        assert torch.equal(batch[name][batch.segment_ids > 0], twin[name][twin.segment_ids > 0])
    for name in ("sequence_labels", "sample_ids", "num_sequences", "useful_tokens"):
        assert torch.equal(torch.as_tensor(batch[name]), torch.as_tensor(twin[name]))
    tight = pad(batch, int(batch.lengths.max()))
    assert tight.max_length == batch.lengths.max()
    assert torch.equal(pad(twin).input_ids, twin.input_ids)


def test_a_batch_is_a_mapping_that_moves_and_shows_itself():
    batch = make_batch()
    assert dict(batch).keys() == set(batch) and len(batch) == 10 and batch["input_ids"] is batch.input_ids
    copy = type(batch)({name: value for name, value in batch.items()})
    moved = batch.to("cpu")
    for other in (copy, moved, pickle.loads(pickle.dumps(batch))):
        assert all(torch.equal(torch.as_tensor(other[n]), torch.as_tensor(batch[n])) for n in batch)
    meta = batch.to("meta")
    assert meta.input_ids.device.type == "meta" and meta.num_sequences == batch.num_sequences
    with pytest.raises(AttributeError):
        batch.num_sequences = 3
    html = batch._repr_html_()
    assert html.count("<rect") >= batch.num_sequences and 'aria-label="The first 6 packs' in html
    assert f"{batch.num_sequences} sequences" in repr(batch)
    assert 0.5 < batch.efficiency == batch.useful_tokens / batch.input_ids.numel() <= 1


def test_static_slots_hold_an_impossible_start_and_no_label():
    batch, plain = make_batch(8, max_sequences_per_pack=8), make_batch(8)
    count = plain.num_sequences
    assert torch.equal(batch.sequence_starts[:count], plain.sequence_starts)
    assert (batch.sequence_starts[count:] == batch.input_ids.numel()).all()
    assert (batch.sequence_labels[count:] == IGNORED).all() and (batch.sample_ids[count:] == -1).all()
    assert batch.num_sequences == count


def test_what_fills_a_row_is_the_token_that_was_asked_for():
    batch = PackingCollator(8, pad_id=3)([(0, ragged([5]))])
    for rows in (batch, collate(ragged([5]), [1], 8, pad_id=3), pad(batch, pad_id=3)):
        assert rows.input_ids[0, 5:].tolist() == [3, 3, 3]


IDS, SEGMENTS = torch.tensor([[5, 6, 7, 8, 0]]), torch.tensor([[1, 1, 2, 2, 0]])


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"segment_ids": torch.zeros(1, 5, dtype=torch.int64)}, "A batch needs at least one sequence"),
        ({"segment_ids": torch.tensor([[2, 2, 1, 1, 0]])}, "segment ids of pack 0 are out of order"),
        ({"segment_ids": SEGMENTS[0]}, r"must have the shape \(packs, slots\), not \(5,\)"),
        ({"labels": torch.full((1, 4), -100)}, r"labels has the shape \(1, 4\); segment_ids has \(1, 5\)"),
        ({"labels": torch.zeros(1, 5, dtype=torch.int64)}, "labels must be -100 on padding"),
        ({"sequence_starts": torch.tensor([0, 1])}, "where the segment ids begin"),
        ({"num_sequences": 3}, "num_sequences is 3, but the segment ids hold 2"),
        (
            {"sequence_starts": torch.tensor([0, 2, 5]), "sequence_labels": torch.tensor([1, 0, 1])},
            "sequence_labels must be -100 in empty places",
        ),
        ({"segment_ids": SEGMENTS.float()}, "segment_ids must be int64, not torch.float32"),
        ({"attention_mask": SEGMENTS}, "has no field 'attention_mask'"),
        ({"input_ids": [[5, 6, 7, 8, 0]]}, r"input_ids must be an int64 tensor, not \[\[5, 6"),
        ({"sample_ids": torch.tensor([3, -4])}, "sample_ids must be at least -1, not -4"),
        ({"input_ids": -IDS}, "input_ids must be at least 0, not -8"),
        ({"labels": SEGMENTS - 3}, "labels must be from 0 up, or -100 for none, not -2"),
    ],
)
def test_bad_batches_get_one_sentence(changes, sentence):
    PackedBatch(input_ids=IDS, segment_ids=SEGMENTS)
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        PackedBatch(**{"input_ids": IDS, "segment_ids": SEGMENTS, **changes})
    assert "\n" not in str(caught.value)


def test_a_batch_needs_its_ids():
    with pytest.raises(TypeError, match="needs segment_ids"):
        PackedBatch(input_ids=IDS)


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=6))
def test_segments_count_up_from_one_and_padding_comes_last(row):
    used = row[: len(row) - next(i for i, segment in enumerate([*row[::-1], 1]) if segment)]
    ids = torch.tensor([row])
    if used and used[0] == 1 and all(later - earlier in (0, 1) for earlier, later in pairwise(used)):
        assert PackedBatch(input_ids=ids, segment_ids=ids).num_sequences == used[-1]
    else:
        with pytest.raises(ValueError, match=r"out of order|at least one sequence"):
            PackedBatch(input_ids=torch.ones_like(ids), segment_ids=ids)


def test_bad_collation_gets_one_sentence():
    sequences = ragged([3, 4, 5])
    for match, call in {
        "Pack 1 of the batch holds 9 tokens; the maximum is 8": lambda: collate(sequences, [1, 2], 8),
        "do not deal out 3 sequences": lambda: collate(sequences, [1, 1], 8),
        "There are 3 labels for 12 tokens": lambda: replace(sequences, labels=np.zeros(3, int)),
        "holds 3 sequences; there are places for 2": lambda: collate(sequences, [3], 20, sequence_places=2),
        "at least one pack": lambda: PackingCollator(8)([]),
        "masked tokens; 1 packs have places for 1": lambda: PackingCollator(
            MAX_LENGTH, masking(), max_predictions_per_pack=1
        )([(0, store().take([0, 1]))]),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
