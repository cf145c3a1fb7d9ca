"""From segment ids to what each attention backend wants, so that a sequence sees itself and nothing else.

Padding counts as one more segment: it sees padding only. So no row of the mask is empty, no softmax is 0 / 0,
and what padding computes reaches no token.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers import AttentionInterface

from packlib.arguments import flag, instance, number, one_of, shown
from packlib.batches.batch import reset_positions, segment_begins

BackendName = Literal["sdpa", "eager", "flex", "varlen"]
Backend = BackendName | Literal["auto"]
# what packlib calls it: what transformers calls it, for ours once `attention_arguments` was called
BACKENDS: dict[BackendName, str] = {
    "sdpa": "sdpa",
    "eager": "eager",
    "flex": "packlib_flex",
    "varlen": "packlib_varlen",
}
CHOICES: tuple[Backend, ...] = ("auto", *BACKENDS)


def allowed_pairs(segment_ids: Tensor, causal: bool = False, rule: Callable | None = None) -> Tensor:
    """Make of (B, T) segment ids which query may look at which key; bool, shape (B, queries T, keys T).

    Args:
        causal: whether a query sees no later key.
        rule: what else must hold, as transformers writes it: (pack, head, query, key) to bool, where query and
            key are positions in their own sequence. A sliding window is such a rule.
    """
    allowed = segment_ids[:, :, None] == segment_ids[:, None, :]
    if rule is not None:
        allowed = allowed & _allowed_by(rule, reset_positions(segment_ids))
    return allowed.tril() if causal else allowed


def _allowed_by(rule: Callable, positions: Tensor) -> Tensor:
    """Apply a rule, as of `allowed_pairs`, to all pairs of (B, T) positions; bool, shape (B, queries T, keys T)."""
    packs = torch.arange(len(positions), device=positions.device)[:, None, None]
    any_head = 0  # all heads have one mask
    return rule(packs, any_head, positions[:, :, None], positions[:, None, :])


def additive_mask(
    segment_ids: Tensor, causal: bool = False, dtype: torch.dtype = torch.float32, rule: Callable | None = None
) -> Tensor:
    """Make the mask that is added to the scores: 0 or the least number of `dtype`; shape (B, 1, T, T)."""
    return as_additive(allowed_pairs(segment_ids, causal, rule), dtype)


def as_additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn allowed pairs, shape (B, T, T), into a mask that is added to the scores; shape (B, 1, T, T)."""
    mask = torch.zeros((), dtype=dtype, device=allowed.device)
    return mask.where(allowed, torch.finfo(dtype).min)[:, None]


def tree_pairs(seen_until: Tensor, position_ids: Tensor, rule: Callable | None = None) -> Tensor:
    """Make which query may look at which key where sequences share tokens; bool, shape (B, queries T, keys T).

    A slot sees itself and the slots before it, unless they are out of sight: shared tokens are in sight until the last
    sequence that has them ends, those of one sequence alone until it ends itself. That holds for trees of any depth.

    Args:
        seen_until: for each slot, the first later slot that does not see it, or T if all do; int64, shape (B, T).
        position_ids: the place of each token in its own sequence, from the root on; int64, shape (B, T).
        rule: as in `allowed_pairs`.
    """
    slots = torch.arange(seen_until.shape[1], device=seen_until.device)
    query = slots[:, None]
    allowed = (slots <= query) & (query < seen_until[:, None, :])
    return allowed if rule is None else allowed & _allowed_by(rule, position_ids)


