"""For the tests of `check_packing`: tiny models, collators, and faults of each kind that can be put into them."""

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional as F

from packlib.batches import PackDataset, PackingCollator, TokenStore, pack_lengths

VOCABULARY = 120
LENGTHS = (9, 14, 5, 20, 7, 12)
SEGMENTS = {"segments": True, "mask": None}


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
    """Pack sequences into rows by first fit; return a list of sequences for each row."""
    packs = []
    for row in rows:
        fits = (pack for pack in packs if sum(len(one["input_ids"]) for one in [*pack, row]) <= slots)
        fit = next(fits, None)
        packs.append([row]) if fit is None else fit.append(row)
    return packs


def wrapped(rows, slots=16):
    """All tokens end to end, cut into rows wherever one is full; a sequence that is cut goes on in the next."""
    more = -sum(len(row["input_ids"]) for row in rows) % slots
    ids = [token for row in rows for token in row["input_ids"]] + [0] * more
    places = [place for row in rows for place in range(len(row["input_ids"]))] + [0] * more
    ids, places = torch.tensor(ids).view(-1, slots), torch.tensor(places).view(-1, slots)
    return {"input_ids": ids, "position_ids": places, "labels": ids.masked_fill(places == 0, -100)}


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


def flat(rows):
    """A collator without rows: tokens of shape (T,), and where sequences begin and end."""
    bounds = torch.tensor(np.cumsum([0, *(len(row["input_ids"]) for row in rows)]))
    labels = [label for row in rows for label in (-100, *row["labels"][1:])]
    ids = [token for row in rows for token in row["input_ids"]]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "cu_seqlens": bounds}


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
    """As a collator for masked language modeling does, with other tokens each time, and segment ids."""
    batch = dense(causal=False, **SEGMENTS)(rows)
    ids = batch["input_ids"]
    chosen = (torch.rand(ids.shape) < 0.25) & (ids > 0)
    return {**batch, "labels": ids.masked_fill(~chosen, -100), "input_ids": ids.masked_fill(chosen, 5)}


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
        "GPT2LMHeadModel": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128},
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


def dense(slots=40, mask="additive", causal=True, window=None, positions="restart", start=0, leaked=False, types=False,
          segments=False, off=0, dtype=torch.float32, train_padding=False):  # fmt: skip
    """A collator of packs with a mask; what differs from the defaults is a fault or another form of mask."""

    def collate(rows):
        packs = packed_rows(rows, slots)
        ids, owner, kinds = torch.zeros(3, len(packs), slots, dtype=torch.long)
        places, labels = torch.full_like(ids, start), torch.full_like(ids, -100)
        for number, pack in enumerate(packs):
            at = 0
            for order, row in enumerate(pack, start=1):
                content = row["input_ids"]
                end = at + len(content)
                ids[number, at:end] = torch.tensor(content)
                first = at if positions == "run on" else 0
                places[number, at:end] = torch.arange(first, first + len(content)) + start
                owner[number, at:end] = order
                labels[number, at:end] = torch.tensor(row.get("labels", content))
                if not leaked and causal:
                    labels[number, at] = -100
                kinds[number, at:end] = torch.tensor(row.get("token_type_ids", [0] * len(content)))
                if types:
                    kinds[number, at:end] = (order - 1) % 2
                at = end
        if train_padding:
            labels[owner == 0] = 0
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
        masks = {
            "additive": torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)[:, None],
            "boolean": allowed[:, None],
            "ones": torch.ones_like(ids),
        }
        return batch | ({"attention_mask": masks[mask]} if mask else {})

    return collate


def spoiled(collate, **changes):
    """A collator of the same batches, of which some fields are changed."""

    def spoil(rows):
        batch = collate(rows)
        return batch | {name: change(batch[name]) for name, change in changes.items()}

    return spoil


