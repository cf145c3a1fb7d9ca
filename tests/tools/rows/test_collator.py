"""Rows of packs to batches: the collator finds the sequences of a row, and refuses what it would lose."""

import pickle

import numpy as np
import pytest
import torch
from accelerate import ParallelismConfig
from accelerate.big_modeling import _attach_context_parallel_hooks
from accelerate.state import AcceleratorState
from transformers import BertForMaskedLM, Lfm2ForCausalLM, LlamaForCausalLM

from packlib.batches import IGNORED
from packlib.tools.rows import TransformersCollator, pack_dataset
from small_families import quiet, small_config

ROWS = [
    {"input_ids": [5, 6, 7, 8], "labels": [5, -100, -100, 8], "position_ids": [0, 1, 0, 1], "seq_lengths": [2, 2]},
    {"input_ids": [9, 4, 3], "labels": [9, 4, 3], "position_ids": [0, 1, 2], "seq_lengths": [3]},
]

LLAMA = LlamaForCausalLM(small_config("causal", "llama")).double().eval()


@pytest.mark.parametrize("kept", [("seq_lengths",), ("position_ids",), ("seq_lengths", "position_ids")])
def test_the_collator_finds_the_sequences_of_rows(kept):
    rows = [{name: row[name] for name in ("input_ids", "labels", *kept)} for row in ROWS]
    collator = pickle.loads(pickle.dumps(TransformersCollator(LLAMA, pad_id=2)))  # as workers get it
    given = collator([{**row, "source": ["a"] * number} for row, number in zip(rows, (2, 1), strict=True)])
    assert given["input_ids"].tolist() == [[5, 6, 7, 8], [9, 4, 3, 2]]
    assert given["labels"].tolist() == [[-100, -100, -100, 8], [-100, 4, 3, -100]]
    assert given["position_ids"].tolist() == [[0, 1, 0, 1], [0, 1, 2, 0]]
    assert given["attention_mask"][0, 0].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("says, row", [
    ("neither seq_lengths nor position_ids", {"input_ids": [1, 2]}),
    ("add up to 3; it has 2 input_ids", {"input_ids": [1, 2], "seq_lengths": [3]}),
    ("must count from 0", {"input_ids": [1, 2], "position_ids": [0, 2]}),
    ("must count from 0", {"input_ids": [1, 2], "position_ids": [1, 2]}),
    ("the column 'loss_mask', which no model reads", {"input_ids": [1, 2], "seq_lengths": [2], "loss_mask": [1, 0]}),
    ("There are 1 labels for 2 tokens", {"input_ids": [1, 2], "seq_lengths": [2], "labels": [0]}),
])  # fmt: skip
def test_rows_that_hide_their_sequences_or_carry_more_are_refused(says, row):
    with pytest.raises(ValueError, match=says):
        TransformersCollator(LLAMA)([row])


def test_a_masked_model_does_not_take_the_labels_of_a_causal_one():
    rng = np.random.default_rng(0)
    rows = [{"input_ids": rng.integers(5, 60, n).tolist()} for n in (5, 3, 4)]
    collator = TransformersCollator(BertForMaskedLM(small_config("masked", "bert")))
    with pytest.raises(ValueError, match="a masked one needs pack_dataset"):
        collator(list(pack_dataset(rows, 8, progress=False)))
    assert "labels" not in collator(list(pack_dataset(rows, 8, labels=False, progress=False)))
    labeled = [{**row, "labels": [IGNORED, *row["input_ids"][1:]]} for row in rows[:1]]
    labeled[0]["labels"][2] = IGNORED
    assert "labels" in collator(list(pack_dataset(labeled, 8, progress=False)))


