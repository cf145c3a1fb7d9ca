"""Sequences end to end in one row, with nothing between them: the padding-free form.

The rows 7 8 6 | 4 5 and 9 become

    input_ids     7  8  6  4  5  9
    position_ids  0  1  2  0  1  0    the place of each token in its own sequence
    bounds        0        3     5  6    where each sequence begins, and where the last one ends
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from packlib.arguments import instance, shown, sized
from packlib.batches.batch import IGNORED, PackedBatch
from packlib.lengths.counting import as_int64, as_integers

_READ = ("input_ids", "labels", "token_type_ids")  # of a row


@dataclass(frozen=True, eq=False)
class FlatBatch:
    """Sequences end to end; what is by token has the shape (tokens,).

    Attributes:
        lengths: tokens of each sequence, shape (sequences,).
        input_ids, token_type_ids: the tokens, and of which text of a pair they are.
        labels: the token to predict, or -100; None if all are to be predicted.
        padding_sequences: how many of the last sequences are padding.

    >>> import torch
    >>> from packlib.batches import FlatBatch
    >>> flat = FlatBatch(lengths=torch.tensor([3, 2]), input_ids=torch.tensor([7, 8, 6, 4, 5]))
    >>> flat.position_ids, flat.bounds
    (tensor([0, 1, 2, 0, 1]), tensor([0, 3, 5]))
    """

    lengths: Tensor
    input_ids: Tensor
    token_type_ids: Tensor | None = None
    labels: Tensor | None = None
    padding_sequences: int = 0

    @property
    def bounds(self) -> Tensor:
        """Token at which each sequence begins, and the end of the last one; shape (sequences + 1,)."""
        return pad(self.lengths.cumsum(0), (1, 0))

    @property
    def sequence_of_token(self) -> Tensor:
        """The number of the sequence that each token belongs to, from 0."""
        numbers = torch.arange(len(self.lengths), device=self.lengths.device)
        return numbers.repeat_interleave(self.lengths)

    @property
    def position_ids(self) -> Tensor:
        """The place of each token in its own sequence, from 0."""
        tokens = torch.arange(len(self.input_ids), device=self.input_ids.device)
        return tokens - self.bounds[self.sequence_of_token]

    @property
    def is_padding(self) -> Tensor:
        """True for each token that is padding; bool."""
        return self.sequence_of_token >= len(self.lengths) - self.padding_sequences

    def next_tokens(self) -> Tensor:
        """Make the labels of a causal model, not shifted: the model shifts them itself.

        A label is the token at its own place, or -100 for the first of each sequence, since nothing predicts it.
        """
        labels = self.input_ids if self.labels is None else self.labels
        return labels.masked_fill((self.position_ids == 0) | self.is_padding, IGNORED)

    def with_padding(self, lengths: Sequence[int], pad_id: int) -> "FlatBatch":
        """Append sequences of padding of these lengths."""
        num_padding = sum(lengths)

        def longer(values: Tensor | None, fill: int) -> Tensor | None:
            return None if values is None else pad(values, (0, num_padding), value=fill)

        return replace(
            self,
            lengths=torch.cat([self.lengths, torch.tensor(lengths, dtype=torch.int64)]),
            input_ids=pad(self.input_ids, (0, num_padding), value=pad_id),
            token_type_ids=longer(self.token_type_ids, 0),
            labels=longer(self.labels, IGNORED),
            padding_sequences=self.padding_sequences + len(lengths),
        )


def flatten_rows(rows: Sequence[Mapping[str, Any]]) -> FlatBatch:
    """Lay the sequences of rows of `pack_dataset` end to end.

    >>> from packlib.batches import flatten_rows
    >>> rows = [{"input_ids": [7, 8, 6, 4, 5], "seq_lengths": [3, 2]}, {"input_ids": [9], "seq_lengths": [1]}]
    >>> flatten_rows(rows).bounds
    tensor([0, 3, 5, 6])

    Raises:
        TypeError, ValueError: if a row does not say where its sequences end, has a column of tokens that no model
            reads, or one that holds no whole numbers.
    """
    if not isinstance(rows, Sequence):
        raise TypeError(f"rows must be a list of rows, not {shown(rows)}.")
    if not rows:
        raise ValueError("A batch needs at least one row; this one has none.")
    lengths = [row_lengths(row) for row in rows]
    columns = {name for row in rows for name in row.keys() & {*_READ}}
    joined = {name: torch.from_numpy(np.concatenate([_checked_values(row, name) for row in rows])) for name in columns}
    return FlatBatch(lengths=torch.from_numpy(np.concatenate(lengths)), **joined)


def flatten_packs(batch: PackedBatch) -> FlatBatch:
    """Lay the sequences of a rectangle of packs end to end: its slots without the padding."""
    useful = instance("batch", batch, PackedBatch).segment_ids > 0
    columns = ("input_ids", "token_type_ids", "labels")
    return FlatBatch(batch.lengths, **{name: batch[name][useful] for name in columns if name in batch})


def row_lengths(row: Mapping[str, Any]) -> np.ndarray:
    """Return the tokens of each sequence of a row, by `seq_lengths`, or else by the positions that restart at 0; int64.

    Raises:
        ValueError: if the row does not say, or has a column of tokens that no model reads.
    """
    if not isinstance(row, Mapping) or "input_ids" not in row:
        raise TypeError(f"A row must be a mapping with input_ids, not {shown(row)}.")
    tokens = sized("input_ids of a row", row["input_ids"])
    lengths = _by_lengths(row, tokens) if "seq_lengths" in row else _by_positions(row, tokens)
    for name in row.keys() - {*_READ, "position_ids", "seq_lengths"}:
        if np.ndim(row[name]) == 1 and len(row[name]) != len(lengths):
            raise ValueError(f"The rows have the column {shown(name)}, which no model reads: remove it.")
    return lengths


def _by_lengths(row: Mapping[str, Any], tokens: int) -> np.ndarray:
    """Return the tokens of each sequence, as `seq_lengths` say."""
    lengths = as_int64(row["seq_lengths"], "seq_length", "position {} of a row".format)
    if lengths.sum() != tokens:
        raise ValueError(f"The seq_lengths of a row add up to {lengths.sum()}; it has {tokens} input_ids.")
    if (lengths < 1).any():
        raise ValueError(f"The seq_lengths of a row must be at least 1, not {lengths.min()}.")
    return lengths


def _by_positions(row: Mapping[str, Any], tokens: int) -> np.ndarray:
    """Return the tokens of each sequence, by positions that restart at 0."""
    if "position_ids" not in row:
        raise ValueError(
            "A row has neither seq_lengths nor position_ids, so nothing says where its sequences end (a Trainer keeps "
            "them with remove_unused_columns=False)."
        )
    positions = as_integers(row["position_ids"], "position_id", "position {} of a row".format)
    starts = np.flatnonzero(positions == 0)
    lengths = np.diff(starts, append=tokens)
    is_whole = len(positions) == tokens == lengths.sum()
    if not is_whole or (positions != np.arange(tokens) - np.repeat(starts, lengths)).any():
        raise ValueError("The position_ids of a row must count from 0 in each of its sequences.")
    return lengths


def _checked_values(row: Mapping[str, Any], name: str) -> np.ndarray:
    """Return a column of a row, one whole number a token; int64."""
    if name not in row:
        raise ValueError(f"The column {shown(name)} is in some rows only; all rows must have it, or none.")
    values = np.asarray(row[name])
    if values.dtype.kind not in "iu":
        raise TypeError(f"The column {shown(name)} of a row must hold whole numbers, not {values.dtype}.")
    if values.ndim != 1:
        raise ValueError(f"The column {shown(name)} of a row must have one dimension, not the shape {values.shape}.")
    if len(values) != len(row["input_ids"]):
        raise ValueError(f"There are {len(values)} {name} for {len(row['input_ids'])} tokens.")
    if name != "labels" and (values < 0).any():
        raise ValueError(f"{name} must be at least 0, not {values.min()}.")
    if name == "labels" and (wrong := values[(values < 0) & (values != IGNORED)]).size:
        raise ValueError(f"labels must be from 0 up, or {IGNORED} for none, not {wrong[0]}.")
    return values.astype(np.int64, copy=False)
