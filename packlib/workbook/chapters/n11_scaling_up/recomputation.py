"""Recomputation: a layer forgets its activations, and computes them again when its backward pass needs them."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from packlib.checks import whole_number


def transformer_layers(model: nn.Module) -> list[nn.Module]:
    """The layers of a transformers model, in order."""
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no layers that transformers knows as such.")
    return layers


def recompute(model: nn.Module, layers: int | None = None) -> None:
    """In training, keep only the input of the first `layers` layers, and compute the rest of them twice.

    Layers that were set before and are not among these keep their activations again. It is torch.utils.checkpoint
    behind transformers' own switch, which knows all layers or none.
    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost" (arXiv 1604.06174).

    Args:
        layers: from 0 to all of them; None for all.
    """
    every = transformer_layers(model)
    count = len(every) if layers is None else whole_number("layers", layers, 0, len(every))
    for i, layer in enumerate(every):
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = i < count