@pytest.mark.parametrize("form", ["dense", "padding_free"])
@pytest.mark.parametrize("multiple", [1, 4, 8, 64])
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1]])
def test_rows_of_a_multiple_leave_the_loss_and_the_logits_as_they_are(form, multiple, rows):
    plain, given = (TransformersCollator(LLAMA, form, 2, multiple)(rows) for multiple in (1, multiple))
    slots, count = plain["input_ids"].shape[1], given["input_ids"].shape[1]
    assert count == -(-slots // multiple) * multiple
    assert (given["input_ids"][:, slots:] == 2).all() and (given["labels"][:, slots:] == -100).all()
    if form == "padding_free":
        bounds = given["cu_seq_lens_q"].tolist()
        positions = [at for length in np.diff(bounds) for at in range(length)]
        assert bounds[-1] == count and given["max_length_k"] == max(np.diff(bounds))
        assert given["position_ids"][0].tolist() == positions
    outputs = LLAMA(**plain), LLAMA(**given)
    assert (outputs[0].logits - outputs[1].logits[:, :slots]).abs().max() < 1e-12
    assert abs(outputs[0].loss - outputs[1].loss) < 1e-6


def test_a_multiple_is_a_whole_number():
    with pytest.raises(ValueError, match="pad_to_multiple_of must be at least 1, not 0"):
        TransformersCollator(LLAMA, pad_to_multiple_of=0)


def test_the_padding_of_a_hybrid_s_row_is_a_sequence_of_its_own():
    with quiet():
        model = Lfm2ForCausalLM(small_config("causal", "lfm2"))
    given = TransformersCollator(model, pad_to_multiple_of=8)(ROWS)
    assert given["seq_idx"].tolist() == [[0, 0, 1, 1, 2, 2, 2, 3]]
    assert given["cu_seq_lens_q"].tolist() == [0, 2, 4, 7, 8]


def test_context_parallelism_which_drops_masks_is_refused(monkeypatch):
    """accelerate's own hook, in one process: what it does to packs is why."""
    model = LlamaForCausalLM(small_config("causal", "llama")).eval()
    collator = TransformersCollator(model)
    with torch.no_grad():
        before = model(**collator(ROWS)).logits
        _attach_context_parallel_hooks(model)
        assert (model(**collator(ROWS)).logits - before).abs().max() > 1e-3
    monkeypatch.setitem(AcceleratorState._shared_state, "parallelism_config", ParallelismConfig(cp_size=2))
    with pytest.raises(ValueError, match="cp_size of accelerate's ParallelismConfig must be 1 for packs, not 2"):
        collator(ROWS)


def test_a_fixed_shape_is_that_of_every_batch_and_what_each_sequence_gets_is_the_same():
    shapes = set()
    collate, plain = TransformersCollator(LLAMA, "padding_free", shape=(40, 12, 9)), TransformersCollator(LLAMA)
    for rows in (ROWS, ROWS[:1], ROWS[::-1]):
        given = collate(rows)
        shapes.add(tuple((name, tuple(x.shape) if isinstance(x, torch.Tensor) else x) for name, x in given.items()))
        bounds = given["cu_seq_lens_q"]
        assert len(bounds) == 13 and bounds[-1] == 40 and (bounds.diff() >= 0).all() and bounds.diff().max() <= 9
        starts = bounds[:-1][bounds.diff() > 0]
        assert (given["position_ids"][0] == 0).nonzero().flatten().tolist() == starts.tolist()
        tokens = sum(len(row["input_ids"]) for row in rows)
        assert (given["labels"][0, tokens:] == -100).all()
        losses = [LLAMA(**collator(rows)).loss.item() for collator in (collate, plain)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert len(shapes) == 1


@pytest.mark.parametrize(("says", "form", "options"), [
    ("shape must be \\(tokens, sequences, longest\\), not 9.", "padding_free", {"shape": 9}),
    ("longest of shape must be at least 1, not 0", "padding_free", {"shape": (9, 9, 0)}),
    ("shape must be left out with the form 'dense'", "dense", {"shape": (9, 9, 9)}),
    ("shape must be left out with pad_to_multiple_of", "padding_free", {"shape": (9, 9, 9), "pad_to_multiple_of": 2}),
    ("tokens of shape must be at least", "padding_free", {"shape": (3, 9, 9)}),
    ("sequences of shape must be at least", "padding_free", {"shape": (99, 2, 9)}),
    ("longest of shape must be at least", "padding_free", {"shape": (99, 99, 1)}),
])  # fmt: skip
def test_a_fixed_shape_that_cannot_be_is_refused(says, form, options):
    with pytest.raises(ValueError, match=says):
        TransformersCollator(LLAMA, form, **options)(ROWS)
