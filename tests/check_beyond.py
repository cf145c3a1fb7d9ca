"""Set-ups for `check_packing` whose fault shows beyond one small batch: in long sequences, many, or a next update."""

import check_cases as cases
import torch
from check_cases import SEGMENTS, dense, make, spoiled
from check_later import LATER, count
from check_reports import ALONE, EARLIER, FLAT, SHORT, Uncounted, llama, of
from torch.nn import functional as F

LONGER, FAR, MANY = [*SHORT, *of(450)], [*SHORT, *of(5000)], of(*range(5, 40))


class Limited(Uncounted):
    """Attention, or a loss, with a limit that long sequences or many of them pass."""

    def __init__(self, fault=None):
        super().__init__("attention", fault=fault)
        self.places = torch.nn.Embedding(1024, 24)

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        if self.fault == "positions of its own":
            position_ids = None
        if self.fault == "table of 400" and position_ids is not None:
            position_ids = position_ids.clamp(max=399)
        if self.fault == "ten numbers of segments" and segment_ids is not None:
            segment_ids = torch.where(segment_ids > 0, (segment_ids - 1) % 10 + 1, 0)
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        if self.fault == "labels behind 600 slots":
            labels = torch.where(torch.arange(labels.shape[1]) < 600, labels, -100)
        if self.fault == "means of chunks of 500":
            targets = F.pad(labels[:, 1:], (0, 1), value=-100)
            parts = zip(logits.flatten(0, 1).split(500), targets.flatten().split(500), strict=True)
            return torch.stack([F.cross_entropy(*part) for part in parts if (part[1] != -100).any()]).mean()
        return super()._loss(logits, labels, segments, items)


def in_one_row(rows):
    return dense(slots=sum(len(row["input_ids"]) for row in rows) + 3, **SEGMENTS)(rows)


def labels_cut(most):
    """A collator that has no labels behind a place of a sequence."""
    return lambda rows: FLAT([{**row, "labels": [*row["labels"][:most], *[-100] * (len(row["labels"]) - most)]}
                              for row in rows])  # fmt: skip


def looping(cleared):
    """A step with an optimizer that is made once, as in a loop; `cleared` says what is cleared, and when."""
    model = llama()
    head, rest = model.lm_head.parameters(), (p for name, p in model.named_parameters() if "lm_head" not in name)
    optimizers, calls = [torch.optim.AdamW(head), torch.optim.AdamW(rest)], []

    def step(model, batches):
        if cleared == "before":
            model.zero_grad()
        for at, batch in enumerate(batches):
            weight = 0.0 if cleared == "three" and at == 3 else 1.0
            (model(**batch, num_items_in_batch=count(batches)).loss * weight).backward()
        calls.append(0)
        if cleared == "clipped, never":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        for number, optimizer in enumerate(optimizers):
            optimizer.step()
            if cleared in ("after", "three") or (cleared, number) == ("of the head", 0):
                optimizer.zero_grad()
            if cleared == "to zeros":
                optimizer.zero_grad(set_to_none=False)
            if cleared == "each second time" and len(calls) % 2:
                optimizer.zero_grad(set_to_none=False)

    return model, FLAT, SHORT, {"step": step}


class Company(Uncounted):
    """What a row, a batch or the one before it holds changes what a sequence gets, or learns."""

    def __init__(self, fault):
        super().__init__("attention", fault=fault)

    def _attention(self, part, x, segments, same, wrong):
        if self.fault == "8 bits by row":
            most = x.detach().abs().amax((1, 2), keepdim=True)
            x = x + (torch.round(x / most * 127) / 127 * most - x).detach()
        if self.fault == "a mean of the row before":
            x = x + 0.3 * torch.cat([torch.zeros_like(x[:1]), x[:-1]]).mean(1, keepdim=True)
        return super()._attention(part, x, segments, same, wrong)

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        if self.fault == "weights by how often":
            often = 1 / target[kept].bincount(minlength=120)[target.clamp(min=0)].clamp(min=1)
            return (each * often).sum() / (often * kept).sum()
        if self.fault == "a contrast":
            states = F.normalize(logits[kept], dim=-1)
            return each.sum() / kept.sum() + 0.1 * (states @ states.T).exp().sum(1).log().mean()
        if self.fault == "no first label of a row":
            kept = kept & (kept.cumsum(1) > 1)
        return (each * kept).sum() / kept.sum()


def company(fault):
    return Company(fault), dense(slots=48, **SEGMENTS), SHORT


def stepping_oddly(how):
    """A step that takes the first micro-batch for all, or adds noise to gradients."""
    model = llama()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(model, batches):
        optimizer.zero_grad()
        for batch in [batches[0]] * len(batches) if how == "the first again" else batches:
            model(**batch, num_items_in_batch=count(batches)).loss.backward()
        for p in model.parameters() if how == "noise" else []:
            p.grad += torch.randn_like(p) * p.grad.std()
        optimizer.step()

    return model, FLAT, SHORT, {"step": step}


