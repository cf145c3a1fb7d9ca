"""Gradients by the names of their parameters, and how far two of them are apart."""

import torch
from torch import Tensor, nn

Gradients = dict[str, Tensor]


def gradients(model: nn.Module, loss: Tensor) -> Gradients:
    """Return the gradient of `loss` by the name of the parameter, for all parameters that the loss depends on."""
    parameters = dict(model.named_parameters())
    tensors = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True, allow_unused=True)
    return {name: gradient for name, gradient in zip(parameters, tensors, strict=True) if gradient is not None}


def largest_difference(ours: Gradients, theirs: Gradients) -> dict[str, float]:
    """Return, by parameter, the largest absolute difference between two gradients of the same parameters."""
    if ours.keys() != theirs.keys():
        raise ValueError("The gradients are of different parameters.")
    return {name: (ours[name] - theirs[name]).abs().max().item() for name in ours}


def distance(ours: Gradients, theirs: Gradients) -> float:
    """Return the norm of the difference of two whole gradients, divided by the norm of `theirs`."""
    our_vector = torch.cat([ours[name].flatten() for name in theirs])
    their_vector = torch.cat([gradient.flatten() for gradient in theirs.values()])
    return ((our_vector - their_vector).norm() / their_vector.norm()).item()
