"""What notebook 07 computes: updates, live runs of seconds, and recorded ones as curves."""

import math

import numpy as np
import torch
from torch import nn

from packlib.batches import PackLoader
from packlib.model import PackedBert, nsp_loss, token_loss
from packlib.packing import Packs
from packlib.training import Recipe
from packlib.workbook.chapters.shared.gradients import gradients
from packlib.workbook.chapters.shared.recorded_runs import Runs


def micro_batches(lengths: np.ndarray, packs: Packs, recipe: Recipe, slots: int, seed: int) -> list[np.ndarray]:
    """The micro-batches of one update, of packs at random: segment ids (rows, slots), 0 for padding."""
    order = np.random.default_rng(seed).choice(len(packs), (recipe.gradient_accumulation_steps, recipe.micro_batch))
    parts = np.zeros((*order.shape, slots), np.int16)
    for place in np.ndindex(order.shape):
        pack = packs[int(order[place])]
        filled = np.repeat(np.arange(len(pack)) + 1, lengths[pack])
        parts[place][: len(filled)] = filled
    return list(parts)


def smooth(records: list[dict], every: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences and masked-token loss of a run, means of `every` updates; what is left at the end is dropped."""
    points = np.array([(record["sequences"], record["mlm_loss"]) for record in records])
    points = points[: len(points) // every * every].reshape(-1, every, 2).mean(1)
    return points[:, 0], points[:, 1]


def flat_gradients(model: PackedBert, loader: PackLoader, number: int) -> torch.Tensor:
    """The gradients of `number` batches at the same weights, each as one long vector; shape (number, weights)."""
    found = []
    for batch, _ in zip(loader, range(number), strict=False):
        output = model(**batch)
        loss = token_loss(output, batch).mean + nsp_loss(output, batch).mean
        found.append(torch.cat([gradient.flatten() for gradient in gradients(model, loss).values()]))
    return torch.stack(found)


def two_layers() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """Two small layers without biases, the second's weights ten times as large; inputs and targets."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
    with torch.no_grad():
        for layer, size in ((model[0], 0.5), (model[2], 5.0)):
            layer.weight *= size / layer.weight.norm()
    return model, torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)


def roll(optimizer: str, times: int, rate: float, betas=(0.9, 0.98), seed: int = 0) -> np.ndarray:
    """Mean loss of 400 runs down a bowl whose gradients are noisy, after each update; a batch `times` as large.

    The loss is Σ λᵢ wᵢ² / 2; the noise of a gradient falls with the root of the batch. All runs see as many
    samples. "adam" is without weight decay, its betas raised to the power of `times`.
    """
    curvature, rng = np.array([1.0, 0.5, 0.2, 0.1]), np.random.default_rng(seed)
    w, losses = np.full((400, 4), 3.0), []
    m, v = np.zeros_like(w), np.zeros_like(w)
    beta1, beta2 = (beta**times for beta in betas)
    for t in range(1, 480 // times + 1):
        losses.append((curvature * w**2).sum(1).mean() / 2)
        g = curvature * w + 6 * rng.standard_normal(w.shape) / math.sqrt(times)
        if optimizer == "sgd":
            w = w - rate * g
        else:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            w = w - rate * (m / (1 - beta1**t)) / np.sqrt(v / (1 - beta2**t))
    return np.array(losses)


def curves(runs: Runs, y: str = "mlm_loss", x: str = "sequences") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By arm: x, the mean over seeds, shape (evaluations,); and y of each seed, shape (seeds, evaluations)."""
    return {
        arm: (np.mean([run[x] for run in seeds], axis=0), np.array([run[y] for run in seeds]))
        for arm, seeds in runs.items()
    }


def told(values: np.ndarray, digits: int = 2) -> str:
    """The mean, and the range of the seeds: "5.12 (5.10 to 5.14)"."""
    low, mean, high = (f"{v:.{digits}f}" for v in (values.min(), values.mean(), values.max()))
    return f"{mean} ({low} to {high})" if len(values) > 1 else mean


def fine_tuned(rows: list[dict]) -> tuple[dict[str, np.ndarray], float, float]:
    """The accuracies of a task's seeds by start and rows, in %; how many times faster packed was; and its factor."""
    groups: dict[str, list[float]] = {}
    seconds = {"padded": 0.0, "packed": 0.0}
    for row in rows:
        groups.setdefault(f"{row['start']}, {row['rows']}", []).append(100 * row["accuracy"])
        seconds[row["rows"]] += row["cpu_seconds"]
    order = [f"{start}, {kind}" for start in ("random", "checkpoint") for kind in seconds]
    factor = max(row["packing_factor"] for row in rows)
    return {name: np.array(groups[name]) for name in order}, seconds["padded"] / seconds["packed"], factor


def outside(found: dict[str, tuple], arm: str) -> np.ndarray:
    """How far the mean of the arm's seeds lies outside the range of the padded seeds, at each evaluation."""
    (base_x, base_y), (x, y) = found["padded"], found[arm]
    low, high = (np.interp(x, base_x, line) for line in (base_y.min(0), base_y.max(0)))
    return np.maximum(0, np.maximum(low - y.mean(0), y.mean(0) - high))
