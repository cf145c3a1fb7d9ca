"""Gradients by the names of their parameters, and how far two of them are apart."""

import torch
from torch import Tensor, nn

Gradients = dict[str, Tensor]


def gradients(model: nn.Module, loss: Tensor) -> Gradients:
    """Return the gradient of `loss` by parameter, of those that have one."""
    named = dict(model.named_parameters())
    tensors = torch.autograd.grad(loss, list(named.values()), retain_graph=True, allow_unused=True)
    return {name: gradient for name, gradient in zip(named, tensors, strict=True) if gradient is not None}


def largest_difference(ours: Gradients, theirs: Gradients) -> dict[str, float]:
    """Return the largest difference of each parameter's two gradients; they must be of the same parameters."""
    if ours.keys() != theirs.keys():
        raise ValueError("The gradients are of different parameters.")
    return {name: (ours[name] - theirs[name]).abs().max().item() for name in ours}


def distance(ours: Gradients, theirs: Gradients) -> float:
    """Return the distance of the whole gradient `ours` from `theirs`, relative to the length of `theirs`."""
    our_vector, their_vector = (torch.cat([by_name[name].flatten() for name in theirs]) for by_name in (ours, theirs))
    return ((our_vector - their_vector).norm() / their_vector.norm()).item()
