"""Set-ups for `check_packing` that were made after the first version of its code; two of them changed it since.

Some are after public reports, others are variants of them. `CHANGED` names the two.
"""

import check_cases as cases
import torch
from check_cases import SEGMENTS, Tiny, dense, make, padded, sequences, spoiled
from check_reports import ALONE, EARLIER, FLAT, NotShifting, Uncounted, beforehand, llama, of
from torch.nn import functional as F

CHANGED = "a count of prompts that a cut makes wrong", "scaled by the number of rows"
SHORT, LATER = of(9, 14, 5, 20, 7, 12), "isolation from later sequences"
ENDED = [{"input_ids": [*row["input_ids"], 2], "labels": [*row["labels"], 2]} for row in of(8, 13, 4, 19, 6, 11)]


def count(batches):
    return sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)


def update(scale, form="each"):
    """An update; `scale` says what each micro-batch's mean is multiplied with, of its labels, all labels and number."""

    def step(model, batches):
        optimizer = torch.optim.AdamW(model.parameters())
        optimizer.zero_grad()
        total = torch.zeros(())
        for at, batch in enumerate(batches):
            loss = model(**batch).loss * scale(count([batch]), count(batches), len(batches), at)
            if form == "each":
                loss.backward()
            total = total + loss
        if form == "once":
            total.backward()
        optimizer.step()

    return step


def stepping(scale, form="each"):
    return llama(), FLAT, SHORT, {"step": update(scale, form)}


class Changed(Tiny):
    """Attention, and one thing about it that depends on the row, or seems to."""

    def __init__(self, fault=None, **options):
        super().__init__("attention", fault=fault, **options)

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        if self.fault == "bounds of the first row":
            segment_ids = torch.cat([segment_ids[:1], torch.ones_like(segment_ids[1:])])
        if self.fault == "positions of the first row":
            position_ids = position_ids[:1].expand_as(position_ids)
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _attention(self, part, x, segments, same, wrong):
        if self.fault == "normalized over slots":
            x = x - x.mean(1, keepdim=True)
        if self.fault == "scaled by rows":
            x = x * len(x) ** 0.5
        if self.fault == "token shift":
            x = x + 0.5 * F.pad(x[:, :-1], (0, 0, 1, 0))
        if self.fault == "prefix sees all":
            same = same | (segments[:, None, :] == segments[:, :, None] + 1)
        if self.fault == "window by slots":
            back = torch.arange(x.shape[1])
            same = same & ((back[:, None] // 8) == (back // 8))
        if self.fault == "rows folded":
            query, key, value, _ = part(x).flatten(0, 1).chunk(4, -1)
            ids = segments.flatten()
            mask = (ids[:, None] == ids) & torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask).view_as(x)
        return super()._attention(part, x, segments, same, wrong)

    def _loss(self, logits, labels, segments, items):
        if self.fault == "temperature of a batch":
            logits = logits / logits.detach().abs().amax()
        base = super()._loss(logits, labels, segments, items)
        asked = F.pad(labels[:, 1:], (0, 1), value=-100) != -100
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
        extra = {
            "entropy of all slots": entropy.mean(), "entropy of labels": entropy[asked].mean(),
            "entropy of prompts": entropy[segments > 0].mean(),
            "spread of a batch": logits[asked].std(),
        }.get(self.fault, 0)  # fmt: skip
        return base + 0.2 * extra


def changed(fault, slots=40, **options):
    return Changed(fault, **options), dense(slots=slots, **SEGMENTS), SHORT


def left_padded(rows, places=True):
    """One sequence a row, behind its padding."""
    batch = {name: x.flip(1) for name, x in padded([{k: v[::-1] for k, v in row.items()} for row in rows]).items()}
    numbers = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
    return batch | ({"position_ids": numbers} if places else {})


def numbered_mask(rows):
    batch = dense(**SEGMENTS)(rows)
    batch["position_ids"] = torch.where(batch["segment_ids"] == 1, batch["position_ids"], 1)
    return batch


def without_ends(rows):
    batch = FLAT(rows)
    return {**batch, "labels": torch.where(batch["labels"] == 2, -100, batch["labels"])}


def from_the_left(rows):
    return FLAT([{name: x[-12:] for name, x in row.items()} for row in rows])


def short_ones_alone(rows):
    kept = [row for row in rows if len(row["input_ids"]) < 15]
    return FLAT(kept or rows)


def sorted_tokens(rows):
    """Tokens are sorted by length, labels are not."""
    order = sorted(rows, key=lambda row: len(row["input_ids"]))
    return {**FLAT(order), "labels": FLAT(rows)["labels"]}


def offset(rows):
    """Positions that begin anywhere, as some train long contexts: rotation does not mind."""
    batch = dense()(rows)
    return {**batch, "position_ids": batch["position_ids"] + 17}


def prompts_counted(rows):
    """Labels from a column that counts the tokens of a prompt, which a cut makes wrong."""
    made = [{"input_ids": row["input_ids"], "labels": [-100] * row["prompt"] + row["input_ids"][row["prompt"] :]}
            for row in rows]  # fmt: skip
    return FLAT([{name: x[: len(row["input_ids"])] for name, x in row.items()} for row in made])


def counted(length, prompt):
    ids = of(length)[0]["input_ids"]
    return {"input_ids": [*ids[:-1], 2], "prompt": prompt, "completion_mask": [0] * prompt + [1] * (length - prompt)}


def never_cleared(model, batches):
    """Gradients stay for the next update."""
    for batch in batches:
        model(**batch, num_items_in_batch=count(batches)).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


class Chunked(NotShifting):
    """The loss in chunks of 7 slots, summed and divided once."""

    def forward(self, input_ids, position_ids, labels):
        logits = self.model(input_ids=input_ids, position_ids=position_ids).logits[0]
        parts = zip(logits.split(7), labels[0].split(7), strict=True)
        total = sum(F.cross_entropy(*part, reduction="sum") for part in parts)
        return {"logits": logits[None], "loss": total / (labels != -100).sum()}


class ChunkMeans(NotShifting):
    def forward(self, input_ids, position_ids, labels):
        logits = self.model(input_ids=input_ids, position_ids=position_ids).logits[0]
        parts = [part for part in zip(logits.split(7), labels[0].split(7), strict=True) if (part[1] != -100).any()]
        return {"logits": logits[None], "loss": torch.stack([F.cross_entropy(*part) for part in parts]).mean()}


class Listed(Uncounted):
    def forward(self, *arguments, **named):
        made = super().forward(*arguments, **named)
        return [made["loss"], made["logits"], {"other": 3}]


def checkpointed():
    model = llama()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def by_trainer(model, batches):
    """What `Trainer` does with two micro-batches, clipping among it."""
    import tempfile

    from transformers import Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, TrainingArguments(folder, use_cpu=True, report_to=[], max_grad_norm=0.05,
                                                   gradient_accumulation_steps=len(batches)))  # fmt: skip
        trainer.current_gradient_accumulation_steps = len(batches)
        trainer.create_optimizer()
        items = torch.tensor(count(batches))
        for batch in batches:
            trainer.training_step(model, batch, num_items_in_batch=items)
        trainer.accelerator.clip_grad_norm_(model.parameters(), 0.05)
        trainer.optimizer.step()


