"""Does my framework leak? What `check_packing` and `audit` find of trainers and collators as they are installed.

`python data/record.py leaks` writes data/benchmarks/leaks.csv. Each set-up is a small Llama with weights drawn by
chance, eight sequences of 4 to 14 tokens, and what the framework makes of them: its own collator, and its own loss or
step where it has one. Nothing is concluded from a framework's code; a row is what the check answered.
"""

import datetime
import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset, disable_progress_bars
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DataCollatorWithFlattening,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from trl import SFTConfig, SFTTrainer
from trl.data_utils import pack_dataset as trl_packs

from benchmarks.table import record
from packlib.tools.auditing import audit
from packlib.tools.check import PackingCheck, check_packing
from packlib.tools.rows import TransformersCollator, pack_dataset

WORDS, SLOTS = 60, 128  # of the vocabulary; of a row, which holds all eight sequences
LENGTHS = (5, 9, 7, 14, 4, 11, 6, 8)
AUDITED = (30, 9, 21, 14, 12, 18, 25, 8, 40)  # lengths for rows of 32: one sequence is longer than a row
COMMON = {"use_cpu": True, "report_to": [], "disable_tqdm": True, "logging_strategy": "no"}
Step = Callable[[torch.nn.Module, Sequence[Mapping[str, Any]]], None]


@dataclass
class SetUp:
    """What is checked: a model, what makes its batches, and the step of an update, if the framework has one."""

    model: torch.nn.Module
    collate: Callable[[list[dict]], Mapping[str, Any]]
    step: Step | None = None
    packed: Callable[[Dataset], Dataset] | None = None


def sequences(lengths: Sequence[int] = LENGTHS) -> list[dict]:
    draw = torch.Generator().manual_seed(1)
    return [{"input_ids": torch.randint(2, WORDS, (length,), generator=draw).tolist()} for length in lengths]


def llama(attention: str = "sdpa") -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        pad_token_id=0, bos_token_id=None, eos_token_id=1, use_cache=False,
    )  # fmt: skip
    config._attn_implementation = attention
    return LlamaForCausalLM(config)


def mamba() -> MambaForCausalLM:
    torch.manual_seed(0)
    config = MambaConfig(
        vocab_size=WORDS, hidden_size=16, state_size=4, num_hidden_layers=2, pad_token_id=0, eos_token_id=1
    )
    return MambaForCausalLM(config)


def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<eos>", *(f"w{number}" for number in range(WORDS - 2))]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def of_trainer(collate: Any, model: PreTrainedModel | None = None) -> SetUp:
    """Set up `transformers.Trainer` with a collator: its own count of tokens and its own training step."""
    arguments = TrainingArguments(tempfile.mkdtemp(), gradient_accumulation_steps=2, max_grad_norm=0.0, **COMMON)
    rows = Dataset.from_list(sequences())
    trainer = Trainer(model or llama(), arguments, data_collator=collate, train_dataset=rows)
    trainer.create_optimizer()

    def step(model: torch.nn.Module, batches: Sequence[Mapping[str, Any]]) -> None:
        trainer.current_gradient_accumulation_steps = len(batches)
        items = trainer._get_num_items_in_batch(batches, trainer.args.device)
        for batch in batches:
            trainer.training_step(model, dict(batch), num_items_in_batch=items)
        trainer.optimizer.step()
        model.zero_grad()

    return SetUp(trainer.model, collate, step)


def of_sft(model: PreTrainedModel | None = None, **options: Any) -> SetUp:
    """Set up TRL's `SFTTrainer`, whose configuration decides packing and collator; its loss has its count of tokens."""
    limit = {} if options.get("padding_free") else {"max_length": SLOTS}
    arguments = SFTConfig(tempfile.mkdtemp(), **{"max_length": None} | limit, **COMMON, **options)
    rows = Dataset.from_list(sequences())
    trainer = SFTTrainer(model or llama(), arguments, train_dataset=rows, processing_class=tokenizer())
    strategy = options.get("packing_strategy", "bfd")

    def collate(rows: list[dict]) -> Mapping[str, Any]:
        if not options.get("packing"):
            return trainer.data_collator([dict(row) for row in rows])
        packed = trl_packs(Dataset.from_list(rows).with_format("arrow"), SLOTS, strategy)
        return trainer.data_collator(list(packed.with_format(None)))

    optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.1)

    def step(model: torch.nn.Module, batches: Sequence[Mapping[str, Any]]) -> None:
        items = sum((batch["labels"][:, 1:] != -100).sum() for batch in batches)
        for batch in batches:
            trainer.compute_loss(model, batch, num_items_in_batch=items).backward()
        optimizer.step()
        optimizer.zero_grad()

    def packed(source: Dataset) -> Dataset:
        return trl_packs(source.with_format("arrow"), 32, strategy).with_format(None)

    return SetUp(trainer.model, collate, step, packed if options.get("packing") else None)


