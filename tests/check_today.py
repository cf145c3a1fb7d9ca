"""For the tests of `check_packing`: losses and updates of today's training, right ones and those with a fault.

The faults are those of threads: huggingface/trl 5619, verl-project/verl 3741 and 906, unslothai/unsloth-zoo 348; and
others that a trainer may have.
"""

from functools import partial

import numpy as np
import torch
from check_cases import SEGMENTS, Tiny, dense, make, packed_rows, sequences, spoiled
from torch.nn import functional as F
from transformers import DataCollatorWithFlattening

SLOTS = 40
IN_PACKS = dense(slots=SLOTS, **SEGMENTS)


def rollouts(count=6):
    """Answers with a prompt, an advantage of either sign, log-probabilities of the policy before, and their group."""
    draw = np.random.default_rng(5)
    return [
        {**row, "advantage": float(draw.normal()) or 1.0, "group": number // 4,
         "before": (draw.normal(-4.8, 0.4, len(row["input_ids"]))).tolist()}
        for number, row in enumerate(sequences(count))
    ]  # fmt: skip


def packs(rows):
    """Packs as `dense` makes them, with the columns of the rollouts by slot."""
    batch = IN_PACKS(rows)
    for name in ("advantage", "group", "before"):
        values = torch.zeros(batch["input_ids"].shape)
        for number, pack in enumerate(packed_rows(rows, SLOTS)):
            for order, row in enumerate(pack, start=1):
                values[number, batch["segment_ids"][number] == order] = torch.tensor(row[name])
        batch[name] = values
    return batch


class Rewarded(Tiny):
    """A policy gradient, of which `mode` is how it is added up, and `fault` what is wrong.

    Args:
        form: "plain", "clipped" (the ratio to the policy before), "tempered" (scores over 0.7), or "distilled" (the
            divergence from a teacher).
    """

    def __init__(self, mode="token", form="plain", fault=None):
        super().__init__("attention", fault=fault)
        self.mode, self.form = mode, form
        self.teacher = torch.randn(120, 120, generator=torch.Generator().manual_seed(9))

    def forward(self, input_ids, advantage, group, before, **more):
        self.about = input_ids, advantage, group, before
        return super().forward(input_ids, **more)

    def _loss(self, logits, labels, segments, items):
        ids, advantage, group, before = self.about
        if self.fault == "shifts in the row":
            labels = torch.where(segments > 0, ids, -100)
        keep = F.pad(labels[:, 1:], (0, 1), value=-100) != -100
        target = F.pad(labels[:, 1:], (0, 1)).clamp(min=0)
        scores = logits / 0.7 if self.form == "tempered" else logits
        chance = scores.log_softmax(-1)
        logp = chance.gather(-1, target[..., None])[..., 0]
        numbers = (segments + 100 * torch.arange(len(ids))[:, None]).flatten()
        each = -logp * advantage
        if self.form == "clipped":
            ratio = (logp - F.pad(before[:, 1:], (0, 1))).exp()
            each = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        if self.form == "distilled":
            each = F.kl_div(chance, self.teacher[ids].log_softmax(-1), log_target=True, reduction="none").sum(-1)
        return self._added_up(each * keep, keep, numbers, group, items)

    def _added_up(self, each, keep, numbers, group, items):
        def by(index):
            sums = torch.zeros(int(index.max()) + 1).index_add(0, index, each.flatten())
            counts = torch.zeros(int(index.max()) + 1).index_add(0, index, keep.flatten().float())
            return sums[counts > 0], counts[counts > 0]

        sums, counts = by(numbers)
        if self.fault == "over the longest":
            return each.sum() / counts.max()
        if self.mode == "sequence":
            return (sums / counts).mean()
        if self.mode == "constant":
            return each.sum() / 64
        if self.mode == "group":
            sums, counts = by(group.flatten().long())
            return (sums / counts).mean()
        return each.sum() / (counts.sum() if items is None else items)


def update(model, batches, how="right", clip=None, most=None, scale=1.0):
    """An update as trainers of today do it, with its own optimizer; `how` is what is wrong, or how it is right."""
    steps = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = [int((batch["labels"] != -100).sum()) for batch in batches]  # none before the first token of a sequence
    held = [int(batch.get("segment_ids", batch["input_ids"][:1]).amax(1).sum()) for batch in batches]
    for number, batch in enumerate(batches):
        if how == "cleared":
            steps.zero_grad()
        if how == "left out" and number == 1:
            continue
        output, count = model(**batch), labels[number]
        weight = {
            "mean of means": 1 / len(batches), "sum of means": 1.0, "by sequences": held[number] / sum(held),
            "count too small": count / (sum(labels) - 6),
        }.get(how, count / sum(labels))  # fmt: skip
        loss = output["loss"] if isinstance(output, dict) else output.loss
        (loss * weight * scale).backward()
        if how == "each updates":
            steps.step()
            steps.zero_grad()
        if how == "clipped each":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    for p in model.parameters():
        if p.grad is not None and (how == "halved" or scale != 1):
            p.grad /= 2 if how == "halved" else scale
    if clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    if most:
        torch.nn.utils.clip_grad_value_(model.parameters(), most)
    if how == "cleared at the end":
        steps.zero_grad(set_to_none=False)
    if how != "each updates":
        steps.step()


