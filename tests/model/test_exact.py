"""The packed run equals the unpacked one: logits, losses, gradients; and nothing leaks."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from model_cases import MAX_LENGTH, REDUCTIONS, averaged, make_batch, make_model, store
from torch.nn.functional import cross_entropy
from torch.testing import assert_close
from transformers import BertForPreTraining, GPT2LMHeadModel

from packlib.batches import IGNORED, PackedBatch, collate, pad
from packlib.batches.batch import sequence_of_slots
from packlib.model import PackedBert, for_transformers, nsp_loss, packed_output, token_loss


def alone(model, batch):
    """What transformers' own model says about each sequence alone, without padding, packing or packlib.

    Returns:
        The logits of the predicted tokens and of the next sentences, in the order of the batch; the losses by ("token"
        or "nsp", mean); and the gradients by mean and parameter.
    """
    is_bert = isinstance(model, PackedBert)
    plain = (BertForPreTraining if is_bert else GPT2LMHeadModel)(deepcopy(model.config)).to(model.dtype)
    plain.config._attn_implementation = "eager"
    plain.load_state_dict(model.state_dict())
    logits, nsp_logits, groups = [], [], {"token": [], "nsp": []}
    for pack, segments in enumerate(batch.segment_ids):
        for segment in range(1, int(segments.max()) + 1):
            tokens = segments == segment
            ids, types = batch.input_ids[pack, tokens], batch.token_type_ids[pack, tokens]
            target = batch.get("labels", batch.input_ids)[pack, tokens]
            if is_bert:
                out = plain(input_ids=ids[None], token_type_ids=types[None])
                scores, label = out.prediction_logits[0], batch.sequence_labels[len(nsp_logits)]
                nsp_logits.append(out.seq_relationship_logits[0])
                groups["nsp"].append((pack, [cross_entropy(nsp_logits[-1], label)] if label != IGNORED else []))
            else:
                scores, target = plain(input_ids=ids[None]).logits[0, :-1], target[1:]
            at = target != IGNORED
            logits.append(scores[at])
            groups["token"].append((pack, list(cross_entropy(scores[at], target[at], reduction="none"))))
    losses, gradients = {}, {}
    for mean in REDUCTIONS:
        for what in groups:
            values = averaged(groups[what], mean)
            losses[what, mean] = sum(values) / max(len(values), 1)
        plain.zero_grad()
        (losses["token", mean] + losses["nsp", mean]).backward(retain_graph=True)
        gradients[mean] = {name: p.grad.clone() for name, p in plain.named_parameters() if p.grad is not None}
    return torch.cat(logits), torch.stack(nsp_logits) if is_bert else None, losses, gradients


def assert_equals_unpacked(model, batch):
    logits, nsp_logits, losses, gradients = alone(model, batch)
    tolerance = 1e-10 if model.dtype == torch.float64 else 1e-5
    for mean in REDUCTIONS:
        model.zero_grad()
        output = packed_output(model, batch)
        assert_close(output.token_logits, logits, rtol=0, atol=tolerance)
        total = token_loss(output, batch, mean).mean
        assert_close(total, losses["token", mean], rtol=0, atol=tolerance)
        if nsp_logits is not None:
            assert_close(output.nsp_logits, nsp_logits, rtol=0, atol=tolerance)
            nsp = nsp_loss(output, batch, mean).mean
            assert_close(nsp, losses["nsp", mean], rtol=0, atol=tolerance)
            total = total + nsp
        total.backward()
        own = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        assert_close(own, gradients[mean], rtol=0, atol=tolerance)


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
    assert_equals_unpacked(model, batch)


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_one_pack_and_one_sequence_and_one_token(kind):
    model, seventh = make_model(kind), store().take([7])
    lone = collate(replace(seventh, labels=seventh.input_ids), [1], MAX_LENGTH)
    for batch in (make_batch(packs=1, masked=kind == "bert"), lone):
        assert_equals_unpacked(model, batch)
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
    _, _, losses, gradients = alone(model, plain)
    model.max_predictions_per_pack = 24
    output = model(**batch)
    assert (output.token_positions == -1).any() and output.token_logits.shape[0] == 24 * batch.num_packs
    for mean in REDUCTIONS:
        assert abs(token_loss(output, batch, mean).mean - losses["token", mean]) < 1e-10
        assert abs(nsp_loss(output, batch, mean).mean - losses["nsp", mean]) < 1e-10
    output.loss.backward()
    assert_close({name: p.grad for name, p in model.named_parameters()}, gradients["token"], rtol=0, atol=1e-10)


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
