"""Losses and accuracies of packed batches, unpacked: per token, per sequence or per pack.

Packing leaves the mean over tokens as it is. The mean over sequences needs to know where each sequence is,
and the mean over packs is another objective (it weighs a sequence by its company), here so that it can be
compared.

Everything is a segment sum: values, the group each belongs to, and one `index_add`. No maximum number of
sequences.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from packlib.arguments import instance, one_of
from packlib.batches import IGNORED
from packlib.model.output import PackedOutput

Reduction = Literal["token", "sequence", "pack"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
Measure = Callable[[Tensor, Tensor], Tensor]  # from logits (M, classes) and labels (M,) to a number for each, (M,)


@dataclass(frozen=True)
class Sums:
    """A sum and the count to divide it by, kept apart: over micro-batches and replicas add both, then divide.

    `mean` is the loss as others know it.

    >>> import torch
    >>> from packlib.model import Sums
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
    """Add up `values` by group: (M,) and (M,) to (num_groups,). Values of the group `num_groups` are left out.

    >>> import torch
    >>> from packlib.model.losses import segment_sums
    >>> segment_sums(torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.tensor([0, 1, 0, 2]), num_groups=2)
    tensor([5., 2.])
    """
    return values.new_zeros(num_groups + 1).index_add(0, groups, values)[:num_groups]


def sequence_of(positions: Tensor, batch: Mapping[str, Any]) -> Tensor:
    """Find which sequence of the batch, from 0, holds each of the `positions` among the B·T slots; shape (M,)."""
    return torch.searchsorted(batch["sequence_starts"], positions, right=True) - 1


def reduce_by(
    values: Tensor, positions: Tensor, counted: Tensor, batch: Mapping[str, Any], reduction: Reduction
) -> Sums:
    """Average `values` within each token, sequence or pack, and sum those averages.

    Args:
        values: shape (M,), zero where not counted.
        positions: shape (M,), where among the B·T slots each value belongs.
        counted: whether each value counts; bool, shape (M,).
        reduction: what has equal weight: "token", "sequence" or "pack".

    Returns:
        The sum over all tokens, sequences or packs with a counted value, and how many there are.
    """
    if one_of("reduction", reduction, REDUCTIONS) == "token":
        return Sums(values.sum(), counted.sum())
    if reduction == "pack":
        num_groups, slots = batch["segment_ids"].shape
        group_of_value = positions // slots
    else:
        num_groups = batch["sequence_starts"].shape[0]
        group_of_value = sequence_of(positions, batch)
    group_of_value = torch.where(counted, group_of_value, num_groups)  # which `segment_sums` leaves out
    counts = segment_sums(counted.to(values.dtype), group_of_value, num_groups)
    means = segment_sums(values, group_of_value, num_groups) / counts.clamp(min=1)
    return Sums(means.sum(), (counts > 0).sum())


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each token's loss, shapes (M, classes) and (M,) to (M,): 0 where the label is -100; float32 at least."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")


def hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return 1 where the largest logit is the label's, else 0; float64, shape (M,)."""
    return (logits.argmax(-1) == labels).double()


def token_loss(output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction = "token") -> Sums:
    """Compute the loss of predicted tokens: masked ones, or next ones with a causal model (see `packed_output`).

    >>> from packlib.batches import TokenStore, collate
    >>> from packlib.model import PackedBert, token_loss
    >>> from transformers import BertConfig
    >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    >>> two = [{"input_ids": [7, 8, 9], "labels": [-100, 8, -100]}, {"input_ids": [4, 5], "labels": [4, -100]}]
    >>> batch = collate(TokenStore.from_samples(two), [2], max_length=8)
    >>> loss = token_loss(PackedBert(config)(**batch), batch)
    >>> loss.count, loss.mean.shape
    (tensor(2), torch.Size([]))

    Args:
        output: what the model returned for `batch`.
        reduction: what has equal weight: each "token" (unchanged by packing), each "sequence", or each "pack".

    Returns:
        A sum and a count: `mean` is the loss.
    """
    return _over_tokens(cross_entropies, output, batch, reduction)


def token_accuracy(output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction = "token") -> Sums:
    """Average which predicted tokens are right, as `token_loss` averages their losses."""
    return _over_tokens(hits, output, batch, reduction)


def nsp_loss(output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction = "sequence") -> Sums:
    """Compute the next-sentence loss. A sequence is one value, so "token" and "sequence" are the same."""
    return _over_sequences(cross_entropies, output, batch, reduction)


def nsp_accuracy(output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction = "sequence") -> Sums:
    """Average which sentence pairs are judged right, as `nsp_loss` averages their losses."""
    return _over_sequences(hits, output, batch, reduction)


def _check(output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction, *fields: str) -> None:
    """Raise an error unless these are what a loss takes, and the batch has the `fields`."""
    instance("output", output, PackedOutput)
    instance("batch", batch, Mapping)  # type: ignore[type-abstract]
    one_of("reduction", reduction, REDUCTIONS)
    for name in fields:
        if name not in batch:
            raise ValueError(f"batch must have {name}, as a PackedBatch has.")


def _over_tokens(measure: Measure, output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction) -> Sums:
    """Average a measure of the predicted tokens."""
    _check(output, batch, reduction)
    if output.token_logits is None:  # the batch has no labels
        return Sums(torch.zeros((), device=batch["segment_ids"].device), batch["segment_ids"].new_zeros(()))
    values = measure(output.token_logits, output.token_labels)
    return reduce_by(values, output.token_positions, output.token_labels != IGNORED, batch, reduction)


def _over_sequences(measure: Measure, output: PackedOutput, batch: Mapping[str, Any], reduction: Reduction) -> Sums:
    """Average a measure of the next-sentence judgments, one for each sequence."""
    _check(output, batch, reduction, "sequence_starts", "sequence_labels")
    labels = batch["sequence_labels"]
    values = measure(output.nsp_logits, labels)
    return reduce_by(values, batch["sequence_starts"], labels != IGNORED, batch, reduction)


def per_sequence(output: PackedOutput, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Sum the token losses of each sequence, and count its predicted tokens.

    Returns:
        The sums and the counts, both of shape (S,): divide them for the mean of each sequence. All are 0 if the
        batch has no labels.
    """
    _check(output, batch, "sequence", "sequence_starts")
    if output.token_logits is None:  # the batch has no labels
        none = torch.zeros(batch["sequence_starts"].shape[0], device=batch["sequence_starts"].device)
        return none, none.long()
    losses = cross_entropies(output.token_logits, output.token_labels)
    counted: Tensor = output.token_labels != IGNORED
    num_sequences = batch["sequence_starts"].shape[0]
    sequence_of_token = torch.where(counted, sequence_of(output.token_positions, batch), num_sequences)
    loss_sums = segment_sums(losses, sequence_of_token, num_sequences)
    num_tokens = segment_sums(counted.long(), sequence_of_token, num_sequences)
    return loss_sums, num_tokens
