"""Train on short sequences first: a schedule of lengths, and a first pass that reserves memory for the longest.

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

from packlib.arguments import flag, function, instance, number, shown, whole_number
from packlib.batches.batch import IGNORED
from packlib.lengths.counting import INT64_MAX


@dataclass(frozen=True)
class SequenceLengthWarmup:
    """Schedule of lengths: `warmup(batch, done, total)` returns the batch at the length of the next update.

    The lengths are `min_length`, the multiples of `step` between it and `max_length`, and `max_length`. All but the
    last have equal shares of the warm-up, as far as whole updates allow. The first update has `min_length`, and
    `max_length` begins exactly when the warm-up is over, however many updates there are.

    For any other schedule call `shorten` with your own lengths: DeepSpeed's `fixed_discrete`, for example, is
    `shorten(batch, difficulty[bisect_left(max_step, step)])`.

    Attributes:
        duration: share of the run that is warm-up, from 0 (none) to 1.
        min_length, max_length: the first and the last length, in tokens.
        step: difference between two lengths, in tokens; 8 suits tensor cores.
        truncate: if True, drop the tokens beyond the length. If False, reshape: a row of L tokens becomes
            ceil(L / length) rows, in order, and every token stays.
        keep_end: whether a truncated row keeps its last token, such as an end-of-sequence mark, in its last place.
        pad_id: the token of padding at the end of the last of reshaped rows.

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
        whole_number("pad_id", self.pad_id, 0, INT64_MAX)
        flag("truncate", self.truncate)
        flag("keep_end", self.keep_end)
        if self.keep_end and not self.truncate:
            raise ValueError("keep_end is for truncate=True: a reshaped row keeps every token.")

    @cached_property
    def lengths(self) -> list[int]:
        """All lengths of the warm-up, ascending: a compiler compiles each shape once."""
        first_multiple = (self.min_length // self.step + 1) * self.step
        multiples = range(first_multiple, self.max_length, self.step)
        return sorted({self.min_length, *multiples, self.max_length})

    def length(self, done: int, total: int) -> int:
        """Return the length for the next update.

        Args:
            done: what is over of the run, in updates, sequences or tokens.
            total: the whole run, in the same unit.
        """
        whole_number("total", total, 1)
        whole_number("done", done, 0)
        warmup = round(self.duration * total)  # in the same unit
        if done >= warmup:
            return self.max_length
        return self.lengths[(len(self.lengths) - 1) * done // warmup]

    def __call__(self, batch: Mapping[str, Any], done: int, total: int) -> Mapping[str, Any]:
        """Shorten the batch to the length for the next update; see `length` and `shorten`."""
        return _shortened(batch, self.length(done, total), self.truncate, self.keep_end, self.pad_id)


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
        batch: `input_ids` of shape (B, T), and other tensors of this shape or (B,), one value a row; anything else is
            passed on. Padding is where `attention_mask` is 0. A batch that is not longer is returned as it is.
        length: tokens of the new rows.
        truncate, keep_end, pad_id: as in `SequenceLengthWarmup`.

    Returns:
        The batch. If rows are reshaped, each of their pieces is a row with the one value of its old row; pieces of
        padding alone are left out. The end of the last piece is filled with `pad_id` in `input_ids`, -100 in labels,
        and 0 in all others. Positions stay what they were.

    Raises:
        TypeError, ValueError: naming an argument of another kind, or a tensor of another shape.
    """
    whole_number("length", length, 1)
    whole_number("pad_id", pad_id, 0, INT64_MAX)
    flag("truncate", truncate)
    flag("keep_end", keep_end)
    return _shortened(batch, length, truncate, keep_end, pad_id)


def _shortened(
    batch: Mapping[str, Any], length: int, truncate: bool, keep_end: bool, pad_id: int
) -> Mapping[str, Any]:
    """Shorten a batch as `shorten` does, by arguments that were checked; the batch is checked here."""
    input_ids = _checked_ids(batch)
    if input_ids.shape[1] <= length:
        return batch
    tensors = {name: value for name, value in batch.items() if isinstance(value, Tensor) and value.dim()}
    _refuse_other_shapes(tensors, input_ids)
    shortened = _truncated(tensors, length, keep_end) if truncate else _reshaped(tensors, length, pad_id)
    return {**batch, **shortened}


def _checked_ids(batch: Any) -> Tensor:
    """Return the `input_ids` of a batch, shape (rows, tokens), or raise a TypeError if it has none."""
    input_ids = batch.get("input_ids") if isinstance(batch, Mapping) else None
    if not isinstance(input_ids, Tensor) or input_ids.dim() != 2:
        raise TypeError(
            f"batch must be a mapping with input_ids, a tensor of shape (rows, tokens), not {shown(batch)}."
        )
    return input_ids


def _refuse_other_shapes(tensors: dict[str, Tensor], input_ids: Tensor) -> None:
    """Raise a ValueError naming a tensor that has neither a value for each token nor one for each row."""
    rows, width = input_ids.shape
    for name, value in tensors.items():
        if value.shape not in ((rows, width), (rows,)):
            raise ValueError(
                f"{name} has the shape {tuple(value.shape)}; input_ids has {rows} rows of {width} tokens."
            )


def _truncated(tensors: dict[str, Tensor], length: int, keep_end: bool) -> dict[str, Tensor]:
    """Return the tensors of a batch with the first `length` tokens of each row, or the first and the last ones.

    Args:
        tensors: each of shape (rows, tokens) or (rows,); `attention_mask` is 0 on padding.
        length: tokens of the new rows.
        keep_end: whether the last token of a cut row takes the last place, in every tensor but `position_ids`.
    """
    truncated = {name: value if value.dim() < 2 else value[:, :length].clone() for name, value in tensors.items()}
    if not keep_end:
        return truncated
    ids = tensors["input_ids"]
    is_token = tensors.get("attention_mask", torch.ones_like(ids)) > 0
    last_tokens = (is_token * torch.arange(ids.shape[1], device=ids.device)).amax(1)  # place of each row's last token
    cut_rows = (last_tokens >= length).nonzero().flatten()
    for name in truncated:
        if truncated[name].dim() > 1 and name != "position_ids":
            truncated[name][cut_rows, length - 1] = tensors[name][cut_rows, last_tokens[cut_rows]]
    return truncated


def _reshaped(tensors: dict[str, Tensor], length: int, pad_id: int) -> dict[str, Tensor]:
    """Return the tensors of a batch with each row cut into rows of `length` tokens; see `shorten` for the padding."""
    width = tensors["input_ids"].shape[1]
    pieces = -(-width // length)  # of each row
    missing = pieces * length - width  # tokens that the last piece lacks
    mask = tensors.get("attention_mask")
    if missing and mask is None and not any(name.endswith("labels") for name in tensors):
        raise ValueError(
            f"Rows of {width} do not divide by {length}, and nothing says what fills the last piece: "
            "give the batch an attention_mask or labels."
        )

    def reshaped(name: str, value: Tensor) -> Tensor:
        """Cut the rows of one tensor, or repeat its one value a row for each piece."""
        if value.dim() == 1:
            return value.repeat_interleave(pieces)
        fill = IGNORED if name.endswith("labels") else pad_id if name == "input_ids" else 0
        return pad_tensor(value, (0, missing), value=fill).reshape(-1, length)

    has_token = slice(None) if mask is None else reshaped("attention_mask", mask).any(1)
    return {name: reshaped(name, value)[has_token] for name, value in tensors.items()}


def warm_memory(
    model: nn.Module, batch: Mapping[str, Any], loss: Callable[[nn.Module, Mapping], Tensor] | None = None
) -> None:
    """Reserve the memory that the largest batch needs, by a forward and a backward pass that change nothing.

    Otherwise a run whose sequences grow fails late if memory is too small, or leaves the allocator's memory in pieces.
    Gradients, buffers (such as the statistics of BatchNorm) and torch's random numbers are put back, also if the pass
    fails.

    Args:
        model: the model.
        batch: the largest batch of the run, on the model's device.
        loss: computes a scalar from model and batch; by default it is `model(**batch).loss`.
    """
    instance("model", model, nn.Module)
    instance("batch", batch, Mapping)  # type: ignore[type-abstract]
    if loss is not None:
        function("loss", loss)
    # each with a copy of its values: the same tensors are put back, for others may hold them
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
