"""The code that applies a plan and a recipe: the packs, and training on them in each of four trainers."""

from packlib.lengths import LengthHistogram
from packlib.training.recipe import Recipe

_PACKS = """\
from packlib import pack_dataset
from packlib.packing import PackingPlan

# dataset: rows with input_ids, in any order; labels are made for a causal model where there are none
# from the shell: packlib pack tokens.parquet --plan plan.json{overlong_option} --out packed.parquet
plan = PackingPlan.load("plan.json")
packed = pack_dataset(dataset, max_length={top}, plan=plan{overlong})
"""
_MODEL = """\
import torch
from transformers import AutoModelForCausalLM

# folder: of your model
attention = "{attention}" if torch.cuda.is_available() else "sdpa"
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention)
{recompute}"""
_LOOP = """\
from itertools import islice
import torch
from accelerate.utils import send_to_device
from torch.utils.data import DataLoader
from transformers import get_scheduler
from packlib.rows import TransformersCollator
{import_lamb}{alone}
device = "cuda" if torch.cuda.is_available() else "cpu"
model.to(device)
optimizer = {optimizer}(model.parameters(), lr={rate}, betas={betas}, weight_decay={decay})
schedule = get_scheduler("{schedule}", optimizer, {warmup}, {steps}{power})
loader = DataLoader(packed, {micro_batch}, shuffle=True, collate_fn=TransformersCollator(model))
batches = iter(loader)
for _ in range({steps}):
    update = list(islice(batches, {accumulation_alone}))
    if not update:  # the next pass over the data
        batches = iter(loader)
        update = list(islice(batches, {accumulation_alone}))
    targets = sum((batch["labels"] != -100).sum() for batch in update)
    for batch in update:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(**send_to_device(batch, device), num_items_in_batch=targets.to(device)).loss
        loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
"""
_ACCELERATE = """\
{start}from itertools import islice
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import get_scheduler
from packlib.rows import TransformersCollator
{import_lamb}
accelerator = Accelerator(mixed_precision="bf16" if torch.cuda.is_available() else "no")
optimizer = {optimizer}(model.parameters(), lr={rate}, betas={betas}, weight_decay={decay})
schedule = get_scheduler("{schedule}", optimizer, {warmup}, {steps}{power})
# whole batches, as many on each rank; the packs are shuffled anew in each pass, so none is always left out
loader = DataLoader(packed, {micro_batch}, shuffle=True, collate_fn=TransformersCollator(model), drop_last=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
batches = iter(loader)
for _ in range({steps}):
    update = list(islice(batches, {accumulation}))
    if not update:  # the next pass over the data
        batches = iter(loader)
        update = list(islice(batches, {accumulation}))
    targets = accelerator.reduce(sum((batch["labels"] != -100).sum() for batch in update))
    for batch in update:  # DDP divides by the ranks what the targets have divided already
        loss = model(**batch, num_items_in_batch=targets).loss * accelerator.num_processes
        accelerator.backward(loss)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
"""
_ARGUMENTS = """\
    per_device_train_batch_size={micro_batch}, gradient_accumulation_steps={accumulation}, max_steps={steps},
    warmup_steps={warmup}, learning_rate={rate}, adam_beta1={betas[0]}, adam_beta2={betas[1]},
    weight_decay={decay}, lr_scheduler_type="{schedule}"{trainer_power},{drop_last}
"""
_TRAINER = f"""\
{{start}}import torch
from transformers import Trainer, TrainingArguments
from packlib.rows import TransformersCollator
{{import_lamb}}
arguments = TrainingArguments(
    "out", bf16=torch.cuda.is_available(),
{_ARGUMENTS})
trainer = Trainer(model, arguments, TransformersCollator(model), packed{{lamb}})
trainer.train()
"""
_TRL = f"""\
{{start}}import torch
from trl import SFTConfig, SFTTrainer
from packlib.rows import TransformersCollator
{{import_lamb}}
arguments = SFTConfig(
    "out", bf16=torch.cuda.is_available(),
    max_length=None, packing=False,  # rows are packs already: it must neither cut nor pack them
{_ARGUMENTS})
collator = TransformersCollator(model, "padding_free")  # TRL counts its tokens right
trainer = SFTTrainer(model, arguments, collator, packed, processing_class=tokenizer{{lamb}})
trainer.train()
"""
_TEXTS = {
    "Packs": _PACKS,
    "Model": _MODEL,
    "PyTorch loop": _LOOP,
    "transformers.Trainer": _TRAINER,
    "TRL's SFTTrainer": _TRL,
    "accelerate": _ACCELERATE,
}


