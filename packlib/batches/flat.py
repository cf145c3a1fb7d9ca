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

_READ = ("input_ids", "labels", "token_type_ids")  # columns of a row that a batch takes, one value a token


@dataclass(frozen=True, eq=False)
class FlatBatch:
    """Sequences end to end in one row. All tensors are int64.

    Attributes:
        lengths: tokens of each sequence, shape (sequences,).
        input_ids: the tokens, shape (tokens,).
        token_type_ids: for each token, 0 if it is of the first text of a pair, and 1 if of the second; same shape.
        labels: for each token, the label as in `PackedBatch`, -100 for none; same shape. None if the rows have none.
        padding_sequences: how many sequences at the end are padding.

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
        """Number of the token with which each sequence begins, and of all tokens; shape (sequences + 1,)."""
        return pad(self.lengths.cumsum(0), (1, 0))

    @property
    def sequence_of_token(self) -> Tensor:
        """The number of the sequence that each token belongs to, from 0; shape (tokens,)."""
        numbers = torch.arange(len(self.lengths), device=self.lengths.device)
        return numbers.repeat_interleave(self.lengths)

    @property
    def position_ids(self) -> Tensor:
        """The place of each token in its own sequence, from 0; shape (tokens,)."""
        tokens = torch.arange(len(self.input_ids), device=self.input_ids.device)
        return tokens - self.bounds[self.sequence_of_token]

    @property
    def is_padding(self) -> Tensor:
        """True for each token that is padding; bool, shape (tokens,)."""
        return self.sequence_of_token >= len(self.lengths) - self.padding_sequences

    def causal_labels(self) -> Tensor:
        """Make the labels for a causal model of transformers; shape (tokens,).

        They are not shifted, since the model shifts them itself: the label of a token is the token, or its own label if
        the batch has labels. The first token of each sequence has -100, because no token before it predicts it; so has
        padding.

        >>> import torch
        >>> from packlib.batches import FlatBatch
        >>> FlatBatch(lengths=torch.tensor([3, 2]), input_ids=torch.tensor([7, 8, 6, 4, 5])).causal_labels()
        tensor([-100,    8,    6, -100,    5])
        """
        labels = self.input_ids if self.labels is None else self.labels
        return labels.masked_fill((self.position_ids == 0) | self.is_padding, IGNORED)

    def with_padding(self, lengths: Sequence[int], pad_id: int) -> "FlatBatch":
        """Return the batch with sequences of padding at its end.

        Args:
            lengths: tokens of each sequence of padding.
            pad_id: their token.
        """
        padding_tokens = sum(lengths)

        def padded(values: Tensor | None, fill: int) -> Tensor | None:
            return None if values is None else pad(values, (0, padding_tokens), value=fill)

        return replace(
            self,
            lengths=torch.cat([self.lengths, torch.tensor(lengths, dtype=torch.int64)]),
            input_ids=pad(self.input_ids, (0, padding_tokens), value=pad_id),
            token_type_ids=padded(self.token_type_ids, 0),
            labels=padded(self.labels, IGNORED),
            padding_sequences=self.padding_sequences + len(lengths),
        )


def flatten_rows(rows: Sequence[Mapping[str, Any]]) -> FlatBatch:
    """Lay the sequences of rows of `pack_dataset` end to end, in one flat batch.

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
    is_token = instance("batch", batch, PackedBatch).segment_ids > 0
    return FlatBatch(batch.lengths, **{name: batch[name][is_token] for name in _READ if name in batch})


def row_lengths(row: Mapping[str, Any]) -> np.ndarray:
    """Return how many tokens each sequence of a row has; int64, shape (sequences of the row,).

    `seq_lengths` says it, or else `position_ids` that restart at 0.

    Raises:
        TypeError: if it is not a row.
        ValueError: if the row does not say, or has a column of tokens that no model reads.
    """
    if not isinstance(row, Mapping) or "input_ids" not in row:
        raise TypeError(f"A row must be a mapping with input_ids, not {shown(row)}.")
    num_tokens = sized("input_ids of a row", row["input_ids"])
    lengths = _by_lengths(row, num_tokens) if "seq_lengths" in row else _by_positions(row, num_tokens)
    for name in row.keys() - {*_READ, "position_ids", "seq_lengths"}:
        if np.ndim(row[name]) == 1 and len(row[name]) != len(lengths):
            raise ValueError(f"The rows have the column {shown(name)}, which no model reads: remove it.")
    return lengths


def _by_lengths(row: Mapping[str, Any], num_tokens: int) -> np.ndarray:
    """Return `seq_lengths`, checked."""
    lengths = as_int64(row["seq_lengths"], "seq_length", "position {} of a row".format)
    if lengths.sum() != num_tokens:
        raise ValueError(f"The seq_lengths of a row add up to {lengths.sum()}; it has {num_tokens} input_ids.")
    if (lengths < 1).any():
        raise ValueError(f"The seq_lengths of a row must be at least 1, not {lengths.min()}.")
    return lengths


def _by_positions(row: Mapping[str, Any], num_tokens: int) -> np.ndarray:
    """Return how many tokens each sequence has, by `position_ids` that restart at 0."""
    if "position_ids" not in row:
        raise ValueError(
            "A row has neither seq_lengths nor position_ids, so nothing says where its sequences end (a Trainer keeps "
            "them with remove_unused_columns=False)."
        )
    positions = as_integers(row["position_ids"], "position_id", "position {} of a row".format)
    starts = np.flatnonzero(positions == 0)
    lengths = np.diff(starts, append=num_tokens)
    covers_row = len(positions) == num_tokens == lengths.sum()
    if not covers_row or (positions != np.arange(num_tokens) - np.repeat(starts, lengths)).any():
        raise ValueError("The position_ids of a row must count from 0 in each of its sequences.")
    return lengths


def _checked_values(row: Mapping[str, Any], name: str) -> np.ndarray:
    """Return a column of a row that has one whole number for each token; int64, shape (tokens of the row,).

    Raises:
        TypeError, ValueError: if it has something else.
    """
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
