"""Five ways to batch the same texts: as many an update, or as many tokens, in different shapes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from transformers import GPT2LMHeadModel

from packbook.shared.habits import make_batches
from packlib.batches import (
    PackDataset,
    PackedBatch,
    PackingCollator,
    TokenStore,
    batch_by_tokens,
    collate,
    pack_lengths,
)
from packlib.model import packed_output

BATCHINGS = ("padded", "bucketed", "token budget", "nested", "packed")
SEQUENCES = 8  # an update, on average


@dataclass(frozen=True)
class Update:
    """What one update trains on: its loss, and how much that is."""

    loss: Callable[[GPT2LMHeadModel], Tensor]
    sequences: int
    tokens: int
    slots: int
    length: int


def batched_updates(name: str, store: TokenStore, seed: int, length: int) -> Iterator[Update]:
    """Yield one pass over `store`."""
    for batch in batches(name, store, seed, length):
        tokens = batch.useful_tokens
        if name == "nested":
            longest = int(batch.lengths.max())
            yield Update(partial(nested_loss, batch=batch), batch.num_sequences, tokens, tokens, longest)
        else:
            slots = batch.input_ids.numel()
            yield Update(partial(padded_loss, batch=batch), batch.num_sequences, tokens, slots, batch.max_length)


def batches(name: str, store: TokenStore, seed: int, length: int, size: int = SEQUENCES) -> Iterator[PackedBatch]:
    """Yield the batches of one pass, each of `size` sequences or about as many; "ascending" has short texts first."""
    lengths, rng = store.lengths, np.random.default_rng(seed)
    if name in ("token budget", "ascending"):
        budget = size * len(store.input_ids) // len(store)
        made = list(batch_by_tokens(lengths, budget, order="ascending", seed=(seed, 0)))
        shuffled = np.random.default_rng([seed, 0, 1]).permutation(len(made))
        for at in shuffled if name == "token budget" else range(len(made)):
            sequences = store.take(made[at])
            yield collate(sequences, [1] * len(sequences), int(sequences.lengths.max()))
    elif name == "packed":
        packs = PackDataset(store, pack_lengths(lengths, length, "lpfhp", seed=seed))
        rows, order = round(size * len(packs) / len(store)), rng.permutation(len(packs)).tolist()
        collator = PackingCollator(length)
        for at in range(0, len(order), rows):
            yield collator([packs[i] for i in order[at : at + rows]])
    else:
        habit = "buckets" if name == "bucketed" else "random"
        groups = list(make_batches(lengths, size, habit, seed))
        for group in rng.permutation(len(groups)).tolist():
            sequences = store.take(groups[group])
            width = length if name == "padded" else int(sequences.lengths.max())
            yield collate(sequences, [1] * len(sequences), width)


def padded_loss(model: GPT2LMHeadModel, batch: PackedBatch) -> Tensor:
    return packed_output(model, batch).loss


def nested_loss(model: GPT2LMHeadModel, batch: PackedBatch) -> Tensor:
    """Return the loss on the tokens alone, without any padding: queries, keys and values are jagged nested tensors.

    On a CPU torch 2.13 has no causal attention over jagged tensors, so each sequence attends by itself.
    """
    ids = batch.input_ids[batch.segment_ids > 0]
    offsets = torch.nn.functional.pad(batch.lengths.cumsum(0), (1, 0))
    body, heads = model.transformer, model.config.n_head
    x = body.wte(ids) + body.wpe(batch.position_ids[batch.segment_ids > 0])
    for block in body.h:
        qkv = block.attn.c_attn(block.ln_1(x)).unflatten(-1, (3, heads, -1)).unbind(1)
        each = zip(*(torch.nested.nested_tensor_from_jagged(part, offsets).unbind() for part in qkv), strict=True)
        mixed = [
            scaled_dot_product_attention(*(part.transpose(0, 1) for part in parts), is_causal=True).transpose(0, 1)
            for parts in each
        ]
        x = x + block.attn.c_proj(torch.cat(mixed).flatten(1))
        x = x + block.mlp(block.ln_2(x))
    first = torch.zeros(len(ids) + 1, dtype=torch.bool)
    first[offsets] = True  # a first token, and what follows the last one, is not predicted
    predicts = (~first[1:]).nonzero().flatten()
    return cross_entropy(model.lm_head(body.ln_f(x)[predicts]), ids[predicts + 1])
