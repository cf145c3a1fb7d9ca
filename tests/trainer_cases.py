"""For the tests of PackTrainer: a small model, 60 samples in packs, and arguments that leave nothing to chance."""

import os

import torch
from model_cases import MAX_LENGTH, bert_config, gpt_config, masking, store
from transformers import Trainer, TrainingArguments

from packlib.batches import PackDataset, PackingCollator, TokenStore, pack_lengths
from packlib.model import PackedBert, PackedCausal
from packlib.rows import PackTrainer

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def small_model(kind="bert", **options):
    """In double precision, without dropout."""
    torch.manual_seed(1)
    if kind == "causal":
        return PackedCausal(gpt_config(n_embd=16, n_layer=1, n_head=2)).double()
    return PackedBert(bert_config(**SMALL), **options).double()


def instructions() -> TokenStore:
    """The samples, each with its first third as a prompt, which no loss counts."""
    samples = []
    for i in range(0, 360, 6):
        sample = store()[i]
        ids = sample["input_ids"].astype(int)
        labels = ids.copy()
        labels[: len(ids) // 3] = -100
        samples.append({"input_ids": ids, "labels": labels, "label": sample["label"]})
    return TokenStore.from_samples(samples)


def packed_data(kind="bert", count=None) -> PackDataset:
    """60 samples in 16 or 17 packs; or the samples of the first `count` packs of them."""
    samples = instructions() if kind == "causal" else store().take(range(0, 360, 6))
    samples = TokenStore(
        samples.input_ids, samples.token_type_ids, samples.offsets, samples.sequence_labels, samples.labels
    )
    packs = pack_lengths(samples.lengths, MAX_LENGTH)
    if count is not None:
        samples = samples.take(packs.sample_ids[: packs.offsets[count]])
        return PackDataset(samples, type(packs)(
            range(packs.offsets[count]), packs.offsets[: count + 1], samples.lengths, MAX_LENGTH
        ))  # fmt: skip
    return PackDataset(samples, packs)


def collator(kind="bert", **options) -> PackingCollator:
    return PackingCollator(MAX_LENGTH, masking() if kind == "bert" else None, **options)


def arguments(folder, **changes) -> TrainingArguments:
    return TrainingArguments(**{
        "output_dir": str(folder), "per_device_train_batch_size": 2, "per_device_eval_batch_size": 3,
        "num_train_epochs": 1, "learning_rate": 0.1, "lr_scheduler_type": "constant", "max_grad_norm": 0.0,
        "optim": "sgd", "logging_steps": 1, "save_strategy": "no", "disable_tqdm": True, "report_to": [],
        "use_cpu": True, **changes,
    })  # fmt: skip


def make_trainer(folder, kind="bert", data=None, model=None, trainer=PackTrainer, options=None, **changes):
    data = packed_data(kind) if data is None else data
    model = small_model(kind) if model is None else model
    return trainer(model, arguments(folder, **changes), collator(kind), data, data, **(options or {}))


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def furthest(a, b):
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def accuracies(prediction) -> dict[str, float]:
    """A `compute_metrics` that counts: sequences, labeled tokens, and the right ones of each."""
    logits, labels = prediction.predictions, prediction.label_ids
    right = logits["token_logits"].argmax(-1) == labels["token_labels"]
    found = {"tokens": len(right), "tokens_right": int(right.sum()), "sequences": len(labels["sample_ids"])}
    if "nsp_logits" in logits:
        found["pairs_right"] = int((logits["nsp_logits"].argmax(-1) == labels["sequence_labels"]).sum())
    return found


def run_trainer(rank, kind, folder, train_batch, ranks):
    """On each rank, or alone: what was trained on, the weights, the losses, what it measures and predicts."""
    if ranks > 1:  # what torchrun says, where accelerate looks for it
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    changes = {"per_device_train_batch_size": train_batch, "gradient_accumulation_steps": 2}
    trainer = make_trainer(folder, kind, options={"compute_metrics": accuracies}, **changes)
    seen = [batch.sample_ids.tolist() for batch in trainer.get_train_dataloader()]
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    prediction = trainer.predict(trainer.eval_dataset)
    found = {"seen": seen, "losses": losses, "evaluate": trainer.evaluate()}
    found |= {"predictions": prediction.predictions, "label_ids": prediction.label_ids}
    try:
        make_trainer(folder, kind, trainer=Trainer, **changes).train()
    except ValueError as error:
        found["plain"] = str(error)
    return found | {"weights": {name: p.numpy() for name, p in weights(trainer.model).items()}}
