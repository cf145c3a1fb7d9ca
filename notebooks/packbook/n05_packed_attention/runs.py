"""What notebook 05 computes: a trained model, who moves whom, the three forms of the mask, and their work."""

import warnings
from itertools import pairwise
from time import process_time
from timeit import repeat

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import GPT2LMHeadModel, Lfm2Config, Lfm2ForCausalLM, LlamaConfig, LlamaForCausalLM

from packbook.shared.two_words import small_bert_of_words, two_word_batch, two_words
from packlib.batches import TokenStore, collate, pack_lengths
from packlib.model import PackedBert
from packlib.model.attention import additive_mask, allowed_pairs, block_mask, cumulative_lengths
from packlib.model.forms import table

TILE = 128  # FlexAttention decides about 128 × 128 pairs at once


def trained_on_two_words(layers: int, seed: int, updates: int = 200) -> PackedBert:
    """Train a small BERT to look up the hidden words, on packs with mask and positions right."""
    model = small_bert_of_words(seed, layers).double()
    optimizer, texts = torch.optim.AdamW(model.parameters(), lr=5e-3), two_words(40 * updates, seed)
    for update in range(updates):
        batch = two_word_batch(texts.take(np.arange(40 * update, 40 * update + 40)), seed)
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def attention_maps(model: PackedBert, fields: dict[str, Tensor]) -> Tensor:
    """Return each query's attention to each key of its pack, of shape (packs, slots, slots), over layers and heads."""
    model.bert.set_attn_implementation("eager")  # the one that returns its attention
    added = additive_mask(fields["segment_ids"], dtype=torch.float64)
    with torch.no_grad():
        attentions = model.bert(
            fields["input_ids"], added, position_ids=fields["position_ids"], output_attentions=True
        ).attentions
    return torch.stack(attentions).mean((0, 2))


def to_strangers(maps: Tensor, segment_ids: Tensor) -> float:
    """Return the share of the attention of an average real token that goes to other sequences."""
    return float((maps * ~allowed_pairs(segment_ids))[segment_ids > 0].sum(-1).mean())


def attended(x: Tensor, mask: Tensor) -> Tensor:
    """Return attention of one head of width 1 over the slots that `mask`, shape (T, T), lets through."""
    scores = (x[:, None] * x).masked_fill(~mask, torch.finfo(x.dtype).min)
    return scores.softmax(-1) @ x


def convolved(x: Tensor) -> Tensor:
    """Return a convolution of width 3: each slot, and one to either side."""
    return torch.nn.functional.conv1d(x[None, None], x.new_ones(1, 1, 3), padding=1)[0, 0]


def carried(x: Tensor) -> Tensor:
    """Return a state that goes from left to right, h ← h / 2 + x, as the simplest state-space layer."""
    states = [x[0]]
    for value in x[1:]:
        states.append(states[-1] / 2 + value)
    return torch.stack(states)


def surveyed() -> dict[str, int]:
    """Count the causal families of transformers that were compared, are exact with a mask of pairs, or leak, and how.

    "kernels": of those that leak, how many are exact with kernels that begin anew with each sequence.
    """
    kernels = sum(kind == "causal" and row["kernels"] != "" for (kind, _), row in table().items())
    rows = [row["dense"] for (kind, _), row in table().items() if kind == "causal"]
    compared = [row for row in rows if not row.startswith("it was not compared")]
    why = {"state": "carries a state", "convolution": "convolves", "own mask": "its mask its own way"}
    leaking = {name: sum(words in row for row in compared) for name, words in why.items()}
    return leaking | {"compared": len(compared), "exact": compared.count(""), "kernels": kernels}


def hidden_states(model: PackedBert | GPT2LMHeadModel, ids: Tensor, segment_ids: Tensor, positions: Tensor) -> Tensor:
    """Return the last hidden states, with a mask of these segments; shape (B, T, d)."""
    if isinstance(model, PackedBert):
        return model.encode(segment_ids, positions, ids)
    mask = additive_mask(segment_ids, causal=True, dtype=model.dtype)
    return model.transformer(ids, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state


def small_llama(seed: int) -> LlamaForCausalLM:
    """Return a causal model as transformers makes it, at random, in float64."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=4000, initializer_range=0.2, **sizes)).double().eval()


def small_hybrid(seed: int) -> Lfm2ForCausalLM:
    """Return layers that convolve and one that attends, at random."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    return Lfm2ForCausalLM(
        Lfm2Config(vocab_size=4000, layer_types=["conv", "full_attention"], num_hidden_layers=2, **sizes)
    )


def with_dense_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    """Return attention within sequences; query, key, value and the result have the shape (B, heads, T, d)."""
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
    """Time forward and backward through one attention of 4 heads of width 32, the best of three, on the processor."""
    query, key, value = torch.randn(3, len(segment_ids), 4, segment_ids.shape[1], 32, requires_grad=True)

    def step() -> None:
        WAYS[form](query, key, value, segment_ids, False).sum().backward()

    return 1000 * min(repeat(step, number=1, repeat=3, timer=process_time))


def example_packs(lengths: np.ndarray, max_length: int) -> Tensor:
    """Return the segment ids of packs of sequences of these lengths, shape (B, T)."""
    packs, tokens = pack_lengths(lengths, max_length, "lpfhp"), int(lengths.sum())
    offsets, labels = np.concatenate([[0], np.cumsum(lengths)]), np.full(len(lengths), -100)
    store = TokenStore(np.ones(tokens, np.uint8), np.zeros(tokens, np.uint8), offsets, labels)
    return collate(store.take(packs.sample_ids), np.diff(packs.offsets), max_length).segment_ids


def pairs_computed(segment_ids: Tensor) -> dict[str, float]:
    """Return query-key pairs that each form of the mask computes, for one pair within a sequence."""
    packs, slots = segment_ids.shape
    needed = tiles = within = 0
    for part in segment_ids.split(max(1, 2**24 // slots**2)):  # the block mask tries every pair
        mask = block_mask(part)
        tiles += int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum())
        within += int(cumulative_lengths(part)[0].long().diff().square().sum())
        needed += int((allowed_pairs(part) & (part > 0)[:, None]).sum())
    computed = (packs * slots**2, tiles * min(TILE, slots) ** 2, within)
    return {form: pairs / needed for form, pairs in zip(WAYS, computed, strict=True)}
