"""`check_packing` on trainers of TRL as they are: what each collates, loses and does in an update."""

import functools

import check_kinds as kinds
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import (
    DataCollatorWithFlattening,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from packlib.tools.check import check_packing

COMMON = {"use_cpu": True, "report_to": [], "disable_tqdm": True, "logging_strategy": "no"}
PADDED = {"isolation from earlier sequences", "isolation from later sequences"}  # what a batch of padding cannot tell


@pytest.fixture(scope="module")
def tokenizer():
    words = ["<pad>", "<eos>", *(f"w{number}" for number in range(58))]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def tiny(seed=0):
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=60, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        pad_token_id=0, bos_token_id=None, eos_token_id=1, use_cache=False))  # fmt: skip


def text(number, words):
    draw = torch.Generator().manual_seed(number)
    return " ".join(f"w{word}" for word in torch.randint(58, (words,), generator=draw))


def sequences():
    draw = torch.Generator().manual_seed(1)
    lengths = (5, 9, 7, 14, 4, 11, 6, 8)
    return [{"input_ids": torch.randint(2, 60, (length,), generator=draw).tolist()} for length in lengths]


class AsTrained(nn.Module):
    """A model, its loss as the trainer computes it, and its hidden states then: a fused loss makes no logits."""

    def __init__(self, trainer):
        super().__init__()
        self.model, self.trainer = trainer.model, trainer

    def forward(self, **batch):
        states = []
        handle = self.model.model.register_forward_hook(
            lambda part, given, made: states.append(made.last_hidden_state)
        )
        loss = self.trainer.compute_loss(self.model, batch)
        handle.remove()
        return {"hidden_states": states[0], "loss": loss}


def update(model, losses):
    for loss in losses:
        loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def verdicts(found):
    return {verdict: {one.question for one in found.findings if one.verdict == verdict}
            for verdict in ("failed", "inconclusive")}  # fmt: skip


def test_the_sft_trainer_is_exact_with_its_own_packing(tokenizer, tmp_path):
    arguments = SFTConfig(tmp_path, packing=True, max_length=128, **COMMON)
    trainer = SFTTrainer(tiny(), arguments, train_dataset=Dataset.from_list(sequences()), processing_class=tokenizer)

    def collate(rows):
        ids = [token for row in rows for token in row["input_ids"]]
        return trainer.data_collator([{"input_ids": ids, "seq_lengths": [len(row["input_ids"]) for row in rows]}])

    def step(model, batches):
        count = sum((batch["labels"][:, 1:] != -100).sum() for batch in batches)
        update(model, (trainer.compute_loss(model, batch, num_items_in_batch=count) for batch in batches))

    assert check_packing(trainer.model, collate, sequences(), step=step).exact