def of_accelerate(counted: bool) -> SetUp:
    """Return a loop with `Accelerator.accumulate`: each micro-batch takes a mean, or divides by the update's tokens."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer = accelerator.prepare(*_with_optimizer(llama()))

    def step(model: torch.nn.Module, batches: Sequence[Mapping[str, Any]]) -> None:
        accelerator.gradient_accumulation_steps = len(batches)
        items = sum((batch["labels"][:, 1:] != -100).sum() for batch in batches)
        for batch in batches:
            with accelerator.accumulate(model):
                if counted:
                    loss = model(**batch, num_items_in_batch=items).loss * len(batches)
                else:
                    loss = model(**batch).loss
                accelerator.backward(loss)
        optimizer.optimizer.step()
        optimizer.optimizer.zero_grad()

    return SetUp(model, DataCollatorWithFlattening(), step)


def _with_optimizer(model: torch.nn.Module) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def of_packlib() -> SetUp:
    """Set up packlib's own collator in `transformers.Trainer`."""
    model = llama()
    made = of_trainer(TransformersCollator(model), model)

    def collate(rows: list[dict]) -> Mapping[str, Any]:
        packed = pack_dataset(Dataset.from_list([{"input_ids": row["input_ids"]} for row in rows]), max_length=SLOTS)
        return TransformersCollator(model)(list(packed))

    def packed(source: Dataset) -> Dataset:
        return pack_dataset(source, max_length=32, overlong="split")

    return SetUp(made.model, collate, made.step, packed)


SET_UPS: dict[tuple[str, str], Callable[[], SetUp]] = {
    ("transformers", "Trainer, DataCollatorWithFlattening, sdpa"): lambda: of_trainer(DataCollatorWithFlattening()),
    ("transformers", "Trainer, DataCollatorWithFlattening, eager"): lambda: of_trainer(
        DataCollatorWithFlattening(), llama("eager")
    ),
    ("transformers", "Trainer, DataCollatorWithFlattening(return_position_ids=False), sdpa"): lambda: of_trainer(
        DataCollatorWithFlattening(return_position_ids=False)
    ),
    ("transformers", "Trainer, DataCollatorWithFlattening, Mamba"): lambda: of_trainer(
        DataCollatorWithFlattening(), mamba()
    ),
    ("trl", 'SFTTrainer, packing=True, "bfd", sdpa'): lambda: of_sft(packing=True),
    ("trl", 'SFTTrainer, packing=True, "bfd_split", sdpa'): lambda: of_sft(packing=True, packing_strategy="bfd_split"),
    ("trl", 'SFTTrainer, packing=True, "wrapped", sdpa'): lambda: of_sft(packing=True, packing_strategy="wrapped"),
    ("trl", "SFTTrainer, padding_free=True, sdpa"): lambda: of_sft(padding_free=True),
    ("accelerate", "Accelerator.accumulate, DataCollatorWithFlattening"): lambda: of_accelerate(counted=False),
    ("accelerate", "Accelerator.accumulate with num_items_in_batch, DataCollatorWithFlattening"): lambda: (
        of_accelerate(counted=True)
    ),
    ("packlib", "transformers.Trainer, TransformersCollator, sdpa"): of_packlib,
}


def named(found: PackingCheck, verdict: str) -> str:
    return "; ".join(one.question for one in found.findings if one.verdict == verdict)


def audited(packed: Callable[[Dataset], Dataset] | None) -> str:
    """Return what `audit` says became of nine sequences in rows of 32, of which one is longer than a row."""
    if packed is None:
        return ""
    source = Dataset.from_list(sequences(AUDITED))
    found = audit(packed(source), source=source, max_length=32)
    parted = "an unknown number" if found.source.sequences_not_whole is None else found.source.sequences_not_whole
    return f"{found.source.tokens_lost} of {sum(AUDITED)} tokens lost; {parted} of {len(AUDITED)} sequences not whole"


def checks() -> Iterator[dict]:
    """Yield a row for each set-up."""
    for (library, set_up), make in SET_UPS.items():
        row = {"library": library, "version": importlib.metadata.version(library), "set-up": set_up}
        made = make()
        found = check_packing(made.model, made.collate, sequences(), step=made.step)
        yield row | {
            "exact": {True: "yes", False: "no", None: "inconclusive"}[found.exact],
            "failed": named(found, "failed"),
            "inconclusive": named(found, "inconclusive"),
            "audit": audited(made.packed),
            "date": datetime.date.today().isoformat(),
        }


def main() -> None:
    torch.set_num_threads(1)
    disable_progress_bars()
    record("leaks.csv", checks(), "python data/record.py leaks", ("torch", "transformers", "trl", "accelerate"))
