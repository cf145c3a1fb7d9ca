"""`PackedBatch`: packs of sequences for a model, in one mapping of tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from packlib.arguments import escaped, in_html, percent, shown, whole_number

IGNORED = -100  # the label that no loss counts, as in PyTorch's cross entropy
_BY_TOKEN = ("input_ids", "segment_ids", "position_ids", "token_type_ids", "labels")  # shape (B, T)
_BY_SEQUENCE = ("sequence_starts", "sequence_labels", "sample_ids")  # shape (S,)
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PackedBatch(Mapping):
    """B packs of T slots that hold S sequences: `model(**batch)`.

    All tensors are int64. Only `input_ids` and `segment_ids` must be given. By default the other fields follow from
    them; all token types are 0, and no sequence has a label. A batch without `labels` has no such key.

    Attributes:
        input_ids: shape (B, T), the tokens.
        segment_ids: shape (B, T), the number in its pack of the sequence that a token belongs to, from 1; 0 for
            padding: 1, 1, 2, 2, 2, 0. (BERT's own code calls token type ids segment ids.)
        position_ids: shape (B, T), the place of a token in its own sequence, from 0.
        token_type_ids: shape (B, T), 0 for the first and 1 for the second sentence of a pair.
        labels: shape (B, T), -100 for none, as transformers has them: for a masked model the token to predict in
            this slot; for a causal model the token in this slot, which is predicted from the ones before it. With None,
            a masked model has nothing to predict, and a causal one predicts all tokens.
        sequence_starts: shape (S,), ascending: where each sequence begins among the B·T slots. With static
            shapes the empty places at the end hold B·T.
        sequence_labels: shape (S,), a label for each sequence, or -100.
        sample_ids: shape (S,), which sample of the data set each sequence is, or -1.
        num_sequences: the number of sequences; S, less the empty places.
        useful_tokens: the number of slots that hold a token.

    It is for `PackedBert`. Any other model of transformers ignores `segment_ids` and attends across sequences, without
    a word: `packlib.model.for_transformers` makes the arguments of such a model from a batch.

    A batch is checked when it is made on the CPU. A batch of all fields on a device is not checked, so that the CPU
    does not wait for the device.

    Raises:
        TypeError, ValueError: with the first thing that is wrong, in one sentence.

    >>> import torch
    >>> from packlib.batches import PackedBatch
    >>> ids, segments = torch.tensor([[5, 6, 7, 8, 0]]), torch.tensor([[1, 1, 2, 2, 0]])
    >>> batch = PackedBatch(input_ids=ids, segment_ids=segments)
    >>> batch.position_ids, batch.sequence_starts
    (tensor([[0, 1, 0, 1, 0]]), tensor([0, 2]))
    """

    input_ids: Tensor
    segment_ids: Tensor
    position_ids: Tensor
    token_type_ids: Tensor
    labels: Tensor | None
    sequence_starts: Tensor
    sequence_labels: Tensor
    sample_ids: Tensor
    num_sequences: int
    useful_tokens: int

    def __init__(self, fields: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        values = {name: value for name, value in {**(fields or {}), **more}.items() if value is not None}
        _refuse_other_fields(values, list(self.__dataclass_fields__))
        _refuse_other_tensors(values)
        values.setdefault("labels", None)
        if values["segment_ids"].device.type == "cpu" or len(values) < len(self.__dataclass_fields__):
            values = _completed(values)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _of(cls, **fields: Any) -> "PackedBatch":
        """Make a batch of all fields without a check, because they are right by construction."""
        batch = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(batch, name, value)  # as the __init__ of a frozen dataclass does
        return batch

    def __getitem__(self, name: str) -> Any:
        if name == "return_loss":
            # only a transformers.Trainer that evaluates reads this key; it would then cut rows off
            raise TypeError(
                "A transformers.Trainer evaluates row by row, and a row of packs holds several sequences: use "
                "packlib.evaluate in its place."
            )
        if name not in self.__dataclass_fields__ or (value := getattr(self, name)) is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.__dataclass_fields__ if getattr(self, name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    __eq__, __hash__ = object.__eq__, object.__hash__  # a Mapping compares its values, which tensors cannot

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PackedBatch":
        """Move the batch to `device`."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "PackedBatch":
        """Copy the batch into page-locked memory; a `DataLoader` with `pin_memory=True` calls this."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, move: Callable[[Tensor], Tensor]) -> "PackedBatch":
        """Return the batch with each tensor replaced by what `move` returns for it."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return self._of(
            **{name: move(value) if isinstance(value, Tensor) else value for name, value in fields.items()}
        )

    @property
    def num_packs(self) -> int:
        return self.input_ids.shape[0]

    @property
    def max_length(self) -> int:
        """Slots of a pack, in tokens."""
        return self.input_ids.shape[1]

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return self.useful_tokens / self.input_ids.numel()

    @cached_property
    def lengths(self) -> Tensor:
        """Tokens of each sequence; shape (num_sequences,)."""
        numbers = sequence_of_slots(self.segment_ids, self.num_sequences)
        return numbers.bincount(minlength=self.num_sequences + 1)[:-1]  # the last count is that of padding

    def __repr__(self) -> str:
        packs = f"{self.num_packs} pack{'s' * (self.num_packs != 1)}"
        return (
            f"PackedBatch({packs} of {self.max_length}, {self.num_sequences} sequences, {self.useful_tokens} useful "
            f"tokens, {percent(self.efficiency)} full, on {self.input_ids.device})"
        )

    def _repr_html_(self) -> str:
        bars = []
        slot_width = 640 / self.max_length  # pixels
        shown_packs = self.segment_ids[:16].cpu()
        for row, segment_ids in enumerate(shown_packs):
            segments, lengths = segment_ids.unique_consecutive(return_counts=True)
            starts = (lengths.cumsum(0) - lengths).tolist()
            for segment, start, length in zip(segments.tolist(), starts, lengths.tolist(), strict=True):
                color = _COLORS[segment % len(_COLORS)] if segment else "#DDDDDD"
                width = max(length * slot_width - 1, 0.5)
                place = f'x="{start * slot_width:.1f}" y="{12 * row}" width="{width:.1f}"'
                bars.append(f'<rect {place} height="10" fill="{color}"/>')
        legend = (
            f"The first {len(shown_packs)} packs, one a row, each sequence a colored bar, padding in gray: {self!r}"
        )
        size = f'viewBox="0 0 640 {12 * len(shown_packs)}" width="640" style="max-width: 100%"'
        picture = f'<svg role="img" aria-label="{escaped(legend)}" {size}>{"".join(bars)}</svg>'
        return f"<div>{picture}<div>{in_html(repr(self))}</div></div>"


