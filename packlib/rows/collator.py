"""What the collator makes of rows of `pack_dataset`: a batch for models of transformers as they are, unmodified.

A row with the sequences 7 8 6 and 4 5, that is with `seq_lengths` [3, 2], becomes, for a causal model:

    input_ids        7    8    6    4    5
    position_ids     0    1    2    0    1    they start again with each sequence
    labels        -100    8    6 -100    5    no token is asked for the first of the next sequence

What keeps the sequences of a row apart is one of two forms.
Padding-free is one row of all sequences with their bounds (`cu_seq_lens_q`), for the variable-length kernels; without
such a kernel transformers makes a mask of it from positions that restart. Dense is a row for each pack, and a mask of
pairs, shape (B, 1, T, T), for each kind of layer that the model has, such as full attention and a sliding window.
"""

import csv
import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.masking_utils import (
    create_bidirectional_mask,
    create_bidirectional_sliding_window_mask,
    create_masks_for_generate,
)

from packlib.batches import IGNORED, PackedBatch, TokenStore, collate
from packlib.checks import one_of, shown, whole_number
from packlib.model.attention import BACKENDS, within_sequences
from packlib.model.families import check_family, families, position_room
from packlib.model.packed import Packed, check_long_rope, first_position

FORMS = ("padding_free", "dense")
TABLE = Path(__file__).with_name("forms.csv")  # its first line says how it is made
_DENSE = ("sdpa", "eager")  # backends that take a mask of pairs
_BY_ROW = {"esm": "token_dropout", "falcon": "alibi"}  # settings that compute something from a whole row


def for_transformers(batch: PackedBatch, model: PreTrainedModel, form: str = "auto") -> dict[str, Any]:
    """The arguments with which `model`, unmodified, computes for each sequence what it computes for it alone.

    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    >>> two = TokenStore.from_samples([{"input_ids": [7, 8, 6]}, {"input_ids": [4, 5]}])
    >>> given = for_transformers(collate(two, [2], max_length=8), model, "padding_free")
    >>> given["position_ids"], given["labels"], given["cu_seq_lens_q"]
    (tensor([[0, 1, 2, 0, 1]]), tensor([[-100,    8,    6, -100,    5]]), tensor([0, 3, 5], dtype=torch.int32))

    Args:
        batch: packs.
        model: a causal or masked model of transformers, with the attention backend that it will run with.
        form: "padding_free", "dense", or "auto": padding-free with a flash kernel, and else dense where that is exact.

    Returns:
        `input_ids`, `position_ids` and `labels`, shape (1, tokens) if padding-free and (B, T) if dense. Labels are
        -100 on the first token of a sequence for a causal model, which shifts them; its batches without labels predict
        all tokens. Padding-free besides `cu_seq_lens_q`, `cu_seq_lens_k`, int32 of shape (S + 1,), and the numbers
        `max_length_q`, `max_length_k`; dense `attention_mask`, or a mapping of masks by kind of layer. `use_cache` is
        False, since with a cache transformers does not look for packs.

    Raises:
        TypeError, ValueError: if that would not be exact with this model and backend, with the reason.
    """
    return _Form.of(model, form)(batch)


class TransformersCollator:
    """A `collate_fn` or `data_collator` for the rows of `pack_dataset`: what `for_transformers` returns.

    Columns that no model reads are refused by name, since a mask of losses, say, would be ignored: `labels` must be
    -100 there. A `transformers.Trainer` takes such columns away before.

    Args:
        model, form: as in `for_transformers`. Only what must be known of the model is kept.
        pad_id: the token that fills dense rows.
    """

    def __init__(self, model: PreTrainedModel, form: str = "auto", pad_id: int = 0) -> None:
        self.form, self.pad_id = _Form.of(model, form), whole_number("pad_id", pad_id, 0)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self.form(packed_batch(rows, self.pad_id))


