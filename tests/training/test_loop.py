"""The loop: the whole update is one mean, however it is dealt out; it resumes bit for bit and stops at NaN."""

import json

import pytest
import torch
from model_cases import bert_config, make_batch, make_model
from training_cases import FACTOR, Broken, Interrupted, furthest, loader, recipe, small_model, stable, stop_at, weights
from transformers import BertForMaskedLM

import packlib
from packlib import files
from packlib.batches import PackedBatch, pad
from packlib.model import nsp_loss, packed_output, token_loss
from packlib.training import CausalObjective, PretrainingObjective, Recipe, evaluate, rate_at
from packlib.training.objective import MaskedObjective, default_objective
from packlib.training.updates import join_packs
from runs.resuming import fit


@pytest.mark.parametrize("mean", ["token", "sequence"])
@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_the_gradient_is_that_of_the_whole_update_and_not_the_mean_of_means(kind, mean):
    """Against autograd over one batch that holds all sequences, one a row."""
    model, batches = make_model(kind), [make_batch(packs=n) for n in (1, 2, 6)]
    objective = PretrainingObjective(mean) if kind == "bert" else CausalObjective(mean)
    plan = Recipe(1, 1e-3, 1, gradient_accumulation_steps=3)
    steps = torch.optim.SGD(model.parameters(), lr=0.0)
    (record,) = fit(model, batches, plan, objective, optimizer=steps, progress=False)
    got = [p.grad.clone() for p in model.parameters()]
    rows = join_packs([pad(batch) for batch in batches])
    output = packed_output(model, rows)
    loss = token_loss(output, rows, mean).mean
    if kind == "bert":
        loss = loss + nsp_loss(output, rows).mean
    assert record["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
    whole = torch.autograd.grad(loss, list(model.parameters()))
    assert all((a - b).abs().max() < 1e-10 for a, b in zip(got, whole, strict=True))


def test_the_run_ends_with_its_sequences_and_says_what_it_did(tmp_path):
    """Plain gradient descent moves each weight by rate × gradient; the first update of a warm-up has rate 0."""
    model = small_model()
    before, steps = weights(model), torch.optim.SGD(model.parameters(), lr=0.02)

    def compare(record):
        for name, parameter in model.named_parameters():
            step = record["learning_rate"] * parameter.grad
            torch.testing.assert_close(before[name] - parameter, step, rtol=0, atol=1e-12)
        before.update(weights(model))

    options = {"optimizer": steps, "folder": tmp_path, "on_update": compare, "progress": False}
    records, total = fit(model, loader(4), recipe(4, 2), **options), 0
    for update, r in enumerate(records, start=1):
        assert r["learning_rate"] == pytest.approx(0.02 * rate_at(total, 300, 50), abs=1e-15)
        total += r["update_sequences"]
        assert (r["update"], r["sequences"]) == (update, total)
        assert r["loss"] == pytest.approx(r["mlm_loss"] + r["nsp_loss"])
        assert r["tokens_per_second"] > 0 and 0 <= r["mlm_accuracy"] <= 1 and r["gradient_norm"] > 0
    assert records[-2]["sequences"] < 300 <= records[-1]["sequences"]
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == records
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.pt", "metrics.jsonl"]
    assert model.training


def test_even_updates_hold_what_the_recipe_says():
    options = {"even_updates": True, "progress": False}
    records = fit(small_model(), loader(2), recipe(2, 3, packing_factor=FACTOR), **options)
    ahead = [r["sequences"] - 6 * FACTOR * r["update"] for r in records]
    assert max(map(abs, ahead)) < 6  # half of the deepest pack


def test_an_interrupted_run_ends_bit_for_bit_as_if_it_had_not_been(tmp_path):
    """With dropout, in mid-epoch, twice interrupted, and with a torn line of metrics."""
    plan = recipe(3, 2, 400, optimizer="adamw", packing_factor=FACTOR)

    def run(seed, update, folder=None):
        model = small_model(torch.float32, dropout=0.1)
        if seed != 7:  # what it begins with does not matter where it goes on
            torch.nn.init.zeros_(model.bert.pooler.dense.weight)
        torch.manual_seed(seed)
        options = {"even_updates": True, "save_every": 4, "progress": False, "folder": folder}
        return list(model.parameters()), fit(model, loader(3), plan, on_update=stop_at(update), **options)

    straight, expected = run(7, None)
    assert len(expected) > 13 and expected[-1]["loss"] < expected[0]["loss"]
    for seed, update in ((7, 7), (99, 10)):
        with pytest.raises(Interrupted):
            run(seed, update, tmp_path)
        with open(tmp_path / "metrics.jsonl", "a") as file:
            file.write('{"update": 8, "lo')
    resumed, records = run(98, None, tmp_path)
    again, same = run(97, None, tmp_path)
    assert stable(records) == stable(expected) and same == records, "a run that ended stays as it is"
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(straight, resumed, again, strict=True))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == records


