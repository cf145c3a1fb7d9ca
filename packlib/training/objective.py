"""What is trained and measured: sums and counts by name, so that a whole update can be divided at the end."""

from collections.abc import Iterable
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import PreTrainedModel

from packlib.arguments import function, instance, one_of, shown
from packlib.batches import IGNORED, PackedBatch
from packlib.collectives import lost_ranks_named
from packlib.model import (
    PackedBert,
    PackedOutput,
    Sums,
    nsp_accuracy,
    nsp_loss,
    packed_output,
    token_accuracy,
    token_loss,
)
from packlib.model.losses import REDUCTIONS, Reduction, reduce_by
from packlib.model.unmodified import causal_labels, kind_of


class Objective(Protocol):
    """Losses for `fit` to train, as `counts` names them, each divided by its count over the whole update."""

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        """Count the values that `batch` (on the CPU, before the forward pass) adds to the mean of each loss."""

    def __call__(self, model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
        """Run the model: each loss under its name, and under other names what is only to be measured."""


class MaskedObjective:
    """An encoder's: the masked-token loss, and the accuracy. It reads no labels of whole sequences.

    Args:
        reduction: what has equal weight, each "token" (in the papers), "sequence" or "pack".
    """

    def __init__(self, reduction: Reduction = "token") -> None:
        self.reduction = one_of("reduction", reduction, REDUCTIONS)

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        return {"mlm_loss": 0 if batch.labels is None else self._number(_labeled(batch.labels), batch)}

    def sums(self, output: PackedOutput, batch: PackedBatch) -> dict[str, Sums]:
        """Compute each loss and measure under its name, from what the model returned for `batch`."""
        arguments = output, batch, self.reduction
        return {"mlm_loss": token_loss(*arguments), "mlm_accuracy": token_accuracy(*arguments)}

    def __call__(self, model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
        return self.sums(packed_output(model, batch), batch)

    def _number(self, slots: Tensor, batch: PackedBatch) -> int:
        """Count the tokens, sequences or packs, as the reduction says, that have one of these `slots`.

        Args:
            slots: positions among the B·T slots; int64, shape (M,).
        """
        all_count = torch.ones_like(slots, dtype=torch.bool)
        return int(reduce_by(all_count.double(), slots, all_count, batch, self.reduction).count)


class PretrainingObjective(MaskedObjective):
    """BERT's: the masked-token loss plus the next-sentence loss, and both accuracies."""

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        starts = batch.sequence_starts[batch.sequence_labels != IGNORED]
        return {**super().counts(batch), "nsp_loss": self._number(starts, batch)}

    def sums(self, output: PackedOutput, batch: PackedBatch) -> dict[str, Sums]:
        arguments = output, batch, self.reduction
        of_tokens = super().sums(output, batch)
        return {**of_tokens, "nsp_loss": nsp_loss(*arguments), "nsp_accuracy": nsp_accuracy(*arguments)}


class CausalObjective(MaskedObjective):
    """A decoder's: the loss of the next token, where it has a label, and the accuracy."""

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        return {"token_loss": self._number(_labeled(causal_labels(batch)), batch)}

    def sums(self, output: PackedOutput, batch: PackedBatch) -> dict[str, Sums]:
        arguments = output, batch, self.reduction
        return {"token_loss": token_loss(*arguments), "token_accuracy": token_accuracy(*arguments)}


def _labeled(labels: Tensor) -> Tensor:
    """Return the slots that have a label, among the B·T slots; int64, shape (M,)."""
    return (labels != IGNORED).flatten().nonzero().flatten()


def default_objective(model: nn.Module) -> MaskedObjective:
    """Make the objective that `fit` and `evaluate` use by default.

    For a causal or masked model of transformers it is the token loss; for `PackedBert`, and modules of your own, it is
    both of BERT's losses, averaged as the model's `reduction` says.

    Raises:
        TypeError: for a model of transformers that packs would change, with the reason.
    """
    if isinstance(model, PreTrainedModel) and not isinstance(model, PackedBert):
        return CausalObjective() if kind_of(model) == "causal" else MaskedObjective()
    return PretrainingObjective(getattr(model, "reduction", "token"))


@lost_ranks_named()
@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[PackedBatch], objective: Objective | None = None) -> dict[str, float]:
    """Average everything that `objective` measures over all of `batches`, without dropout.

    Args:
        batches: where they are a loader of this rank's share (see `pack_loader`), every rank calls this and gets the
            means over all.
        objective: by default the model's (see `fit`).

    Returns:
        By name; NaN where there was nothing to count.
    """
    instance("model", model, nn.Module)
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches must be a loader or a list of PackedBatch, not {shown(batches)}.")
    if objective is not None:
        function("objective", objective)
    model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    objective = default_objective(model) if objective is None else objective
    device, was_training = next(model.parameters()).device, model.training
    sums: dict[str, Tensor] = {}  # by name the total and the count; float64, shape (2,)
    model.eval()
    try:
        with torch.random.fork_rng(devices=[]):  # a loader draws seeds: the model's dropout must not see it
            for batch in batches:
                instance("Each of batches", batch, PackedBatch)
                for name, part in objective(model, batch.to(device)).items():
                    total_and_count = torch.stack([part.total.double(), part.count.double()])
                    sums[name] = sums[name] + total_and_count if name in sums else total_and_count
    finally:
        model.train(was_training)
    if getattr(getattr(batches, "batch_sampler", None), "ranks", 1) > 1:
        for total_and_count in sums.values():
            dist.all_reduce(total_and_count)
    return {name: (total_and_count[0] / total_and_count[1]).item() for name, total_and_count in sums.items()}
