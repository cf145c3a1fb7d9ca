"""The Trainers of transformers and TRL on packs, on one process and two: what they train and predict counts once.

The settings and functions are those of packlib/tools/rows/README.md; without them each of the comparisons fails.
"""

import os

import numpy as np
import pytest
import torch
from alone_cases import loss_alone
from processes import ranks_that_have
from test_readme import EXAMPLES
from tokenizers import Tokenizer, models
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from trl import SFTConfig, SFTTrainer

from packlib.distributed import run_ranks
from packlib.tools.rows import TransformersCollator, pack_dataset

SMALL = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
OFF = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module", autouse=True)
def ranks_have_trainers():
    models = [f"transformers.models.{name}.modeling_{name}" for name in ("bert", "llama")]
    with ranks_that_have("packlib.distributed.ranks", *models, "trl.trainer.sft_trainer", "datasets"):
        yield


def rows(kind, folder):
    """Seven packs; a masked model's labels are on a third of the tokens, or on a few."""
    rng, samples = np.random.default_rng(3), []
    for length in rng.integers(3, 28, 24):
        ids = rng.integers(5, 60, length)
        share = rng.random() if kind == "masked" else 0
        labels = {"labels": np.where(rng.random(length) < share, ids + 1, -100)} if kind == "masked" else {}
        samples.append({"input_ids": ids, **labels})
    return pack_dataset(samples, 32, cache_dir=folder / "cache", progress=False).select(range(7))


def a_model(kind):
    """A small model in double precision, always with the same weights."""
    torch.manual_seed(0)
    own = LlamaForCausalLM(LlamaConfig(**SMALL)) if kind == "causal" else BertForMaskedLM(BertConfig(**SMALL, **OFF))
    return own.double()


def find_ranks(rank, ranks):
    """Set the rank in the environment, as torchrun does, where accelerate looks for it."""
    if ranks > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def trainer_of(model, collator, folder, trl, options, changes):
    out, changes = str(folder / str(os.getpid())), {"report_to": [], "disable_tqdm": True, "use_cpu": True, **changes}
    if not trl:
        return Trainer(model, TrainingArguments(out, **changes), collator, **options)
    changes |= {"max_length": None, "bf16": False, "dataset_kwargs": {"skip_prepare_dataset": True}}
    nothing = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"e": 0})), eos_token="e", pad_token="e"
    )
    options = {"processing_class": nothing, "train_dataset": options.get("eval_dataset"), **options}
    return SFTTrainer(model, SFTConfig(out, **changes), collator, **options)


def train(kind, form, folder, trl=False, plain=False, count=7, **changes):
    """On each rank, or alone: by how much an epoch moves the weights, at the rate 1 and without momentum."""
    model, options, given = a_model(kind), {"train_dataset": rows(kind, folder).select(range(count))}, {"torch": torch}
    if kind == "masked" and not plain:
        exec(EXAMPLES["masked_loss"].partition("trainer =")[0], given)
        options["compute_loss_func"] = given["masked_loss"]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    changes |= {"num_train_epochs": 1, "learning_rate": 1.0, "optim": "sgd", "lr_scheduler_type": "constant",
                "max_grad_norm": 0.0, "save_strategy": "no"}  # fmt: skip
    trainer_of(model, TransformersCollator(model, form), folder, trl, options, changes).train()
    return {name: (p.detach() - before[name]).numpy() for name, p in model.named_parameters()}


def apart(ours, theirs):
    """The largest difference of two updates, relative to the largest change of any weight."""
    largest = max(np.abs(change).max() for change in theirs.values())
    return max(np.abs(ours[name] - theirs[name]).max() for name in theirs) / largest


