"""The packed run equals the unpacked one: logits, losses, accuracies, gradients; and nothing leaks."""

from dataclasses import replace

import pytest
import torch
from model_cases import MAX_LENGTH, REDUCTIONS, assert_equals_unpacked, make_batch, make_model, reference, store

from packlib.batches import IGNORED, PackedBatch, collate, pad
from packlib.model import attention, nsp_loss, packed_output, token_loss


def with_some_right_answers(model, batch):
    """The batch with every second label set to what the model predicts: accuracies are not all zero."""
    output = packed_output(model, batch)
    labels = batch.labels.clone()
    at = output.token_positions[::2]
    labels.view(-1)[at] = output.token_logits[::2].argmax(-1)
    return PackedBatch({**batch, "labels": labels})


DOUBLE, SINGLE = torch.float64, torch.float32


@pytest.mark.parametrize("kind, depth, dtype, backend", [
    ("bert", 1, DOUBLE, "sdpa"), ("bert", 3, DOUBLE, "eager"), ("bert", None, DOUBLE, "sdpa"),
    ("bert", None, SINGLE, "sdpa"), ("causal", None, DOUBLE, "sdpa"), ("causal", 3, DOUBLE, "eager"),
])  # fmt: skip
def test_packed_equals_unpacked_at_every_depth(kind, depth, dtype, backend):
    model, batch = make_model(kind, dtype), make_batch(depth, masked=kind == "bert")
    model.backend = model.config._attn_implementation = backend
    if depth == 1:
        assert batch.num_sequences == batch.num_packs
    else:
        assert batch.useful_tokens < batch.input_ids.numel()
        assert (batch.segment_ids[:, -1] > 0).any()  # a pack is full to the last slot
        assert 1 in batch.lengths
    if depth is None:
        assert batch.segment_ids.amax(1).max() >= 3 * batch.segment_ids.amax(1).min()
    if kind == "bert":
        batch = with_some_right_answers(model, batch)
    expected = reference(model, batch)
    if kind == "bert":
        assert expected.accuracies["token", "token"] > 0.3
    assert_equals_unpacked(model, batch, expected)


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_one_pack_and_one_sequence_and_one_token(kind):
    model, batch = make_model(kind), make_batch(None, packs=1, masked=kind == "bert")
    assert_equals_unpacked(model, batch, reference(model, batch))
    seventh = store().take([7])
    lone = collate(replace(seventh, labels=seventh.input_ids), [1], MAX_LENGTH)
    assert_equals_unpacked(model, lone, reference(model, lone))
    token = store().take([len(store()) - 1])
    alone = collate(token, [1], 1)  # a pack of one slot, full
    output = packed_output(model, alone)
    assert output.loss == 0
    assert output.token_logits is None if kind == "bert" else output.token_logits.shape == (0, 4000)


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_padded_twin_gives_the_same(kind):
    model, batch = make_model(kind), make_batch(masked=kind == "bert")
    for twin in (pad(batch), pad(batch, int(batch.lengths.max()))):
        packed, padded = packed_output(model, batch), packed_output(model, twin)
        assert (packed.token_logits - padded.token_logits).abs().max() < 1e-10
        for mean in ("token", "sequence"):
            difference = token_loss(packed, batch, mean).mean - token_loss(padded, twin, mean).mean
            assert difference.abs() < 1e-10


def test_flex_backend_gives_the_same_answers_without_gradient():
    model, batch = make_model("bert", backend="flex"), make_batch(3)
    expected = reference(model, batch)
    with torch.no_grad():
        output = model(**batch)
    assert (output.token_logits - expected.token_logits).abs().max() < 1e-10
    assert abs(token_loss(output, batch, "sequence").mean - expected.losses["token", "sequence"]) < 1e-10