class Tiny(nn.Module):
    """One of each kind of layer, that keeps sequences apart by `segment_ids`; a fault switches that off.

    Args:
        layers: "attention" and "state", in order.
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
        self.parts = nn.ModuleList(nn.Linear(width, 4 * width) for _ in layers)
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
        loss = None if labels is None else self._loss(logits, labels, segments, num_items_in_batch)
        if self.answer == "tuple":
            return (logits,) if loss is None else (loss, logits)
        return {"logits": logits, "loss": loss}

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        if wrong:
            same = torch.ones_like(same).tril() if self.causal else torch.ones_like(same)
        if self.fault == "sees ahead":
            same = same | same.transpose(1, 2)
        return F.scaled_dot_product_attention(2 * query, 2 * key, value, attn_mask=same)

    def _state(self, part, x, segments, same, wrong):
        gate, value, _, out = part(x).chunk(4, -1)
        state, states = torch.zeros_like(x[:, 0]), []
        for at in range(x.shape[1]):
            if not wrong and at:
                state = state * (segments[:, at] == segments[:, at - 1])[:, None]
            state = 0.9 * torch.sigmoid(gate[:, at]) * state + value[:, at]
            states.append(state)
        return torch.stack(states, 1) * torch.sigmoid(out)

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


class Odd(Tiny):
    """Attention, and a loss or a model with something about it that depends on the company of a sequence, or not."""

    def __init__(self, fault, **options):
        super().__init__("attention", fault=fault, **options)

    def forward(self, input_ids, position_ids=None, segment_ids=None, **more):
        segments = torch.ones_like(input_ids) if segment_ids is None else segment_ids
        if self.fault == "positions clipped" and position_ids is not None:
            position_ids = position_ids.clamp(max=10)
        if self.fault == "ids come again" and segment_ids is not None:
            segments = torch.where(segments > 0, (segments - 1) % 2 + 1, 0)
        return super().forward(input_ids, position_ids, segments, **more)

    def _loss(self, logits, labels, segments, items):
        depth, rows = segments.amax(1), len(logits)
        company = int(rows > 1 or depth.max() > 1)
        if self.fault == "gradients by pack":
            logits = logits * depth[:, None, None] - (logits * (depth[:, None, None] - 1)).detach()
        base = super()._loss(logits, labels, segments, items)
        asked = F.pad(labels[:, 1:], (0, 1), value=-100) != -100
        share = asked / (asked.sum() if items is None else items)
        smooth, z = -logits.log_softmax(-1).mean(-1), logits.logsumexp(-1) ** 2
        return {
            "twice": 2 * base, "times rows": base * rows, "over sequences": base / depth.sum(),
            "smoothing": 0.9 * base + 0.1 * (smooth * share).sum(),
            "smoothing over prompts": 0.9 * base + 0.1 * smooth[segments > 0].mean(),
            "z-loss": base + 0.01 * (z * share).sum(),
            "twice in company": base * (1 + company), "nothing in company": base * (1 - company),
        }.get(self.fault, base)  # fmt: skip


class ByHand(Tiny):
    """Its softmax is an exponential and a division."""

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        same = torch.ones_like(same).tril() if wrong else same
        weights = torch.exp(query @ key.transpose(1, 2) / 4) * same
        return weights / weights.sum(-1, keepdim=True) @ value


class HeadsFirst(Tiny):
    """Its scores have the shape (heads, rows, T, T); with one head, that is how torch 2.14 computes without heads."""

    def __init__(self, heads, **options):
        super().__init__("attention", **options)
        self.heads = heads

    def _attention(self, part, x, segments, same, wrong):
        same = torch.ones_like(same).tril() if wrong else same
        query, key, value, _ = (whole.unflatten(-1, (self.heads, -1)).movedim(-2, 0) for whole in part(x).chunk(4, -1))
        scores = (4 * query @ key.mT / query.shape[-1] ** 0.5).masked_fill(~same, -torch.inf)
        return (scores.softmax(-1) @ value).movedim(0, -2).flatten(-2)


class OfTorch(nn.Module):
    """torch's own encoder; answers with a tuple."""

    def __init__(self, statistics=False):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = nn.Embedding(VOCABULARY, 16), nn.Embedding(64, 16)
        self.head = nn.Linear(16, VOCABULARY)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.statistics = nn.BatchNorm1d(16) if statistics else None

    def forward(self, input_ids, segment_ids, position_ids, labels):
        x = self.tokens(input_ids) + self.places(position_ids)
        if self.statistics is not None:
            x = self.statistics(x.transpose(1, 2)).transpose(1, 2)
        others = segment_ids[:, :, None] != segment_ids[:, None, :]
        logits = self.head(self.encoder(x, mask=others.repeat_interleave(2, 0)))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


class Flat(nn.Module):
    """Takes tokens without rows; the logits that it returns are not those that its loss is made of."""

    def __init__(self):
        super().__init__()
        self.inner = Tiny("attention", "attention", answer="tuple")

    def forward(self, input_ids, cu_seqlens, labels):
        segments = torch.bucketize(torch.arange(len(input_ids)), cu_seqlens, right=True)
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
