"""For the tests of `check_packing`: tiny models, collators, and faults of each kind that can be put into them."""

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional as F

from packlib.batches import PackDataset, PackingCollator, TokenStore, pack_lengths

VOCABULARY = 120
LENGTHS = (9, 14, 5, 20, 7, 12)


def sequences(count=6, prompts=True, types=False):
    """Tokens drawn at random; the first third of each is a prompt, which no loss counts."""
    draw = torch.Generator().manual_seed(3)
    rows = []
    for length in (LENGTHS * 4)[:count]:
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


def padded(rows, ones=False):
    """A batch of one sequence a row; with `ones` the mask hides no padding."""
    slots = max(len(row["input_ids"]) for row in rows)

    def full(name, fill):
        return torch.tensor([row[name] + [fill] * (slots - len(row[name])) for row in rows])

    ids = full("input_ids", 0)
    return {"input_ids": ids, "labels": full("labels", -100), "attention_mask": ((ids > 0) | ones).long()}


def ours(rows):
    """packlib's own packs."""
    store = TokenStore.from_samples(rows)
    packs = pack_lengths(store.lengths, 40)
    data = PackDataset(store, packs)
    return PackingCollator(40)([data[at] for at in range(len(packs))])


def flat(off=0):
    """A collator without rows: tokens of shape (T,), and where sequences begin and end."""

    def collate(rows):
        bounds = torch.tensor(np.cumsum([0, *(len(row["input_ids"]) for row in rows)]))
        bounds[1:-1] += off
        labels = [label for row in rows for label in (-100, *row["labels"][1:])]
        ids = [token for row in rows for token in row["input_ids"]]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "cu_seqlens": bounds}

    return collate


def multiples(rows, multiple=8, end=()):
    """One row, in which each sequence is padded to a multiple, as kernels and ranks like it; `end` ends each."""
    ids, places, labels = [], [], []
    for row in rows:
        content = [*row["input_ids"], *end]
        more = -len(content) % multiple
        ids += content + [0] * more
        places += range(len(content) + more)
        labels += [-100, *row["labels"][1:], *end] + [-100] * more
    return {name: torch.tensor([x]) for name, x in (("input_ids", ids), ("position_ids", places), ("labels", labels))}


def masked_at_random(rows):
    """As a collator for masked language modeling does, with other tokens each time."""
    batch = dense(causal=False)(rows)
    ids = batch["input_ids"]
    chosen = (torch.rand(ids.shape) < 0.25) & (ids > 0)
    return {**batch, "labels": ids.masked_fill(~chosen, -100), "input_ids": ids.masked_fill(chosen, 5)}


def masked_at_random_in_segments(rows):
    """The same, for a model that reads segment ids."""
    batch = dense(causal=False, segments=True)(rows)
    return {**masked_at_random(rows), "segment_ids": batch["segment_ids"], "attention_mask": None}


