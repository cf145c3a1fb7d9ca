"""Families that make their attention mask their own way: each is told here which tokens share a sequence.

The others ask transformers for their mask, and so get ours: see `packlib.model.attention`.
"""

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from packlib.model.attention import additive_mask, allowed_pairs, packs_now, reset_positions

WINDOWED = "longformer"  # its mask is of keys only; what it compares is a window of them


def keep_apart(model: PreTrainedModel, dense: str) -> None:
    """From now on the layers of `model` that make or take a mask of their own keep the sequences of a pack apart.

    Args:
        dense: "sdpa" or "eager", for the layers that add to a mask only where their attention has one of these names.
    """
    family = model.config.model_type
    for part in model.modules():
        layer = family, type(part).__name__
        if layer in _HOOKS:
            part.register_forward_pre_hook(_HOOKS[layer], with_kwargs=True)
        if layer in _BY_NAME:
            part.config = deepcopy(part.config)
            part.config._attn_implementation = dense
        if layer == (WINDOWED, "LongformerSelfAttention"):
            scores = part._sliding_chunks_query_key_matmul
            part._sliding_chunks_query_key_matmul = partial(_windows_within, scores)


def padding_mask(family: str, segment_ids: Tensor) -> Tensor | None:
    """The mask of each pack as a row of tokens: ones, as packs keep their padding apart; shape (B, T), int64.

    ALiBi takes a key's position from the running sum of this mask, less one. Where the model rounds the product of
    position and slope, positions must restart: the sum of the differences of restarting positions is that.
    XLNet, asked to look back only, takes no such mask with more than one row.
    """
    if family == "xlnet":
        return None
    if family not in ("bloom", "falcon"):
        return torch.ones_like(segment_ids)
    positions = reset_positions(segment_ids)
    return positions.diff(prepend=torch.full_like(positions[:, :1], -1))


def _and_pairs(module: nn.Module, arguments: tuple, options: dict) -> tuple[tuple, dict]:
    """The second argument is a mask of keys, (B, T), or of pairs, (B, T, T): where it is not 0, look."""
    own = arguments[1].bool()
    pairs = allowed_pairs(packs_now(module).segment_ids) & (own if own.dim() == 3 else own[:, None])
    return (arguments[0], pairs, *arguments[2:]), options


def _add_pairs(module: nn.Module, arguments: tuple, options: dict) -> tuple[tuple, dict]:
    """The second argument is added to the scores, shape (B, 1, 1, T); it is 0, as no token is hidden from all."""
    packs = packs_now(module)
    return (arguments[0], additive_mask(packs.segment_ids, dtype=packs.dtype), *arguments[2:]), options


def _forbid_pairs(module: nn.Module, arguments: tuple, options: dict) -> tuple[tuple, dict]:
    """`attn_mask_h`, shape (T queries, T keys, 1, 1), is 1 where a query may not look at a key."""
    own = options["attn_mask_h"]
    others = (~allowed_pairs(packs_now(module).segment_ids)).permute(1, 2, 0)[..., None]
    return arguments, options | {"attn_mask_h": own.maximum(others.to(own.dtype))}


def _windows_within(scores_of: Any, query: Tensor, key: Tensor, reach: int) -> Tensor:
    """Longformer's scores, shape (B, T, H, 2·reach + 1): of the keys from `reach` before the query to as many after."""
    scores = scores_of(query, key, reach)
    segment_ids = packs_now(scores_of.__self__).segment_ids
    ids = nn.functional.pad(segment_ids, (0, scores.shape[1] - segment_ids.shape[1]))  # to whole windows
    near = nn.functional.pad(ids, (reach, reach)).unfold(1, 2 * reach + 1, 1)
    return scores.masked_fill((near != ids[:, :, None])[:, :, None], torch.finfo(scores.dtype).min)


def _drop_by_sequence(module: nn.Module, arguments: tuple, options: dict) -> tuple[tuple, dict]:
    """ESM divides by the share of unmasked tokens in the row; its embeddings come here with that share undone."""
    ids = options["input_ids"]
    if ids is None or not module.token_dropout:
        return arguments, options
    same, masked = allowed_pairs(packs_now(module, masks=0).segment_ids), ids == module.mask_token_id
    here = (same & masked[:, None]).sum(-1) / same.sum(-1)
    row = masked.sum(-1, keepdim=True) / masked.shape[1]
    embeddings = module.word_embeddings(ids)
    scale = ((1 - row) / (1 - here)).to(embeddings.dtype)
    return arguments, options | {"inputs_embeds": embeddings * scale[:, :, None]}


_BY_NAME = {  # by family and layer; Falcon's is only slower otherwise
    ("axk2", "AXK2Attention"),
    ("deepseek_v32", "DeepseekV32Attention"),
    ("falcon", "FalconAttention"),
    ("glm_moe_dsa", "GlmMoeDsaAttention"),
    ("hy_v4", "HYV4Attention"),
    ("minimax_m3_vl_text", "MiniMaxM3VLAttention"),
}
_HOOKS = {  # by family and layer: what happens to its arguments
    ("deberta", "DebertaEncoder"): _and_pairs,
    ("deberta-v2", "DebertaV2Encoder"): _and_pairs,
    ("flaubert", "MultiHeadAttention"): _and_pairs,
    ("xlm", "MultiHeadAttention"): _and_pairs,
    ("layoutlm", "LayoutLMEncoder"): _add_pairs,
    ("openai-gpt", "Block"): _add_pairs,
    ("xlnet", "XLNetLayer"): _forbid_pairs,
    ("esm", "EsmEmbeddings"): _drop_by_sequence,
}
