"""For the tests of batches and models: real ragged text, small models, the unpacked run as the oracle."""

from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

from packlib.batches import (
    IGNORED,
    MlmMasking,
    PackDataset,
    PackedBatch,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    tokenize,
    wordnet_tokenizer,
)
from packlib.model import PackedBert, nsp_loss, packed_output, token_loss
from packlib.workbook.chapters.shared.glosses import wordnet_texts
from packlib.workbook.chapters.shared.wordnet import sentence_pairs

MAX_LENGTH = 96
REDUCTIONS = ("token", "sequence", "pack")


@cache
def tokenizer():
    return wordnet_tokenizer()


@cache
def store() -> TokenStore:
    """400 glosses of WordNet, half of them with usage examples, and eight sequences of one token."""
    pairs, labels = sentence_pairs(seed=3)
    have = np.flatnonzero(pairs != "")[::160][:200]
    chosen = np.concatenate([have, np.flatnonzero(pairs == "")[::400][:200]])
    text = tokenize(
        tokenizer(), wordnet_texts().definition[chosen], pairs[chosen], labels[chosen], MAX_LENGTH, "truncate"
    )
    short = TokenStore.from_samples([{"input_ids": [tokenizer().cls_token_id]}] * 8, range(400, 408))
    return TokenStore.concatenate([text, short])


@cache
def masking() -> MlmMasking:
    return MlmMasking.for_tokenizer(tokenizer(), seed=5)


def store_loader(batch_size: int = 4, **options) -> PackLoader:
    """Masked packs of the store."""
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    return pack_loader(store(), packs, PackingCollator(MAX_LENGTH, masking()), batch_size, seed=3, **options)


def same(a: PackedBatch, b: PackedBatch) -> bool:
    return all(torch.equal(torch.as_tensor(a[name]), torch.as_tensor(b[name])) for name in a)


def make_batch(depth: int | None = None, packs: int = 6, masked: bool = True, **options) -> PackedBatch:
    """The fullest, deepest, emptiest packs, those with one-token sequences, and others, up to `packs`."""
    all_packs = pack_lengths(store().lengths, MAX_LENGTH, "lpfhp", depth)
    sizes = np.diff(all_packs.offsets)
    first = [all_packs.lengths_used.argmax(), sizes.argmax(), all_packs.lengths_used.argmin(), sizes.argmin()]
    short = [i for i, ids in enumerate(all_packs) if (store().lengths[ids] == 1).any()]
    chosen = list(dict.fromkeys([*map(int, first), *short, *range(0, len(all_packs), 3)]))[:packs]
    collator = PackingCollator(MAX_LENGTH, masking() if masked else None, **options)
    return collator([PackDataset(store(), all_packs)[i] for i in chosen])


def bert_config(**changes) -> BertConfig:
    return BertConfig(**{
        "vocab_size": 4000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "max_position_embeddings": 128, "initializer_range": 0.1,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, **changes,
    })  # fmt: skip


def gpt_config(**changes) -> GPT2Config:
    return GPT2Config(**{
        "vocab_size": 4000, "n_positions": 128, "n_embd": 64, "n_layer": 2, "n_head": 4,
        "initializer_range": 0.1, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
        "bos_token_id": 2, "eos_token_id": 3, **changes,
    })  # fmt: skip


def make_model(kind: str, dtype: torch.dtype = torch.float64, **options) -> PackedBert | GPT2LMHeadModel:
    torch.manual_seed(0)
    model = PackedBert(bert_config(), **options) if kind == "bert" else GPT2LMHeadModel(gpt_config())
    return model.to(dtype)


@dataclass
class Reference:
    """What transformers' own model says about each sequence alone, without padding, packing or packlib."""

    token_logits: torch.Tensor  # (M, vocabulary), in the order of the packed batch
    nsp_logits: torch.Tensor | None  # (S, 2)
    losses: dict[tuple[str, str], torch.Tensor]  # by ("token" or "nsp", mean)
    gradients: dict[str, dict[str, torch.Tensor]]  # by mean, by parameter


def unpack(batch: PackedBatch) -> list[dict]:
    """The sequences of a batch, one dictionary each, found with a plain loop over the segment ids."""
    found = []
    for row in range(batch.input_ids.shape[0]):
        for segment in range(1, int(batch.segment_ids[row].max()) + 1):
            at = (batch.segment_ids[row] == segment).nonzero().flatten()
            fields = [name for name in ("input_ids", "token_type_ids", "labels") if name in batch]
            found.append({"pack": row, **{name: batch[name][row, at] for name in fields}})
            found[-1]["label"] = int(batch.sequence_labels[len(found) - 1])
    return found


