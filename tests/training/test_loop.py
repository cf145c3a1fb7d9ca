"""The loop: the whole update is one mean, however it is dealt out; it resumes bit for bit and stops at NaN."""

import json

import pytest
import torch
from model_cases import make_batch, make_model
from training_cases import FACTOR, Broken, Interrupted, furthest, loader, recipe, small_model, stable, stop_at, weights

from packlib.batches import PackedBatch, pad
from packlib.model import nsp_loss, token_loss
from packlib.training import PretrainingObjective, Recipe, evaluate, fit, rate_at
from packlib.training.objective import MaskedObjective, default_objective
from packlib.training.updates import join_packs


def test_uneven_accumulation_is_one_big_batch():
    """Micro-batches of 2 packs, of different numbers of sequences: as one of 6 packs to 1e-10 in fp64."""
    results, objective = [], PretrainingObjective("sequence")
    for micro_batch, accumulation in ((6, 1), (2, 3)):
        model, data = small_model(), loader(micro_batch, which=slice(24))
        records = fit(model, data, recipe(micro_batch, accumulation), objective, progress=False)
        results.append((weights(model), records))
    (big, first), (small, second) = results
    assert len({r["update_sequences"] for r in first}) > 1
    assert furthest(big, small) < 1e-10 and furthest(big, weights(small_model())) > 0.01
    for a, b in zip(stable(first), stable(second), strict=True):
        assert b == pytest.approx(a, rel=1e-9)


def test_the_gradient_is_that_of_the_whole_update_and_not_the_mean_of_means():
    """Against autograd over one batch that holds all sequences, one a row."""
    batches = [make_batch(packs=n) for n in (1, 2, 6)]
    model = make_model("bert")
    for mean in ("token", "sequence"):
        one_rate = Recipe(1, 1e-3, 1, gradient_accumulation_steps=3, optimizer="adamw")
        steps = torch.optim.SGD(model.parameters(), lr=0.0)
        fit(model, batches, one_rate, PretrainingObjective(mean), optimizer=steps, progress=False)
        got = {name: p.grad.clone() for name, p in model.named_parameters()}
        rows = join_packs([pad(batch) for batch in batches])
        output = model(**rows)
        names, parameters = zip(*model.named_parameters(), strict=True)
        whole = torch.autograd.grad((token_loss(output, rows, mean).mean + nsp_loss(output, rows).mean), parameters)
        assert furthest(got, dict(zip(names, whole, strict=True))) < 1e-10
        of_means = sum(model(**batch).loss for batch in batches) / 3
        wrong = torch.autograd.grad(of_means, parameters)
        assert furthest(got, dict(zip(names, wrong, strict=True))) > 1e-3


def test_the_rate_of_the_record_is_the_rate_that_was_applied():
    """Plain gradient descent moves each weight by rate × gradient; the first update of a warm-up has rate 0."""
    model, rates = small_model(), []
    before = weights(model)

    def compare(record):
        for name, parameter in model.named_parameters():
            step = record["learning_rate"] * parameter.grad
            torch.testing.assert_close(before[name] - parameter, step, rtol=0, atol=1e-12)
        before.update(weights(model))
        rates.append(record["learning_rate"])

    plan = recipe(4, 2, optimizer="adamw")
    fit(model, loader(4), plan, optimizer=torch.optim.SGD(model.parameters(), lr=0.02), on_update=compare,
        progress=False)  # fmt: skip
    assert rates[0] == 0 and len(set(rates)) == len(rates) > 3


def test_the_run_ends_with_its_sequences_and_says_what_it_did(tmp_path):
    data, model = loader(4), small_model()
    records = fit(model, data, recipe(4, 2), folder=tmp_path, progress=False)
    assert [r["update"] for r in records] == list(range(1, len(records) + 1))
    total = 0
    for r in records:
        total += r["update_sequences"]
        assert r["sequences"] == total and r["loss"] == pytest.approx(r["mlm_loss"] + r["nsp_loss"])
        assert r["tokens_per_second"] > 0 and 0 <= r["mlm_accuracy"] <= 1 and r["gradient_norm"] > 0
        before = r["sequences"] - r["update_sequences"]
        assert r["learning_rate"] == pytest.approx(0.02 * rate_at(before, 300, 50), abs=1e-15)
    assert records[-2]["sequences"] < 300 <= records[-1]["sequences"]
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == records
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.pt", "metrics.jsonl"]
    assert model.training
    assert records[-1]["loss"] < records[0]["loss"]