def stepped(how="right", **options):
    """A model whose loss is a mean over tokens, and an update."""
    return Tiny("attention"), IN_PACKS, sequences(), {"step": partial(update, how=how, **options)}


def rewarded(mode="token", form="plain", fault=None, **options):
    return Rewarded(mode, form, fault), packs, rollouts(), options


def in_packs(model, collate=IN_PACKS, prompts=True, **options):
    return model, collate, sequences(prompts=prompts), options


def flattened(model, **options):
    return in_packs(model, DataCollatorWithFlattening(), **options)


class TwoAhead(Tiny):
    """A second head predicts the token after the next one, of its own sequence or, with a fault, of any."""

    def __init__(self, fault=None):
        super().__init__("attention", fault=fault)
        self.second = torch.nn.Linear(24, 120)
        self.head.register_forward_pre_hook(lambda head, given: setattr(self, "states", given[0]))

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 2:], (0, 2), value=-100)
        if self.fault is None:
            target = target.masked_fill(F.pad(segments[:, 2:], (0, 2)) != segments, -100)
        second = F.cross_entropy(self.second(self.states).flatten(0, 1), target.flatten(), reduction="sum")
        count = (labels != -100).sum() if items is None else items
        return super()._loss(logits, labels, segments, items) + 0.3 * second / count


class Balanced(torch.nn.Module):
    """Experts whose loss of balance is added, as transformers has it."""

    def __init__(self, coefficient=0.1):
        super().__init__()
        self.model = make("MixtralForCausalLM", output_router_logits=True, router_aux_loss_coef=coefficient)

    def forward(self, **batch):
        return self.model(**batch)


class Around(torch.nn.Module):
    """A model of transformers whose loss is computed around it."""

    def __init__(self, loss, **changes):
        super().__init__()
        self.model, self.loss = make("LlamaForCausalLM", **changes), loss

    def forward(self, input_ids, position_ids, labels):
        logits = self.model(input_ids=input_ids, position_ids=position_ids).logits
        return {"logits": logits, "loss": self.loss(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())}


def unlikely(logits, labels):
    """Tokens that a model should not say: of some the probability is pushed down."""
    logp, keep = -F.cross_entropy(logits, labels, reduction="none"), labels != -100
    return -torch.where(labels % 7 == 0, torch.log1p(-logp.exp()), logp)[keep].mean()


def hardest(logits, labels):
    """The mean of that half of a batch's tokens that is hardest."""
    each = F.cross_entropy(logits, labels, reduction="none")[labels != -100]
    return each.topk(len(each) // 2).values.mean()


def teaching(logits, labels):
    """A distillation, from a teacher whose dropout is left on."""
    teacher = F.dropout(logits.detach() * 3, 0.1).log_softmax(-1)
    each = F.kl_div(logits.log_softmax(-1), teacher, log_target=True, reduction="none").sum(-1)
    return each[labels != -100].mean()


def with_margins(logits, labels):
    each = F.multi_margin_loss(logits, labels.clamp(min=0), reduction="none")
    return each[labels != -100].mean()


LOSSES = {
    "tokens that should not be said": unlikely,
    "capped scores": lambda logits, labels: F.cross_entropy(30 * torch.tanh(logits / 30), labels),
    "a loss of margins": with_margins,
}


def by_accelerate(model, batches):
    """An update as accelerate accumulates it."""
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=len(batches), cpu=True)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    count = sum(int((batch["labels"] != -100).sum()) for batch in batches)
    for batch in batches:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch, num_items_in_batch=count).loss * len(batches))
            optimizer.step()
            optimizer.zero_grad()


def prompts_by_length(rows):
    """Labels from a column with one number for a sequence, which a cut would make wrong."""
    for row in rows:
        assert row["length"] == len(row["input_ids"])
    return DataCollatorWithFlattening()(
        [{"input_ids": row["input_ids"], "labels": row["input_ids"]} for row in rows])  # fmt: skip


