"""What autograd keeps for the backward pass, counted byte by byte."""

import torch
from torch import Tensor, nn


class SavedActivations(torch.autograd.graph.saved_tensors_hooks):
    """Count what autograd keeps between forward and backward: exact, the same each time, on any device.

    >>> import torch
    >>> from packlib.workbook.chapters.n11_scaling_up.activations import SavedActivations
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
