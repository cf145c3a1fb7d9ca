"""transformers' Trainer on packs: each sequence and labeled token once, an update as `fit` has it, on two ranks too."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from model_cases import store
from trainer_cases import (
    accuracies,
    arguments,
    collator,
    furthest,
    make_trainer,
    packed_data,
    run_trainer,
    small_model,
    weights,
)
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    Trainer,
)

from packlib.batches import IGNORED, pack_loader
from packlib.distributed import run_ranks
from packlib.model import Causal, Masked
from packlib.model.packed import next_tokens
from packlib.rows import PackTrainer
from packlib.training import CausalObjective, PretrainingObjective, Recipe, evaluate, fit

ROOT = Path(__file__).resolve().parents[2]


def everything(kind="bert", data=None):
    """All packs of the data in one batch."""
    data = packed_data(kind) if data is None else data
    return collator(kind)([data[i] for i in range(len(data))])


def by_sample(label_ids, values):
    """Of each labeled token: (sample, place) to what is given for it."""
    keys = zip(label_ids["token_samples"].tolist(), label_ids["token_places"].tolist(), strict=True)
    return dict(zip(keys, values, strict=True))


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_a_prediction_has_every_sequence_and_labeled_token_once(tmp_path, kind):
    trainer = make_trainer(tmp_path, kind, options={"compute_metrics": accuracies})
    data, model = trainer.eval_dataset, trainer.model
    assert len(data) % 3 and len(data) > 6  # the last batch is not full
    prediction = trainer.predict(data)
    predictions, labels = prediction.predictions, prediction.label_ids
    batch = everything(kind)
    with torch.no_grad():
        output = model.eval()(**batch)
    target = batch.labels if kind == "bert" else next_tokens(batch.labels, batch.segment_ids)
    assert len(predictions["token_logits"]) == int((target != IGNORED).sum())
    assert sorted(labels["sample_ids"].tolist()) == list(range(60))
    names = {"bert": {"token_logits", "nsp_logits"}, "causal": {"token_logits"}}
    assert set(predictions) == names[kind]  # no hidden states
    # in the order of the packs on one rank, so as from one batch
    assert np.abs(predictions["token_logits"] - output.token_logits.numpy()).max() < 1e-10
    assert labels["token_labels"].tolist() == output.token_labels.tolist()
    assert len(by_sample(labels, labels["token_labels"])) == len(labels["token_labels"])
    lengths = dict(zip(labels["sample_ids"].tolist(), labels["lengths"].tolist(), strict=True))
    assert lengths == dict(enumerate(data.dataset.lengths.tolist()))
    assert all(place < lengths[sample] for sample, place in by_sample(labels, labels["token_labels"]))
    # what it measures is the exact mean over all, not the mean of batches
    means = evaluate(model, [batch])
    for said in (trainer.evaluate(), {k.replace("test", "eval"): v for k, v in prediction.metrics.items()}):
        assert all(said[f"eval_{name}"] == pytest.approx(value, abs=1e-10) for name, value in means.items())
        assert said["eval_loss"] == pytest.approx(float(output.loss), abs=1e-10)
        assert (said["eval_tokens"], said["eval_sequences"]) == (len(labels["token_labels"]), 60)


def test_a_prediction_without_labels_or_with_static_shapes_or_hidden_states(tmp_path):
    data = packed_data()
    bare = PackTrainer(small_model(), arguments(tmp_path), keep=["nsp_logits", "hidden"])
    prediction = bare.predict(data)
    assert "token_labels" not in prediction.label_ids and len(prediction.predictions["nsp_logits"]) == 60
    assert prediction.predictions["hidden"].shape == (data.dataset.lengths.sum(), 16)
    assert prediction.metrics["test_loss"] == prediction.metrics["test_nsp_loss"]
    static = PackTrainer(
        small_model(max_predictions_per_pack=24),
        arguments(tmp_path),
        collator(max_sequences_per_pack=12, max_predictions_per_pack=24),
    ).predict(data)
    plain = make_trainer(tmp_path).predict(data)
    for name in plain.predictions:
        assert np.abs(plain.predictions[name] - static.predictions[name]).max() < 1e-10
    for name in plain.label_ids:
        assert plain.label_ids[name].tolist() == static.label_ids[name].tolist()
    first = {"preprocess_logits_for_metrics": lambda logits, labels: logits["token_logits"].argmax(-1)}
    best = make_trainer(tmp_path, options=first).predict(data).predictions
    assert best.tolist() == plain.predictions["token_logits"].argmax(-1).tolist()


def test_arguments_of_trainer_that_packs_keep(tmp_path):
    data = packed_data()
    plain = make_trainer(tmp_path, data=data, seed=5).get_train_dataloader().batch_sampler
    assert (plain.seed, plain.shuffle, plain.drop_last) == (5, True, False)
    changes = {"data_seed": 7, "train_sampling_strategy": "sequential", "dataloader_drop_last": True}
    others = make_trainer(tmp_path, data=data, seed=5, **changes).get_train_dataloader().batch_sampler
    assert (others.seed, others.shuffle, others.drop_last) == (7, False, True)
    only_loss = make_trainer(tmp_path, data=data, prediction_loss_only=True).predict(data)
    assert only_loss.predictions is None and only_loss.metrics["test_loss"] > 0


@pytest.mark.parametrize("kind, mean", [("bert", "token"), ("bert", "sequence"), ("causal", "token")])
def test_an_update_with_accumulation_is_the_update_of_fit(tmp_path, kind, mean):
    objective = (PretrainingObjective if kind == "bert" else CausalObjective)(mean)
    trainer = make_trainer(
        tmp_path, kind, options={"objective": objective}, gradient_accumulation_steps=3, max_steps=1,
        learning_rate=1.0,
    )  # fmt: skip
    before = weights(trainer.model)
    trainer.train()
    moved = {name: before[name] - after for name, after in weights(trainer.model).items()}
    model, loader = small_model(kind), trainer.get_train_dataloader()
    steps = torch.optim.SGD(model.parameters(), lr=0.0)
    one = Recipe(2, 1e-3, 1, gradient_accumulation_steps=3, optimizer="adamw")
    records = fit(model, loader, one, objective, optimizer=steps, progress=False)
    gradients = {name: p.grad for name, p in model.named_parameters()}
    assert furthest(moved, gradients) < 1e-10
    assert trainer.state.log_history[0]["loss"] == pytest.approx(records[0]["loss"], rel=1e-6)
    # and not the mean of its micro-batches
    loader.set_epoch(0)
    batches = [batch for _, batch in zip(range(3), loader, strict=False)]
    of_means = sum(objective(model, b)[name].mean for b in batches for name in objective.losses) / 3
    wrong = torch.autograd.grad(of_means, list(model.parameters()))
    assert furthest(gradients, dict(zip(gradients, wrong, strict=True))) > 1e-4


def test_training_goes_on_in_mid_epoch_as_if_nothing_had_been(tmp_path):
    changes = {"num_train_epochs": 3, "save_strategy": "steps", "save_steps": 7, "save_only_model": False}
    straight = make_trainer(tmp_path / "a", gradient_accumulation_steps=2, **changes)
    straight.train()
    assert straight.state.global_step == 15  # 9 batches an epoch: the checkpoint is in the second epoch
    resumed = make_trainer(tmp_path / "b", gradient_accumulation_steps=2, **changes)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-7"))
    assert furthest(weights(resumed.model), weights(straight.model)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [PackTrainer, Trainer])
def test_workers_that_live_on_draw_new_masks_each_epoch(tmp_path, trainer):
    changes = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    loader = make_trainer(tmp_path, trainer=trainer, **changes).get_train_dataloader()
    data, epochs = packed_data(), []
    for epoch in range(3):
        loader.set_epoch(epoch)
        labels = {}
        for batch in loader:
            rows = batch.labels[batch.segment_ids > 0].split(batch.lengths.tolist())
            labels |= dict(zip(batch.sample_ids.tolist(), (row.tolist() for row in rows), strict=True))
        data.set_epoch(epoch)
        alone = everything(data=data)
        rows = alone.labels[alone.segment_ids > 0].split(alone.lengths.tolist())
        assert labels == dict(zip(alone.sample_ids.tolist(), (row.tolist() for row in rows), strict=True))
        epochs.append(labels)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_two_ranks_are_one(tmp_path, kind):
    alone = run_trainer(0, kind, tmp_path, 6, 1)
    ranks = run_ranks(run_trainer, 2, kind, tmp_path, 3, 2, timeout=300)
    for step, together in enumerate(alone["seen"]):  # each pack once, in the same steps
        assert sorted(together) == sorted(ranks[0]["seen"][step] + ranks[1]["seen"][step])
    assert sorted(sample for step in alone["seen"] for sample in step) == list(range(60))
    for rank in ranks:
        assert len(rank["seen"]) == len(alone["seen"])
        assert max(np.abs(rank["weights"][n] - w).max() for n, w in alone["weights"].items()) < 1e-10
        assert rank["losses"] == pytest.approx(alone["losses"], rel=1e-6)
        same = {k: v for k, v in alone["evaluate"].items() if "second" not in k and "runtime" not in k}
        assert all(rank["evaluate"][name] == pytest.approx(value, abs=1e-9) for name, value in same.items())
        labels, theirs = rank["label_ids"], alone["label_ids"]
        assert sorted(labels["sample_ids"].tolist()) == list(range(60))
        assert len(labels["token_labels"]) == len(theirs["token_labels"])
        ours = by_sample(labels, rank["predictions"]["token_logits"])
        for token, logits in by_sample(theirs, alone["predictions"]["token_logits"]).items():
            assert np.abs(ours[token] - logits).max() < 1e-9
        assert "use packlib.rows.PackTrainer" in rank["plain"]
    assert "use packlib.rows.PackTrainer" in alone["plain"]


def test_a_plain_trainer_is_refused_where_it_would_be_wrong(tmp_path):
    for kind in ("bert", "causal"):
        plain = make_trainer(tmp_path, kind, trainer=Trainer)
        for call in (plain.evaluate, partial(plain.predict, plain.eval_dataset)):
            with pytest.raises(TypeError, match=r"a row of packs holds several .* use packlib.rows.Pack"):
                call()
        with pytest.raises(ValueError, match=r"several micro-batches .* wrongly.*: use packlib.rows.Pack"):
            make_trainer(tmp_path, kind, trainer=Trainer, gradient_accumulation_steps=2).train()


def test_an_encoder_without_a_head_for_pairs_is_trained_for_its_masked_tokens(tmp_path):
    config = RobertaConfig(
        vocab_size=4000, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    torch.manual_seed(1)
    model = type("PackedRoberta", (Masked, RobertaForMaskedLM), {})(config).double()
    said = make_trainer(tmp_path, model=model).evaluate()
    with torch.no_grad():
        output = model.eval()(**everything())
    assert said["eval_loss"] == pytest.approx(float(output.loss), abs=1e-10) and "eval_nsp_loss" not in said
    data = packed_data()
    records = fit(model, pack_loader(data.dataset, data.packs, collator(), 4), Recipe(4, 0.1, 120), progress=False)
    assert records[-1]["sequences"] >= 120 and records[-1]["loss"] == records[-1]["mlm_loss"]


def test_the_balancing_loss_of_experts_is_not_lost_in_training():
    config = MixtralConfig(
        vocab_size=4000, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=16, output_router_logits=True,
    )  # fmt: skip
    model = type("PackedMixtral", (Causal, MixtralForCausalLM), {})(config)
    assert model(**everything("causal")).aux_loss > 0
    with pytest.raises(ValueError, match="cannot train the balancing loss of experts: set output_router_logits"):
        evaluate(model, [everything("causal")])


def test_the_example_of_the_page_trains(tmp_path, monkeypatch):
    page = (ROOT / "packlib/USING.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n([^`]*PackTrainer[^`]*)```", page)
    ids = [store()[i]["input_ids"].tolist() for i in range(0, 120, 6)]
    rows = {
        "input_ids": ids,
        "labels": [[-100, *row[1:]] for row in ids],
        "attention_mask": [[1] * len(r) for r in ids],
    }
    config = LlamaConfig(
        vocab_size=4000, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    monkeypatch.setattr(LlamaForCausalLM, "from_pretrained", classmethod(lambda cls, name: cls(config)))
    names = {"dataset": Dataset.from_dict(rows), "arguments": arguments(tmp_path), "name": "a model"}
    exec(compile(example, "USING.md", "exec"), names)
    assert names["trainer"].state.global_step > 0


def test_arguments_that_do_not_suit_packs_are_refused(tmp_path):
    data = packed_data()
    for match, changes in {
        "label_smoothing_factor must be 0.0 for packs, not 0.1": {"label_smoothing_factor": 0.1},
        "eval_do_concat_batches must be True for packs": {"eval_do_concat_batches": False},
        "train_sampling_strategy must be 'random' or 'sequential'": {"train_sampling_strategy": "group_by_length"},
        "compute_loss_func must be None": {"options": {"compute_loss_func": print}},
        "keep must be .*, not 'logits'": {"options": {"keep": ["logits"]}},
    }.items():
        with pytest.raises(ValueError, match=match):
            make_trainer(tmp_path, data=data, **changes)
    with pytest.raises(TypeError, match="data_collator must be a PackingCollator"):
        PackTrainer(small_model(), arguments(tmp_path), list)
    with pytest.raises(TypeError, match="objective must be a MaskedObjective or of its kind, not 'mlm'"):
        PackTrainer(small_model(), arguments(tmp_path), objective="mlm")
    with pytest.raises(TypeError, match="on a PackDataset, not on None"):
        PackTrainer(small_model(), arguments(tmp_path)).train()