def test_even_updates_hold_what_the_recipe_says():
    sizes = {}
    for even in (False, True):
        records = fit(small_model(), loader(2), recipe(2, 3, packing_factor=FACTOR), even_updates=even, progress=False)
        sizes[even] = [r["update_sequences"] for r in records]
    assert max(sizes[True]) - min(sizes[True]) < max(sizes[False]) - min(sizes[False])
    assert sum(sizes[True]) / len(sizes[True]) == pytest.approx(6 * FACTOR, abs=2)


def test_an_interrupted_run_ends_bit_for_bit_as_if_it_had_not_been(tmp_path):
    """With dropout, in mid-epoch, twice interrupted, and with a torn line of metrics."""
    plan = recipe(3, 2, 400, optimizer="adamw", packing_factor=FACTOR)
    settings = {"even_updates": True, "save_every": 4, "progress": False}
    straight = small_model(torch.float32, dropout=0.1)
    torch.manual_seed(7)
    expected = fit(straight, loader(3), plan, on_update=stop_at(0), **settings)
    assert len(expected) > 13

    for stops, update in ((True, 7), (True, 10), (False, 0)):
        model = small_model(torch.float32, dropout=0.1)
        if update != 7:
            model.load_state_dict({k: torch.zeros_like(v) for k, v in model.state_dict().items()})
        torch.manual_seed(7 if update == 7 else 99)
        if stops:
            with pytest.raises(Interrupted):
                fit(model, loader(3), plan, folder=tmp_path, on_update=stop_at(update), **settings)
            with open(tmp_path / "metrics.jsonl", "a") as file:
                file.write('{"update": 8, "lo')
        else:
            records = fit(model, loader(3), plan, folder=tmp_path, on_update=stop_at(update), **settings)
    assert stable(records) == stable(expected)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), straight.parameters(), strict=True))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == records

    again = small_model(torch.float32, dropout=0.1)
    assert fit(again, loader(3), plan, folder=tmp_path, **settings) == records, "a run that ended stays as it is"
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), straight.parameters(), strict=True))


def test_a_nan_loss_stops_with_the_step_the_batch_and_what_was_saved(tmp_path):
    model, seen = small_model(), []
    with pytest.raises(FloatingPointError) as raised:
        fit(
            model, loader(4), recipe(4, 2), Broken(10), folder=tmp_path, save_every=3, progress=False,
            on_update=lambda r: seen.append(weights(model)),
        )  # fmt: skip
    said = str(raised.value)
    assert "The loss of update 5 is nan in micro-batch 2 of 2 (samples " in said and said.count("\n") == 0
    assert said.endswith(
        f"the weights are those of update 4; the last checkpoint is {tmp_path / 'checkpoint.pt'}, of update 3."
    )
    data = loader(4)
    plain = [*data, *data]
    assert f"(samples {int(plain[9].sample_ids[0])}, " in said
    assert len(seen) == 4 and furthest(seen[-1], weights(model)) == 0
    healed = small_model()
    records = fit(healed, loader(4), recipe(4, 2), folder=tmp_path, save_every=3, progress=False)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == len(records) > 5


def test_a_nan_gradient_stops_before_it_spoils_the_weights():
    model = small_model()
    with pytest.raises(FloatingPointError, match=r"^The gradient norm of update 1 is nan, though its loss") as e:
        fit(model, loader(4), recipe(4, 2), Broken(1, gradient=True), progress=False)
    assert str(e.value).endswith("the weights are those of update 0; no checkpoint was saved.")
    assert furthest(weights(model), weights(small_model())) == 0


def test_the_bar_shows_useful_tokens(capsys):
    fit(small_model(), loader(8), recipe(8, 2, 100, warmup_sequences=0))
    said = capsys.readouterr().err
    assert "useful tokens/s" in said and "loss " in said and "sequences" in said


