"""What autograd keeps for the backward pass, counted byte by byte; and layers that are computed twice."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


class SavedActivations(torch.autograd.graph.saved_tensors_hooks):
    """Count what autograd keeps between forward and backward: exact, the same each time, on any device.

    >>> import torch
    >>> from tests.benchmarks.activations import SavedActivations
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


def transformer_layers(model: nn.Module) -> list[GradientCheckpointingLayer]:
    """The layers of a transformers model, in order."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def recompute(model: nn.Module, layers: int) -> None:
    """In training, keep only the input of the first `layers` layers, and compute the rest of them twice.

    It is torch.utils.checkpoint behind transformers' own switch, which knows all layers or none.
    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost" (arXiv 1604.06174).
    """
    for i, layer in enumerate(transformer_layers(model)):
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = i < layers
