"""Why a sequence sees another one: each cause has its own cure, so the batch is cured until the leak is gone.

A cure changes the batch alone. What no cure of masks, positions and caches stops runs past them: then the first part of
the model where sequences meet is looked at, how far it reaches and whether it computes attention.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from packlib.bridges.probing import EXACT, Box, Operations, Piece, by_slot, gradients

MASK, POSITIONS = "attention_mask", "position_ids"
_NEAR = 16  # tokens; a convolution reaches no farther in one layer
_RESTART = "Give position_ids that restart with each sequence and no attention_mask, or a 4D document mask."
LEAKS = {  # by cause: what is wrong, and what to do
    "ones": (
        "the 2D attention_mask is not 0 for any token (all ones): it tells tokens from padding, and not one sequence "
        "from another",
        "Leave the attention_mask out and let position_ids restart, or give a 4D document mask.",
    ),
    "cache": (
        "the cache is left on (use_cache): with it transformers does not look for the borders of packs",
        "Set model.config.use_cache = False, or pass use_cache=False.",
    ),
    "boolean": (
        "the 4D mask is boolean, and this attention (eager) adds it to the scores instead of hiding what is False",
        "Give an additive mask: 0 where a token may look, torch.finfo(dtype).min elsewhere.",
    ),
    "mask": (
        "the attention mask lets tokens look across a border: it is no document mask of these sequences",
        "Make it block-diagonal: a token may look at the tokens of its own sequence alone.",
    ),
    "positions": (
        "no document mask: the position_ids run on from sequence to sequence, so nothing tells where one begins",
        _RESTART,
    ),
    "none": ("no document mask: nothing in the batch tells the attention where a sequence begins", _RESTART),
    "rows": (
        "rows of the batch are mixed: statistics, or the capacity of experts, are taken over the whole batch",
        "Normalize each token by itself, and give experts no capacity.",
    ),
    "border": (
        "a border is in the wrong place: the bounds (cu_seqlens, segment ids or mask) are off by a token or more",
        "Compare the bounds that the model gets with where the sequences begin.",
    ),
    "attention": (
        "no document mask: an attention that no input of the batch restricts to a token's own sequence",
        "Give this attention a document mask, or bounds (cu_seqlens) if it takes them.",
    ),
    "convolution": (
        "a convolution across packs: it reaches over the border into the tokens before it",
        "Pad each sequence for the convolution, or use a kernel that takes bounds (seq_idx, cu_seqlens).",
    ),
    "state": (
        "a state across packs: a recurrent layer (state space or linear attention) carries its state into the next "
        "sequence",
        "Reset the state where a sequence begins: a kernel that takes seq_idx or cu_seqlens, or one sequence a row.",
    ),
    "unknown": (
        "an attention without document mask, or a state (state space, linear attention) that runs on",
        "Give a document mask or bounds; check a model of torch modules to have the place named.",
    ),
}


def is_mask(value: Any, ids: Tensor) -> bool:
    """Whether it says for each pair of slots whether one may look at the other."""
    return isinstance(value, Tensor) and value.dim() > 1 and tuple(value.shape[-2:]) == (ids.shape[-1],) * 2


def restarting(batch: dict, pieces: Sequence[Piece], start: int = 0) -> Tensor:
    """The position ids that each piece has alone, and `start` on padding."""
    positions = torch.full_like(batch["input_ids"], start).flatten()
    for piece in pieces:
        positions[piece.slots] = torch.arange(start, start + len(piece.slots), device=positions.device)
    return positions.view_as(batch["input_ids"])


def document_mask(batch: dict, pieces: Sequence[Piece], causal: bool) -> Tensor:
    """Which slot may look at which: its own piece, and itself; bool, shape (rows, 1, T, T)."""
    ids = batch["input_ids"]
    owner = -1 - torch.arange(ids.numel())
    for number, piece in enumerate(pieces):
        owner[piece.slots] = number
    owner = owner.view(-1, ids.shape[-1])
    allowed = owner[:, :, None] == owner[:, None, :]
    return (allowed.tril() if causal else allowed)[:, None].to(ids.device)


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where allowed, else the least number."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, torch.finfo(dtype).min)


def cures(batch: dict, pieces: Sequence[Piece], causal: bool, dtype: torch.dtype) -> Iterator[tuple[list[str], dict]]:
    """The causes that a cure would prove, and the cured batch; what changes least comes first."""
    ids, mask = batch["input_ids"], batch.get(MASK)
    plain = {name: value for name, value in batch.items() if name != MASK}
    off, again = {"use_cache": False}, {POSITIONS: restarting(batch, pieces)}
    names = [name for name, value in batch.items() if is_mask(value, ids)]
    allowed = document_mask(batch, pieces, causal)
    for name in names:
        if batch[name].dtype == torch.bool:
            yield ["boolean"], {**batch, name: additive(batch[name], dtype)}
    if not names:
        kind = "ones" if mask is not None else "none"
        silent = "none" if POSITIONS not in batch else "positions"
        yield ["cache"], {**batch, **off}
        if mask is not None:
            yield [kind], plain
            yield [kind, "cache"], {**plain, **off}
        yield [silent], {**plain, **again}
        if mask is not None:
            yield [kind, silent], {**plain, **again, **off}
        yield [silent], {**plain, **again, **off}
    wrong = "mask" if names else "ones" if mask is not None else "none"
    for name in names or [MASK]:
        for value in (additive(allowed, dtype), allowed):
            yield [wrong], {**batch, name: value}


@dataclass(frozen=True)
class Meeting:
    """Where sequences meet first: the path of that part of the model, and the pairs of slots that meet there."""

    path: str
    kind: str
    reach: int


def meeting(box: Box, batch: dict, pieces: Sequence[Piece]) -> Meeting | None:
    """The innermost part of the model that lets one sequence into another; None if gradients show none."""
    ids, seen = batch["input_ids"], box(batch, trace=True)
    paths = {part: path for path, part in box.model.named_modules()} if isinstance(box.model, nn.Module) else {}
    found: tuple[nn.Module, np.ndarray] | None = None
    for module, taken, made in seen.modules:
        path = paths.get(module, "")
        inside = found is not None and bool(path) and paths.get(found[0], "").startswith(f"{path}.")
        if found is not None and not inside:
            continue
        across = _pairs(made, taken, ids, pieces)
        if len(across) and (found is None or len(across) > 1.5 * len(found[1])):
            found = module, across
    if found is None:
        return None
    operations = _operations(box, batch, found[0])
    kind, reach = _kind(found[1], ids, pieces, operations.attention)
    return Meeting(paths.get(found[0], ""), kind, reach)


def _pairs(made: Tensor, taken: Tensor, ids: Tensor, pieces: Sequence[Piece]) -> np.ndarray:
    """The pairs (slot that looks, slot of another piece that it sees) of a part of the model, shape (pairs, 2)."""
    outputs = by_slot(made, ids)
    whole = None if outputs is None else gradients(outputs, [taken], ids, [piece.slots for piece in pieces])
    if whole is None:
        return np.empty((0, 2), int)
    owner = np.full(ids.numel(), -1)
    for number, piece in enumerate(pieces):
        owner[piece.slots] = number
    tokens = owner >= 0
    foreign = (np.arange(len(pieces))[:, None] != owner) & tokens
    if not ((whole.numpy() > EXACT * whole.max().item()) & foreign).any():
        return np.empty((0, 2), int)
    slots = np.flatnonzero(tokens)
    if len(slots) > 96:
        slots = np.unique(np.concatenate([np.r_[p.slots[:6], p.slots[6::8], p.slots[-2:]] for p in pieces]))
    each = gradients(outputs, [taken], ids, [np.array([slot]) for slot in slots])  # type: ignore[arg-type]
    # A state fades, a convolution ends: what is masked has a gradient of exactly 0, so the least trace counts.
    seen = (each.numpy() > 1e-20 * each.max().item()) & (owner[slots][:, None] != owner) & tokens  # type: ignore[union-attr]
    looks, at = seen.nonzero()
    return np.stack([slots[looks], at], 1)


def _kind(pairs: np.ndarray, ids: Tensor, pieces: Sequence[Piece], attention: bool) -> tuple[str, int]:
    width = ids.shape[-1]
    looks, sees = pairs.T
    reach = int(np.abs(looks - sees).max())
    if (looks // width != sees // width).any():
        return "rows", reach
    ends = {int(piece.slots[-1]) for piece in pieces}
    starts = {int(piece.slots[0]) for piece in pieces}
    row = {}  # the slots of the tokens in each row
    for piece in pieces:
        row.setdefault(piece.slots[0] // width, []).extend(piece.slots)
    near = reach <= _NEAR and reach < max(max(slots) - min(slots) for slots in row.values()) - 1
    if attention:
        return "border" if set(sees.tolist()) <= ends or set(looks.tolist()) <= starts else "attention", reach
    return "convolution" if near else "state", reach


def _operations(box: Box, batch: dict, module: nn.Module) -> Operations:
    operations = Operations()
    before = module.register_forward_pre_hook(lambda *_: operations.__enter__() and None)
    after = module.register_forward_hook(lambda *_: operations.__exit__(None, None, None), always_call=True)
    try:
        box(batch)
    finally:
        before.remove()
        after.remove()
    return operations


def leak_causes(box: Box, batch: dict, pieces: Sequence[Piece], causal: bool, dtype: torch.dtype,
                leaks: Callable[[dict], bool | None]) -> tuple[list[str], dict | None, Meeting | None]:  # fmt: skip
    """The names in `LEAKS` of what lets sequences in, the batch that is cured of it, and where they meet.

    Args:
        leaks: whether a batch leaks; None if the model does not take it.
    """
    place = meeting(box, batch, pieces)
    if place is not None and place.kind in ("rows", "convolution", "state"):
        return [place.kind], None, place
    for causes, cured in cures(batch, pieces, causal, dtype):
        if leaks(cured) is False:
            if causes in (["none"], ["mask"]) and place is not None and place.kind == "border":
                causes = ["border"]
            return causes, cured, place
    return ["unknown" if place is None else place.kind], None, place
