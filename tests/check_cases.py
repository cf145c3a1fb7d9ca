"""For the tests of `check_packing`: tiny models, collators, and faults of each kind that can be put into them."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 120
LENGTHS = (9, 14, 5, 20, 7, 12, 4, 17)


def sequences(count=8, prompts=True, types=False):
    """Tokens drawn at random; the first third of each is a prompt, which no loss counts."""
    draw = torch.Generator().manual_seed(3)
    rows = []
    for length in (LENGTHS * 3)[:count]:
        ids = torch.randint(6, VOCABULARY, (length,), generator=draw).tolist()
        row = {"input_ids": ids}
        if prompts:
            row["labels"] = [-100] * (length // 3) + ids[length // 3 :]
        if types:
            row["token_type_ids"] = [0] * (length // 2) + [1] * (length - length // 2)
        rows.append(row)
    return rows


def masked(rows):
    """The same rows with labels for masked tokens: token 5 stands in their place."""
    out = []
    for number, row in enumerate(rows):
        ids, labels = list(row["input_ids"]), [-100] * len(row["input_ids"])
        for place in range(number % 3, len(ids), 3):
            labels[place], ids[place] = ids[place], 5
        out.append({**row, "input_ids": ids, "labels": labels})
    return out


def packed_rows(rows, slots):
    """First fit: lists of sequences, each list a row."""
    packs = []
    for row in rows:
        fit = next(
            (pack for pack in packs if sum(len(r["input_ids"]) for r in pack) + len(row["input_ids"]) <= slots), None
        )
        packs.append([row]) if fit is None else fit.append(row)
    return packs


def dense(slots=40, mask="additive", causal=True, window=None, positions="restart", start=0, leaked=False, prompts=True,
          drop_last=False, twice=False, types=False, segments=False, transposed=False, off=0, cut=None, shift=False,
          dtype=torch.float32, train_padding=False):  # fmt: skip
    """A collator of packs with a mask; what differs from the defaults is a fault or another form of mask."""

    def collate(rows):
        rows = rows[:-1] if drop_last and len(rows) > 1 else rows
        rows = [*rows, rows[0]] if twice else rows
        packs = packed_rows(rows, slots)
        shape = len(packs), slots
        ids, places, owner = (
            torch.zeros(shape, dtype=torch.long),
            torch.full(shape, start),
            torch.zeros(shape, dtype=torch.long),
        )
        labels, kinds = torch.full(shape, -100), torch.zeros(shape, dtype=torch.long)
        for number, pack in enumerate(packs):
            at = 0
            for order, row in enumerate(pack, start=1):
                content = row["input_ids"][:cut]
                end = at + len(content)
                ids[number, at:end] = torch.tensor(content)
                first = at if positions == "run on" else 0
                places[number, at:end] = torch.arange(first, first + len(content)) + start
                if positions == "off by one" and order > 1:
                    places[number, at:end] += 1
                owner[number, at:end] = order
                labels[number, at:end] = torch.tensor(row["labels"][:cut] if prompts and "labels" in row else content)
                if not leaked and causal:
                    labels[number, at] = -100
                kinds[number, at:end] = torch.tensor(row.get("token_type_ids", [0] * len(row["input_ids"]))[:cut])
                if types:
                    kinds[number, at:end] = (order - 1) % 2
                at = end
        if train_padding:
            labels[owner == 0] = 0
        if shift:
            labels = F.pad(labels[:, 1:], (0, 1), value=-100)
        batch = {"input_ids": ids, "labels": labels}
        if positions != "none":
            batch["position_ids"] = places
        if any("token_type_ids" in row for row in rows) or types:
            batch["token_type_ids"] = kinds
        if segments:
            batch["segment_ids"] = owner
        bounds = owner.roll(off, 1) if off else owner
        allowed = bounds[:, :, None] == bounds[:, None, :]
        back = torch.arange(slots)[:, None] - torch.arange(slots)
        if causal:
            allowed = allowed & (back >= 0)
        if window:
            allowed = allowed & (back.abs() < window)
        if transposed:
            allowed = allowed.transpose(1, 2)
        if mask == "additive":
            batch["attention_mask"] = torch.zeros(allowed.shape, dtype=dtype).masked_fill(
                ~allowed, torch.finfo(dtype).min
            )[:, None]
        elif mask == "boolean":
            batch["attention_mask"] = allowed[:, None]
        elif mask == "ones":
            batch["attention_mask"] = torch.ones_like(ids)
        elif mask == "padding":
            batch["attention_mask"] = (owner > 0).long()
        return batch

    return collate


class Tiny(nn.Module):
    """One of each kind of layer, that keeps sequences apart by `segment_ids`; a fault switches that off.

    Args:
        layers: "attention", "convolution", "state" and "linear", in order.
        fault: what is wrong, or None.
        reduction: "token", "sequence", "pack", "slot" or "sum".
        answer: how outputs are returned.
    """

    def __init__(self, *layers, fault=None, causal=True, reduction="token", answer="object", width=24, table=True):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(256, width) if table else None
        self.parts = nn.ModuleList(
            nn.Conv1d(width, width, 4, groups=width) if kind == "convolution" else nn.Linear(width, 4 * width)
            for kind in layers
        )
        self.head = nn.Linear(width, VOCABULARY)
        self.kinds, self.fault, self.causal, self.reduction, self.answer = layers, fault, causal, reduction, answer
        self.memory = None

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, num_items_in_batch=None, **_):
        rows, slots = input_ids.shape
        segments = torch.ones_like(input_ids) if segment_ids is None else segment_ids
        if position_ids is None:
            begins = F.pad(segments[:, 1:] != segments[:, :-1], (1, 0), value=True)
            index = torch.arange(slots).expand(rows, slots)
            position_ids = index - torch.where(begins, index, 0).cummax(1).values
        if self.fault == "numbers slots":
            position_ids = torch.arange(slots).expand(rows, slots)
        x = self.tokens(input_ids)
        if self.places is not None:
            x = x + self.places(position_ids)
        same = segments[:, :, None] == segments[:, None, :]
        if self.causal:
            same = same.tril()
        for number, (kind, part) in enumerate(zip(self.kinds, self.parts, strict=True)):
            wrong = self.fault == kind or self.fault == f"{kind} {number}"
            x = x + getattr(self, f"_{kind}")(part, F.layer_norm(x, x.shape[-1:]), segments, same, wrong)
        if self.fault == "batch statistics":
            x = x - x.mean((0, 1))
        if self.fault == "memory":
            x = x if self.memory is None else x + 0.1 * self.memory
            self.memory = x.detach().mean()
        if self.fault == "dropout":
            x = F.dropout(x, 0.1)
        logits = self.head(x)
        return self._answer(
            logits, None if labels is None else self._loss(logits, labels, segments, num_items_in_batch)
        )

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        if wrong:
            same = torch.ones_like(same).tril() if self.causal else torch.ones_like(same)
        if self.fault == "sees one back":
            border = F.pad((segments[:, 1:] != segments[:, :-1]), (1, 0))
            same = same | (border[:, :, None] & torch.eye(x.shape[1], dtype=torch.bool).roll(-1, 1).tril()[None])
        if self.fault == "sees ahead":
            same = same | same.transpose(1, 2)
        return F.scaled_dot_product_attention(2 * query, 2 * key, value, attn_mask=same)

    def _linear(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        state = x.new_zeros(len(x), x.shape[-1], x.shape[-1])
        out = []
        for at in range(x.shape[1]):
            if not wrong and at:
                state = state * (segments[:, at] == segments[:, at - 1])[:, None, None]
            state = state + key[:, at, :, None] * value[:, at, None, :]
            out.append(torch.einsum("bi,bij->bj", query[:, at], state))
        return torch.stack(out, 1)

    def _state(self, part, x, segments, same, wrong):
        gate, value, _, out = part(x).chunk(4, -1)
        state, states = torch.zeros_like(x[:, 0]), []
        for at in range(x.shape[1]):
            if not wrong and at:
                state = state * (segments[:, at] == segments[:, at - 1])[:, None]
            state = 0.9 * torch.sigmoid(gate[:, at]) * state + value[:, at]
            states.append(state)
        return torch.stack(states, 1) * torch.sigmoid(out)

    def _convolution(self, part, x, segments, same, wrong):
        if wrong:
            return part(F.pad(x.transpose(1, 2), (3, 0))).transpose(1, 2)
        out = torch.zeros_like(x)
        for back in range(4):
            moved = F.pad(x, (0, 0, back, 0))[:, : x.shape[1]]
            near = F.pad(segments, (back, 0))[:, : x.shape[1]] == segments
            out = out + moved * near[..., None] * part.weight[:, 0, 3 - back]
        return out + part.bias

    def _loss(self, logits, labels, segments, items):
        if self.fault == "leaves out the last":
            last = F.pad(segments[:, 1:] != segments[:, :-1], (0, 1), value=True)
            labels = labels.masked_fill(last, -100)
        if self.causal:
            places = 2 if self.fault == "shifts twice" else 0 if self.fault == "does not shift" else 1
            labels = F.pad(labels[:, places:], (0, places), value=-100)
        each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        counted = (labels != -100).to(each.dtype)
        if self.reduction == "pack":
            return (each.sum(1) / counted.sum(1).clamp(min=1)).mean()
        if self.reduction == "sequence":
            groups = (segments + 100 * torch.arange(len(segments))[:, None]).flatten()
            sums = each.new_zeros(100 * len(segments)).index_add(0, groups, each.flatten())
            counts = each.new_zeros(100 * len(segments)).index_add(0, groups, counted.flatten())
            return (sums / counts.clamp(min=1)).sum() / (counts > 0).sum()
        if self.reduction == "slot":
            return each.mean()
        if self.reduction == "sum":
            return each.sum()
        if items is not None and self.fault != "ignores the count":
            return each.sum() / items
        return each.sum() / counted.sum()

    def _answer(self, logits, loss):
        if self.answer == "tuple":
            return (logits,) if loss is None else (loss, logits)
        return {"logits": logits, "loss": loss}