FAULTS = {
    "axolotl 1375, bounds of the first row alone": (
        lambda: changed("bounds of the first row"), EARLIER, "some sequences of a row"),
    "LlamaFactory 7754, positions of the first sequence alone": (
        lambda: (Tiny("attention"), numbered_mask, SHORT), "positions", "do not go up by 1"),
    "nanoVLM 204, positions restart without a mask": (
        lambda: (make("GPT2LMHeadModel"), dense(mask="ones"), SHORT), EARLIER, "all ones"),
    "Megatron-Bridge 4660, ends masked as padding": (
        lambda: (llama(), without_ends, ENDED), "labels", "last token of each"),
    "OpenNMT 2209, divided by all labels and by the micro-batches": (
        lambda: stepping(lambda mine, every, number, at: mine / every / number), "accumulation", "0.5 times"),
    "torchtune 1917, divided by the labels of the last one": (
        lambda: (llama(), FLAT, SHORT, {"step": lambda m, b: update(
            lambda mine, every, number, at: mine / count(b[-1:]))(m, b)}), "accumulation", "times what it should be"),
    "transformers 34373, times the ranks on one": (
        lambda: stepping(lambda mine, every, number, at: mine / every * 2), "accumulation", "2 times what"),
    "nanoGPT 206, not divided": (
        lambda: stepping(lambda mine, every, number, at: 1.0), "accumulation", "a sum of means"),
    "transformers 34191, divided by the micro-batches": (
        lambda: stepping(lambda mine, every, number, at: 1 / number, "once"), "accumulation", "a mean of means"),
    "the first micro-batch weighs twice": (
        lambda: stepping(lambda mine, every, number, at: mine / every * (2 - at)), "accumulation", "otherwise than"),
    "a micro-batch too many is skipped": (
        lambda: stepping(lambda mine, every, number, at: 0.0 if at else 1.0), "accumulation", "left out"),
    "TransformerEngine, positions of the first row for all": (
        lambda: changed("positions of the first row"), ALONE, ""),
    "normalized over the slots of a row": (lambda: changed("normalized over slots"), EARLIER, ""),
    "scaled by the number of rows": (lambda: changed("scaled by rows"), ALONE, "depends on the row around"),
    "RWKV, a token shift over the border": (lambda: changed("token shift"), EARLIER, ""),
    "a prefix that sees the next one": (lambda: changed("prefix sees all"), LATER, ""),
    "blocks of slots instead of a window": (lambda: changed("window by slots"), ALONE, ""),
    "rows folded into one attention": (lambda: changed("rows folded"), LATER, ""),
    "a temperature of the batch": (lambda: changed("temperature of a batch"), "mean", "company"),
    "entropy over all slots": (lambda: changed("entropy of all slots"), "labels", "padding is trained on"),
    "a spread of the batch's scores": (lambda: changed("spread of a batch"), "mean", "company"),
    "truncated from the left": (lambda: (llama(), from_the_left, SHORT), "tokens", "truncated"),
    "long ones dropped": (lambda: (llama(), short_ones_alone, SHORT), "tokens", "lost"),
    "labels in another order than tokens": (lambda: (llama(), sorted_tokens, SHORT), "labels", ""),
    "left-padded, positions by slot": (
        lambda: (make("GPT2LMHeadModel"), lambda rows: left_padded(rows, places=False), SHORT), ALONE, ""),
    "means of chunks": (lambda: (ChunkMeans(), beforehand, SHORT), "mean", "company"),
    "shifted before and in the model": (lambda: (llama(), beforehand, SHORT), "labels", "shifted twice"),
    "dropout of a head that is left on": (
        lambda: (Dropping(), FLAT, SHORT), "determinism", "dropout"),
}  # fmt: skip