def code_for(
    histogram: LengthHistogram,
    recipe: Recipe,
    overlong: str | None = None,
    attention: str = "sdpa",
    recompute: bool = False,
    shared: bool = False,
) -> dict[str, str]:
    """Python for the "Packs", the "Model", and then for each trainer.

    It takes `dataset`, the `folder` of the model, and for TRL `tokenizer` as given.

    >>> from packlib.advice.applying import code_for
    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.training import Recipe
    >>> code_for(LengthHistogram([0, 3, 1]), Recipe(2, 1e-4, 40))["Packs"].splitlines()[-1]
    'packed = pack_dataset(dataset, max_length=2, plan=plan)'

    Args:
        histogram: the lengths that the plan packs.
        recipe: for packed rows.
        overlong: what becomes of longer sequences, where there are any.
        attention: the backend to take on a GPU.
        recompute: compute each layer twice, and keep its input only.
        shared: the devices share weights, gradients and moments. Then there is no "PyTorch loop", since one does not
            hold them.
    """
    lamb, power = recipe.optimizer == "lamb", recipe.decay == "polynomial"
    rate, decay = f"{recipe.learning_rate:.6g}", f"{recipe.weight_decay:g}"
    betas = tuple(float(f"{beta:.8g}") for beta in recipe.betas)
    own = f", optimizer_cls_and_kwargs=(Lamb, dict(lr={rate}, betas={betas}, weight_decay={decay}))"
    values = {
        "top": histogram.max_length,
        "overlong": f', overlong="{overlong}"' if overlong else "",
        "overlong_option": f" --overlong {overlong}" if overlong else "",
        "import_lamb": "from packlib.training import Lamb\n" if lamb else "",
        "optimizer": "Lamb" if lamb else "torch.optim.AdamW",
        "lamb": own if lamb else "",
        "rate": rate,
        "betas": betas,
        "decay": decay,
        "schedule": recipe.decay,
        "power": f', scheduler_specific_kwargs={{"power": {recipe.power:g}}}' if power else "",
        "trainer_power": f', lr_scheduler_kwargs={{"power": {recipe.power:g}}}' if power else "",
        "warmup": recipe.warmup_steps,
        "steps": recipe.total_steps,
        "micro_batch": recipe.micro_batch,
        "accumulation": recipe.gradient_accumulation_steps,
        "attention": attention,
        "recompute": "model.gradient_checkpointing_enable()\n" if recompute else "",
        "drop_last": " dataloader_drop_last=True,"
        if recipe.replicas > 1
        else "",  # else ranks repeat packs to fill up
        "start": _start(recipe.replicas, shared),
        "alone": f"\n# on one device, with the packs of all {recipe.replicas} in an update" * (recipe.replicas > 1),
        "accumulation_alone": recipe.gradient_accumulation_steps * recipe.replicas,
    }
    texts = {name: text for name, text in _TEXTS.items() if not (shared and name == "PyTorch loop")}
    return {name: text.format(**values).rstrip() for name, text in texts.items()}


def _start(replicas: int, shared: bool) -> str:
    """How to start a script on several devices of one machine, as a comment."""
    if replicas == 1:
        return ""
    fsdp = " --use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP" * shared
    return f"# on {replicas} ranks: accelerate launch --num_processes {replicas}{fsdp} train.py\n"