@pytest.mark.parametrize("kind, form", [("causal", "padding_free"), ("masked", "dense")])
def test_accumulation_is_one_large_batch(tmp_path, kind, form):
    alone = train(kind, form, tmp_path, per_device_train_batch_size=4)
    in_parts = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}
    assert apart(train(kind, form, tmp_path, **in_parts), alone) < 1e-10
    if kind == "masked":
        assert apart(train(kind, form, tmp_path, plain=True, **in_parts), alone) > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, form, trl", [("masked", "dense", False), ("causal", "dense", False), ("causal", "padding_free", True)]
)
def test_two_ranks_make_the_updates_of_one_or_say_what_to_set(tmp_path, kind, form, trl):
    """Seven packs, four an update, then two: the last is left out on one rank and on two."""
    alone, _ = trained_both_ways(0, 1, kind, form, tmp_path, trl)
    for update, said in run_ranks(trained_both_ways, 2, 2, kind, form, tmp_path, trl, timeout=300):
        assert apart(update, alone) < (1e-6 if trl else 1e-10)  # TRL's loss is of 32 bits
        assert said.startswith("dataloader_drop_last (drop_last of a DataLoader) must be True for 7 rows on 2 ranks")


def trained_both_ways(rank, ranks, kind, form, folder, trl):
    """The update without the last pack, and on two ranks what is said where it would be repeated."""
    find_ranks(rank, ranks)
    each, said = {"per_device_train_batch_size": 2 // ranks, "gradient_accumulation_steps": 2}, ""
    if ranks > 1:
        with pytest.raises(ValueError) as raised:
            train(kind, form, folder, trl, **each)
        said = str(raised.value)
        train(kind, form, folder, trl, count=4, **each)  # which fill the batches
    return train(kind, form, folder, trl, dataloader_drop_last=True, **each), said


UNSHIFTED = {  # what the page says of a masked model, and what of its two functions changes
    "torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)": "labels",
    "found.predictions[:, :-1][found.label_ids[:, 1:] != -100]": "found.predictions[found.label_ids != -100]",
}


def evaluated(rank, ranks, kind, folder, trl):
    """What Trainer, or TRL's, says of all seven packs, what it predicts, and what it says of padding-free rows."""
    find_ranks(rank, ranks)
    model, packed, example = a_model(kind), rows(kind, folder), EXAMPLES["mean_loss"]
    for shifted, plain in UNSHIFTED.items() if kind == "masked" else ():
        assert example.count(shifted) == 1
        example = example.replace(shifted, plain)

    def trainer(model, arguments, collator, **options):
        return trainer_of(model, collator, folder, trl, options, {"per_device_eval_batch_size": 2})

    given = {"Trainer": trainer, "TransformersCollator": TransformersCollator, "torch": torch, "model": model}
    exec(example, given := given | {"packed": packed, "arguments": None})
    predicting = trainer(model, None, TransformersCollator(model, "dense"), eval_dataset=packed)
    predicted, said = predicting.predict(packed), ""
    if ranks > 1 and kind == "causal":
        with pytest.raises(ValueError) as raised:
            trainer(model, None, TransformersCollator(model, "padding_free"), eval_dataset=packed).predict(packed)
        said = str(raised.value)
    return given["metrics"], predicted.predictions, predicted.label_ids, said


@pytest.mark.slow
@pytest.mark.parametrize("kind, trl", [("causal", False), ("causal", True), ("masked", False)])
def test_an_evaluation_and_a_prediction_count_each_row_once(tmp_path, kind, trl):
    metrics, logits, labels, _ = evaluated(0, 1, kind, tmp_path, trl)
    packed, model = rows(kind, tmp_path), a_model(kind)
    each = [torch.tensor(row["input_ids"]).split(row["seq_lengths"]) for row in packed]
    own = [torch.tensor(row["labels"]).split(row["seq_lengths"]) for row in packed]
    with torch.no_grad():
        exact = loss_alone(model, [part.tolist() for parts in each for part in parts]) if kind == "causal" else (
            cross_entropy(torch.cat([model(ids[None]).logits[0] for parts in each for ids in parts]),
                          torch.cat([part for parts in own for part in parts]))
        )  # fmt: skip
    assert metrics["eval_token_loss"] == pytest.approx(float(exact), abs=1e-6)
    assert abs(metrics["eval_loss"] - float(exact)) > 1e-5, "a mean of means is not it"
    assert len(logits) == len(labels) == len(packed)
    for ours, theirs, _, said in run_ranks(evaluated, 2, 2, kind, tmp_path, trl, timeout=300):
        assert ours["eval_token_loss"] == pytest.approx(float(exact), abs=1e-6)
        assert np.abs(theirs - logits)[labels != -100].max() < 1e-10
        assert said.startswith('form must be "dense" to evaluate 7 rows on 2 ranks') or kind == "masked"
