"""Losses and accuracies of packed batches, unpacked: per token, per sequence or per pack.

Packing leaves the mean over tokens as it is. The mean over sequences needs to know where each sequence is,
and the mean over packs is another objective (it weighs a sequence by its company), here so that it can be
compared.

Everything is a segment sum: values, the group each belongs to, and one `index_add`. No maximum number of
sequences.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from packlib.batches import IGNORED, PackedBatch
from packlib.checks import one_of

MEANS = ("token", "sequence", "pack")


@dataclass(frozen=True)
class Sums:
    """A sum and the count to divide it by, kept apart: over micro-batches and replicas add both, then divide.

    >>> (Sums(torch.tensor(6.0), torch.tensor(3)) + Sums(torch.tensor(2.0), torch.tensor(1))).mean
    tensor(2.)
    """

    total: Tensor
    count: Tensor

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> Tensor:
        """`total / count`, and 0 if there was nothing to count."""
        return self.total / self.count.clamp(min=1)


def segment_sums(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Add up `values` by group: (M,) and (M,) to (num_groups,). Group `num_groups` is left out."""
    return values.new_zeros(num_groups + 1).index_add(0, groups, values)[:num_groups]


def reduce_by(values: Tensor, counted: Tensor, groups: Tensor | None, num_groups: int) -> Sums:
    """Sum the means of all groups that have a counted value; without `groups` each value is its own group.

    Args:
        values: shape (M,), zero where not counted.
        counted: bool, shape (M,).
    """
    if groups is None:
        return Sums(values.sum(), counted.sum())
    counts = segment_sums(counted.to(values.dtype), groups, num_groups)
    return Sums((segment_sums(values, groups, num_groups) / counts.clamp(min=1)).sum(), (counts > 0).sum())


def sequence_of(positions: Tensor, batch: PackedBatch) -> Tensor:
    """Which sequence of the batch, from 0, holds each of the `positions` among the B·T slots; shape (M,)."""
    return torch.searchsorted(batch["sequence_starts"], positions, right=True) - 1


def _groups(positions: Tensor, counted: Tensor, batch: PackedBatch, mean: str) -> tuple[Tensor | None, int]:
    packs, slots = batch["segment_ids"].shape
    if mean == "token":
        return None, 0
    if mean == "sequence":
        groups, number = sequence_of(positions, batch), batch["sequence_starts"].shape[0]
    else:
        groups, number = positions // slots, packs
    return torch.where(counted, groups, number), number


def _token_values(output, hits: bool) -> tuple[Tensor, Tensor]:
    """What each predicted token contributes: its cross entropy, or 1 if it was predicted right."""
    counted = output.token_labels != IGNORED
    if hits:
        return ((output.token_logits.argmax(-1) == output.token_labels) & counted).to(torch.float64), counted
    return _cross_entropy(output.token_logits, output.token_labels), counted


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Shape (M, classes) and (M,) to (M,): 0 where the label is -100. Half precision is raised to float32."""
    _same_length(logits, labels)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")


def _same_length(logits: Tensor, labels: Tensor) -> None:
    if logits.dim() != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"Logits of the shape {tuple(logits.shape)} need labels of the shape ({logits.shape[0]},), "
            f"not {tuple(labels.shape)}."
        )


def token_loss(output, batch: PackedBatch, mean: str = "token") -> Sums:
    """The loss of predicted tokens: masked ones with `PackedBert`, next ones with `PackedCausal`.

    Args:
        output: what the model returned for `batch`.
        mean: what has equal weight: each "token" (unchanged by packing), each "sequence", or each "pack".
    """
    one_of("mean", mean, MEANS)
    values, counted = _token_values(output, hits=False)
    return reduce_by(values, counted, *_groups(output.token_positions, counted, batch, mean))


def token_accuracy(output, batch: PackedBatch, mean: str = "token") -> Sums:
    """The share of predicted tokens that are right, averaged as `token_loss` is."""
    one_of("mean", mean, MEANS)
    values, counted = _token_values(output, hits=True)
    return reduce_by(values, counted, *_groups(output.token_positions, counted, batch, mean))


def tokens_per_sequence(output, batch: PackedBatch, hits: bool = False) -> tuple[Tensor, Tensor]:
    """Each sequence's summed token loss (or right predictions) and predicted tokens; two of shape (S,)."""
    values, counted = _token_values(output, hits)
    groups, number = _groups(output.token_positions, counted, batch, "sequence")
    return segment_sums(values, groups, number), segment_sums(counted.long(), groups, number)


def nsp_loss(output, batch: PackedBatch, mean: str = "sequence") -> Sums:
    """Next-sentence loss; a sequence is one value, so "token" and "sequence" are the same."""
    values = _cross_entropy(output.nsp_logits, batch["sequence_labels"])
    return _reduce_sequences(values, batch, mean)


def nsp_accuracy(output, batch: PackedBatch, mean: str = "sequence") -> Sums:
    """The share of sentence pairs that are judged right, averaged as `nsp_loss` is."""
    _same_length(output.nsp_logits, batch["sequence_labels"])
    return _reduce_sequences(
        (output.nsp_logits.argmax(-1) == batch["sequence_labels"]).to(torch.float64), batch, mean
    )


def _reduce_sequences(values: Tensor, batch: PackedBatch, mean: str) -> Sums:
    one_of("mean", mean, MEANS)
    counted = batch["sequence_labels"] != IGNORED
    by = "pack" if mean == "pack" else "token"
    return reduce_by(values, counted, *_groups(batch["sequence_starts"], counted, batch, by))
