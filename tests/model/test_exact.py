"""The packed run equals the unpacked one: logits, losses, gradients; and nothing leaks."""

from dataclasses import replace

import pytest
import torch
from model_cases import MAX_LENGTH, REDUCTIONS, assert_equals_unpacked, make_batch, make_model, reference, store

from packlib.batches import PackedBatch, collate, pad
from packlib.batches.batch import sequence_of_slots
from packlib.model import for_transformers, nsp_loss, packed_output, token_loss


def with_first_labels(batch):
    """The first token of some sequences has a label too: nothing predicts it in a causal model."""
    labels = batch.labels.clone()
    labels.view(-1)[batch.sequence_starts[::3]] = 7
    return PackedBatch({**batch, "labels": labels})


DOUBLE, SINGLE = torch.float64, torch.float32


@pytest.mark.parametrize("kind, depth, dtype, backend, labels", [
    ("bert", 1, DOUBLE, "sdpa", True), ("bert", 3, DOUBLE, "eager", True), ("bert", None, DOUBLE, "sdpa", True),
    ("bert", None, SINGLE, "sdpa", True), ("causal", None, DOUBLE, "sdpa", False),
    ("causal", 3, DOUBLE, "eager", False), ("causal", None, DOUBLE, "sdpa", True),
])  # fmt: skip
def test_packed_equals_unpacked_at_every_depth(kind, depth, dtype, backend, labels):
    model, batch = make_model(kind, dtype), make_batch(depth, masked=labels)
    model.backend = model.config._attn_implementation = backend
    if depth == 1:
        assert batch.num_sequences == batch.num_packs
    else:
        assert batch.useful_tokens < batch.input_ids.numel()
        assert (batch.segment_ids[:, -1] > 0).any()  # a pack is full to the last slot
        assert 1 in batch.lengths
    if depth is None:
        assert batch.segment_ids.amax(1).max() >= 3 * batch.segment_ids.amax(1).min()
    batch = with_first_labels(batch) if labels else batch
    assert_equals_unpacked(model, batch, reference(model, batch))


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_one_pack_and_one_sequence_and_one_token(kind):
    model, seventh = make_model(kind), store().take([7])
    lone = collate(replace(seventh, labels=seventh.input_ids), [1], MAX_LENGTH)
    for batch in (make_batch(packs=1, masked=kind == "bert"), lone):
        assert_equals_unpacked(model, batch, reference(model, batch))
    alone = collate(store().take([len(store()) - 1]), [1], 1)  # a pack of one slot, full
    output = packed_output(model, alone)
    assert output.loss == 0
    assert output.token_logits is None if kind == "bert" else output.token_logits.shape == (0, 4000)


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_padded_twin_gives_the_same(kind):
    model, batch = make_model(kind), make_batch(masked=kind == "bert")
    for twin in (pad(batch), pad(batch, int(batch.lengths.max()))):
        packed, padded = packed_output(model, batch), packed_output(model, twin)
        assert (packed.token_logits - padded.token_logits).abs().max() < 1e-10


def test_flex_backend_gives_the_same_answers_without_gradient():
    batch = make_batch(3)
    with torch.no_grad():
        output, expected = (make_model("bert", backend=backend)(**batch) for backend in ("flex", "sdpa"))
    assert (output.token_logits - expected.token_logits).abs().max() < 1e-10
    assert (output.nsp_logits - expected.nsp_logits).abs().max() < 1e-10


def test_static_shapes_change_nothing():
    """Also where the first slot of all, which empty places read, has a label."""
    model, plain, places = make_model("bert"), with_first_labels(make_batch(8)), 8
    batch = PackedBatch({**make_batch(8, max_sequences_per_pack=places), "labels": plain.labels})
    assert len(plain.sequence_starts) < len(batch.sequence_starts) == places * batch.num_packs
    expected, model.max_predictions_per_pack = reference(model, plain), 24
    output = model(**batch)
    assert (output.token_positions == -1).any() and output.token_logits.shape[0] == 24 * batch.num_packs
    for mean in REDUCTIONS:
        assert abs(token_loss(output, batch, mean).mean - expected.losses["token", mean]) < 1e-10
        assert abs(nsp_loss(output, batch, mean).mean - expected.losses["nsp", mean]) < 1e-10
    output.loss.backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad - expected.gradients["token"][name]).abs().max() < 1e-10, name


@pytest.mark.parametrize("kind, backend, half", [
    ("bert", "sdpa", False), ("bert", "eager", False), ("causal", "sdpa", False), ("causal", "eager", False),
    ("bert", "sdpa", True), ("bert", "eager", True),
])  # fmt: skip
def test_no_sequence_changes_another_by_a_bit(kind, backend, half):
    model, batch = make_model(kind, SINGLE), make_batch(masked=False, packs=4)
    model.backend = model.config._attn_implementation = backend
    owner = sequence_of_slots(batch.segment_ids, batch.num_sequences).view_as(batch.segment_ids)

    def states(ids):
        other = PackedBatch({**batch, "input_ids": ids})
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
            return model(**other).hidden if kind == "bert" else model(**for_transformers(other, model)).logits

    before = states(batch.input_ids)
    assert before.isfinite().all()
    for number in range(batch.num_sequences):
        mine = owner == number
        after = states(torch.where(mine, (batch.input_ids + 1000) % 4000, batch.input_ids))
        assert torch.equal(after[~mine], before[~mine]) and not torch.equal(after[mine], before[mine])