def averaged(groups: list[tuple[int, list]], mean: str) -> list:
    """The numbers that a mean is over, by its definition, of values that come as (pack, values of one sequence)."""
    if mean == "token":
        return [value for _, values in groups for value in values]
    if mean == "sequence":
        together = [values for _, values in groups]
    else:
        packs = dict.fromkeys(pack for pack, _ in groups)
        together = [[value for pack, values in groups if pack == one for value in values] for one in packs]
    return [sum(values) / len(values) for values in together if values]


def means(groups: dict[str, list[tuple[int, list]]]) -> dict[tuple[str, str], torch.Tensor]:
    """Each of the three means by its name and that of what is averaged; 0 where there is nothing."""
    lists = {(what, mean): averaged(groups[what], mean) for what in groups for mean in REDUCTIONS}
    zero = torch.zeros((), dtype=torch.float64)
    return {key: sum(values, zero) / max(len(values), 1) for key, values in lists.items()}


def reference(model: PackedBert | GPT2LMHeadModel, batch: PackedBatch) -> Reference:
    is_bert = isinstance(model, PackedBert)
    plain = (BertForPreTraining if is_bert else GPT2LMHeadModel)(deepcopy(model.config)).to(model.dtype)
    plain.config._attn_implementation = "eager"
    plain.load_state_dict(model.state_dict())
    logits, nsp_logits, losses = [], [], {"token": [], "nsp": []}
    for sequence in unpack(batch):
        ids, pack = sequence["input_ids"][None], sequence["pack"]
        if is_bert:
            out = plain(input_ids=ids, token_type_ids=sequence["token_type_ids"][None])
            target = sequence.get("labels", torch.full_like(ids[0], IGNORED))
            scores = out.prediction_logits[0]
            nsp_logits.append(out.seq_relationship_logits[0])
            label = torch.tensor(sequence["label"])
            losses["nsp"].append((pack, [F.cross_entropy(nsp_logits[-1], label)] if label != IGNORED else []))
        else:
            target = sequence.get("labels", ids[0])[1:]
            scores = plain(input_ids=ids).logits[0, :-1]
        at = target != IGNORED
        logits.append(scores[at])
        losses["token"].append((pack, list(F.cross_entropy(scores[at], target[at], reduction="none"))))
    parts, gradients = means(losses), {}
    for mean in REDUCTIONS:
        plain.zero_grad()
        (parts["token", mean] + parts["nsp", mean]).backward(retain_graph=True)
        gradients[mean] = {name: p.grad.clone() for name, p in plain.named_parameters() if p.grad is not None}
    return Reference(
        torch.cat(logits).detach(),
        torch.stack(nsp_logits).detach() if is_bert else None,
        {key: value.detach() for key, value in parts.items()},
        gradients,
    )


def assert_close(what, got, expected, tolerance):
    assert got.shape == expected.shape, what
    error = (got.detach().double() - expected.double()).abs().max() if got.numel() else 0
    assert error <= tolerance, f"{what} differs by {error:.3g}"


def assert_equals_unpacked(model, batch, expected):
    """Compare everything."""
    tolerance = 1e-10 if model.dtype == torch.float64 else 1e-5
    for mean in REDUCTIONS:
        model.zero_grad()
        output = packed_output(model, batch)
        assert_close("token logits", output.token_logits, expected.token_logits, tolerance)
        loss = token_loss(output, batch, mean)
        assert_close(f"token loss by {mean}", loss.mean, expected.losses["token", mean], tolerance)
        total = loss.mean
        if expected.nsp_logits is not None:
            assert_close("NSP logits", output.nsp_logits[: batch.num_sequences], expected.nsp_logits, tolerance)
            nsp = nsp_loss(output, batch, mean)
            assert_close(f"NSP loss by {mean}", nsp.mean, expected.losses["nsp", mean], tolerance)
            total = total + nsp.mean
        total.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        assert gradients.keys() == expected.gradients[mean].keys()
        for name, gradient in gradients.items():
            assert_close(f"gradient of {name} by {mean}", gradient, expected.gradients[mean][name], tolerance)
