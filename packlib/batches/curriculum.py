"""From short to long: sequences that grow through the run, and a blank pass that finds the memory at once.

Source: Composer's `SeqLengthWarmup`; Li et al. 2021, "The stability-efficiency dilemma:
investigating sequence length warmup for training GPT models" (arXiv 2108.06084).
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad as pad_tensor

from packlib.batches.batch import IGNORED, PackedBatch
from packlib.checks import flag, number, whole_number


@dataclass(frozen=True)
class SequenceLengthWarmup:
    """Short sequences first: `warmup(batch, done, total)` is the batch at the length that is due.

    The lengths are `min_length`, the multiples of `step` above it, and `max_length`; each has an equal share of
    the warm-up, as far as whole updates allow. The first update has the first, and `max_length` comes exactly
    when the warm-up is over, however many updates there are.

    Any other schedule needs no class but `shorten`: a function of yours, or for DeepSpeed's `fixed_discrete`
    `shorten(batch, difficulty[bisect_left(max_step, step)])`.

    Attributes:
        duration: share of the run that is warm-up, from 0 (none) to 1.
        min_length, max_length: in tokens.
        step: in tokens; 8 suits tensor cores.
        truncate: drop the tokens beyond the length. Else reshape: a row of L tokens becomes ceil(L / length) rows,
            in order, and every token stays.
        keep_end: a truncated row keeps its last token, such as an end-of-sequence mark, in its last place.
        pad_id: the token that fills the last of reshaped rows.

    >>> from packlib.batches import SequenceLengthWarmup
    >>> SequenceLengthWarmup(0.5, 8, 32, 8).length(done=3, total=10)
    16
    """

    duration: float
    min_length: int
    max_length: int
    step: int
    truncate: bool = True
    keep_end: bool = False
    pad_id: int = 0

    def __post_init__(self) -> None:
        number("duration", self.duration, at_least=0, at_most=1)
        whole_number("min_length", self.min_length, 1)
        whole_number("max_length", self.max_length, self.min_length)
        whole_number("step", self.step, 1)
        flag("truncate", self.truncate), flag("keep_end", self.keep_end)
        if self.keep_end and not self.truncate:
            raise ValueError("keep_end is for truncate=True: a reshaped row keeps every token.")

    @cached_property
    def lengths(self) -> list[int]:
        """All lengths of the warm-up, ascending: the shapes that a compiler meets."""
        first = (self.min_length // self.step + 1) * self.step
        between = range(first, self.max_length, self.step)
        return sorted({self.min_length, *between, self.max_length})

    def length(self, done: int, total: int) -> int:
        """The length for the next update, when `done` of `total` are over (updates, sequences or tokens)."""
        whole_number("total", total, 1)
        whole_number("done", done, 0)
        warmup = round(self.duration * total)
        if done >= warmup:
            return self.max_length
        return self.lengths[(len(self.lengths) - 1) * done // warmup]

    def __call__(self, batch: Mapping[str, Any], done: int, total: int) -> Mapping[str, Any]:
        """The batch at the length that is due; see `shorten`."""
        return shorten(batch, self.length(done, total), self.truncate, self.keep_end, self.pad_id)


def shorten(
    batch: Mapping[str, Any], length: int, truncate: bool = True, keep_end: bool = False, pad_id: int = 0
) -> Mapping[str, Any]:
    """Truncate or reshape the rows of a batch to `length` tokens; rows are never mixed.

    >>> import torch
    >>> from packlib.batches import shorten
    >>> batch = {"input_ids": torch.arange(12).reshape(2, 6), "attention_mask": torch.ones(2, 6)}
    >>> shorten(batch, 4)["input_ids"].tolist()
    [[0, 1, 2, 3], [6, 7, 8, 9]]
    >>> shorten(batch, 3, truncate=False)["input_ids"].tolist()
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]

    Args:
        batch: a mapping of tensors of shape (B, T) or (B, T, …), and (B,), one value a row; anything else is passed
            on. Padding is where `attention_mask` is 0. Or a `PackedBatch` with at most one sequence a row. A batch
            that is not longer comes back as it is.
        truncate, keep_end, pad_id: as in `SequenceLengthWarmup`.

    Returns:
        The batch. When reshaped, pieces of padding only are left out, each piece has the values of its row, and what
        fills the last piece is `pad_id` in `input_ids`, -100 in labels, and 0 in all others. Positions stay what they
        were; in a `PackedBatch` each piece is a sequence, and they restart.

    Raises:
        ValueError: if the tensors disagree on T, or a pack holds several sequences.
    """
    whole_number("length", length, 1)
    flag("truncate", truncate), flag("keep_end", keep_end)
    named = _by_row(batch) if isinstance(batch, PackedBatch) else batch
    packed = named is not batch
    tensors = {name: v for name, v in named.items() if isinstance(v, Tensor) and v.dim()}
    if _shape(tensors)[1] <= length:
        return batch
    mask = tensors.get("segment_ids" if packed else "attention_mask")
    real = None if mask is None else mask > 0
    short = _truncated(tensors, real, length, keep_end) if truncate else _reshaped(tensors, real, length, pad_id)
    return _as_packed(short) if packed else {**batch, **short}


def _truncated(tensors: dict[str, Tensor], real: Tensor | None, length: int, keep_end: bool) -> dict[str, Tensor]:
    short = {name: v if v.dim() < 2 else v[:, :length].clone() for name, v in tensors.items()}
    if keep_end:
        real = torch.ones(_shape(tensors)) if real is None else real
        ends = (real * torch.arange(real.shape[1], device=real.device)).amax(1).long()
        cut = (ends >= length).nonzero().flatten()
        for name in short:
            if short[name].dim() > 1 and name != "position_ids":
                short[name][cut, length - 1] = tensors[name][cut, ends[cut]]
    return short


def _reshaped(tensors: dict[str, Tensor], real: Tensor | None, length: int, pad_id: int) -> dict[str, Tensor]:
    _, width = _shape(tensors)
    pieces = -(-width // length)
    missing = pieces * length - width
    if missing and real is None and not any(name.endswith("labels") for name in tensors):
        raise ValueError(
            f"Rows of {width} do not divide by {length}, and nothing says what fills the last piece: "
            "give the batch an attention_mask or labels."
        )
    kept = slice(None) if real is None else pad_tensor(real, (0, missing)).view(-1, length).any(1)

    def reshaped(name: str, value: Tensor) -> Tensor:
        if value.dim() == 1:
            return value.repeat_interleave(pieces)
        fill = IGNORED if name.endswith("labels") else pad_id if name == "input_ids" else 0
        more = (0, 0) * (value.dim() - 2) + (0, missing)
        return pad_tensor(value, more, value=fill).reshape(-1, length, *value.shape[2:])

    return {name: reshaped(name, value)[kept] for name, value in tensors.items()}


def _shape(tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    """B and T, which all tensors must share."""
    long = {name: value.shape for name, value in tensors.items() if value.dim() > 1}
    if not long:
        raise ValueError("There is no tensor of shape (B, T) in the batch.")
    first, (rows, width, *_) = next(iter(long.items()))
    for name, value in tensors.items():
        shape = tuple(value.shape)
        if shape[:2] not in ((rows, width), (rows,)):
            raise ValueError(f"{name} has the shape {shape}; {first} has {rows} rows of {width} tokens.")
        if width in shape[2:]:
            raise ValueError(f"{name} has the shape {shape}: make a mask of T × T after the warm-up.")
    return rows, width


def _by_row(batch: PackedBatch) -> dict[str, Tensor]:
    """The tensors of a batch of depth 1, those of its sequences by row."""
    if int(batch.segment_ids.max()) > 1:
        raise ValueError("A row of the batch holds several sequences: warm the length up before packing.")
    names = ("input_ids", "segment_ids", "token_type_ids", "labels")
    rows = batch.sequence_starts[: batch.num_sequences] // batch.max_length
    tensors = {name: batch[name] for name in names if name in batch}
    for name, fill in (("sequence_labels", IGNORED), ("sample_ids", -1)):
        tensors[name] = batch[name].new_full((batch.num_packs,), fill)
        tensors[name][rows] = batch[name][: batch.num_sequences]
    return tensors


def _as_packed(tensors: dict[str, Tensor]) -> PackedBatch:
    held = tensors["segment_ids"].amax(1) > 0  # a blank row has no sequence
    by_sequence = {name: tensors[name][held] for name in ("sequence_labels", "sample_ids")}
    return PackedBatch({**tensors, **by_sequence})


def warm_memory(
    model: nn.Module, batch: Mapping[str, Any], loss: Callable[[nn.Module, Mapping], Tensor] | None = None
) -> None:
    """A blank pass, forward and backward, of the largest batch, so that its memory is found, or missing, at once.

    Without it a warm-up runs out of memory late, or leaves the allocator's memory in pieces. Gradients, buffers (such
    as the statistics of BatchNorm), torch's random numbers and the optimizer stay as they are, also where it fails.

    Args:
        batch: the largest of the run, on the model's device.
        loss: a scalar from model and batch; by default `model(**batch).loss`.
    """
    gradients = [(parameter, parameter.grad, deepcopy(parameter.grad)) for parameter in model.parameters()]
    owners = [module._buffers for module in model.modules()]
    buffers = [(owner, name, buffer, deepcopy(buffer)) for owner in owners for name, buffer in owner.items()]
    devices = {parameter.device for parameter in model.parameters() if parameter.is_cuda}
    try:
        with torch.random.fork_rng(devices=list(devices)):
            (model(**batch).loss if loss is None else loss(model, batch)).backward()
    finally:
        with torch.no_grad():
            for parameter, gradient, values in gradients:
                parameter.grad = None if gradient is None else gradient.copy_(values)
            for owner, name, buffer, values in buffers:
                owner[name] = None if buffer is None else buffer.copy_(values)