def block_mask(segment_ids: Tensor, causal: bool = False) -> Any:
    """Make FlexAttention's block mask: which 128 × 128 tiles can be skipped, and a rule for the others."""

    def same_segment(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same = segment_ids[b, query] == segment_ids[b, key]
        return same & (query >= key) if causal else same

    packs, slots = segment_ids.shape
    return create_block_mask(same_segment, packs, None, slots, slots, segment_ids.device, _compile=segment_ids.is_cuda)


def tree_block_mask(seen_until: Tensor) -> Any:
    """Make FlexAttention's block mask where sequences share tokens, as in `tree_pairs`, without a mask of T² pairs.

    >>> import torch
    >>> from packlib.model.attention import tree_block_mask
    >>> tree_block_mask(torch.tensor([[7, 7, 5, 5, 5, 7, 7]])).shape
    (1, 1, 7, 7)

    Args:
        seen_until: for each slot, the first later slot that does not see it, or T if all do; int64, shape (B, T).
    """

    def in_sight(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < seen_until[b, key])

    packs, slots = seen_until.shape
    return create_block_mask(in_sight, packs, None, slots, slots, seen_until.device, _compile=seen_until.is_cuda)


def cumulative_lengths(segment_ids: Tensor) -> tuple[Tensor, int]:
    """Find where each segment begins among the B·T slots, and the slots of the longest segment.

    Variable-length kernels take this for a mask (`cu_seqlens`). The padding of each pack is a segment of its
    own.

    >>> import torch
    >>> from packlib.model.attention import cumulative_lengths
    >>> cumulative_lengths(torch.tensor([[1, 1, 1, 2], [1, 1, 0, 0]]))
    (tensor([0, 3, 4, 6, 8], dtype=torch.int32), 3)

    Returns:
        The first slot of each segment, with B·T at the end, int32, shape (segments + 1,); and a number of slots.
    """
    begins = segment_begins(segment_ids).flatten()
    bounds = torch.cat([begins, begins.new_ones(1)]).nonzero().flatten()
    return bounds.to(torch.int32), int(bounds.diff().max())


def choose_backend(
    backend: Backend, device: torch.device | str, dtype: torch.dtype, needs_gradient: bool, dropout: float = 0.0
) -> BackendName:
    """Choose the attention backend: `backend` itself, or for "auto" the fastest that is right here.

    Args:
        dtype: of queries, keys and values.
        dropout: the probability of dropping an attention weight.

    Raises:
        ValueError: if the backend cannot work here, with the reason.
    """
    one_of("backend", backend, CHOICES)
    device = _device(device)
    instance("dtype", dtype, torch.dtype)
    flag("needs_gradient", needs_gradient)
    number("dropout", dropout, at_least=0, at_most=1)
    if backend == "auto":
        return "sdpa" if _refusal("varlen", device, dtype, needs_gradient, dropout) else "varlen"
    if reason := _refusal(backend, device, dtype, needs_gradient, dropout):
        raise ValueError(f"The attention backend {backend!r} cannot work here: {reason}.")
    return backend


def _device(device: torch.device | str) -> torch.device:
    """Return the device of this name; raise a TypeError if there is none."""
    if isinstance(device, torch.device):
        return device
    try:
        return torch.device(device)
    except (RuntimeError, TypeError):
        raise TypeError(f"device must be a device of torch, such as 'cpu' or 'cuda', not {shown(device)}.") from None


def _refusal(
    backend: BackendName, device: torch.device, dtype: torch.dtype, needs_gradient: bool, dropout: float
) -> str | None:
    """Say why a backend cannot work here; None if it can. Arguments are as of `choose_backend`."""
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
    return None if _varlen_attn() else f"torch {torch.__version__} has no torch.nn.attention.varlen (use sdpa)"


def attention_arguments(segment_ids: Tensor, backend: BackendName, dtype: torch.dtype = torch.float32) -> dict:
    """Make the keyword argument with which a layer of BERT attends within segments.

    The model's `config._attn_implementation` must be `BACKENDS[backend]`, which transformers knows from here on.

    Args:
        segment_ids: shape (B, T).
        dtype: of a mask that is added to the scores.

    Returns:
        `attention_mask`: for "flex" a block mask, for "varlen" what `cumulative_lengths` returns, and else the mask
        that is added to the scores, shape (B, 1, T, T).
    """
    one_of("backend", backend, BACKENDS)
    check_integers("segment_ids", segment_ids)
    if not instance("dtype", dtype, torch.dtype).is_floating_point:
        raise TypeError(f"dtype must be a dtype of floating point, not {dtype}.")
    if not torch.compiler.is_compiling():  # a graph must not change the table that it looks into
        register_backends()
    if backend == "flex":
        return {"attention_mask": block_mask(segment_ids)}
    if backend == "varlen":
        return {"attention_mask": cumulative_lengths(segment_ids)}
    return {"attention_mask": additive_mask(segment_ids, dtype=dtype)}


def check_integers(name: str, values: Tensor, shape: torch.Size | None = None) -> None:
    """Refuse anything but a tensor of whole numbers with two axes, of this `shape` if one is given."""
    if not isinstance(values, Tensor) or values.is_floating_point() or values.is_complex():
        kind = values.dtype if isinstance(values, Tensor) else shown(values)
        raise TypeError(f"{name} must be a tensor of whole numbers, not {kind}.")
    wrong = values.dim() != 2 if shape is None else values.shape != shape
    if wrong:
        allowed = "(packs, slots)" if shape is None else tuple(shape)
        raise ValueError(f"{name} must have the shape {allowed}, not {tuple(values.shape)}.")


def register_backends() -> None:
    """Let transformers know the backends of packlib, under names of their own."""
    for name, function in {BACKENDS["flex"]: _flex_attention, BACKENDS["varlen"]: _varlen_attention}.items():
        if name not in AttentionInterface._global_mapping:
            AttentionInterface.register(name, function)


@cache
def _compiled_flex_attention() -> Callable:
    """Return FlexAttention compiled, once for the process."""
    return torch.compile(flex_attention, dynamic=False)


def _flex_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **_: Any
) -> tuple[Tensor, None]:
    """Attend by FlexAttention: shapes (B, H, T, D) in, (B, T, H, D) out, as transformers has them."""
    if query.is_cuda:
        run = flex_attention if torch.compiler.is_compiling() else _compiled_flex_attention()
        return run(query, key, value, block_mask=attention_mask).transpose(1, 2), None
    with warnings.catch_warnings():  # it warns that it is not compiled, which on a CPU is meant
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        return flex_attention(query, key, value, block_mask=attention_mask).transpose(1, 2), None


@cache
def _varlen_attn() -> Any:
    """Return torch's variable-length attention; None if this version of torch has none."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


def _varlen_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **_: Any
) -> tuple[Tensor, None]:
    """Attend over packs end to end, whose bounds keep the sequences apart: shapes (B, H, T, D) in, (B, T, H, D) out."""
    bounds, longest = attention_mask
    batch, heads, slots, width = query.shape
    query, key, value = (x.transpose(1, 2).reshape(batch * slots, heads, width) for x in (query, key, value))
    out = _varlen_attn()(query, key, value, bounds, bounds, longest, longest)
    return out.view(batch, slots, heads, width), None
