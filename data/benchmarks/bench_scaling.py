"""What recomputation costs a BERT and saves it, and what FP16 loses of its gradients.

`python data/record.py scaling [recomputation underflow]` writes data/benchmarks/scaling_recomputation.csv
and scaling_underflow.csv, or the one that is named. Run it on a quiet machine.
"""

import math
import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from benchmarks.bench_model import PACKAGES, SLOTS, batches, bert_mini
from benchmarks.table import in_turn, processor, record_parts
from packlib.batches import PackedBatch
from packlib.model import PackedBert
from packlib.training import PretrainingObjective, Recipe, fit


class SavedActivations(torch.autograd.graph.saved_tensors_hooks):
    """Count what autograd keeps between forward and backward: exact, the same each time, on any device.

    >>> layer = torch.nn.Linear(8, 4)
    >>> with SavedActivations(layer) as saved:
    ...     loss = layer(torch.ones(2, 8)).square().sum()
    >>> saved.bytes  # the input, 2 × 8, and what is squared, 2 × 4; the weights are not counted
    96
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(self._count, lambda tensor: tensor)
        self._weights = {_place(tensor) for tensor in [*model.parameters(), *model.buffers()]}

    def __enter__(self) -> "SavedActivations":
        self._seen: dict[int, int] = {}
        super().__enter__()
        return self

    def _count(self, tensor: Tensor) -> Tensor:
        if _place(tensor) not in self._weights:
            self._seen[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    @property
    def bytes(self) -> int:
        """Each piece of memory once, however many tensors look at it."""
        return sum(self._seen.values())


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def recompute(model: nn.Module, layers: int) -> None:
    """Keep only the input of the first `layers` layers in training, and compute the rest of them twice.

    It is torch.utils.checkpoint behind transformers' own switch, which knows all layers or none.
    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost" (arXiv 1604.06174).
    """
    known = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for i, layer in enumerate(known):
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = i < layers


def gradient_of(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    """Return the gradient of the batch's loss as one flat tensor; it is in the model, too."""
    model.zero_grad()
    sums = PretrainingObjective()(model, batch)
    (sums["mlm_loss"].mean + sums["nsp_loss"].mean).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def recomputation() -> Iterator[dict]:
    """Measure what a layer that is computed twice saves and costs; the gradients are compared bit for bit."""
    model, batch = bert_mini(SLOTS, dropout=0.0), batches(None, 1)[0]

    def gradient(count: int) -> torch.Tensor:
        recompute(model, count)
        return gradient_of(model, batch)

    layers = model.config.num_hidden_layers
    seconds, gradients = in_turn({n: partial(gradient, n) for n in range(layers + 1)}, 5, time.process_time)
    for count in range(layers + 1):
        recompute(model, count)
        with SavedActivations(model) as saved:
            output = model(**batch)
        del output
        yield {
            "layers": layers,
            "computed twice": count,
            "saved, MiB": round(saved.bytes / 2**20, 2),
            "largest difference of a gradient": (gradients[count] - gradients[0]).abs().max().item(),
            "seconds a step": round(seconds[count], 4),
        }


def underflow_share(gradients: torch.Tensor, scale: float) -> float:
    """Return the share of the gradients other than 0 that become 0 where `scale` times them is cast to FP16."""
    gradients = gradients[gradients != 0]
    return ((gradients.double() * scale).half() == 0).double().mean().item()


def largest_loss_scale(gradients: torch.Tensor) -> float:
    """Return the largest power of 2 that no gradient overflows FP16 with: what `GradScaler` searches for by trial."""
    return 2.0 ** math.floor(math.log2(torch.finfo(torch.float16).max / float(gradients.abs().max())))


def underflow() -> Iterator[dict]:
    """Compute the bubble of 4 stages, and what FP16 loses of a BERT's gradients divided by the accumulation.

    The two prices of accumulation: a short one leaves the pipeline idle. A long one underflows: each of m micro-batches
    adds its gradient divided by m, and in FP16 that becomes 0 where it is under half of the smallest number, 2^−24.
    """
    model, data = bert_mini(SLOTS, dropout=0.0), batches(None, 2)
    fit(model, data, Recipe(16, 1e-4, 4_000, optimizer="adamw"), progress=False)
    gradients = gradient_of(model, data[0])
    scales = (1.0, 1024.0, largest_loss_scale(gradients))
    for m in (2**i for i in range(15)):
        lost = {f"underflow, loss scale {scale:g}": underflow_share(gradients, scale / m) for scale in scales}
        yield {"accumulation": m, **{name: round(s, 6) for name, s in {"bubble": 3 / (m + 3), **lost}.items()}}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    parts = {"recomputation": recomputation, "underflow": underflow}
    record_parts("scaling", names, parts, PACKAGES, f"{processor()}, one used")