class Dropping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = llama()

    def forward(self, **batch):
        output = self.model(**batch)
        output.logits = F.dropout(output.logits, 0.1, training=True)
        return output


FAMILIES = ["Qwen2ForCausalLM", "Qwen3ForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM", "GemmaForCausalLM",
            "Gemma2ForCausalLM", "StableLmForCausalLM", "CohereForCausalLM", "GPTNeoXForCausalLM",
            "SmolLM3ForCausalLM"]  # fmt: skip

RIGHT = {
    **{f"{name}, padding-free": lambda name=name: (make(name), FLAT, SHORT) for name in FAMILIES},
    "4D, positions from 17 that rotate": lambda: (llama(), offset, SHORT),
    "left-padded, positions by token": lambda: (make("GPT2LMHeadModel"), left_padded, SHORT),
    "chunks, divided once": lambda: (Chunked(), beforehand, SHORT),
    "outputs in a list": lambda: (Listed("attention"), dense(**SEGMENTS), SHORT),
    "checkpointed": lambda: (checkpointed(), FLAT, SHORT),
    "entropy of labels": lambda: changed("entropy of labels"),
    "ends that are labels": lambda: (llama(), FLAT, ENDED),
    "backward once, by labels": lambda: stepping(lambda mine, every, number, at: mine / every, "once"),
    "backward each, by labels": lambda: stepping(lambda mine, every, number, at: mine / every),
    "Trainer, clipped": lambda: (llama(), FLAT, SHORT, {"step": by_trainer}),
    "tied weights": lambda: (llama(tie_word_embeddings=True), FLAT, SHORT),
    "float64": lambda: (llama().double(), FLAT, SHORT),
    "64 sequences of all lengths": lambda: (llama(), FLAT, of(*range(5, 69))),
    "all longer than max_tokens": lambda: (llama(), FLAT, of(310, 320, 330, 340, 350)),
    "a long prompt that all share": lambda: (
        llama(), FLAT, [{"input_ids": [*of(310)[0]["input_ids"], *row["input_ids"], 2]} for row in SHORT]),
    "a count of prompts that a cut makes wrong": lambda: (
        llama(), prompts_counted, [counted(length, length - 9) for length in (320, 330, 350, 365, 380)]),
    "two sequences": lambda: (llama(), FLAT, SHORT[:2]),
    "one row of many with padding": lambda: (Tiny("attention"), dense(slots=200, **SEGMENTS), SHORT),
    "each sequence padded to 8, clipped": lambda: (llama(), cases.multiples, SHORT),
    "spoiled by nothing": lambda: (Tiny("attention"), spoiled(dense(**SEGMENTS)), sequences(12)),
}  # fmt: skip

# Faults that are not found, and why
MISSED = {
    "gradients that stay, of a new optimizer in each call": lambda: (  # it may be one update by itself: not asked
        llama(),
        FLAT,
        SHORT,
        {"step": never_cleared},
    ),
}
