"""From samples to batches of packs, against a plain loop; and one clear sentence for bad input."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_cases import MAX_LENGTH, make_batch, masking, same, store

from packlib.batches import IGNORED, PackedBatch, PackingCollator, TokenStore, collate, pack_loader, pad
from packlib.packing import Packs
from packlib.training.updates import join_packs, take_packs

THREE = TokenStore.from_samples([{"input_ids": [7] * length} for length in (3, 4, 5)])


@st.composite
def samples(draw):
    """Draw samples with some columns of tokens; either all have a label of the whole sequence, or none."""
    label = draw(st.none() | st.sampled_from(["label", "labels", "next_sentence_label", "sentence_order_label"]))
    columns = draw(st.sets(st.sampled_from(["labels", "token_type_ids"])))
    found = []
    for length in draw(st.lists(st.integers(1, 7), min_size=1, max_size=12)):
        row = st.lists(st.integers(0, 9), min_size=length, max_size=length)
        sample = {label: draw(st.sampled_from([0, 1, 5, IGNORED]))} if label else {}
        sample |= {name: draw(row) for name in ("input_ids", *sorted(columns))}
        if "labels" in columns:
            sample["labels"] = [value if value < 6 else IGNORED for value in sample["labels"]]
        found.append(sample)
    return found


@given(samples(), st.randoms(use_true_random=False), st.integers(0, 5), st.booleans())
def test_what_goes_in_comes_out_of_any_packs(given_samples, random, spare, as_store):
    order = list(range(len(given_samples)))
    random.shuffle(order)
    packs, left = [], set(order)
    while order:
        packs.append([order.pop() for _ in range(min(len(order), random.randint(1, 4)))])
    lengths = [len(given_samples[i]["input_ids"]) for ids in packs for i in ids]
    top = max(sum(len(given_samples[i]["input_ids"]) for i in ids) for ids in packs) + spare
    data = TokenStore.from_samples(given_samples) if as_store else given_samples
    packed = Packs(np.concatenate(packs), np.cumsum([0, *map(len, packs)]), lengths, top)
    for batch in pack_loader(data, packed, batch_size=3, seed=spare):
        ids = batch.sample_ids.tolist()
        numbers = iter(range(len(ids)))
        for row in range(batch.num_packs):
            slot = 0
            for segment in range(1, int(batch.segment_ids[row].max()) + 1):
                number = next(numbers)
                sample = given_samples[ids[number]]
                left.remove(ids[number])
                length = len(sample["input_ids"])
                assert batch.sequence_starts[number] == row * top + slot and batch.lengths[number] == length
                span = slice(slot, slot + length)
                assert batch.position_ids[row, span].tolist() == list(range(length))
                assert set(batch.segment_ids[row, span].tolist()) == {segment}
                sample = {"token_type_ids": [0] * length, **sample}
                for name in ("input_ids", "token_type_ids", "labels"):
                    if np.ndim(sample.get(name)):
                        assert batch[name][row, span].tolist() == sample[name]
                of_sequence = [value for value in sample.values() if not np.ndim(value)]
                assert batch.sequence_labels[number] == (of_sequence or [IGNORED])[0]
                slot += length
            for name in ("input_ids", "segment_ids", "position_ids", "token_type_ids"):
                assert not batch[name][row, slot:].any()
        assert ("labels" in batch) == (np.ndim(given_samples[0].get("labels")) == 1)
        assert next(numbers, None) is None and batch.num_sequences == len(ids)
        assert batch.useful_tokens == batch.lengths.sum()
        assert same(PackedBatch(dict(batch)), batch)  # nothing in it would have been refused
        # what follows from the ids and segments alone is the same
        derived = PackedBatch(input_ids=batch.input_ids, segment_ids=batch.segment_ids)
        for name in ("position_ids", "sequence_starts", "num_sequences", "useful_tokens"):
            assert torch.equal(torch.as_tensor(derived[name]), torch.as_tensor(batch[name]))
        assert same(join_packs([take_packs(batch, i, i + 1) for i in range(batch.num_packs)]), batch)
        # and one sequence a row, the same tokens come in the same order
        for twin, width in ((pad(batch), top), (pad(batch, max(lengths)), max(lengths))):
            assert twin.input_ids.shape == (batch.num_sequences, width) and twin.segment_ids.max() == 1
            for name in {"input_ids", "position_ids", "token_type_ids", "labels"} & set(batch):
                assert torch.equal(batch[name][batch.segment_ids > 0], twin[name][twin.segment_ids > 0])
            assert all(torch.equal(batch[name], twin[name]) for name in ("sequence_labels", "sample_ids"))
    assert not left


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
    blank = collate(THREE, [1, 2], 9, sequence_places=5, blank_packs=2)
    assert same(PackedBatch(dict(blank)), blank) and blank.num_packs == 4


def test_what_a_masking_of_ones_own_returns_is_checked():
    def ignoring(sequences, epochs):
        return sequences.with_tokens(sequences.input_ids, np.full(len(sequences.input_ids), mask_label))

    for mask_label in (IGNORED, 3):
        assert (PackingCollator(14, ignoring)([(0, THREE)]).labels[0, :12] == mask_label).all()
    mask_label = -5
    with pytest.raises(ValueError, match="labels must be from 0 up, or -100 for none, not -5"):
        PackingCollator(14, ignoring)([(0, THREE)])
    with pytest.raises(TypeError, match="What masking returns must be a TokenStore, not None"):
        PackingCollator(14, lambda *_: None)([(0, THREE)])


def test_what_fills_a_row_is_the_token_that_was_asked_for():
    batch = PackingCollator(14, pad_id=3)([(0, THREE)])
    for rows in (batch, pad(batch, pad_id=3)):
        assert rows.input_ids[-1, -2:].tolist() == [3, 3]


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
        ({"sequence_starts": torch.tensor([0, 2, 4])}, "and B·T in empty places"),
        ({"num_sequences": 3}, "num_sequences is 3, but the segment ids hold 2"),
        (
            {"sequence_starts": torch.tensor([0, 2, 5]), "sequence_labels": torch.ones(3).long()},
            "-100 in empty places",
        ),
        ({"segment_ids": SEGMENTS.float()}, "segment_ids must be int64, not torch.float32"),
        ({"attention_mask": SEGMENTS}, "has no field 'attention_mask'"),
        ({"input_ids": [[5, 6, 7, 8, 0]]}, r"input_ids must be an int64 tensor, not \[\[5, 6"),
        ({"sample_ids": torch.tensor([3, -4])}, "sample_ids must be at least -1, not -4"),
        ({"input_ids": -IDS}, "input_ids must be at least 0, not -8"),
        ({"labels": -SEGMENTS}, "labels must be from 0 up, or -100 for none, not -1"),
    ],
)
def test_bad_batches_get_one_sentence(changes, sentence):
    PackedBatch(input_ids=IDS, segment_ids=SEGMENTS)
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        PackedBatch(**{"input_ids": IDS, "segment_ids": SEGMENTS, **changes})
    assert "\n" not in str(caught.value)


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
    crowded = PackingCollator(MAX_LENGTH, masking(), max_predictions_per_pack=1)
    for match, call in {
        "Pack 1 of the batch holds 9 tokens; the maximum is 8": lambda: collate(THREE, [1, 2], 8),
        "do not deal out 3 sequences": lambda: collate(THREE, [1, 1], 8),
        "holds 3 sequences; there are places for 2": lambda: collate(THREE, [3], 20, sequence_places=2),
        "at least one pack": lambda: PackingCollator(8)([]),
        "masked tokens; 1 packs have places for 1": lambda: crowded([(0, store().take([0, 1]))]),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