@pytest.mark.parametrize("even", [False, True])
def test_the_loop_of_the_library_trains_as_the_one_that_keeps_a_folder(even, tmp_path):
    def run(train, **options):
        model = small_model()
        plan = recipe(4, 2, packing_factor=FACTOR)
        return weights(model), stable(train(model, loader(4), plan, even_updates=even, **options)), weights(model)

    kept, alone = run(fit, folder=tmp_path), run(packlib.fit)
    assert kept[1] == alone[1] and len(alone[1]) > 3 and "loss" in alone[1][0]
    assert furthest(kept[2], alone[2]) == 0 and furthest(alone[0], alone[2]) > 0
    with pytest.raises(FloatingPointError, match=r"samples .*; the weights are those of update 4\.$"):
        packlib.fit(small_model(), loader(4), recipe(4, 2), Broken(10))


def test_a_nan_loss_stops_with_the_step_the_batch_and_what_was_saved(tmp_path):
    model, seen, options = small_model(), [], {"folder": tmp_path, "save_every": 3, "progress": False}
    with pytest.raises(FloatingPointError) as raised:
        fit(model, loader(4), recipe(4, 2), Broken(10), on_update=lambda r: seen.append(weights(model)), **options)
    data = loader(4)
    first = int([*data, *data][9].sample_ids[0])
    said = str(raised.value)
    assert f"The loss of update 5 is nan in micro-batch 2 of 2 (samples {first}, " in said and said.count("\n") == 0
    assert said.endswith(
        f"the weights are those of update 4; the last checkpoint is {tmp_path / 'checkpoint.pt'}, of update 3."
    )
    assert len(seen) == 4 and furthest(seen[-1], weights(model)) == 0
    records = fit(small_model(), loader(4), recipe(4, 2), **options)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == len(records) > 5


def test_a_nan_gradient_stops_before_it_spoils_the_weights():
    model = small_model()
    with pytest.raises(FloatingPointError, match=r"^The gradient norm of update 1 is nan, though its loss") as e:
        fit(model, loader(4), recipe(4, 2), Broken(1, gradient=True), progress=False)
    assert str(e.value).endswith("the weights are those of update 0; no checkpoint was saved.")
    assert furthest(weights(model), weights(small_model())) == 0


def test_the_bar_shows_useful_tokens(capsys):
    fit(small_model(), loader(8), recipe(8, 2, 100, warmup_sequences=0), progress=True)
    said = capsys.readouterr().err
    assert "useful tokens/s" in said and "loss " in said and "sequences" in said


def test_evaluation_is_the_mean_over_all_batches():
    model, batches = make_model("bert").train(), [make_batch(packs=n) for n in (1, 4)]
    got = evaluate(model, batches)
    assert model.training
    rows = join_packs([pad(batch) for batch in batches])
    output = model.eval()(**rows)
    for name, function in (("mlm_loss", token_loss), ("nsp_loss", nsp_loss)):
        assert got[name] == pytest.approx(float(function(output, rows).mean.detach()))
    assert set(got) == {"mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"}
    dropping = small_model(dropout=0.5)
    assert evaluate(dropping, batches) == evaluate(dropping.eval(), batches) and not dropping.training
    before = torch.get_rng_state()
    evaluate(model, loader(4))
    assert torch.equal(torch.get_rng_state(), before), "training goes on as if nothing was evaluated"


