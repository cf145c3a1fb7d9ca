"""Set-ups for `check_packing`: faults and right ones that look like faults, some after public reports."""

import check_cases as cases
import check_images as images
import torch
from check_cases import SEGMENTS, Tiny, dense, make, spoiled
from check_today import long
from torch.nn import functional as F
from transformers import DataCollatorWithFlattening

FLAT = DataCollatorWithFlattening()
EARLIER, ALONE = "isolation from earlier sequences", "same as alone"


def of(*lengths):
    """Sequences of these lengths, with labels for all tokens but the first third."""
    rows = []
    for number, length in enumerate(lengths):
        ids = long(length, seed=number)
        rows.append({"input_ids": ids, "labels": [-100] * (length // 3) + ids[length // 3 :]})
    return rows


MIXED = of(51, 26, 56, 48, 9, 38, 32, 20, 311, 314, 316)  # most are shorter than max_tokens
MANY = of(*[7, 12, 9, 15, 6, 11, 8, 14, 10, 13, 5, 16, 9, 12])  # 8 of them fill one row, and all of them two


def llama(**changes):
    return make("LlamaForCausalLM", **{"max_position_embeddings": 512} | changes)


def rows_joined(rows):
    """Rows of 96 slots, numbered in each row and flattened into one row without an offset."""
    batch = dense(slots=96, **SEGMENTS)(rows)
    return {name: x.reshape(1, -1) for name, x in batch.items()}


class ByLongestRow(Tiny):
    """Each row's loss is divided by the labels of the row that has the most of them."""

    def _loss(self, logits, labels, segments, items):
        each = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
        return each.sum() / ((labels[:, 1:] != -100).sum(1).max() * len(labels))


def clipped(model, batches, bound=0.05, divide=1, before=None):
    """An update by the labels of all of it, clipped once as `Trainer` does, and divided once more or not."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = [int((batch["labels"][:, 1:] != -100).sum()) for batch in batches]
    for batch in batches:
        model(**batch, num_items_in_batch=sum(labels)).loss.backward()
    for p in model.parameters():
        p.grad /= divide
    torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
    optimizer.step()
    optimizer.zero_grad()


def clipped_by_hand(model, batches):
    labels = [int((batch["labels"][:, 1:] != -100).sum()) for batch in batches]
    for batch in batches:
        model(**batch, num_items_in_batch=sum(labels)).loss.backward()
    grads = [p.grad for p in model.parameters()]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(min(1.0, 0.1 / float(norm)))
    torch.optim.AdamW(model.parameters()).step()


def at_least_one(model, batches):
    labels = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
    for batch in batches:
        model(**batch, num_items_in_batch=max(labels, 1)).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def by_labels(model, batches):
    labels = torch.tensor(sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches))
    for batch in batches:
        model(**batch, num_items_in_batch=labels).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


SHORT = of(9, 14, 5, 20, 7, 12)
UNLABELED = [*SHORT, *({**row, "labels": [-100] * len(row["labels"])} for row in of(11, 8, 13)[1:])]


def beforehand(rows, lose=False):
    """Inputs without the last token, and labels without the first, as torchtitan and Megatron lay rows out."""
    ids = [token for row in rows for token in row["input_ids"][:-1]]
    labels = [label for row in rows for label in ([*row["labels"][1:-1], -100] if lose else row["labels"][1:])]
    places = [place for row in rows for place in range(len(row["input_ids"]) - 1)]
    return {name: torch.tensor([x]) for name, x in
            (("input_ids", ids), ("labels", labels), ("position_ids", places))}  # fmt: skip


class NotShifting(torch.nn.Module):
    """A model whose labels were shifted before."""

    def __init__(self):
        super().__init__()
        self.model = llama()

    def forward(self, input_ids, position_ids, labels):
        logits = self.model(input_ids=input_ids, position_ids=position_ids).logits
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


class Uncounted(Tiny):
    """A model that is not told the labels of the update."""

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        return super().forward(input_ids, position_ids, segment_ids, labels)


class LastOfRow(Uncounted):
    """A head of rewards that reads the last token of each row, or of each sequence."""

    def _loss(self, logits, labels, segments, items):
        last = F.pad(segments[:, 1:] != segments[:, :-1], (0, 1), value=True) & (segments > 0)
        if self.fault == "row":
            last &= last.flip(1).cumsum(1).flip(1) == 1
        return logits[..., 7][last].tanh().mean()


class Experts(Uncounted):
    """A loss that balances experts, by document or by row."""

    def __init__(self, by):
        super().__init__("attention")
        self.by, self.router = by, torch.nn.Linear(24, 4)
        self.parts[0].register_forward_hook(lambda part, given, made: setattr(self, "states", given[0]))

    def _loss(self, logits, labels, segments, items):
        share = self.router(self.states * 3).softmax(-1)
        rows = torch.arange(len(segments))[:, None]
        group = {"document": rows * 100 + segments, "row": rows + 0 * segments, "batch": 0 * segments}[self.by]
        parts = [share[(group == one) & (segments > 0)].mean(0) for one in group[segments > 0].unique()]
        balance = torch.stack([(part * part).sum() * 4 for part in parts]).mean()
        return super()._loss(logits, labels, segments, None) + 0.1 * balance


def by_frequency():
    model = llama()
    model.model.embed_tokens.scale_grad_by_freq = True
    return model


# The model gets few sequences: what the batch of all has, theirs must have too
FAULTS = {
    **images.FAULTS,
    "positions clamped at 255": (
        lambda: (llama(), spoiled(FLAT, position_ids=lambda x: x.clamp(max=255)), MIXED), "positions", "up by 1"),
    "positions wrap at 127": (
        lambda: (llama(), spoiled(FLAT, position_ids=lambda x: x % 128), MIXED), "positions", "up by 1"),
    "numbers of segments of two rows flattened": (
        lambda: (Tiny("attention"), rows_joined, MANY), EARLIER, "segment_ids give several"),
    "divided by the longest row": (
        lambda: (ByLongestRow("attention"), dense(slots=96, **SEGMENTS), MANY), "mean", "company"),
    "clipped, and divided twice": (
        lambda: (llama(), FLAT, SHORT, {"step": lambda m, b: clipped(m, b, divide=2)}), "accumulation", "0.5"),
    "divided twice, not clipped": (
        lambda: (llama(), FLAT, SHORT, {"step": lambda m, b: clipped(m, b, 1e9, divide=4)}), "accumulation",
        "scaled by 0.25 after"),
    "labels shifted before, the last one lost": (
        lambda: (NotShifting(), lambda rows: beforehand(rows, lose=True), SHORT), "labels", "last token of each"),
    "a reward of the last slot of a row": (
        lambda: (LastOfRow("attention", fault="row"), dense(slots=80, **SEGMENTS), SHORT), "mean",
        "a sequence is lost: 5 of 6"),
    "experts balanced by row": (
        lambda: (Experts("row"), dense(**SEGMENTS), SHORT), "mean", "taken over each row"),
    "gradients by frequency": (lambda: (by_frequency(), FLAT, SHORT), "mean", "scale_grad_by_freq"),
    "an update without labels": (
        lambda: (llama(), FLAT, UNLABELED, {"step": by_labels}), "updates without labels", "divides 0 by 0"),
    "padding attended in few rows": (
        lambda: (make("BertForMaskedLM", max_position_embeddings=512), lambda rows: cases.padded(rows, ones=True),
                 cases.masked(of(30, 30, 30, 30, 30, 30, 30, 330))), "padding", "padding is attended"),
}  # fmt: skip

RIGHT = {
    **images.RIGHT,
    "some longer than max_tokens": lambda: (llama(), FLAT, MIXED),
    "clipped once": lambda: (llama(), FLAT, SHORT, {"step": clipped}),
    "clipped once, hardly": lambda: (llama(), FLAT, SHORT, {"step": lambda m, b: clipped(m, b, 1.0)}),
    "clipped by hand, AdamW": lambda: (llama(), FLAT, SHORT, {"step": clipped_by_hand}),
    "labels shifted before": lambda: (NotShifting(), beforehand, SHORT),
    "a reward of the last token of each": lambda: (LastOfRow("attention"), dense(slots=80, **SEGMENTS), SHORT),
    "experts balanced by document": lambda: (Experts("document"), dense(**SEGMENTS), SHORT),
    "an update without labels, divided by at least 1": lambda: (llama(), FLAT, UNLABELED, {"step": at_least_one}),
    "two rows of 14 sequences": lambda: (Tiny("attention"), dense(slots=96, **SEGMENTS), MANY),
}
