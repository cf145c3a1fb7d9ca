"""For the tests of batches and models: real ragged text, small models, and what each mean is over."""

from functools import cache

import numpy as np
import torch
from transformers import BertConfig, GPT2Config, GPT2LMHeadModel

from packbook.shared.glosses import wordnet_texts
from packbook.shared.wordnet import sentence_pairs
from packlib.batches import (
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
from packlib.model import PackedBert

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


def make_model(kind: str, dtype: torch.dtype = torch.float64, **options) -> PackedBert | GPT2LMHeadModel:
    torch.manual_seed(0)
    if kind == "bert":
        return PackedBert(bert_config(), **options).to(dtype)
    size = {"vocab_size": 4000, "n_positions": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "initializer_range": 0.1}
    dropout = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    return GPT2LMHeadModel(GPT2Config(**size, **dropout, bos_token_id=2, eos_token_id=3)).to(dtype)


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