class Unmasked(torch.nn.Module):
    """Positions are lost on the way in training, as where checkpointing drops an argument."""

    def __init__(self):
        super().__init__()
        self.model = make("LlamaForCausalLM")

    def forward(self, input_ids, position_ids, labels):
        position_ids = torch.arange(input_ids.shape[1])[None] if self.training else position_ids
        return self.model(input_ids=input_ids, position_ids=position_ids, labels=labels)


class Rolls(Around):
    """Labels are rolled, so that the last slot is asked for the first token of the row."""

    def forward(self, input_ids, position_ids, labels):
        logits = self.model(input_ids=input_ids, position_ids=position_ids).logits
        labels = torch.where(F.pad(position_ids[:, 1:], (1, 0), value=1) > 0, input_ids, -100).roll(-1, 1)
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


RIGHT = {
    **{name: lambda loss=loss: flattened(Around(loss)) for name, loss in LOSSES.items()},
    "two tokens ahead": lambda: in_packs(TwoAhead(), prompts=False),
    "accelerate": lambda: flattened(make("LlamaForCausalLM"), step=by_accelerate),
    "frozen but for one matrix": lambda: flattened(frozen()),
    "a column that a cut would make wrong": lambda: (
        make("LlamaForCausalLM", max_position_embeddings=512), prompts_by_length,
        [{**ended(n), "length": n} for n in (320, 340, 360)]),
    "policy gradient by token": lambda: rewarded(),
    "policy gradient by sequence": lambda: rewarded(mode="sequence", reduction="sequence"),
    "policy gradient over a constant": lambda: rewarded(mode="constant", reduction="constant"),
    "policy gradient by group": lambda: rewarded(mode="group", reduction="group", group="group"),
    "clipped ratios by token": lambda: rewarded(form="clipped", reduction="token"),
    "a temperature": lambda: rewarded(form="tempered"),
    "a distillation": lambda: rewarded(form="distilled"),
    "a step": lambda: stepped(),
    "a step, clipped": lambda: stepped(clip=0.1),
    "a step, each number clipped": lambda: stepped(most=1e-4),
    "a step, scaled, unscaled and clipped": lambda: stepped(scale=1024.0, clip=0.1),
    "positions past 128": lambda: (
        Tiny("attention"), dense(slots=200, **SEGMENTS), [*sequences(), {"input_ids": long(150), "labels": long(150)}]),
    "the cut keeps the end": lambda: (
        make("LlamaForCausalLM", max_position_embeddings=512), by_end, [ended(n) for n in (320, 340, 360, 380, 400)]),
}  # fmt: skip


class WithSink(Tiny):
    """Every token sees the first one of its row."""

    def _attention(self, part, x, segments, same, wrong):
        same = same.clone()
        same[:, :, 0] = True
        return super()._attention(part, x, segments, same, wrong)


def frozen():
    model = make("LlamaForCausalLM")
    for name, p in model.named_parameters():
        p.requires_grad_("q_proj" in name)
    return model


def long(length, seed=0):
    return np.random.default_rng(seed).integers(6, 120, length).tolist()


def ended(length):
    """A sequence that ends in token 2, and nothing else does."""
    ids = [*long(length - 1, length), 2]
    return {"input_ids": ids, "labels": ids}


def by_end(rows):
    """A collator that finds borders at the end token, as Megatron's `reset_position_ids`."""
    ids = [token for row in rows for token in row["input_ids"]]
    begins = np.concatenate([[True], np.array(ids[:-1]) == 2])
    index = np.arange(len(ids))
    places = index - np.maximum.accumulate(np.where(begins, index, 0))
    labels = np.where(begins, -100, ids)
    return {name: torch.tensor(np.array([x])) for name, x in
            (("input_ids", ids), ("position_ids", places), ("labels", labels))}  # fmt: skip


class Needs(Tiny):
    """A model that takes no tokens by themselves."""

    def forward(self, input_ids, segment_ids, position_ids, **more):
        return super().forward(input_ids, segment_ids=segment_ids, position_ids=position_ids, **more)

    def _attention(self, part, x, segments, same, wrong):
        if self.fault == "types by parity":
            x = x + (segments % 2)[..., None]
        if self.fault == "scaled by log n":
            x = x * np.log(x.shape[1])
        if self.fault == "recomputed otherwise":
            return Recomputed.apply(super()._attention, part, x, segments, same, *part.parameters())
        return super()._attention(part, x, segments, same, wrong)


def in_one_row(rows):
    return dense(slots=sum(len(row["input_ids"]) for row in rows), **SEGMENTS)(rows)


def needs(fault, causal=True, slots=40):
    return in_packs(Needs("attention", causal=causal, fault=fault), dense(slots=slots, causal=causal, **SEGMENTS))


