"""Why a sequence sees another one: what is thought to be wrong is put right, and the leak is gone or it is not.

First by force, in the operations: if the leak is gone when every softmax over keys (or every convolution) stops at the
borders, it was that; if it stays, a state carries it. Then, for attention, in the batch, which says how to mend it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from packlib.check.locating import Piece, owners

MASK, POSITIONS = "attention_mask", "position_ids"
Leaks = Callable[..., bool]


class Cut(TorchDispatchMode):
    """In here attention, or convolutions, keep sequences apart whatever the model does.

    Used with `SDPBackend.MATH`, which computes every attention of torch with a softmax.

    Args:
        owner: shape (rows, T), the number of the sequence in each slot, below 0 for none.
        attention, convolution: which to cut.

    Attributes:
        kernel: how many slots a convolution that was cut reaches back.
        seen: pairs (slot that looks, slot of another sequence that it sees), from the first attention that has any.
    """

    def __init__(self, owner: np.ndarray, attention: bool, convolution: bool) -> None:
        super().__init__()
        self.owner, self.attention, self.convolution = torch.from_numpy(owner), attention, convolution
        self.foreign = self.owner[:, :, None] != self.owner[:, None, :]
        self.tokens = (self.owner[:, :, None] >= 0) & (self.owner[:, None, :] >= 0)
        self.seen, self.kernel = np.empty((0, 2), int), 0

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, made = function.__name__.split(".")[0], function(*args, **(kwargs or {}))
        rows, slots = self.owner.shape
        if name in ("_softmax", "_safe_softmax", "exp") and self._is_of_pairs(made):
            keys = made.shape[-1]  # beyond the slots: sinks
            by_row, foreign = made.reshape(rows, -1, slots, keys), nn.functional.pad(self.foreign, (0, keys - slots))
            pairs = ((by_row.amax(1)[..., :slots] > 0).cpu() & self.foreign & self.tokens).nonzero().numpy()
            if len(pairs) and not len(self.seen):
                self.seen = pairs[:, :1] * slots + pairs[:, 1:]
            if self.attention:
                hidden = by_row.masked_fill(foreign[:, None].to(made.device), 0).view_as(made)
                return hidden if name == "exp" else hidden / hidden.sum(-1, keepdim=True).clamp(min=1e-30)
        if (
            name == "convolution"
            and self.convolution
            and made.dim() == 3
            and min(made.shape[2], args[0].shape[2]) >= slots
        ):
            self.kernel = max(self.kernel, (args[1].shape[2] - 1) * args[5][0])
            before = args[0].shape[2] - slots  # slots of padding in front
            for number in range(int(self.owner.max()) + 1):
                mine = (self.owner == number)[:, None].to(made.device)
                alone = function(args[0] * nn.functional.pad(mine, (before, 0)), *args[1:])
                made = torch.where(nn.functional.pad(mine, (0, made.shape[2] - slots)), alone, made)
        return made

    def _is_of_pairs(self, made: Tensor) -> bool:
        rows, slots = self.owner.shape
        return made.dim() > 2 and made.shape[-2] == slots <= made.shape[-1] <= slots + 1 and not len(made) % rows


def is_mask(value: Any, ids: Tensor) -> bool:
    """Whether it says for each pair of slots whether one may look at the other."""
    return isinstance(value, Tensor) and value.dim() > 1 and tuple(value.shape[-2:]) == (ids.shape[-1],) * 2


def restarting(ids: Tensor, pieces: Sequence[Piece], start: int = 0) -> Tensor:
    """The position ids that each piece has alone, and `start` on padding; shape of `ids`."""
    positions = torch.full_like(ids, start).flatten()
    for piece in pieces:
        positions[piece.slots] = torch.arange(start, start + len(piece.slots), device=ids.device)
    return positions.view_as(ids)


def document_mask(ids: Tensor, pieces: Sequence[Piece], causal: bool) -> Tensor:
    """Which slot may look at which: those of its own piece, or all padding; bool, shape (rows, 1, T, T)."""
    owner = torch.from_numpy(owners(ids, pieces)).to(ids.device)
    allowed = owner[:, :, None] == owner[:, None, :]
    return (allowed.tril() if causal else allowed)[:, None]


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where allowed, else the least number."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, torch.finfo(dtype).min)


def _cures(batch: dict, pieces: Sequence[Piece], causal: bool, dtype: torch.dtype) -> Iterator[tuple[list[str], dict]]:
    """The causes that a cure would prove, and the cured batch; what changes least comes first."""
    ids, off = batch["input_ids"], {"use_cache": False}
    masks = [name for name, value in batch.items() if is_mask(value, ids)]
    for name in masks:
        if batch[name].dtype == torch.bool:
            yield ["boolean"], {**batch, name: additive(batch[name], dtype)}
    again = {**batch, POSITIONS: restarting(ids, pieces)}
    tokens = np.concatenate([piece.slots for piece in pieces])
    ahead = (batch[POSITIONS] - again[POSITIONS]).flatten()[tokens] if POSITIONS in batch else tokens
    runs_on = POSITIONS in batch and bool((ahead != ahead[0]).any())
    wrong = "mask" if masks else "ones" if MASK in batch else "run on" if runs_on else "none"
    if not masks:
        plain = {name: value for name, value in batch.items() if name != MASK}
        again = {name: value for name, value in again.items() if name != MASK}
        yield ["cache"], {**batch, **off}
        yield [wrong], plain
        yield [wrong, "cache"], {**plain, **off}
        yield [wrong], again
        yield [wrong], {**again, **off}
    allowed, owner = document_mask(ids, pieces, causal), torch.from_numpy(owners(ids, pieces)).to(ids.device)
    for name, value in batch.items():
        if (
            name not in ("input_ids", "labels", MASK, POSITIONS)
            and isinstance(value, Tensor)
            and value.shape == ids.shape
        ):
            if not value.is_floating_point() and len(value.unique()) > 1:
                yield [f"again:{name}"], {**batch, name: (owner + 1).to(value.dtype)}
    for name in masks or [MASK]:
        yield [wrong], {**batch, name: additive(allowed, dtype)}
        yield [wrong], {**batch, name: allowed}


def leak_causes(
    batch: dict, pieces: Sequence[Piece], causal: bool, dtype: torch.dtype, leaks: Leaks, reach: int
) -> tuple[list[str], dict | None]:
    """The names in causes.csv of what lets sequences in, and the batch that is cured of it, if one is.

    Args:
        leaks: whether a batch leaks, or the batch as it is while some operations are `Cut`.
        reach: how many slots back the part of the model reaches where sequences meet.
    """
    owner = owners(batch["input_ids"], pieces)
    cuts = {name: Cut(owner, "attention" in name, "convolution" in name) for name in
            ("attention", "convolution", "attention and convolution")}  # fmt: skip
    stopped = next((name for name, cut in cuts.items() if not leaks(batch, cut)), "state")
    if stopped == "state" and len(cuts["convolution"].seen):
        stopped = "state and attention"
    if stopped == "convolution" and reach > cuts["convolution"].kernel:
        stopped = "state and convolution"  # which faded to less than rounding
    causes, cured = [name for name in ("state", "convolution") if name in stopped], None
    if "attention" in stopped:
        looks, sees = (set(slots.tolist()) for slots in cuts["attention"].seen.T)
        starts, ends = ({int(piece.slots[at]) for piece in pieces} for at in (0, -1))
        off = bool(looks) and (looks <= starts or sees <= ends)
        tried = ((names, cure) for names, cure in _cures(batch, pieces, causal, dtype) if not leaks(cure))
        names, cured = next(tried, (["attention"], None))
        if looks and not any(slot % owner.shape[1] for slot in sees):
            names = ["sink"]
        causes = (["border"] if off and names[0] in ("none", "mask", "attention") else names) + causes
    return causes, cured