def packed_batch(rows: Sequence[Mapping[str, Any]], pad_id: int = 0) -> PackedBatch:
    """The batch of some rows of `pack_dataset`, as long as the longest; without labels if they have none.

    Raises:
        ValueError: if a row has a column that no model reads, or its sequences are not told apart.
    """
    if not rows:
        raise ValueError("A batch needs at least one row; this one has none.")
    columns: dict[str, list] = {name: [] for name in ("input_ids", "labels", "token_type_ids", "lengths")}
    sizes = []
    for row in rows:
        lengths = _lengths(row)
        sizes.append(len(lengths))
        columns["lengths"].append(lengths)
        for name in row:
            if name in columns:
                columns[name].append(np.asarray(row[name]))
            elif (
                name not in ("position_ids", "seq_lengths")
                and np.ndim(row[name]) == 1
                and len(row[name]) != len(lengths)
            ):
                raise ValueError(f"The rows have the column {shown(name)}, which no model reads: remove it.")
    lengths = np.concatenate(columns["lengths"])
    used = [len(ids) for ids in columns["input_ids"]]
    tokens = {
        name: np.concatenate(columns[name]) for name in ("input_ids", "labels", "token_type_ids") if columns[name]
    }
    tokens.setdefault("token_type_ids", np.zeros(sum(used), np.uint8))
    store = TokenStore(
        **tokens, offsets=np.concatenate([[0], np.cumsum(lengths)]), sequence_labels=np.full(len(lengths), IGNORED)
    )
    return collate(store, sizes, max(used), pad_id=pad_id)


def _lengths(row: Mapping[str, Any]) -> np.ndarray:
    """Tokens of each sequence of a row, by `seq_lengths`, or else by the positions that restart at 0."""
    tokens = len(row["input_ids"])
    if "seq_lengths" in row:
        lengths = np.asarray(row["seq_lengths"], np.int64)
        if lengths.sum() != tokens:
            raise ValueError(f"The seq_lengths of a row add up to {lengths.sum()}; it has {tokens} input_ids.")
        return lengths
    if "position_ids" not in row:
        raise ValueError(
            "A row has neither seq_lengths nor position_ids, so its sequences cannot be told apart (a Trainer keeps "
            "them with remove_unused_columns=False)."
        )
    positions = np.asarray(row["position_ids"])
    starts = np.flatnonzero(positions == 0)
    lengths = np.diff(starts, append=tokens)
    if (
        len(positions) != tokens
        or lengths.sum() != tokens
        or (positions != np.arange(tokens) - np.repeat(starts, lengths)).any()
    ):
        raise ValueError("The position_ids of a row must count from 0 in each of its sequences.")
    return lengths