def sequence_of_slots(segment_ids: Tensor, num_sequences: int) -> Tensor:
    """Return for each slot the number of its sequence in the batch, from 0; for padding, `num_sequences`.

    >>> import torch
    >>> from packlib.batches.batch import sequence_of_slots
    >>> sequence_of_slots(torch.tensor([[1, 1, 2, 0], [1, 1, 1, 1]]), num_sequences=3)
    tensor([0, 0, 1, 3, 2, 2, 2, 2])

    Args:
        segment_ids: shape (B, T), as in `PackedBatch`.
        num_sequences: sequences of all packs.

    Returns:
        int64, shape (B·T,).
    """
    sequences_of_pack = segment_ids.amax(1)
    sequences_before = sequences_of_pack.cumsum(0) - sequences_of_pack  # in the packs above
    number = segment_ids - 1 + sequences_before[:, None]
    return torch.where(segment_ids > 0, number, num_sequences).flatten()


def segment_begins(segment_ids: Tensor) -> Tensor:
    """Return for each slot whether a sequence or the padding of a pack begins there; bool, shape (B, T)."""
    begins = torch.ones_like(segment_ids, dtype=torch.bool)
    begins[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    return begins


def reset_positions(segment_ids: Tensor) -> Tensor:
    """Return for each slot the place of its token in its own sequence, from 0; 0 for padding; shape (B, T).

    >>> import torch
    >>> from packlib.batches.batch import reset_positions
    >>> reset_positions(torch.tensor([[1, 1, 2, 2, 2, 0]]))
    tensor([[0, 1, 0, 1, 2, 0]])
    """
    slots = torch.arange(segment_ids.shape[1], device=segment_ids.device).expand_as(segment_ids)
    begins = segment_begins(segment_ids)
    begin_of_sequence = torch.where(begins, slots, 0).cummax(1).values
    return (slots - begin_of_sequence) * (segment_ids > 0)


def _refuse_other_fields(values: dict[str, Any], names: list[str]) -> None:
    """Raise a TypeError if a batch would have a field that is not among `names`, or lack one that it needs."""
    if unknown := set(values) - set(names):
        raise TypeError(f"A PackedBatch has no field {min(unknown)!r}; it has {', '.join(names)}.")
    for name in ("input_ids", "segment_ids"):
        if name not in values:
            raise TypeError(f"A PackedBatch needs {name}.")


def _refuse_other_tensors(values: dict[str, Any]) -> None:
    """Raise a TypeError if a field that must be an int64 tensor is something else."""
    for name in set(values).intersection((*_BY_TOKEN, *_BY_SEQUENCE)):
        if not isinstance(values[name], Tensor):
            raise TypeError(f"{name} must be an int64 tensor, not {shown(values[name])}.")
        if values[name].dtype != torch.int64:
            raise TypeError(f"{name} must be int64, not {values[name].dtype}.")


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    """Check the fields of `values`, and compute the others from the segment ids; return all."""
    segments = values["segment_ids"]
    starts = _sequence_starts(segments)
    if not len(starts) and "sequence_starts" not in values:  # a blank batch that is meant has empty places
        raise ValueError("A batch needs at least one sequence; this one has none.")
    starts_and_places = values.get("sequence_starts", starts)  # empty places follow where shapes are static
    defaults = {
        "sequence_starts": starts_and_places,
        "num_sequences": len(starts),
        "useful_tokens": int((segments > 0).sum()),
        "token_type_ids": torch.zeros_like(segments),
        "sequence_labels": torch.full_like(starts_and_places, IGNORED),
        "sample_ids": torch.full_like(starts_and_places, -1),
    }
    if "position_ids" not in values:
        defaults["position_ids"] = reset_positions(segments)
    _refuse_other_sequences(values, starts, defaults)
    fields = {**defaults, **values}
    _refuse_bad_values(fields, len(starts))
    return fields


def _sequence_starts(segments: Tensor) -> Tensor:
    """Return the slots, counted over all packs, in which sequences start; int64, shape (number of sequences,).

    Raises:
        ValueError: if the segment ids of a pack are not 1, 2, 3, … and then 0.
    """
    if segments.dim() != 2:
        raise ValueError(f"segment_ids must have the shape (packs, slots), not {tuple(segments.shape)}.")
    is_token = segments > 0
    begins = segment_begins(segments) & is_token
    is_wrong = segments != begins.cumsum(1) * is_token  # as the segment ids should be
    is_wrong[:, 1:] |= is_token[:, 1:] & ~is_token[:, :-1]  # a sequence behind padding
    if bool(is_wrong.any()):
        raise ValueError(
            f"The segment ids of pack {int(is_wrong.any(1).nonzero()[0])} are out of order: "
            "they must be 1, 2, 3, … as the sequences come, and then 0 for padding."
        )
    return begins.flatten().nonzero().flatten()


def _refuse_other_sequences(values: dict[str, Any], starts: Tensor, defaults: dict[str, Any]) -> None:
    """Raise a ValueError if fields do not agree with the segment ids.

    Args:
        values: the fields that the caller has set.
        starts: the slots in which sequences start, by the segment ids.
        defaults: all fields, by the segment ids; `sequence_starts` is the caller's, if it is set.
    """
    stated_starts = defaults["sequence_starts"][: len(starts)]
    empty_places = defaults["sequence_starts"][len(starts) :]
    if not torch.equal(stated_starts, starts) or (empty_places != values["segment_ids"].numel()).any():
        raise ValueError("sequence_starts must say where the segment ids begin, and B·T in empty places.")
    for name in ("num_sequences", "useful_tokens"):
        if values.get(name, defaults[name]) != defaults[name]:
            raise ValueError(f"{name} is {values[name]}, but the segment ids hold {defaults[name]}.")


def _refuse_bad_values(fields: dict[str, Any], num_sequences: int) -> None:
    """Raise a ValueError if a field has another shape than `segment_ids` or `sequence_starts`, or a forbidden value."""
    for name in (*_BY_TOKEN, *_BY_SEQUENCE):
        like = "segment_ids" if name in _BY_TOKEN else "sequence_starts"
        if fields[name] is not None and fields[name].shape != fields[like].shape:
            shape, other_shape = tuple(fields[name].shape), tuple(fields[like].shape)
            raise ValueError(f"{name} has the shape {shape}; {like} has {other_shape}.")
    for name, minimum in (("input_ids", 0), ("token_type_ids", 0), ("position_ids", 0), ("sample_ids", -1)):
        whole_number(name, int(fields[name].min()), minimum)
    for name in ("labels", "sequence_labels"):
        labels = fields[name]
        if labels is not None and bool((is_wrong := (labels < 0) & (labels != IGNORED)).any()):
            raise ValueError(f"{name} must be from 0 up, or -100 for none, not {int(labels[is_wrong][0])}.")
    is_padding = fields["segment_ids"] == 0
    if fields["labels"] is not None and bool((fields["labels"][is_padding] != IGNORED).any()):
        raise ValueError("labels must be -100 on padding.")
    if bool((fields["sequence_labels"][num_sequences:] != IGNORED).any()):
        raise ValueError("sequence_labels must be -100 in empty places.")
