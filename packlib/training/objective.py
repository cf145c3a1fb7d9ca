"""What is trained and measured: sums and counts by name, so that a whole update can be divided at the end."""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn

from packlib.batches import IGNORED, PackedBatch
from packlib.batches.batch import sequence_of_slots
from packlib.checks import one_of
from packlib.model import Sums, nsp_accuracy, nsp_loss, token_accuracy, token_loss
from packlib.model.losses import MEANS


class Objective(Protocol):
    """What `fit` trains: the losses that `counts` names, each divided by its count over the whole update."""

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        """For each loss, how many values `batch` (on the CPU, before the forward pass) adds to its mean."""

    def __call__(self, model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
        """Run the model: each loss under its name, and under other names what is only to be measured."""


class PretrainingObjective:
    """BERT's: the masked-token loss plus the next-sentence loss, and both accuracies.

    Args:
        mean: what has equal weight, each "token" (in the papers), "sequence" or "pack".
    """

    def __init__(self, mean: str = "token"):
        self.mean = one_of("mean", mean, MEANS)

    def counts(self, batch: PackedBatch) -> dict[str, int]:
        slots = torch.arange(0)
        if batch.labels is not None:
            slots = (batch.labels != IGNORED).flatten().nonzero().flatten()
        starts = batch.sequence_starts[batch.sequence_labels != IGNORED]
        if self.mean == "pack":
            groups = slots // batch.max_length, starts // batch.max_length
        elif self.mean == "sequence":
            groups = sequence_of_slots(batch.segment_ids, batch.num_sequences)[slots], starts
        else:
            groups = slots, starts
        return dict(zip(("mlm_loss", "nsp_loss"), (len(group.unique()) for group in groups), strict=True))

    def __call__(self, model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
        output = model(**batch)
        sums = {
            "mlm_loss": token_loss(output, batch, self.mean),
            "nsp_loss": nsp_loss(output, batch, self.mean),
        }
        with torch.no_grad():
            sums["mlm_accuracy"] = token_accuracy(output, batch, self.mean)
            sums["nsp_accuracy"] = nsp_accuracy(output, batch, self.mean)
        return sums


@torch.no_grad()
def evaluate(
    model: nn.Module, batches: Iterable[PackedBatch], objective: Objective | None = None
) -> dict[str, float]:
    """The means of everything that `objective` measures, over all of `batches`, without dropout.

    Returns:
        By name; NaN where there was nothing to count.
    """
    objective = PretrainingObjective() if objective is None else objective
    model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    device, was_training = next(model.parameters()).device, model.training
    sums: dict[str, list[Tensor]] = {}
    model.eval()
    try:
        with torch.random.fork_rng(devices=[]):  # a loader draws seeds: the model's dropout must not see it
            for batch in batches:
                for name, part in objective(model, batch.to(device)).items():
                    both = torch.stack([part.total.double(), part.count.double()])
                    sums[name] = sums[name] + both if name in sums else both
    finally:
        model.train(was_training)
    return {name: (both[0] / both[1]).item() for name, both in sums.items()}