@cache
def table() -> dict[tuple[str, str], dict[str, str]]:
    """By ("causal" or "masked", `model_type`): for each form and flash kernels "" if it is exact, or the reason."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return {(row["kind"], row["model_type"]): row for row in csv.DictReader(lines)}


@dataclass(frozen=True)
class _Form:
    """What must be known of a model to hand it packs."""

    form: str
    kind: str
    config: Any
    dtype: torch.dtype
    first_position: int
    reads: frozenset[str]

    @classmethod
    def of(cls, model: PreTrainedModel, form: str) -> "_Form":
        one_of("form", form, ("auto", *FORMS))
        if not isinstance(model, PreTrainedModel) or isinstance(model, Packed):
            raise TypeError(
                f"model must be a model of transformers, unmodified, not {type(model).__name__}"
                f"{', which takes a PackedBatch as it is' if isinstance(model, Packed) else ''}."
            )
        family, backend = model.config.model_type, model.config._attn_implementation
        masked = families().get(("masked", family), {"class": None})["class"]
        kind = "masked" if any(base.__name__ == masked for base in type(model).__mro__) else "causal"
        check_family(kind, type(model), model.config)
        if (setting := _BY_ROW.get(family)) and getattr(model.config, setting):
            raise TypeError(f"{type(model).__name__} cannot take packs: {setting}=True computes from whole rows.")
        if form == "auto":
            dense = "flash" not in backend and not _refusal("dense", kind, family, backend)
            form = "dense" if dense else "padding_free"
        if reason := _refusal(form, kind, family, backend):
            raise TypeError(f"{type(model).__name__} cannot take packs in the form {form!r}: {reason}.")
        reads = inspect.signature(model.forward).parameters
        more = ["**"] if any(p.kind is p.VAR_KEYWORD for p in reads.values()) else []
        known = {name for name in reads if name != "token_type_ids" or hasattr(model.config, "type_vocab_size")}
        return cls(form, kind, model.config, model.dtype, first_position(model), frozenset([*known, *more]))

    def __call__(self, batch: PackedBatch) -> dict[str, Any]:
        longest, room = int(batch.lengths.max()), position_room(self.config) - self.first_position
        slots = batch.max_length if self.form == "dense" else longest
        if slots > room:
            what = "The rows have" if self.form == "dense" else "A sequence has"
            raise ValueError(f"{what} {slots} tokens; the model's position table ends at {room}.")
        check_long_rope(self.config, batch.segment_ids)
        given = {"input_ids": batch.input_ids, "position_ids": batch.position_ids + self.first_position}
        given |= {"token_type_ids": batch.token_type_ids, "labels": self._labels(batch)}
        useful = batch.segment_ids > 0
        if self.form == "dense":
            given["attention_mask"] = self._masks(batch)
        else:
            given = {name: value[useful][None] for name, value in given.items() if value is not None}
            bounds = torch.nn.functional.pad(batch.lengths.cumsum(0), (1, 0)).to(torch.int32)
            given |= {
                "cu_seq_lens_q": bounds,
                "cu_seq_lens_k": bounds,
                "max_length_q": longest,
                "max_length_k": longest,
            }
        given["use_cache"] = False
        return {name: value for name, value in given.items() if value is not None and self._takes(name)}

    def _takes(self, name: str) -> bool:
        return name in self.reads or (name.startswith(("cu_seq_lens", "max_length")) and "**" in self.reads)

    def _labels(self, batch: PackedBatch) -> Tensor | None:
        if self.kind == "masked":
            inner = batch.position_ids > 0  # what a causal model predicts by default
            if batch.labels is not None and inner.any() and batch.labels[inner].equal(batch.input_ids[inner]):
                raise ValueError("labels are those of a causal model; a masked one needs pack_dataset(labels=False).")
            return batch.labels
        labels = batch.input_ids if batch.labels is None else batch.labels
        return labels.masked_fill((batch.segment_ids == 0) | (batch.position_ids == 0), IGNORED)

    def _masks(self, batch: PackedBatch) -> Tensor | dict[str, Tensor]:
        """The masks that transformers makes for this model's kinds of layers, within sequences."""
        states = torch.empty((*batch.input_ids.shape, 1), dtype=self.dtype, device=batch.input_ids.device)
        config = deepcopy(self.config)  # the model's own stays as it is
        config._attn_implementation = BACKENDS["eager"]
        arguments = {"config": config, "inputs_embeds": states, "attention_mask": None}
        with within_sequences(batch.segment_ids, self.dtype):
            if self.kind == "causal":
                masks = create_masks_for_generate(**arguments, past_key_values=None)
            else:
                masks = {"full_attention": create_bidirectional_mask(**arguments)}
                if "sliding_attention" in (getattr(self.config, "layer_types", None) or ()):
                    masks["sliding_attention"] = create_bidirectional_sliding_window_mask(**arguments)
        masks = masks if isinstance(masks, dict) else {"": masks}
        if self.config._attn_implementation == "sdpa":  # which knows masks of bool, of whatever precision the model is
            masks = {name: mask == 0 for name, mask in masks.items()}
        return masks if len(masks) > 1 else next(iter(masks.values()))


def _refusal(form: str, kind: str, family: str, backend: str) -> str | None:
    """Why this form would not be exact with this family and backend; None if it is."""
    row = table().get((kind, family))
    if row is None:
        return f"{family!r} is not among the {kind} models that were compared"
    if form == "dense" and backend not in _DENSE:
        return f"the attention backend {backend!r} takes no mask of pairs; choose sdpa or eager, or padding_free"
    if form == "padding_free" and backend not in _DENSE and "flash" not in backend:
        return f"the attention backend {backend!r} was not compared; choose sdpa, eager, or a flash kernel"
    return row["flash" if "flash" in backend else form] or None