def test_static_shapes_change_nothing():
    model, plain = make_model("bert", max_predictions_per_pack=24), make_batch(8)
    batch = make_batch(8, max_sequences_per_pack=8, max_predictions_per_pack=24)
    assert batch.sequence_starts.shape == (8 * batch.num_packs,) and len(plain.sequence_starts) < 8 * batch.num_packs
    output = model(**batch)
    assert output.token_logits.shape[0] == 24 * batch.num_packs
    expected = reference(model, plain)
    for mean in REDUCTIONS:
        assert abs(token_loss(output, batch, mean).mean - expected.losses["token", mean]) < 1e-10
        assert abs(nsp_loss(output, batch, mean).mean - expected.losses["nsp", mean]) < 1e-10
    (token_loss(output, batch).mean + nsp_loss(output, batch, "token").mean).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad - expected.gradients["token"][name]).abs().max() < 1e-10, name


def run_from_embeddings(model, batch):
    """The output, and the embeddings that it was computed from, as the leaf of its graph."""
    kept = []

    def keep(*given):
        kept.append(given[-1].detach().requires_grad_())
        return kept[-1]

    hook = model.get_input_embeddings().register_forward_hook(keep)
    try:
        return packed_output(model, batch), kept[0]
    finally:
        hook.remove()


def leaks(model, batch) -> int:
    """How many pairs of sequences see each other: a gradient of one's loss that is not exactly zero."""
    output, embeddings = run_from_embeddings(model, batch)
    owner = (batch.segment_ids + 1000 * torch.arange(batch.num_packs)[:, None]) * (batch.segment_ids > 0)
    values = torch.nn.functional.cross_entropy(
        output.token_logits, output.token_labels, reduction="none", ignore_index=IGNORED
    )
    count = 0
    for number, start in enumerate(batch.sequence_starts[: batch.num_sequences].tolist()):
        me = owner.flatten()[start]
        mine = owner.flatten()[output.token_positions] == me
        loss = values[mine].sum()
        if output.nsp_logits is not None:
            loss = loss + output.nsp_logits[number].square().sum()
        elif not mine.any():
            continue
        (gradient,) = torch.autograd.grad(loss, embeddings, retain_graph=True)
        reached = (gradient != 0).any(-1)
        assert reached[owner == me].any()
        count += int(reached[owner != me].any())
    return count


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_no_gradient_leaks_into_another_sequence(kind, backend):
    model = make_model(kind, torch.float32)
    model.backend = model.config._attn_implementation = backend
    assert leaks(model, make_batch(masked=kind == "bert", packs=4)) == 0


def test_a_causal_model_does_not_look_ahead():
    output, embeddings = run_from_embeddings(make_model("causal"), make_batch(masked=False, packs=2))
    middle = len(output.token_positions) // 2
    (gradient,) = torch.autograd.grad(output.token_logits[middle].square().sum(), embeddings)
    reached = (gradient != 0).any(-1).flatten().nonzero().flatten()
    assert reached.max() == output.token_positions[middle]


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_the_leak_test_sees_a_mask_that_is_off_by_one(monkeypatch, kind):
    model, batch, right = make_model(kind), make_batch(masked=kind == "bert", packs=4), attention.allowed_pairs
    monkeypatch.setattr(attention, "allowed_pairs", lambda ids, *rest: right(ids.roll(1, 1), *rest))
    assert leaks(model, batch) > 0


def test_accumulated_sums_equal_one_big_batch():
    model, whole = make_model("bert"), make_batch(None, packs=6)
    rows = [pad(whole)[name] for name in ("input_ids", "segment_ids", "token_type_ids", "labels")]
    twin, cut = pad(whole), 5
    halves = [
        PackedBatch(
            dict(zip(("input_ids", "segment_ids", "token_type_ids", "labels"), (r[part] for r in rows), strict=True)),
            sequence_labels=twin.sequence_labels[part],
        )
        for part in (slice(0, cut), slice(cut, None))
    ]
    for loss in (token_loss, nsp_loss):
        for mean in ("token", "sequence"):
            parts = [loss(model(**half), half, mean) for half in halves]
            expected = loss(model(**whole), whole, mean).mean
            assert abs((parts[0] + parts[1]).mean - expected) < 1e-10
            assert abs((parts[0].mean + parts[1].mean) / 2 - expected) > 1e-6  # the mean of means is not it
