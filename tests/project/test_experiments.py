"""The recorded experiments: every arm makes a valid recipe, and the ablations do what their names say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from experiments import pretraining
from experiments.arms import EXPERIMENTS, WithoutMask, WithoutReset
from experiments.curriculum import ARMS, rates_of
from experiments.documents import laid_out
from experiments.heads import END, START, LexnameObjective, SpanLabels, SpanObjective, TaskModel, longest_shared_runs
from model_cases import make_batch, make_model

from packlib.batches import PackedBatch, TokenStore, pad
from packlib.packing import document_rows
from packlib.training import CausalObjective


@pytest.mark.parametrize("name", ["ablations", "checkpoints"])
def test_an_arm_is_trained_and_evaluated_on_its_own_losses(name, tmp_path):
    experiment, rng = EXPERIMENTS[name], np.random.default_rng(0)
    text, padded = (
        pretraining.TEXTS[experiment.text],
        replace(experiment.padded, total_sequences=60, warmup_sequences=6),
    )
    samples = [{"input_ids": rng.integers(5, 200, n), "label": n % 2} for n in rng.integers(2, 40, 50).tolist()]
    stores = TokenStore.from_samples(samples[:40]), TokenStore.from_samples(samples[40:])
    arm = next(iter(experiment.arms.values()))
    records = pretraining.run(arm, padded, 0, tmp_path, text, stores)
    last = pretraining.rows(records)[-1]
    assert last["update"] == len(records) and 3 < last["held_out_loss"] < 12 and last["cpu_seconds"] > 0


def test_every_arm_of_a_curriculum_has_its_rate():
    for experiment, arms in ARMS.items():
        for arm in arms:
            ((name, rate),) = rates_of(experiment, arm, False).items()
            assert name == arm and 0 < rate < 1


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
    same = SpanLabels(starts, ends)(kept)
    labels = same.labels
    assert same.input_ids is kept.input_ids and labels[labels > 0].tolist() == [START, END, START | END]
    assert np.flatnonzero(labels > 0).tolist() == [2, 4, int(kept.offsets[1]) + 1]


@pytest.mark.parametrize("name", ["lexname", "span"])
def test_a_task_costs_the_same_packed_and_padded_and_is_what_a_plain_loop_says(name):
    rng = np.random.default_rng(0)
    batch = make_batch(masked=False)
    count = batch.num_sequences
    if name == "span":
        labels, spans = torch.full_like(batch.input_ids, -100).flatten(), []
        for begin, length in zip(batch.sequence_starts.tolist(), batch.lengths.tolist(), strict=True):
            a, b = sorted(rng.integers(0, length, 2).tolist())
            spans.append((a, b))
            labels[begin + a] = START
            labels[begin + b] = START | END if a == b else END
        batch = PackedBatch({**batch, "labels": labels.view_as(batch.input_ids)})
        objective = SpanObjective()
    else:
        labels = torch.from_numpy(rng.integers(0, 45, count))
        batch, objective = PackedBatch({**batch, "sequence_labels": labels}), LexnameObjective()
    model = TaskModel(make_model("bert"), 2 if name == "span" else 45, objective.reads).eval()
    packed, padded = objective(model, batch), objective(model, pad(batch))
    for key in packed:
        assert packed[key].total.item() == pytest.approx(padded[key].total.item(), abs=1e-10)
    assert objective.counts(batch) == {"task_loss": int(packed["task_loss"].count)} == {"task_loss": count}

    packed["task_loss"].total.backward()
    assert all(p.grad is not None for name, p in model.bert.bert.embeddings.named_parameters())

    loss, right, rows = 0.0, 0, pad(batch)
    logits = model(**rows)
    for i in range(count):
        if name == "span":
            scores = logits[i, : int(rows.lengths[i])]
            loss -= sum(float(scores[:, e].log_softmax(0)[spans[i][e]].detach()) for e in (0, 1)) / 2
            right += tuple(scores.argmax(0).tolist()) == spans[i]
        else:
            loss -= float(logits[i].log_softmax(0)[labels[i]].detach())
            right += int(logits[i].argmax()) == int(labels[i])
    assert float(packed["task_loss"].total.detach()) == pytest.approx(loss)
    assert int(packed["accuracy"].total) == right


def test_rows_of_documents_hold_each_piece_in_a_segment_of_its_own():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(1, 200, n).astype(np.uint8) for n in rng.integers(1, 40, 30)]
    for rule in ("split", "wrapped"):
        rows = document_rows([len(document) for document in tokens], 16, rule)
        ids, segments = laid_out(tokens, rows)
        for row, found_ids, found_segments in zip(rows, ids.tolist(), segments.tolist(), strict=True):
            expected = [(t, i) for i, (d, s, n) in enumerate(row.tolist(), 1) for t in tokens[d][s : s + n].tolist()]
            padding = [(0, 0)] * (16 - len(expected))
            assert list(zip(found_ids, found_segments, strict=True)) == expected + padding