def of_new_optimizers(model, batches):
    """A step that makes its optimizers, and clears the gradients of one of them."""
    head, rest = [*model.lm_head.parameters()], [*model.model.parameters()]
    optimizers = [torch.optim.SGD(parameters, lr=0.1) for parameters in (head, rest)]
    for batch in batches:
        model(**batch, num_items_in_batch=count(batches)).loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    optimizers[0].zero_grad()


def counting():
    """A step that leaves out a micro-batch of each second update."""
    model, calls = llama(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(model, batches):
        calls.append(0)
        optimizer.zero_grad()
        for batch in batches if len(calls) % 2 else batches[1:]:
            model(**batch, num_items_in_batch=count(batches)).loss.backward()
        optimizer.step()

    return model, FLAT, SHORT, {"step": step}


FAULTS = {
    "positions clamped behind max_tokens": (
        lambda: (llama(), spoiled(FLAT, position_ids=lambda x: x.clamp(max=400)), LONGER), "positions", "up by 1"),
    "positions clamped where no batch is tried": (
        lambda: (llama(), spoiled(FLAT, position_ids=lambda x: x.clamp(max=4500)), FAR), "positions", "up by 1"),
    "labels cut at 400": (lambda: (llama(), labels_cut(400), LONGER), "labels", "labels are lost"),
    "labels cut where no batch is tried": (lambda: (llama(), labels_cut(4500), FAR), "labels", "labels are lost"),
    "sequences cut at 400": (
        lambda: (llama(), lambda rows: FLAT([{name: x[:400] for name, x in row.items()} for row in rows]), LONGER),
        "tokens", "truncated"),
    "a window of 350 is replaced": (
        lambda: (make("MistralForCausalLM", sliding_window=350), without_window, LONGER), ALONE, "with one of 350"),
    "a frequency of the row's length": (
        lambda: (make("LlamaForCausalLM", max_position_embeddings=400, rope_parameters={
            "rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}), FLAT, [*SHORT, *of(350, 450)]),
        ALONE, "depends on the row around"),
    "a table of 400 positions": (
        lambda: (Limited("table of 400"), in_one_row, LONGER), "positions", "computes otherwise with them"),
    "ten numbers for 35 sequences": (
        lambda: (Limited("ten numbers of segments"), in_one_row, MANY), EARLIER, "some sequences of a row"),
    "labels behind 600 slots of a row": (
        lambda: (Limited("labels behind 600 slots"), in_one_row, MANY), "labels", "labels are lost"),
    "means of chunks of 500": (lambda: (Limited("means of chunks of 500"), in_one_row, MANY), "mean", "company"),
    "gradients that stay for the next update": (lambda: looping("never"), "next update", "stay for the next"),
    "clipped gradients that stay": (lambda: looping("clipped, never"), "next update", "stay for the next"),
    "gradients of a second group that stay": (lambda: looping("of the head"), "next update", "stay for the next"),
    "gradients of one new optimizer that stay": (
        lambda: (llama(), FLAT, SHORT, {"step": of_new_optimizers}), "next update", "stay for the next"),
    "gradients that are cleared each second time": (
        lambda: looping("each second time"), "next update", "stay for the next"),
    "rounded to 8 bits by row": (lambda: company("8 bits by row"), EARLIER, "statistics (a norm over a row"),
    "a mean of the row before": (lambda: company("a mean of the row before"), LATER, "statistics"),
    "labels weigh by how often they are in a batch": (lambda: company("weights by how often"), "mean", "company"),
    "a contrast of all that a batch holds": (lambda: company("a contrast"), "mean", "company"),
    "the first label of a row is left out": (lambda: company("no first label of a row"), "labels", "picked among all"),
    "the first micro-batch again": (lambda: stepping_oddly("the first again"), "accumulation", "left out"),
    "a micro-batch less in each second update": (counting, "next update", "weighs its micro-batches otherwise"),
    "three micro-batches of four": (lambda: looping("three"), "accumulation", "left out"),
}  # fmt: skip

RIGHT = {
    "longer than max_tokens, by one batch more": lambda: (llama(), FLAT, LONGER),
    "far longer than max_tokens": lambda: (llama(), FLAT, FAR),
    "35 sequences of a row": lambda: (Limited(), in_one_row, MANY),
    "cleared before, optimizers made once": lambda: looping("before"),
    "clamped positions that the model does not read": lambda: (
        Limited("positions of its own"),
        spoiled(in_one_row, position_ids=lambda x: x.clamp(max=400)),
        LONGER,
    ),
    "cleared to zeros, optimizers made once": lambda: looping("to zeros"),
    "cleared after, optimizers made once": lambda: looping("after"),
}


def without_window(rows):
    """A dense mask without a window."""
    return cases.dense(slots=sum(len(row["input_ids"]) for row in rows))(rows)
