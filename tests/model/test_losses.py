"""Losses and accuracies against plain loops over the definition of each mean."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import REDUCTIONS, averaged, make_batch, make_model
from torch.nn.functional import cross_entropy

from packlib.batches import IGNORED, PackedBatch, TokenStore, collate
from packlib.model import PackedOutput, nsp_accuracy, nsp_loss, per_sequence, token_accuracy, token_loss

packs_of_lengths = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=4)


def case(packs, seed, empty_slots=0):
    generator = torch.Generator().manual_seed(seed)
    slots = max(map(sum, packs)) + 1
    rows = [[i + 1 for i, n in enumerate(pack) for _ in range(n)] for pack in packs]
    ids = torch.tensor([row + [0] * (slots - len(row)) for row in rows])
    labels = torch.randint(0, 5, ids.shape, generator=generator)
    labels[(torch.rand(ids.shape, generator=generator) < 0.5) | (ids == 0)] = IGNORED
    sequence_labels = torch.randint(0, 2, (sum(map(len, packs)),), generator=generator)
    sequence_labels[torch.rand(sequence_labels.shape, generator=generator) < 0.3] = IGNORED
    batch = PackedBatch(input_ids=ids, segment_ids=ids, labels=labels, sequence_labels=sequence_labels)
    at = torch.cat([(labels.flatten() != IGNORED).nonzero().flatten(), torch.full((empty_slots,), -1)])
    output = PackedOutput(
        token_positions=at,
        token_labels=torch.where(at < 0, IGNORED, labels.flatten()[at.clamp(min=0)]),
        token_logits=torch.randn(len(at), 5, generator=generator, dtype=torch.float64),
        nsp_logits=torch.randn(len(sequence_labels), 2, generator=generator, dtype=torch.float64),
    )
    return batch, output


@settings(max_examples=60)
@given(packs_of_lengths, st.integers(0, 1000), st.integers(0, 3))
def test_every_mean_is_what_it_says(packs, seed, empty_slots):
    batch, output = case(packs, seed, empty_slots)
    at = output.token_positions
    groups = {function: [] for function in (token_loss, token_accuracy, nsp_loss, nsp_accuracy)}

    def add(pack, loss, accuracy, logits, labels):
        groups[loss].append((pack, cross_entropy(logits, labels, reduction="none").tolist()))
        groups[accuracy].append((pack, (logits.argmax(-1) == labels).double().tolist()))

    owners = [(p, segment) for p, pack in enumerate(packs) for segment in range(1, len(pack) + 1)]
    for number, (p, segment) in enumerate(owners):
        mine = (at >= 0) & (at // batch.max_length == p) & (batch.segment_ids.flatten()[at] == segment)
        add(p, token_loss, token_accuracy, output.token_logits[mine], output.token_labels[mine])
        known = batch.sequence_labels[number, None] != IGNORED
        add(
            p,
            nsp_loss,
            nsp_accuracy,
            output.nsp_logits[number, None][known],
            batch.sequence_labels[number, None][known],
        )
    for function, of_sequences in groups.items():
        for mean in REDUCTIONS:
            got, values = function(output, batch, mean), averaged(of_sequences, mean)
            assert got.count == len(values)
            assert abs(float(got.total) - sum(values)) < 1e-10
            assert abs(float(got.mean) - (sum(values) / len(values) if values else 0)) < 1e-10
    sums, counts = per_sequence(output, batch)
    assert counts.tolist() == [len(values) for _, values in groups[token_loss]]
    expected = torch.tensor([sum(values) for _, values in groups[token_loss]], dtype=torch.float64)
    assert torch.allclose(sums, expected, atol=1e-10)


def test_a_batch_without_labels_has_a_loss_of_zero_for_each_sequence():
    batch = collate(TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}]), [2], max_length=8)
    output = PackedOutput()
    assert token_loss(output, batch).count == 0
    sums, counts = per_sequence(output, batch)
    assert sums.tolist() == [0, 0] and counts.tolist() == [0, 0]
    assert (sums.dtype, counts.dtype) == (torch.float32, torch.int64)


def test_no_label_at_all_is_a_loss_of_zero_with_a_gradient():
    batch, output = case([[2, 3]], seed=0)
    batch = PackedBatch({**batch, "sequence_labels": torch.full((2,), IGNORED)})
    output.nsp_logits.requires_grad_()
    for mean in REDUCTIONS:
        sums = nsp_loss(output, batch, mean)
        assert sums.mean == 0 and sums.count == 0
        sums.mean.backward()
        assert not output.nsp_logits.grad.any()


def test_half_precision_logits_are_summed_in_float32():
    batch, output = case([[6, 6]], seed=1)
    exact = token_loss(output, batch).mean
    output.token_logits = output.token_logits.bfloat16()
    assert token_loss(output, batch).mean.dtype == torch.float32
    assert abs(token_loss(output, batch).mean - exact) < 0.02


def test_bad_input_gets_one_sentence():
    batch, output = case([[2, 3]], seed=0)
    with pytest.raises(ValueError, match="reduction must be 'token', 'sequence' or 'pack', not 'sample'"):
        nsp_accuracy(output, batch, "sample")


@pytest.mark.parametrize("mean", REDUCTIONS)
def test_the_models_own_loss_is_their_sum(mean):
    model, batch = make_model("bert", reduction=mean), make_batch()
    output = model(**batch)
    expected = token_loss(output, batch, mean).mean + nsp_loss(output, batch, mean).mean
    assert output.loss == expected
