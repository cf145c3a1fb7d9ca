"""What notebook 11 runs in one process: gradients to compare with, activations in memory, and 16 bits."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from packlib.batches import PackedBatch
from packlib.checks import number
from packlib.training import PretrainingObjective, round_weights, stochastic_round
from packlib.training.updates import join_packs, take_packs
from packlib.workbook.chapters.shared.gradients import Gradients, gradients, largest_difference


def uneven_batches(loader, packs: int) -> list[PackedBatch]:
    """Two batches of `packs` packs each: those with the fewest sequences, and those with the most."""
    single = [take_packs(batch, i, i + 1) for batch in loader for i in range(batch.num_packs)]
    single.sort(key=lambda pack: pack.num_sequences)
    return [join_packs(single[:packs]), join_packs(single[-packs:])]


def small_batches(loader, number: int, packs: int) -> list[PackedBatch]:
    """The first packs of the first `number` batches."""
    return [take_packs(batch, 0, packs) for batch, _ in zip(loader, range(number), strict=False)]


def whole_gradients(model: nn.Module, batches: Sequence[PackedBatch]) -> Gradients:
    """What one process finds: the gradients of the mean over all sequences and tokens of all batches."""
    objective = PretrainingObjective()
    counts = [objective.counts(batch) for batch in batches]
    sums = [objective(model, batch) for batch in batches]
    losses = (sum(s[name].total for s in sums) / sum(c[name] for c in counts) for name in counts[0])
    return gradients(model, sum(losses))


def furthest(some: Gradients, others: Gradients) -> float:
    """The largest difference of two gradients, over the parameters in `some`."""
    return max(largest_difference(some, {name: others[name] for name in some}).values())


def largest_loss_scale(gradients: torch.Tensor, dtype: torch.dtype = torch.float16) -> float:
    """The largest power of 2 that no gradient overflows with: what `torch.amp.GradScaler` searches for by trial."""
    largest = number("the largest gradient", float(gradients.abs().max()), above=0)
    return 2.0 ** math.floor(math.log2(torch.finfo(dtype).max / largest))


def walk(rounding: str, updates: int, copies: int, step: float, seed: int) -> np.ndarray:
    """bfloat16 weights that begin at 1 and are lowered by `step` at each update; shape (updates + 1, copies)."""
    weights, generator = torch.ones(copies, dtype=torch.bfloat16), torch.Generator().manual_seed(seed)
    path = [weights]
    for _ in range(updates):
        lower = path[-1].float() - step
        nearest = rounding == "nearest"
        path.append(lower.bfloat16() if nearest else stochastic_round(lower, torch.bfloat16, generator))
    return torch.stack(path).float().numpy()


def learn_curve(updates: int, seed: int, rate: float = 3e-4) -> tuple[dict[str, np.ndarray], float]:
    """The losses of a small network under AdamW, by how its weights are kept, and the loss of answering the mean.

    With "fp32" nothing is rounded. In the others weights and gradients are bfloat16, rounded so after each update, and
    everything between them is computed in FP32.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(256, 8, generator=generator)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    losses = {}
    for how in ("fp32", "master", "stochastic", "nearest"):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
        network = network if how == "fp32" else network.bfloat16()
        optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
        if how != "fp32":
            round_weights(optimizer, how, seed)
        losses[how] = np.empty(updates)
        for update in range(updates):
            weights = {name: p.float() for name, p in network.named_parameters()}
            loss = nn.functional.mse_loss(torch.func.functional_call(network, weights, (x,)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[how][update] = loss.item()
    return losses, y.var(correction=0).item()
