"""From segment ids to what each attention backend wants, so that a sequence sees itself and nothing else.

Padding counts as one more segment: it sees padding only. So no row of the mask is empty, no softmax is 0 / 0,
and what padding computes reaches no token.
"""

import inspect
import math
import warnings
from functools import cache

import torch
from torch import Tensor
from transformers import AttentionInterface

from packlib.checks import one_of

BACKENDS = {  # what packlib calls it: what transformers calls it
    "sdpa": "sdpa",
    "eager": "eager",
    "flex": "packlib_flex",
    "varlen": "packlib_varlen",
}


def allowed_pairs(segment_ids: Tensor, causal: bool = False) -> Tensor:
    """Which query may look at which key: (B, T) segment ids to bool, shape (B, queries T, keys T)."""
    allowed = segment_ids[:, :, None] == segment_ids[:, None, :]
    return allowed.tril() if causal else allowed


def reset_positions(segment_ids: Tensor) -> Tensor:
    """The place of each token in its own sequence, from 0; shape (B, T), as `segment_ids`."""
    slots = torch.arange(segment_ids.shape[1], device=segment_ids.device).expand_as(segment_ids)
    begins = torch.ones_like(segment_ids, dtype=torch.bool)
    begins[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    return (slots - torch.where(begins, slots, 0).cummax(1).values) * (segment_ids > 0)


def additive_mask(segment_ids: Tensor, causal: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    """The mask that is added to the scores: 0 or the least number of `dtype`; shape (B, 1, T, T)."""
    least = torch.finfo(dtype).min
    mask = torch.zeros((), dtype=dtype, device=segment_ids.device)
    return mask.where(allowed_pairs(segment_ids, causal), least)[:, None]


def block_mask(segment_ids: Tensor, causal: bool = False):
    """FlexAttention's block mask: which 128 × 128 tiles can be skipped, and a rule for the others."""
    from torch.nn.attention.flex_attention import create_block_mask

    def same_segment(b, h, query, key):
        same = segment_ids[b, query] == segment_ids[b, key]
        return same & (query >= key) if causal else same

    packs, slots = segment_ids.shape
    return create_block_mask(
        same_segment, packs, None, slots, slots, segment_ids.device, _compile=segment_ids.is_cuda
    )


def cumulative_lengths(segment_ids: Tensor) -> tuple[Tensor, int]:
    """Where each segment begins among the B·T slots, and B·T at the end; int32. And the longest segment.

    Variable-length kernels take this for a mask (`cu_seqlens`). The padding of each pack is a segment of its
    own.
    """
    begins = torch.ones_like(segment_ids, dtype=torch.bool)
    begins[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    end = begins.new_ones(1)
    bounds = torch.cat([begins.flatten(), end]).nonzero().flatten()
    return bounds.to(torch.int32), int(bounds.diff().max())


def choose_backend(
    backend: str, device: torch.device | str, dtype: torch.dtype, needs_gradient: bool, dropout: float = 0.0
) -> str:
    """The backend to use: `backend` itself, or for "auto" the fastest that is right here.

    Args:
        dtype: of queries, keys and values.
        dropout: the probability of dropping an attention weight.

    Raises:
        ValueError: if the backend cannot work here, with the reason.
    """
    one_of("backend", backend, ("auto", *BACKENDS))
    device = torch.device(device)
    if backend == "auto":
        return "sdpa" if _refusal("varlen", device, dtype, needs_gradient, dropout) else "varlen"
    if reason := _refusal(backend, device, dtype, needs_gradient, dropout):
        raise ValueError(f"The attention backend {backend!r} cannot work here: {reason}.")
    return backend


def _refusal(
    backend: str, device: torch.device, dtype: torch.dtype, needs_gradient: bool, dropout: float
) -> str | None:
    if backend in ("sdpa", "eager"):
        return None
    if dropout > 0:
        return f"it drops no attention weights, and the model asks for a dropout of {dropout}"
    if backend == "flex":
        if device.type == "cpu" and needs_gradient:
            return "FlexAttention has no backward pass on the CPU (use sdpa, or torch.no_grad())"
        return None
    if device.type != "cuda":
        return f"variable-length kernels need a GPU, and the model is on {device.type} (use sdpa)"
    if dtype not in (torch.float16, torch.bfloat16):
        return f"variable-length kernels take float16 and bfloat16, not {dtype} (use autocast, or sdpa)"
    return (
        None if _varlen_attn() else f"torch {torch.__version__} has no torch.nn.attention.varlen (use sdpa)"
    )


def attention_arguments(
    segment_ids: Tensor, backend: str, causal: bool = False, dtype: torch.dtype = torch.float32
) -> dict:
    """The keyword arguments that make a transformers model with the chosen backend attend within segments.

    The model's `config._attn_implementation` must be `BACKENDS[backend]`.
    """
    if backend in ("sdpa", "eager"):
        return {"attention_mask": additive_mask(segment_ids, causal, dtype)}
    if backend == "flex":
        return {"attention_mask": None, "packed_mask": block_mask(segment_ids, causal)}
    bounds, longest = cumulative_lengths(segment_ids)
    return {
        "attention_mask": None,
        "packed_bounds": bounds,
        "packed_longest": longest,
        "packed_causal": causal,
    }


@cache
def _compiled_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def _flex_attention(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, packed_mask=None, **_
):
    """Shapes (B, H, T, D) in, (B, T, H, D) out, as transformers' attention functions have them."""
    from torch.nn.attention.flex_attention import flex_attention

    if packed_mask is None or dropout:
        raise ValueError(
            "The flex backend takes a block mask and no dropout; call the packed model, not its parts."
        )
    options = {"block_mask": packed_mask, "scale": scaling, "enable_gqa": key.shape[1] != query.shape[1]}
    if query.is_cuda:
        run = flex_attention if torch.compiler.is_compiling() else _compiled_flex_attention()
        return run(query, key, value, **options).transpose(1, 2), None
    with warnings.catch_warnings():  # it warns that it is not compiled, which on a CPU is meant
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        return flex_attention(query, key, value, **options).transpose(1, 2), None


@cache
def _varlen_attn():
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


def _varlen_attention(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0,
    packed_bounds=None, packed_longest=None, packed_causal=False, **_,
):  # fmt: skip
    """Shapes (B, H, T, D) in, (B, T, H, D) out: packs end to end, the bounds keep the sequences apart."""
    if packed_bounds is None or dropout:
        raise ValueError(
            "The varlen backend takes bounds and no dropout; call the packed model, not its parts."
        )
    batch, heads, slots, width = query.shape
    if key.shape[1] != heads:
        key, value = (x.repeat_interleave(heads // key.shape[1], dim=1) for x in (key, value))
    query, key, value = (x.transpose(1, 2).reshape(batch * slots, heads, width) for x in (query, key, value))
    if scaling is not None:  # the kernel divides by the square root of the width, in every version of torch
        query = query * (scaling * math.sqrt(width)) if not math.isclose(scaling, width**-0.5) else query
    kernel, options = _varlen_attn(), {}
    if packed_causal:  # torch 2.10 had a flag; later versions have a window
        has_window = "window_size" in inspect.signature(kernel).parameters
        options = {"window_size": (-1, 0)} if has_window else {"is_causal": True}
    out = kernel(query, key, value, packed_bounds, packed_bounds, packed_longest, packed_longest, **options)
    return out.view(batch, slots, heads, width), None


AttentionInterface.register("packlib_flex", _flex_attention)
AttentionInterface.register("packlib_varlen", _varlen_attention)