def test_a_model_is_trained_for_what_it_is_made_for():
    for reduction in ("token", "sequence", "pack"):
        assert default_objective(make_model("bert", reduction=reduction)).reduction == reduction
    batch = make_batch(packs=2)
    for model, name in ((make_model("causal"), "token_loss"), (BertForMaskedLM(bert_config()), "mlm_loss")):
        (record,) = fit(model, [batch], Recipe(2, 1e-3, 1, warmup_sequences=1), progress=False)
        loss = float(packed_output(model, batch).loss.detach())  # an update at the rate 0 has changed nothing
        assert record["loss"] == record[name] == pytest.approx(loss, abs=1e-5) and "nsp_loss" not in record
    assert MaskedObjective().counts(PackedBatch({**batch, "labels": None})) == {"mlm_loss": 0}


@pytest.mark.parametrize("mean", ["token", "sequence", "pack"])
@pytest.mark.parametrize("slots", [None, 40])
def test_what_is_counted_before_is_what_the_losses_count(mean, slots):
    batch = make_batch(packs=9, max_sequences_per_pack=slots)
    batch.labels[:, 0] = 7  # nothing predicts the first token in a causal model
    for kind, objective in (("bert", PretrainingObjective(mean)), ("causal", CausalObjective(mean))):
        sums = objective(make_model(kind), batch)
        counts = objective.counts(batch)
        assert counts == {name: int(sums[name].count) for name in counts} and set(counts) <= set(sums)


class Miscounting(PretrainingObjective):
    def counts(self, batch):
        return {**super().counts(batch), "nsp_loss": 3}


def test_bad_input_gets_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    ready = {"total": 60, "packing_factor": FACTOR}
    fit(small_model(), loader(4), recipe(4, 2, **ready), folder=tmp_path, progress=False)

    def run(micro_batch=4, data=None, objective=None, folder=tmp_path, even_updates=False, save_every=1, **changes):
        plan = recipe(micro_batch, 2, **ready | changes)
        options = {"even_updates": even_updates, "save_every": save_every, "folder": folder, "progress": False}
        fit(small_model(), loader(4) if data is None else data, plan, objective, **options)

    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for says, options in {
        "The loader makes batches of 4 packs; the recipe's micro batch is 5.": {"micro_batch": 5},
        "The recipe has 2 replicas, but 1 processes train.": {"replicas": 2},
        "save_every must be at least 1, not 0.": {"save_every": 0},
        "it says 1, and the loader's packs hold": {"even_updates": True, "packing_factor": 1.0},
        "it says 9, and the loader's packs hold": {"even_updates": True, "packing_factor": 9.0},
        "holds a run with betas [0.9, 0.999]; this one has [0.9, 0.98]: take another": {"betas": (0.9, 0.98)},
        "holds a run with even_updates False; this one has True: take another folder": {"even_updates": True},
        "state is of a loader with num_packs": {"data": loader(4, depth=2)},
        "counted 6 for nsp_loss before the forward pass and": {"objective": Miscounting(), "folder": None},
        "even_updates must be True or False, not 'no'": {"even_updates": "no"},
        "the loader needs state_dict and load_state_dict": {"data": [make_batch()]},
    }.items():
        with pytest.raises((TypeError, ValueError)) as raised:
            run(**options)
        assert says in str(raised.value) and str(raised.value).count("\n") == 0
    with files.work_folder(tmp_path), pytest.raises(BlockingIOError, match=f"^Another run is writing to {tmp_path}"):
        run()
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_frozen_part_is_left_alone():
    model = small_model()
    model.bert.embeddings.requires_grad_(False)
    before = weights(model)
    fit(model, loader(4), recipe(4, 2, 60), progress=False)
    after = weights(model)
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("bert.embeddings"), name
