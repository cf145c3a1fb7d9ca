"""The recorded experiments: every arm trains, all ways to batch cost the same, and arms do what their names say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from model_cases import make_batch, make_model, store
from transformers import GPT2LMHeadModel

from packlib.batches import PackedBatch, TokenStore, pad
from packlib.packing import document_rows
from packlib.training import CausalObjective
from runs import pretraining
from runs.arms import EXPERIMENTS, WithoutMask, WithoutReset
from runs.batchings import BATCHINGS, batches, nested_loss, padded_loss
from runs.curriculum import ARMS, LENGTH, LENGTH_ARMS, ROWS, new_model, rates_of, row_updates
from runs.documents import laid_out
from runs.finetuning import (
    END,
    START,
    LexnameObjective,
    SpanLabels,
    SpanObjective,
    TaskModel,
    longest_shared_runs,
)


@pytest.mark.parametrize("name", ["ablations", "checkpoints"])
def test_an_arm_is_trained_and_evaluated_on_its_own_losses(name, tmp_path):
    experiment, rng = EXPERIMENTS[name], np.random.default_rng(0)
    padded = replace(experiment.padded, total_sequences=60, warmup_sequences=6)
    samples = [{"input_ids": rng.integers(5, 200, n), "label": n % 2} for n in rng.integers(2, 40, 50).tolist()]
    stores = TokenStore.from_samples(samples[:40]), TokenStore.from_samples(samples[40:])
    arm, text = next(iter(experiment.arms.values())), pretraining.TEXTS[experiment.text]
    records = pretraining.run(arm, padded, 0, tmp_path, text, stores)
    last = pretraining.rows(records)[-1]
    assert last["update"] == len(records) and 3 < last["held_out_loss"] < 12 and last["cpu_seconds"] > 0


@pytest.mark.parametrize("objective", [WithoutMask(), WithoutReset()])
def test_an_ablation_changes_packs_and_leaves_single_sequences_alone(objective):
    model = make_model("gpt2")
    for depth, differs in ((1, False), (None, True)):
        batch = make_batch(depth, masked=False)
        with torch.no_grad():
            right, ablated = CausalObjective()(model, batch), objective(model, batch)
        assert (abs(float(right["token_loss"].mean - ablated["token_loss"].mean)) > 1e-6) == differs
        assert int(ablated["token_loss"].count) == objective.counts(batch)["token_loss"]


def test_a_span_is_the_longest_run_that_both_sentences_share():
    cls, sep = 2, 3
    pairs = [([10, 11, 12, 13], [9, 11, 12, 13, 10, 11]), ([10, 11], [12]), ([10, 11], None), ([7, 8, 7], [7])]
    samples = []
    for first, second in pairs:
        ids = [cls, *first, sep]
        more = [] if second is None else [*second, sep]
        samples.append({"input_ids": ids + more, "token_type_ids": [0] * len(ids) + [1] * len(more)})
    sequences = TokenStore.from_samples(samples)
    starts, ends = longest_shared_runs(sequences)
    assert starts.tolist() == [2, -1, -1, 1] and ends.tolist() == [4, -1, -1, 1]
    kept = sequences.take([0, 3])
    labels = SpanLabels(starts, ends)(kept).labels
    second = int(kept.offsets[1])
    assert {at: labels[at] for at in np.flatnonzero(labels > 0)} == {2: START, 4: END, second + 1: START | END}


@pytest.mark.parametrize("name", ["lexname", "span"])
def test_a_task_costs_the_same_packed_and_padded_and_is_what_a_plain_loop_says(name):
    rng, batch = np.random.default_rng(0), make_batch(masked=False)
    count = batch.num_sequences
    if name == "span":
        labels, right = torch.full_like(batch.input_ids, -100).flatten(), []
        for begin, length in zip(batch.sequence_starts.tolist(), batch.lengths.tolist(), strict=True):
            a, b = sorted(rng.integers(0, length, 2).tolist())
            right.append((a, b))
            labels[begin + a] = START
            labels[begin + b] = START | END if a == b else END
        batch = PackedBatch({**batch, "labels": labels.view_as(batch.input_ids)})
        objective = SpanObjective()
    else:
        right = [(label,) for label in rng.integers(0, 45, count).tolist()]
        batch = PackedBatch({**batch, "sequence_labels": torch.tensor(right).flatten()})
        objective = LexnameObjective()
    model = TaskModel(make_model("bert"), 2 if name == "span" else 45, objective.reads).eval()
    packed, padded = objective(model, batch), objective(model, rows := pad(batch))
    logits, loss, hits = model(**rows).detach(), 0.0, 0
    for i, truth in enumerate(right):
        scores = logits[i, : int(rows.lengths[i])].T if name == "span" else logits[i][None]
        loss -= sum(float(one.log_softmax(0)[at]) for one, at in zip(scores, truth, strict=True)) / len(truth)
        hits += tuple(scores.argmax(1).tolist()) == truth
    for found in (packed, padded):
        assert float(found["task_loss"].total.detach()) == pytest.approx(loss)
        assert int(found["accuracy"].total) == hits
    assert objective.counts(batch) == {"task_loss": int(packed["task_loss"].count)} == {"task_loss": count}


@pytest.mark.parametrize("rule", ["split", "wrapped"])
def test_rows_of_documents_hold_each_piece_as_a_sequence_of_its_own(rule):
    rng = np.random.default_rng(0)
    tokens = [rng.integers(1, 200, n).astype(np.uint8) for n in rng.integers(1, 40, 30)]
    rows = document_rows([len(document) for document in tokens], 16, rule)
    batch = laid_out(tokens, rows)
    for row, ids, segments in zip(rows, batch.input_ids, batch.segment_ids, strict=True):
        for number, (document, start, length) in enumerate(row.tolist(), 1):
            assert ids[segments == number].tolist() == tokens[document][start : start + length].tolist()
        assert segments.max() == number


@pytest.mark.parametrize("name", BATCHINGS)
def test_a_pass_holds_every_text_once(name):
    found = list(batches(name, store(), 0, LENGTH))
    assert sorted(torch.cat([b.sample_ids for b in found]).tolist()) == list(range(len(store())))
    assert 4 < np.mean([b.num_sequences for b in found]) < 12
    assert name == "packed" or all(b.num_packs == b.num_sequences for b in found)


def test_jagged_tensors_cost_what_padding_costs():
    texts = replace(store(), input_ids=store().input_ids % 256)  # as many ids as there are bytes
    batch, gradients = next(batches("nested", texts, 0, LENGTH)), []
    for loss in (padded_loss, nested_loss):
        model = new_model(0).double()
        value = loss(model, batch)
        value.backward()
        gradients.append([value.detach(), *(p.grad for p in model.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_alibi_knows_distance_and_not_the_future(monkeypatch):
    """As the paper has it for four heads: what is added to the scores, and no other positions."""
    model, ids, seen = new_model(0, alibi=True), torch.arange(5, 17)[None], {}
    monkeypatch.setattr(GPT2LMHeadModel, "forward", lambda self, ids, **given: seen.update(given))
    causal = torch.ones(12, 12, dtype=torch.bool).tril()[None, None]
    model(input_ids=ids, attention_mask=causal)
    mask = seen["attention_mask"].expand(1, 4, 12, 12)
    for head, i, j in np.ndindex(4, 12, 12):
        expected = -(2.0 ** (-2 * (head + 1))) * (i - j) if j <= i else torch.finfo(torch.float32).min
        assert mask[0, head, i, j] == expected
    assert not seen["position_ids"].any()


def test_the_arms_of_a_curriculum_differ_as_their_names_say():
    rows = torch.arange(300 * LENGTH).reshape(300, LENGTH)

    def shapes(arm):
        updates = row_updates(LENGTH_ARMS[arm], 0, rows, 50 * ROWS * LENGTH)
        return [(update.sequences, update.length, update.tokens, update.slots) for update in updates]

    full = (ROWS, LENGTH, ROWS * LENGTH, ROWS * LENGTH)
    assert shapes("no warm-up") == [full] * 50
    warm = shapes("0.3, truncated")
    assert warm[0] == (ROWS, 8, ROWS * 8, ROWS * 8) and warm[14][1] < LENGTH and set(warm[15:]) == {full}
    reshaped = shapes("0.3, reshaped")
    assert {tokens for _, _, tokens, _ in reshaped} == {ROWS * LENGTH} and len(reshaped) == 50  # none is lost
    assert [length for _, length, *_ in reshaped[:20]] == [length for _, length, *_ in warm[:20]]
    both = shapes("batch size and 0.3, truncated")
    assert both[0][:2] == (4, 8) and both[15] == full
    for experiment, arms in ARMS.items():
        assert all(0 < rate < 1 for arm in arms for rate in rates_of(experiment, arm, False).values())
