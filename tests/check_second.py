"""More set-ups for `check_packing` of kinds that no other file has, made when its code knew those of `check_kinds`.

At first sight, at the defaults, 18 of the 19 faulty ones failed, 17 with the right cause, and all 7 right ones passed.
"""

import torch
from check_cases import SEGMENTS, Tiny, dense, make, masked, padded, sequences, spoiled
from check_kinds import of_images, places_of
from check_later import LATER, count
from check_public import in_packs
from check_reports import ALONE, EARLIER, FLAT, SHORT, Uncounted, llama, of
from torch.nn import functional as F


class Second(Uncounted):
    """Attention, and one thing about it or its loss that respects borders or does not."""

    def __init__(self, how, **options):
        super().__init__("attention", **options)
        self.how, self.teacher = how, None
        if "teacher" in how:
            self.teacher = Tiny("attention", fault="attention" if "row" in how else None).requires_grad_(False)
        if self.teacher is not None and "equals" not in how:
            self.teacher.head.weight.copy_(
                torch.randn(self.teacher.head.weight.shape, generator=torch.Generator().manual_seed(4))
            )

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        self.ids, self.segments = input_ids, segment_ids
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _attention(self, part, x, segments, same, wrong):
        if self.how == "the least tokens of a row are skipped":
            least = part(x).norm(dim=-1).topk(x.shape[1] // 2, largest=False).indices
            made = super()._attention(part, x, segments, same, wrong)
            return made.scatter(1, least[..., None].expand(-1, -1, made.shape[-1]), 0.0)
        if self.how == "mask says what is hidden":
            same = ~same | torch.eye(x.shape[1], dtype=torch.bool)
        if self.how == "padding has the first number":
            numbers = torch.where(segments == 0, 1, segments)
            same = numbers[:, :, None] == numbers[:, None, :]
        if "rotary" in self.how:
            kind = torch.bfloat16 if "bfloat16" in self.how else torch.float32
            slots = torch.arange(x.shape[1]).expand(x.shape[:2]) if "run on" in self.how else places_of(segments)
            angle = (slots.to(kind)[..., None] * (0.7 ** torch.arange(12)).to(kind)).float()
            query, key, value, _ = part(x).chunk(4, -1)

            def turned(y):
                a, b = y.chunk(2, -1)
                return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

            return F.scaled_dot_product_attention(3 * turned(query), 3 * turned(key), value, attn_mask=same)
        return super()._attention(part, x, segments, same, wrong)

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        if self.teacher is not None:
            with torch.no_grad():
                taught = self.teacher(self.ids, segment_ids=segments)["logits"].log_softmax(-1)
            apart = F.kl_div(logits.log_softmax(-1), taught, log_target=True, reduction="none").sum(-1)
            return (apart * kept).sum() / kept.sum()
        if "returns" in self.how:
            reward = torch.where(segments > 0, self.ids % 7 - 3.0, 0.0)
            returns = torch.zeros_like(reward)
            after = torch.zeros(len(reward))
            for at in reversed(range(reward.shape[1])):
                if "of a row" not in self.how and at + 1 < reward.shape[1]:
                    after = after * (segments[:, at] == segments[:, at + 1])
                after = reward[:, at] + 0.9 * after
                returns[:, at] = after
            return (each * returns * kept).sum() / kept.sum()
        if "chunks" in self.how:
            flat, aims = logits.flatten(0, 1), target.flatten()
            whole = len(aims) // 16 * 16 if "the last is dropped" in self.how else len(aims)
            parts = zip(flat[:whole].split(16), aims[:whole].split(16), strict=True)
            return sum(F.cross_entropy(*one, reduction="sum") for one in parts) / kept.sum()
        if self.how == "roots of lengths":
            index = (segments + 100 * torch.arange(len(segments))[:, None]).flatten()
            counts = torch.zeros(int(index.max()) + 1).index_add(0, index, kept.flatten().float())
            weight = kept / counts.clamp(min=1).sqrt()[index].view_as(kept)
            return (each * weight).sum() / weight.sum()
        if self.how == "hardest sequence":
            sums = torch.stack([(each * (segments == one) * kept).sum() / ((segments == one) & kept).sum().clamp(min=1)
                                for one in segments.unique() if one])  # fmt: skip
            return sums.max()
        return each.sum() / kept.sum()


def second(how, slots=40, **options):
    return in_packs(Second(how), slots, **options)


def over_rows(rows):
    batch = dense(slots=40)(rows)
    places = torch.arange(batch["input_ids"].numel()).view_as(batch["input_ids"]) % 128
    return {**batch, "position_ids": places}


def split_at_ends(rows):
    """Borders are where an end token is, and some sequences have one inside."""
    ids = torch.tensor([[token for row in rows for token in row["input_ids"]]])
    begins = F.pad(ids[:, :-1] == 2, (1, 0), value=True)
    index = torch.arange(ids.shape[1])[None]
    places = index - torch.where(begins, index, 0).cummax(1).values
    return {"input_ids": ids, "position_ids": places, "labels": ids.masked_fill(begins, -100)}


def talks():
    """Two turns each, both of which end in token 2."""
    return [{"input_ids": [*one["input_ids"], 2, *two["input_ids"], 2]}
            for one, two in zip(of(5, 7, 4, 9, 6), of(8, 5, 6, 4, 7), strict=True)]  # fmt: skip


def full_rows_cut(rows):
    """The last token of a row is lost, since the next one was to be predicted from it."""
    slots = sum(len(row["input_ids"]) for row in rows)
    return {name: x[:, : slots - 1] for name, x in FLAT(rows).items()}


def padding_in_content(rows):
    batch = padded(rows)
    return {**batch, "attention_mask": (batch["input_ids"] != 7).long() * batch["attention_mask"]}


def with_sevens():
    rows = [{"input_ids": [7 if at % 4 == 1 else token for at, token in enumerate(row["input_ids"])]} for row in SHORT]
    return [{**row, "labels": row["input_ids"]} for row in rows]


def again_each_time(model, batches):
    """The running total is backpropagated with each micro-batch."""
    model.zero_grad()
    optimizer, total = torch.optim.SGD(model.parameters(), lr=0.1), torch.zeros(())
    for batch in batches:
        total = total + model(**batch).loss * count([batch]) / count(batches)
        total.backward(retain_graph=True)
    optimizer.step()


def with_prompts(model, batches):
    """Divided by all tokens of the update, those of prompts too."""
    model.zero_grad()
    every = sum(batch["input_ids"].numel() for batch in batches)
    for batch in batches:
        (model(**batch).loss * count([batch]) / every).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def skipped_if_large(model, batches):
    """A micro-batch whose loss is above that of the one before is left out."""
    model.zero_grad()
    losses = [model(**batch).loss * count([batch]) / count(batches) for batch in batches]
    min(losses).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def sign_alone(model, batches):
    """Gradients are replaced by their signs in each micro-batch, and these are added up."""
    model.zero_grad()
    total = {p: torch.zeros_like(p) for p in model.parameters()}
    for batch in batches:
        model.zero_grad()
        (model(**batch).loss * count([batch]) / count(batches)).backward()
        for p in total:
            total[p] += p.grad.sign() * 1e-3
    for p, gradient in total.items():
        p.grad = gradient
    torch.optim.SGD(model.parameters(), lr=0.1).step()


class Noisy(torch.nn.Module):
    """Noise on embeddings while it trains, whose size goes down with the length of the row."""

    def __init__(self):
        super().__init__()
        self.model = llama()

    def forward(self, input_ids, position_ids, labels):
        states = self.model.model.embed_tokens(input_ids)
        if self.training:
            states = states + torch.rand_like(states) * 0.1 / input_ids.shape[1] ** 0.5
        return self.model(inputs_embeds=states, position_ids=position_ids, labels=labels)


def four_axes(batch, run_on=False):
    """Positions of text before those of three axes, and no mask: so a kernel finds the borders."""
    first = (batch["position_ids"][0, 0] == 0).nonzero()[:, 0]
    begins = torch.zeros(batch["input_ids"].shape[1], dtype=torch.bool)
    rows = batch["input_ids"].shape[1]
    begins[[int(at) for at in first if at == 0 or batch["position_ids"][0, 0, at - 1] != 0]] = True
    index = torch.arange(rows)
    text = index if run_on else index - torch.where(begins, index, 0).cummax(0).values
    batch = {name: x for name, x in batch.items() if name != "attention_mask"}
    return {**batch, "position_ids": torch.cat([text[None, None], batch["position_ids"]])}


CHANGED = ("ends inside sequences", "a teacher that equals the model", "noise by the length of the row")

FAULTS = {
    "noise by the length of the row": (lambda: (Noisy(), FLAT, SHORT), "training", "another size in a pack"),
    "the least tokens of a row are skipped": (
        lambda: second("the least tokens of a row are skipped"), LATER, "the tokens of a batch are mixed"),
    "positions go on from row to row": (
        lambda: (make("GPT2LMHeadModel"), over_rows, SHORT), "positions", "begin in the wrong place: at 9"),
    "padding has the number of the first sequence": (
        lambda: (Second("padding has the first number", causal=False), dense(causal=False, **SEGMENTS),
                 masked(sequences(prompts=False))), "padding", "padding is attended"),
    "a mask that says what is hidden": (lambda: second("mask says what is hidden"), EARLIER, "no document mask"),
    "ends inside sequences": (lambda: (llama(), split_at_ends, talks()), "positions", "begin again inside a sequence"),
    "the last token of a row is lost": (lambda: (llama(), full_rows_cut, SHORT), "tokens", "truncated"),
    "a teacher that sees the row": (lambda: second("a teacher of the row"), "mean", "company"),
    "returns of a row": (lambda: second("returns of a row"), "mean", "company"),
    "a rotary embedding in bfloat16, positions run on": (
        lambda: second("rotary in bfloat16, run on", slots=160), "positions", "the model numbers the slots"),
    "padding's token inside sequences": (
        lambda: (make("BertForMaskedLM"), padding_in_content, with_sevens()), ALONE, "hides tokens of the sequence"),
    "the total is backpropagated each time": (
        lambda: (llama(), FLAT, SHORT, {"step": again_each_time}), "accumulation", "otherwise than what they hold"),
    "divided by prompts too": (lambda: (llama(), FLAT, SHORT, {"step": with_prompts}), "accumulation", "0.701 times"),
    "chunks, the last is dropped": (
        lambda: second("chunks, the last is dropped", slots=36), "labels", "picked among all"),
    "the hardest sequence": (lambda: second("hardest sequence", slots=80), "mean", "a sequence is lost: 5 of 6"),
    "the larger loss is left out": (
        lambda: (llama(), FLAT, SHORT, {"step": skipped_if_large}), "accumulation", "left out"),
    "signs of micro-batches": (
        lambda: (llama(), FLAT, SHORT, {"step": sign_alone}), "accumulation", "changed between micro-batches"),
    "four axes that run on": (
        lambda: of_images(lambda batch: four_axes(batch, run_on=True)), EARLIER, "position_ids run on"),
    "labels moved with the positions": (
        lambda: (llama(), spoiled(FLAT, labels=lambda x: F.pad(x[:, :-1], (1, 0), value=-100)), SHORT),
        "labels", "not shifted"),
}  # fmt: skip

RIGHT = {
    "roots of lengths": lambda: second("roots of lengths"),
    "a teacher that sees borders": lambda: second("a teacher"),
    "returns of each sequence": lambda: second("returns"),
    "chunks, the last is shorter": lambda: second("chunks", slots=36),
    "a rotary embedding that runs on": lambda: second("rotary, run on", slots=160),
    "a rotary embedding in bfloat16": lambda: second("rotary in bfloat16", slots=160),
    "images in four axes": lambda: of_images(four_axes),
}

# What the check does not find, or cannot tell
OPEN = {
    "a teacher that equals the model": (lambda: second("a teacher that equals it"), "mean", "equals the model"),
}  # fmt: skip