def test_evaluation_is_the_mean_over_all_batches():
    model, batches = make_model("bert"), [make_batch(packs=n) for n in (1, 4)]
    model.train()
    got = evaluate(model, batches)
    assert model.training
    with torch.no_grad():
        outputs = [model.eval()(**b) for b in batches]
    for name, function in (("mlm_loss", token_loss), ("nsp_loss", nsp_loss)):
        first, second = (function(o, b) for o, b in zip(outputs, batches, strict=True))
        assert got[name] == pytest.approx(float((first + second).mean))
    assert set(got) == {"mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"}
    dropping = small_model(dropout=0.5)
    assert evaluate(dropping, batches) == evaluate(dropping.eval(), batches) and not dropping.training
    before = torch.get_rng_state()
    evaluate(model, loader(4))
    assert torch.equal(torch.get_rng_state(), before), "training goes on as if nothing was evaluated"


def test_a_model_is_trained_and_evaluated_for_the_mean_of_its_own_loss():
    for reduction in ("token", "sequence", "pack"):
        model = make_model("bert")
        model.reduction = reduction
        assert default_objective(model).reduction == reduction
    unlabeled = PackedBatch({**make_batch(), "labels": None})
    assert MaskedObjective().counts(unlabeled) == {"mlm_loss": 0}


@pytest.mark.parametrize("mean", ["token", "sequence", "pack"])
@pytest.mark.parametrize("options", [{}, {"max_sequences_per_pack": 40}])
def test_what_is_counted_before_is_what_the_losses_count(mean, options):
    batch, model = make_batch(packs=9, **options), make_model("bert")
    objective = PretrainingObjective(mean)
    sums = objective(model, batch)
    assert objective.counts(batch) == {name: int(sums[name].count) for name in ("mlm_loss", "nsp_loss")}


class Miscounting(PretrainingObjective):
    def counts(self, batch):
        return {**super().counts(batch), "nsp_loss": 3}


def test_bad_input_gets_one_sentence(tmp_path):
    ran = tmp_path / "ran"
    ready = {"total": 60, "packing_factor": FACTOR}
    fit(small_model(), loader(4), recipe(4, 2, **ready), folder=ran, progress=False)

    def run(micro_batch=4, accumulation=2, data=None, objective=None, folder=ran, **changes):
        more = {k: changes.pop(k) for k in ("even_updates", "save_every") if k in changes}
        plan = recipe(micro_batch, accumulation, **{**ready, **changes})
        data = loader(4) if data is None else data
        fit(small_model(), data, plan, objective, folder=folder, progress=False, **more)

    saved = ran / "checkpoint.pt"
    before = saved.read_bytes(), (ran / "metrics.jsonl").read_bytes()
    for says, call in {
        "The loader makes batches of 4 packs; the recipe's micro batch is 5.": lambda: run(5),
        "The recipe has 2 replicas, but 1 processes train.": lambda: run(replicas=2),
        "save_every must be at least 1, not 0.": lambda: run(save_every=0),
        "it says 1, and the loader's packs hold": lambda: run(even_updates=True, packing_factor=1.0),
        "it says 9, and the loader's packs hold": lambda: run(even_updates=True, packing_factor=9.0),
        "state is of a loader with num_packs": lambda: run(data=loader(4, depth=2)),
        "The objective counted 6 for nsp_loss before the forward pass and": lambda: run(
            objective=Miscounting(), folder=None
        ),
    }.items():
        with pytest.raises(ValueError) as raised:
            call()
        assert says in str(raised.value) and str(raised.value).count("\n") == 0
    assert before == (saved.read_bytes(), (ran / "metrics.jsonl").read_bytes())
    with pytest.raises(TypeError, match="even_updates must be True or False, not 'no'"):
        run(even_updates="no")
    with pytest.raises(TypeError, match="the loader needs state_dict and load_state_dict"):
        run(data=[make_batch()])


def test_a_frozen_part_is_left_alone():
    model = small_model()
    model.bert.embeddings.requires_grad_(False)
    before = weights(model)
    fit(model, loader(4), recipe(4, 2, 60), progress=False)
    after = weights(model)
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("bert.embeddings"), name
