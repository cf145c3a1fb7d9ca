"""What notebook 05 computes: influence, the three forms of the mask, and their work."""

import warnings
from itertools import pairwise
from timeit import repeat

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from packlib.batches import PackedBatch, TokenStore, collate, pack_lengths
from packlib.model import PackedBert, per_sequence
from packlib.model.attention import additive_mask, allowed_pairs, block_mask, cumulative_lengths
from packlib.workbook.chapters.shared.segments import spoiled

TILE = 128  # FlexAttention decides about 128 × 128 pairs at once


def influence(model: PackedBert, batch: PackedBatch, mask: bool = True, restart: bool = True) -> np.ndarray:
    """How much each sequence's loss (rows) moves with each sequence's embeddings (columns); shape (S, S)."""
    fields = spoiled(batch, mask, restart)
    embeddings = model.get_input_embeddings()(fields.pop("input_ids")).detach().requires_grad_()
    losses, _ = per_sequence(model(**fields, inputs_embeds=embeddings), batch)
    rows = []
    for loss in losses:
        (gradient,) = torch.autograd.grad(loss, embeddings, retain_graph=True)
        useful = gradient[batch.segment_ids > 0]  # shape (tokens, d), sequence after sequence
        rows.append([part.norm().item() for part in useful.split(batch.lengths.tolist())])
    return np.array(rows)


def with_dense_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    """Attention within sequences; query, key, value and the result have the shape (B, heads, T, d)."""
    mask = additive_mask(segment_ids, causal, query.dtype)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


def with_block_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    with warnings.catch_warnings(action="ignore"):  # it wants to be compiled, which pays on a GPU
        return flex_attention(query, key, value, block_mask=block_mask(segment_ids, causal))


def with_bounds(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    bounds, _ = cumulative_lengths(segment_ids)
    flat = [x.transpose(0, 1).flatten(1, 2) for x in (query, key, value)]  # (heads, B·T, d)
    documents = [
        scaled_dot_product_attention(*(x[:, start:end] for x in flat), is_causal=causal)
        for start, end in pairwise(bounds.tolist())
    ]
    return torch.cat(documents, dim=1).unflatten(1, segment_ids.shape).transpose(0, 1)


WAYS = {"dense mask": with_dense_mask, "block mask": with_block_mask, "bounds": with_bounds}


def milliseconds(form: str, segment_ids: Tensor) -> float:
    """Forward and backward through one attention of 4 heads of width 32, the best of three."""
    query, key, value = torch.randn(3, len(segment_ids), 4, segment_ids.shape[1], 32, requires_grad=True)
    runs = repeat(lambda: WAYS[form](query, key, value, segment_ids, False).sum().backward(), number=1, repeat=3)
    return 1000 * min(runs)


def example_packs(lengths: np.ndarray, max_length: int) -> Tensor:
    """The segment ids of packs of sequences of these lengths, shape (B, T)."""
    packs, tokens = pack_lengths(lengths, max_length, "lpfhp"), int(lengths.sum())
    offsets, labels = np.concatenate([[0], np.cumsum(lengths)]), np.full(len(lengths), -100)
    store = TokenStore(np.ones(tokens, np.uint8), np.zeros(tokens, np.uint8), offsets, labels)
    return collate(store.take(packs.sample_ids), np.diff(packs.offsets), max_length).segment_ids


def pairs_computed(segment_ids: Tensor) -> dict[str, float]:
    """Query-key pairs that each form of the mask computes, for one pair within a sequence."""
    packs, slots = segment_ids.shape
    needed = tiles = within = 0
    for part in segment_ids.split(max(1, 2**24 // slots**2)):  # the block mask tries every pair
        mask = block_mask(part)
        tiles += int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum())
        within += int(cumulative_lengths(part)[0].long().diff().square().sum())
        needed += int((allowed_pairs(part) & (part > 0)[:, None]).sum())
    computed = (packs * slots**2, tiles * min(TILE, slots) ** 2, within)
    return {form: pairs / needed for form, pairs in zip(WAYS, computed, strict=True)}
