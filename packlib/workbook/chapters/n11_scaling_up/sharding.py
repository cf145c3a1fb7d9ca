"""The memory of replicas: optimizer state and gradients dealt out over ranks, state kept off the device."""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from packlib.training.lamb import make_optimizer
from packlib.training.recipe import Recipe
from packlib.workbook.chapters.n11_scaling_up.recomputation import transformer_layers


def shard_optimizer(model: nn.Module, recipe: Recipe) -> ZeroRedundancyOptimizer:
    """The recipe's optimizer, its state dealt out over the ranks, whole parameters each (ZeRO, stage 1).

    Each rank updates its own parameters and sends them to the others; gradients are added up before, as always, so
    it goes with `DistributedDataParallel` and with `fit(optimizer=…)`, without a folder.
    Source: Rajbhandari et al. 2020, "ZeRO" (arXiv 1910.02054).
    """
    whole = make_optimizer(model, recipe)
    return ZeroRedundancyOptimizer(whole.param_groups, type(whole), lr=recipe.learning_rate)


def shard_model(model: nn.Module) -> nn.Module:
    """Deal out weights, gradients and, with any optimizer made afterwards, its state: rows of each tensor (ZeRO 3).

    A layer is gathered when it is needed. The ranks' gradients are averaged, as with `DistributedDataParallel`.
    torch's `fully_shard`, layer by layer; the model is changed in place.
    """
    for layer in transformer_layers(model):
        fully_shard(layer)
    return fully_shard(model)


def offload_state(optimizer: Optimizer, home: torch.device | str = "cpu") -> Optimizer:
    """Keep the optimizer's state at `home`, and on the device of the weights only while they are updated.

    Forward and backward then have the device's memory for themselves. With weights on the CPU nothing moves: there
    `memory_of` can only account for it.

    Returns:
        The same optimizer, with hooks.
    """

    def move(to_home: bool) -> None:
        for p, state in optimizer.state.items():
            for name, value in state.items():
                if isinstance(value, Tensor) and value.dim():  # counters of steps stay where they are
                    state[name] = value.to(home if to_home else p.device)

    optimizer.register_step_pre_hook(lambda *_: move(to_home=False))
    optimizer.register_step_post_hook(lambda *_: move(to_home=True))
    optimizer.register_load_state_dict_post_hook(lambda *_: move(to_home=True))
    optimizer.state_is_offloaded = True
    return optimizer


def memory_of(model: nn.Module, optimizer: Optimizer) -> dict[str, int]:
    """Bytes that this rank holds between two updates.

    Returns:
        "weights", "gradients", "state" on the device, and "offloaded state".
    """
    own = getattr(optimizer, "optim", optimizer)  # a ZeroRedundancyOptimizer holds this rank's inside
    parameters = list(model.parameters())
    state = sum(_bytes(value) for one in own.state.values() for value in one.values())
    offloaded = getattr(own, "state_is_offloaded", False)
    return {
        "weights": sum(map(_bytes, parameters)),
        "gradients": sum(_bytes(p.grad) for p in parameters),
        "state": 0 if offloaded else state,
        "offloaded state": state if offloaded else 0,
    }


def _bytes(value: object) -> int:
    value = value.to_local() if isinstance(value, DTensor) else value
    return value.nbytes if isinstance(value, Tensor) else 0
