"""What notebook 05 computes: a trained model, layers that leak, the three forms of the mask, and their work.

Shapes: B packs of T slots; N tokens; d, the width of a model.
"""

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
    """Train a small BERT to look up the hidden words, on packs with the right mask and positions."""
    model = small_bert_of_words(seed, layers).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    batch_size = 40  # sentences
    texts = two_words(batch_size * updates, seed)
    for update in range(updates):
        batch = two_word_batch(texts.take(np.arange(batch_size * update, batch_size * (update + 1))), seed)
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def attention_maps(model: PackedBert, fields: dict[str, Tensor]) -> Tensor:
    """Return each query's attention to each key of its pack, as a mean over layers and heads; shape (B, T, T)."""
    model.bert.set_attn_implementation("eager")  # the one that returns its attention
    added = additive_mask(fields["segment_ids"], dtype=torch.float64)
    with torch.no_grad():
        attentions = model.bert(
            fields["input_ids"], added, position_ids=fields["position_ids"], output_attentions=True
        ).attentions
    return torch.stack(attentions).mean((0, 2))  # of shape (layers, B, heads, T, T)


def to_strangers(maps: Tensor, segment_ids: Tensor) -> float:
    """Return the share of an average token's attention that goes to other sequences.

    Args:
        maps: attention, shape (B, T, T), as from `attention_maps`.
        segment_ids: shape (B, T).
    """
    attention_across = (maps * ~allowed_pairs(segment_ids)).sum(-1)  # of each slot
    return float(attention_across[segment_ids > 0].mean())


def attended(x: Tensor, mask: Tensor) -> Tensor:
    """Return the attention of one head of width 1; `x` has shape (T,), and `mask`, shape (T, T), allows pairs."""
    scores = (x[:, None] * x).masked_fill(~mask, torch.finfo(x.dtype).min)
    return scores.softmax(-1) @ x


def convolved(x: Tensor) -> Tensor:
    """Return a convolution of width 3, the sum of each slot and its two neighbors; shape (T,)."""
    return torch.nn.functional.conv1d(x[None, None], x.new_ones(1, 1, 3), padding=1)[0, 0]


def carried(x: Tensor) -> Tensor:
    """Return a state that goes from left to right, h ← h / 2 + x, as the simplest state-space layer; shape (T,)."""
    states = [x[0]]
    for value in x[1:]:
        states.append(states[-1] / 2 + value)
    return torch.stack(states)


def surveyed() -> dict[str, int]:
    """Count the causal families of models in transformers by whether they are exact in packs with a mask of pairs.

    Returns:
        "compared" families, of which "exact" are exact; those that leak because of a "state", a "convolution" or an
        "own mask"; and "kernels", those that leak but are exact with kernels that restart at each sequence.
    """
    causal_rows = [row for (kind, _), row in table().items() if kind == "causal"]
    num_with_kernels = sum(row["kernels"] != "" for row in causal_rows)
    reasons = [row["dense"] for row in causal_rows]  # why it is not exact; "" if it is
    compared = [reason for reason in reasons if not reason.startswith("it was not compared")]
    words_of_reason = {"state": "carries a state", "convolution": "convolves", "own mask": "its mask its own way"}
    leaking = {name: sum(words in reason for reason in compared) for name, words in words_of_reason.items()}
    return leaking | {"compared": len(compared), "exact": compared.count(""), "kernels": num_with_kernels}


def hidden_states(model: PackedBert | GPT2LMHeadModel, ids: Tensor, segment_ids: Tensor, positions: Tensor) -> Tensor:
    """Return the last hidden states, with a mask of these segments; shape (B, T, d)."""
    if isinstance(model, PackedBert):
        return model.encode(segment_ids, positions, ids)
    mask = additive_mask(segment_ids, causal=True, dtype=model.dtype)
    return model.transformer(ids, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state


def small_llama(seed: int) -> LlamaForCausalLM:
    """Return a small Llama as transformers makes it, with random weights, in float64."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=4000, initializer_range=0.2, **sizes)).double().eval()


def small_hybrid(seed: int) -> Lfm2ForCausalLM:
    """Return an LFM2 with random weights: one layer convolves and one attends."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    return Lfm2ForCausalLM(
        Lfm2Config(vocab_size=4000, layer_types=["conv", "full_attention"], num_hidden_layers=2, **sizes)
    )


