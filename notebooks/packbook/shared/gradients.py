"""Gradients by the names of their parameters, and how far two of them are apart."""

import torch
from torch import Tensor, nn

Gradients = dict[str, Tensor]


def gradients(model: nn.Module, loss: Tensor) -> Gradients:
    """Return the gradient of `loss` by parameter, of those that have one."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), retain_graph=True, allow_unused=True)
    return {name: gradient for name, gradient in zip(named, found, strict=True) if gradient is not None}


def largest_difference(ours: Gradients, theirs: Gradients) -> dict[str, float]:
    """Return the largest difference of each parameter's two gradients; they must be of the same parameters."""
    if ours.keys() != theirs.keys():
        raise ValueError("The gradients are of different parameters.")
    return {name: (ours[name] - theirs[name]).abs().max().item() for name in ours}


def distance(ours: Gradients, theirs: Gradients) -> float:
    """Return the distance of the whole gradient `ours` from `theirs`, relative to the length of `theirs`."""
    one, other = (torch.cat([found[name].flatten() for name in theirs]) for found in (ours, theirs))
    return ((one - other).norm() / other.norm()).item()