class Autocast(nn.Module):
    """A model in mixed precision."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.model(**batch)


def make(name, attention=None, **changes):
    """A tiny model of transformers at random, without a cache."""
    common = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0,
              "max_position_embeddings": 128, "use_cache": False}  # fmt: skip
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    own = {
        "GPT2LMHead": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128},
        "MistralForCausalLM": {"sliding_window": 4},
        "Gemma3ForCausalLM": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
        "ModernBertForMaskedLM": {"local_attention": 6, "global_attn_every_n_layers": 2, "cls_token_id": 1,
                                  "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
        "RobertaForMaskedLM": {"pad_token_id": 1},
        "MambaForCausalLM": {"state_size": 4},
        "Lfm2ForCausalLM": {"layer_types": ["conv", "full_attention"]},
        "MixtralForCausalLM": {"num_local_experts": 4},
        "Qwen3NextForCausalLM": {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2,
                                 "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                                 "shared_expert_intermediate_size": 16, **experts},
    }  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, name)
    config = model.config_class(**{**common, **own.get(name, {}), **changes})
    return model._from_config(config, **({"attn_implementation": attention} if attention else {}))


def dense(slots=40, mask="additive", causal=True, window=None, positions="restart", start=0, leaked=False, prompts=True,
          drop_last=False, twice=False, types=False, segments=False, transposed=False, off=0, cut=None, shift=False,
          dtype=torch.float32, train_padding=False,
    rolled=False):  # fmt: skip
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
                if positions == "bytes":
                    places[number, at:end] = places[number, at:end].to(torch.int8).long()
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
        if rolled:
            labels = labels.roll(1, 0)
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

    def __init__(self, *layers, fault=None, causal=True, reduction="token", answer="object"):
        super().__init__()
        torch.manual_seed(0)
        width = 24
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(256, width)
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
        x = self.tokens(input_ids) + self.places(position_ids)
        same = segments[:, :, None] == segments[:, None, :]
        if self.causal:
            same = same.tril()
        for number, (kind, part) in enumerate(zip(self.kinds, self.parts, strict=True)):
            wrong = self.fault == kind or self.fault == f"{kind} {number}"
            x = x + getattr(self, f"_{kind}")(part, F.layer_norm(x, x.shape[-1:]), segments, same, wrong)
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
            places = 0 if self.fault == "does not shift" else 1
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


class Odd(Tiny):
    """Attention, and a loss or a model with something about it that depends on the company of a sequence, or not."""

    def __init__(self, fault, **options):
        super().__init__("attention", fault=fault, **options)

    def forward(self, input_ids, position_ids=None, segment_ids=None, **more):
        segments = torch.ones_like(input_ids) if segment_ids is None else segment_ids
        if self.fault == "positions clipped" and position_ids is not None:
            position_ids = position_ids.clamp(max=10)
        if self.fault == "last border off by one" and segment_ids is not None:
            moved = segments[-1:].roll(1, 1)
            segments = torch.cat([segments[:-1], torch.cat([segments[-1:, :1], moved[:, 1:]], 1)])
        if self.fault == "ids come again" and segment_ids is not None:
            segments = torch.where(segments > 0, (segments - 1) % 2 + 1, 0)
        self.used = (segments > 0).sum(1)[:, None, None]
        return super().forward(input_ids, position_ids, segments, **more)

    def _attention(self, part, x, segments, same, wrong):
        if self.fault == "attention by the row":
            x = x * (1 + 0.05 * self.used)
        return super()._attention(part, x, segments, same, wrong)

    def _loss(self, logits, labels, segments, items):
        depth, rows = segments.amax(1), len(logits)
        if self.fault == "gradients by pack":
            logits = logits * depth[:, None, None] - (logits * (depth[:, None, None] - 1)).detach()
        if self.fault == "first label of each":
            starts = F.pad(segments[:, 1:] != segments[:, :-1], (1, 0), value=True)
            labels = labels.masked_fill(F.pad(starts[:, :-1], (1, 0)), -100)
        base = super()._loss(logits, labels, segments, items)
        asked = F.pad(labels[:, 1:], (0, 1), value=-100) != -100
        share = asked / (asked.sum() if items is None else items)
        smooth, z = -logits.log_softmax(-1).mean(-1), logits.logsumexp(-1) ** 2
        return {
            "twice": 2 * base, "times rows": base * rows, "over rows": base / rows,
            "over sequences": base / depth.sum(), "gradients by rows": base * rows - (base * (rows - 1)).detach(),
            "smoothing": 0.9 * base + 0.1 * (smooth * share).sum(),
            "smoothing over padding": 0.9 * base + 0.1 * smooth.mean(),
            "smoothing over prompts": 0.9 * base + 0.1 * smooth[segments > 0].mean(),
            "z-loss": base + 0.01 * (z * share).sum(), "z-loss over padding": base + 0.01 * z.mean(),
        }.get(self.fault, base)  # fmt: skip


class ByHand(Tiny):
    """Its softmax is an exponential and a division."""

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        same = torch.ones_like(same).tril() if wrong else same
        weights = torch.exp(query @ key.transpose(1, 2) / 4) * same
        return weights / weights.sum(-1, keepdim=True) @ value


class OfTorch(nn.Module):
    """torch's own encoder; answers with a tuple."""

    def __init__(self, mask=True, statistics=False):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places, self.head = (
            nn.Embedding(VOCABULARY, 16),
            nn.Embedding(64, 16),
            nn.Linear(16, VOCABULARY),
        )
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.statistics = nn.BatchNorm1d(16) if statistics else None
        self.mask = mask

    def forward(self, input_ids, segment_ids, position_ids, labels):
        x = self.tokens(input_ids) + self.places(position_ids)
        if self.statistics is not None:
            x = self.statistics(x.transpose(1, 2)).transpose(1, 2)
        others = (segment_ids[:, :, None] != segment_ids[:, None, :]) & self.mask
        logits = self.head(self.encoder(x, mask=others.repeat_interleave(2, 0)))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


class Recurrent(nn.Module):
    """A GRU, whose state runs through a whole row."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.layer, self.head = (
            nn.Embedding(VOCABULARY, 16),
            nn.GRU(16, 16, batch_first=True),
            nn.Linear(16, VOCABULARY),
        )

    def forward(self, input_ids, labels=None, **_):
        logits = self.head(self.layer(self.tokens(input_ids))[0])
        return {"logits": logits, "loss": F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())}


class Flat(nn.Module):
    """Takes tokens without rows; the logits that it returns are not those that its loss is made of."""

    def __init__(self, mask=True):
        super().__init__()
        self.inner, self.mask = Tiny("attention", "attention", answer="tuple"), mask

    def forward(self, input_ids, cu_seqlens, labels):
        segments = (
            torch.bucketize(torch.arange(len(input_ids)), cu_seqlens, right=True) if self.mask else input_ids * 0
        )
        loss, logits = self.inner(input_ids[None], segment_ids=segments[None], labels=labels[None])
        return {"logits": logits[0], "loss": loss}


def without_gradients(model):
    """A plain function."""
    model = model.eval()

    @torch.no_grad()
    def call(**batch):
        return model(**batch)

    return call


def mean_of_means(model, batches):
    for batch in batches:
        (model(**batch).loss / len(batches)).backward()


def one_mean(model, batches):
    """As a transformers.Trainer does, with an update and without gradients at the end."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = sum(int((batch["labels"] != -100).sum()) for batch in batches)
    for batch in batches:
        model(**batch, num_items_in_batch=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