def of_sft(tokenizer, folder, model=None, **options):
    """An SFTTrainer, the collator of its padding-free batches, and its update, whose count may be forgotten."""
    arguments = SFTConfig(folder, padding_free=True, max_length=None, **COMMON, **options)
    trainer = SFTTrainer(model or tiny(), arguments, train_dataset=Dataset.from_list(sequences()),
                         processing_class=tokenizer)  # fmt: skip
    optimizer = torch.optim.SGD([p for p in trainer.model.parameters() if p.requires_grad], lr=0.1)

    def step(model, batches, counted=True):
        items = sum((batch["labels"][:, 1:] != -100).sum() for batch in batches) if counted else None
        for batch in batches:
            loss = trainer.compute_loss(model, batch, num_items_in_batch=items)
            (loss if counted else loss / len(batches)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return trainer, lambda rows: trainer.data_collator([dict(row) for row in rows]), step


def test_the_sft_trainer_is_exact_without_padding_and_not_if_the_count_is_forgotten(tokenizer, tmp_path):
    trainer, collate, step = of_sft(tokenizer, tmp_path)
    found = check_packing(trainer.model, collate, sequences(), step=step)
    assert found.exact is True and found["next update"].verdict == "passed"
    found = check_packing(trainer.model, collate, sequences(), step=functools.partial(step, counted=False))
    assert found.exact is False and "a mean of means" in found["accumulation"].cause


def adapted(model):
    """The model with LoRA's matrices in some layers, which alone learn."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.v_proj = kinds.LoRA(layer.self_attn.v_proj)
    return model


def test_lora_in_the_sft_trainer_is_exact_and_a_lost_matrix_is_named(tokenizer, tmp_path):
    trainer, collate, step = of_sft(tokenizer, tmp_path, adapted(tiny()))
    assert check_packing(trainer.model, collate, sequences(), step=step).exact is True

    def losing(model, batches):
        handles = [part.down.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
                   for part in model.modules() if isinstance(part, kinds.LoRA)]  # fmt: skip
        step(model, batches)
        for handle in handles:
            handle.remove()

    found = check_packing(trainer.model, collate, sequences(), step=losing)
    assert found.exact is False and "gradients are lost: 2 of 4 parameters" in found["accumulation"].cause


@pytest.mark.parametrize("bound", [0.0, 1e-3])
def test_transformers_trainer_is_exact_with_accumulation_clipped_or_not(tmp_path, bound):
    arguments = TrainingArguments(tmp_path, gradient_accumulation_steps=2, max_grad_norm=bound, **COMMON)
    collate = DataCollatorWithFlattening()
    trainer = Trainer(tiny(), arguments, data_collator=collate, train_dataset=Dataset.from_list(sequences()))
    trainer.create_optimizer()

    def step(model, batches, counted=True):
        trainer.current_gradient_accumulation_steps = len(batches)
        items = trainer._get_num_items_in_batch(batches, trainer.args.device) if counted else None
        for batch in batches:
            trainer.training_step(model, dict(batch), num_items_in_batch=items)
        if bound:
            torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
        trainer.optimizer.step()
        model.zero_grad()

    assert check_packing(trainer.model, collate, sequences(), step=step).exact is True
    found = check_packing(trainer.model, collate, sequences(), step=functools.partial(step, counted=False))
    assert found.exact is False and "a mean of means" in found["accumulation"].cause


@pytest.fixture
def preferences(tokenizer, tmp_path):
    rows = [{"prompt": text(at, 3 + at) + " ", "chosen": text(10 + at, 4 + 2 * at), "rejected": text(20 + at, 9 - at)}
            for at in range(6)]  # fmt: skip
    arguments = DPOConfig(tmp_path, beta=5.0, **COMMON)  # else what one answer does to the other's weight is below 1 %
    return DPOTrainer(
        tiny(), tiny(1), args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
    )


def pairs(trainer):
    """Both answers of each row of a preference data set, and the row."""
    return [
        {"input_ids": row["prompt_ids"] + row[name], "pair": at, "row": row,
         "completion_mask": [0] * len(row["prompt_ids"]) + [1] * len(row[name])}
        for at, row in enumerate(trainer.train_dataset) for name in ("chosen_ids", "rejected_ids")
    ]  # fmt: skip


def of_pairs(trainer, rows):
    return trainer.data_collator(list({row["pair"]: row["row"] for row in rows}.values()))


# How many times an update of DPO is divided by its micro-batches, and words of the cause
DIVIDED = {1: "", 2: "0.5 times what it should be", 0: "a sum of means"}


def of_dpo(trainer, times=1, most=None):
    """What a check finds of an update of DPO.

    Args:
        most: how many of its micro-batches it takes, if not all.
    """

    def step(model, batches):
        trainer.current_gradient_accumulation_steps = len(batches) ** times
        for batch in batches[:most]:
            trainer.training_step(trainer.model, batch)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        model.zero_grad()

    collate = functools.partial(of_pairs, trainer)
    return check_packing(AsTrained(trainer), collate, pairs(trainer), group="pair", step=step)


@pytest.mark.parametrize("times", DIVIDED)
def test_the_dpo_trainer_is_right_in_batches_of_a_fixed_size_if_its_update_is_divided_once(times, preferences):
    found, words = of_dpo(preferences, times), DIVIDED[times]
    assert verdicts(found) == {"failed": {"accumulation"} if words else set(), "inconclusive": set()}, str(found)
    assert found.exact is (not words) and words in found["accumulation"].cause
    assert PADDED <= found.not_asked.keys()
    if times == 1:
        assert "In the step they weigh 0.5 and 0.5; right is 0.5 and 0.5." in found["accumulation"].evidence
        assert "whether your loader makes one is not known" in found.not_asked["smaller micro-batches"]


def test_a_dpo_trainer_that_loses_the_last_micro_batch_fails(preferences):
    found = of_dpo(preferences, most=-1)
    assert found.exact is False and "left out" in found["accumulation"].cause


def test_a_dpo_trainer_whose_pairs_are_torn_apart_fails(preferences):
    def collate(rows):
        batch, at = of_pairs(preferences, rows), torch.arange(2 * len({row["pair"] for row in rows}))
        half = len(at) // 2
        return {name: x[torch.cat([at[:half], at[half:].roll(1)])] for name, x in batch.items()}

    found = check_packing(AsTrained(preferences), collate, pairs(preferences), group="pair")
    assert found["mean"].verdict == "failed" and "company" in found["mean"].cause


# Of each loss of GRPO, what a check finds of the mean, and of two micro-batches
LOSSES = {
    "dapo": ("a mean over tokens", "passed"),
    "grpo": ("a mean over sequences", "passed"),  # in micro-batches of one size
    "dr_grpo": ("a mean over sequences", "passed"),
    "bnpo": ("a mean over tokens", "failed"),  # each micro-batch is divided by its own tokens
}


@pytest.mark.parametrize(("kind", "times"), [*((kind, 1) for kind in LOSSES), ("grpo", 0), ("grpo", 2), ("dapo", 2)])
def test_the_grpo_trainer(kind, times, tokenizer, tmp_path):
    rows = [{"prompt": text(at, 3 + at)} for at in range(2)]
    arguments = GRPOConfig(tmp_path, loss_type=kind, per_device_train_batch_size=8, num_generations=4,
                           max_completion_length=8, **COMMON)  # fmt: skip
    rewards = [float(at % 4) for at in range(8)]
    trainer = GRPOTrainer(tiny(), lambda completions, **_: rewards, args=arguments,
                          train_dataset=Dataset.from_list(rows), processing_class=tokenizer)  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    torch.manual_seed(0)
    made = trainer._generate_and_score_completions([rows[at // 4] for at in range(8)])
    made["completion_mask"] *= torch.arange(8) < torch.arange(1, 9)[:, None]  # answers of all lengths
    made["completion_ids"] *= made["completion_mask"]
    both = {"input_ids": ["prompt_ids", "completion_ids"], "attention_mask": ["prompt_mask", "completion_mask"]}
    made |= {name: torch.cat([made[part] for part in parts], 1) for name, parts in both.items()}
    answers = []
    for at in range(8):
        used, prompt = made["attention_mask"][at].bool(), int(made["prompt_mask"][at].sum())
        ids = made["input_ids"][at][used].tolist()
        answers.append({"input_ids": ids, "at": at, "completion_mask": [0] * prompt + [1] * (len(ids) - prompt)})

    def collate(answers):
        own = [answer["at"] for answer in answers]
        batch = {name: x[own] for name, x in made.items() if name != "num_items_in_batch"}
        return batch | {"num_items_in_batch": batch["completion_mask"].sum()}

    def step(model, batches):
        model.train()  # in which it divides by the micro-batches
        count = sum(batch["completion_mask"].sum() for batch in batches)
        trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = len(batches)
        scale = len(batches) ** (1 - times)  # a fault where it is not 1
        update(model, [scale * model(**batch | {"num_items_in_batch": count})["loss"] for batch in batches])
        trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = 1

    mean, accumulation = LOSSES[kind]
    found = check_packing(AsTrained(trainer), collate, answers, step=step)
    assert mean in found["mean"].evidence, found
    assert verdicts(found)["failed"] <= {"accumulation"} and not verdicts(found)["inconclusive"], str(found)
    assert found["accumulation"].verdict == (accumulation if times == 1 else "failed"), found
    if times != 1:
        words = {0: "a sum of means", 2: "0.5 times what it should be"}[times]
        assert words in found["accumulation"].cause
    assert ("smaller micro-batches" in found.not_asked) == (kind in ("grpo", "dr_grpo") and times == 1)
