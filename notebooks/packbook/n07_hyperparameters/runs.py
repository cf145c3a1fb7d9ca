"""What notebook 07 computes: updates, gradients, a noisy bowl, and recorded runs as curves."""

import math

import numpy as np
import torch
from torch import nn

from packbook.shared.recorded_runs import Interval, against, at_end, runs_of
from packlib.packing import Packs
from packlib.training import Recipe


def micro_batches(lengths: np.ndarray, packs: Packs, recipe: Recipe, slots: int, seed: int) -> list[np.ndarray]:
    """The micro-batches of one update, of packs at random: segment ids (rows, slots), 0 for padding."""
    order = np.random.default_rng(seed).choice(len(packs), (recipe.gradient_accumulation_steps, recipe.micro_batch))
    parts = np.zeros((*order.shape, slots), np.int16)
    for place in np.ndindex(order.shape):
        pack = packs[int(order[place])]
        filled = np.repeat(np.arange(len(pack)) + 1, lengths[pack])
        parts[place][: len(filled)] = filled
    return list(parts)


def strips(
    lengths: np.ndarray, updates: dict[str, tuple[Packs, Recipe]], slots: int, seed: int
) -> dict[str, list[np.ndarray]]:
    """The first eight micro-batches of an update of each kind, under its name and the sequences of the whole update."""
    parts = {name: micro_batches(lengths, *which, slots, seed) for name, which in updates.items()}
    return {f"{name}: {sum(ids.max(1).sum() for ids in part):,} sequences": part[:8] for name, part in parts.items()}


def two_layers() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """Two small layers without biases, the second's weights ten times as large; inputs and targets."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
    with torch.no_grad():
        for layer, size in ((model[0], 0.5), (model[2], 5.0)):
            layer.weight *= size / layer.weight.norm()
    return model, torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)


def roll(optimizer: str, times: int, rate: float, noise: float) -> np.ndarray:
    """Mean loss of 400 runs down a bowl whose gradients are noisy, after each update; a batch `times` as large.

    The loss is Σ λᵢ wᵢ² / 2, and every w begins at 3. `noise` is the deviation of what is added to a gradient of the
    small batch; it falls with the root of the batch. All runs see as many
    samples. "adam" and "lamb" are without weight decay, their betas raised to the power of `times`; to LAMB the four
    weights are one layer.
    """
    curvature, rng = np.array([1.0, 0.5, 0.2, 0.1]), np.random.default_rng(0)
    w, losses = np.full((400, 4), 3.0), []
    m, v = np.zeros_like(w), np.zeros_like(w)
    beta1, beta2 = 0.9**times, 0.98**times
    for t in range(1, 480 // times + 1):
        losses.append((curvature * w**2).sum(1).mean() / 2)
        g = curvature * w + noise * rng.standard_normal(w.shape) / math.sqrt(times)
        if optimizer == "sgd":
            w = w - rate * g
        else:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            u = (m / (1 - beta1**t)) / np.sqrt(v / (1 - beta2**t))
            if optimizer == "lamb":
                u *= np.linalg.norm(w, axis=1, keepdims=True) / np.linalg.norm(u, axis=1, keepdims=True)
            w = w - rate * u
    return np.array(losses)


def signed(share: float) -> str:
    """A change in percent with its sign: "+2.5 %" or "−25.0 %"."""
    return f"{100 * share:+.1f} %".replace("-", "−")


def adjusted(name: str) -> dict[str, tuple[Interval, int]]:
    """By arm of a recorded experiment: its loss at the end less that of padded rows, and its updates."""
    runs = runs_of(name)
    updates = {arm: round(float(np.mean(each))) for arm, each in at_end(runs, "update").items()}
    return {arm: (one, updates[arm]) for arm, one in against(at_end(runs), "padded").items()}


def above_padded(recorded: dict[str, dict[str, tuple[Interval, int]]]) -> list[bool]:
    """Of each arm that keeps the large batch, with each optimizer: whether it ends above padded rows."""
    kept = [one for arms in recorded.values() for arm, (one, _) in arms.items() if not arm.startswith("divided")]
    return [one.verdict == "higher" for one in kept]


def contrast(name: str, arm: str, base: str) -> Interval:
    """The loss at the end of an arm less that of another one, seed by seed."""
    return against(at_end(runs_of(name)), base)[arm]
