"""What the ranks of notebook 11 run: replicas, the stages of a pipeline. No figures, no widgets."""

from copy import deepcopy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from packlib.batches import PackedBatch
from packlib.workbook.chapters.shared.gradients import Gradients


def gradients_of(model: nn.Module) -> Gradients:
    """The gradients that are there, by the names of their parameters."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def replica(rank: int, model: nn.Module, batches: list[PackedBatch]) -> dict[str, Gradients]:
    """This replica's gradients after the all-reduce: with the counts of all replicas, and as a mean of means."""
    from packlib.training import PretrainingObjective

    objective, found = PretrainingObjective(), {}
    own = objective.counts(batches[rank])  # masked tokens, and sequences
    for how in ("counts of all", "mean of means"):
        trained = DistributedDataParallel(deepcopy(model))  # its backward pass takes the mean over replicas
        counts = torch.tensor(list(own.values()), dtype=torch.float64)
        if how == "counts of all":
            dist.all_reduce(counts)
            counts /= dist.get_world_size()
        sums = objective(trained, batches[rank])
        losses = [sums[name].total / count for name, count in zip(own, counts, strict=True)]
        sum(losses).backward()
        found[how] = gradients_of(trained.module)
    return found


def stage(rank: int, model: nn.Module, batches: list[PackedBatch], schedules: tuple[str, ...]) -> dict[str, Gradients]:
    """By schedule: the gradients of this rank's layers after one update through the pipeline."""
    from packlib.workbook.chapters.n11_scaling_up.pipeline import Pipeline

    found = {}
    for schedule in schedules:
        part = deepcopy(model)
        Pipeline(part, schedule).step(batches)
        found[schedule] = gradients_of(part)
    return found