def with_dense_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    """Return attention within sequences, with a mask of shape (B, 1, T, T).

    Query, key, value and the result have shape (B, heads, T, d), here and in the next two functions.
    """
    mask = additive_mask(segment_ids, causal, query.dtype)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


def with_block_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    """Return attention within sequences, with FlexAttention, whose mask skips tiles of `TILE` × `TILE` pairs."""
    with warnings.catch_warnings(action="ignore"):  # it warns if it is not compiled, which pays on a GPU alone
        return flex_attention(query, key, value, block_mask=block_mask(segment_ids, causal))


def with_bounds(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    """Return attention within sequences, computed for each sequence from its bounds in the flat batch."""
    bounds, _ = cumulative_lengths(segment_ids)
    flat = [x.transpose(0, 1).flatten(1, 2) for x in (query, key, value)]  # (heads, B·T, d)
    outputs = []  # of each sequence, (heads, its tokens, d)
    for start, end in pairwise(bounds.tolist()):
        query_key_value = [x[:, start:end] for x in flat]
        outputs.append(scaled_dot_product_attention(*query_key_value, is_causal=causal))
    return torch.cat(outputs, dim=1).unflatten(1, segment_ids.shape).transpose(0, 1)


WAYS = {"dense mask": with_dense_mask, "block mask": with_block_mask, "bounds": with_bounds}


def milliseconds(form: str, segment_ids: Tensor) -> float:
    """Time forward and backward through one attention of 4 heads of width 32, the best of three, on the processor.

    Args:
        form: of the mask, one of `WAYS`.
        segment_ids: shape (B, T).
    """
    packs, slots = segment_ids.shape
    query, key, value = torch.randn(3, packs, 4, slots, 32, requires_grad=True)

    def step() -> None:
        WAYS[form](query, key, value, segment_ids, causal=False).sum().backward()

    return 1000 * min(repeat(step, number=1, repeat=3, timer=process_time))


def example_packs(lengths: np.ndarray, max_length: int) -> Tensor:
    """Return the segment ids of packs of sequences of these lengths, shape (B, T)."""
    packs = pack_lengths(lengths, max_length, "lpfhp")
    num_tokens = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    no_labels = np.full(len(lengths), -100)
    store = TokenStore(np.ones(num_tokens, np.uint8), np.zeros(num_tokens, np.uint8), offsets, no_labels)
    return collate(store.take(packs.sample_ids), np.diff(packs.offsets), max_length).segment_ids


def pairs_computed(segment_ids: Tensor) -> dict[str, float]:
    """Return, by form of the mask, how many query-key pairs it computes for each one that lies within a sequence.

    Args:
        segment_ids: shape (B, T), 0 on padding.
    """
    packs, slots = segment_ids.shape
    needed = 0  # pairs within sequences
    tiles = 0  # that a block mask computes, each of TILE × TILE pairs
    in_segments = 0  # pairs that bounds compute; padding is a segment for them
    packs_at_once = max(1, 2**24 // slots**2)  # the block mask tries every pair, which takes memory
    for part in segment_ids.split(packs_at_once):
        mask = block_mask(part)
        tiles += int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum())
        in_segments += int(cumulative_lengths(part)[0].long().diff().square().sum())
        needed += int((allowed_pairs(part) & (part > 0)[:, None]).sum())
    computed = {
        "dense mask": packs * slots**2,
        "block mask": tiles * min(TILE, slots) ** 2,
        "bounds": in_segments,
    }
    return {form: pairs / needed for form, pairs in computed.items()}