class Recomputed(torch.autograd.Function):
    """Checkpointing whose second pass has no document mask."""

    @staticmethod
    def forward(ctx, attention, part, x, segments, same, *weights):
        ctx.save_for_backward(x, segments, same)
        ctx.attention, ctx.part = attention, part
        return attention(part, x, segments, same, False)

    @staticmethod
    def backward(ctx, slope):
        x, segments, same = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            again = ctx.attention(ctx.part, x, segments, torch.ones_like(same).tril(), False)
            weights = list(ctx.part.parameters())
            slopes = torch.autograd.grad(again, [x, *weights], slope)
        return None, None, slopes[0], None, None, *slopes[1:]


def context_parallel():
    from accelerate.big_modeling import _attach_context_parallel_hooks

    model = make("LlamaForCausalLM")
    _attach_context_parallel_hooks(model)
    return model, DataCollatorWithFlattening(), sequences()


LONG = [*sequences(), {"input_ids": long(290), "labels": long(290)}]
EARLIER, ALONE = "isolation from earlier sequences", "same as alone"

# What is wrong, the question that fails, and words of its cause
FAULTS = {
    "cleared inside the update": (lambda: stepped("cleared"), "accumulation", "cleared inside"),
    "an update for each micro-batch": (lambda: stepped("each updates"), "accumulation", "an update for each"),
    "halved after the last backward": (lambda: stepped("halved"), "accumulation", "scaled by 0.5 after"),
    "a micro-batch is left out": (lambda: stepped("left out"), "accumulation", "is left out"),
    "two tokens ahead, over borders": (lambda: in_packs(TwoAhead("over borders"), prompts=False),
        "mean", "several tokens ahead"),
    "clipped after each micro-batch": (lambda: stepped("clipped each"), "accumulation", "between micro-batches"),
    "cleared before the optimizer": (lambda: stepped("cleared at the end"), "accumulation", "applies nothing"),
    "a mean of means, clipped": (lambda: stepped("mean of means", clip=0.1), "accumulation", "a mean of means"),
    "trl 5619": (lambda: stepped("sum of means"), "accumulation", "a sum of means"),
    "verl 3741": (lambda: rewarded(fault="over the longest"), "mean", "company"),
    "verl 906": (lambda: stepped("by sequences"), "accumulation", "otherwise than what they hold"),
    "unsloth-zoo 348": (lambda: stepped("count too small"), "accumulation", "1.15 times what it should be"),
    "policy gradient by token, asked by group": (
        lambda: rewarded(reduction="group", group="group"), "mean", "over tokens where"),
    "a distillation across borders": (
        lambda: rewarded(form="distilled", fault="shifts in the row"), "targets at borders", "leaked"),
    "positions wrap": (
        lambda: (Needs("attention"), spoiled(dense(slots=320, **SEGMENTS), position_ids=lambda x: x % 128), LONG),
        "positions", "up by 1"),
    "token types by the parity of the segment": (
        lambda: needs("types by parity", slots=80), ALONE, "segment_ids change"),
    "segment ids modulo 3": (
        lambda: in_packs(Tiny("attention"), spoiled(
            dense(slots=80, **SEGMENTS), segment_ids=lambda x: torch.where(x > 0, (x - 1) % 3 + 1, 0))),
        EARLIER, "segment_ids give several"),
    "recomputed with another mask": (lambda: needs("recomputed otherwise"), EARLIER, "outputs agree, gradients do not"),
    "scaled by the length of the row": (
        lambda: in_packs(Needs("attention", fault="scaled by log n"), in_one_row), ALONE, "depends on the row around"),
    "the first token of a row as a sink": (lambda: in_packs(WithSink("attention")), EARLIER, "attention sink"),
    "the hardest half of a batch": (lambda: flattened(Around(hardest)), "labels", "picked among all"),
    "a teacher that trains": (lambda: flattened(Around(teaching)), "determinism", "a teacher"),
    "no mask in training": (lambda: flattened(Unmasked().train()), EARLIER, "only while the model"),
    "labels are rolled": (lambda: flattened(Rolls(None), prompts=False), "targets at borders", "rolled"),
    "accelerate's context parallelism": (context_parallel, EARLIER, "context-parallel hook"),
}  # fmt: skip


# What is inconclusive, and the question that says so
OPEN = {
    "experts that are balanced": (lambda: flattened(Balanced()), "mean", "balances experts"),
    "no labels": (
        lambda: (make("LlamaForCausalLM"), lambda rows: DataCollatorWithFlattening()(
            [{"input_ids": row["input_ids"]} for row in rows]) | {"labels": None}, sequences()), "mean", "no loss"),
}  # fmt: skip
