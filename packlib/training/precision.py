"""Low precision: what 16 bits lose, stochastic rounding, and 16-bit weights that still learn."""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.optim import Optimizer

from packlib.arguments import instance, one_of, shown, whole_number

HALVES = (torch.bfloat16, torch.float16)  # the types of 16 bits
Rounding = Literal["stochastic", "nearest", "master"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)


@torch.no_grad()
def stochastic_round(tensor: Tensor, dtype: torch.dtype, generator: torch.Generator | None = None) -> Tensor:
    """Round to `dtype`, up with the probability that makes the mean right.

    With a value x between the neighbors a < b of `dtype` the answer is b with probability (x − a) / (b − a), to
    within 2^−53, else a. What `dtype` holds stays as it is, and so do NaN and infinity. The neighbor of the largest
    finite number is infinity.
    Source: Gupta et al. 2015, "Deep learning with limited numerical precision" (arXiv 1502.02551).

    >>> import torch
    >>> from packlib.training import stochastic_round
    >>> third, seeded = torch.full((30_000,), 1 / 3), torch.Generator().manual_seed(0)
    >>> rounded = stochastic_round(third, torch.bfloat16, seeded)
    >>> len(rounded.unique()), round(rounded.double().mean().item(), 4)  # both neighbors; 1 / 3 on average
    (2, 0.3333)

    Args:
        tensor: FP32 or FP64, any shape.
        dtype: torch.bfloat16 or torch.float16.
    """
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        raise TypeError(f"tensor must be a tensor of floats, not {shown(tensor)}.")
    if dtype not in HALVES:
        raise ValueError(f"dtype must be torch.bfloat16 or torch.float16, not {shown(dtype)}.")
    info, x = torch.finfo(dtype), tensor.double()
    # the distance of the neighbors: one bit of the binade of x, and below the normal numbers that of the smallest one
    power = torch.ldexp(torch.ones_like(x), torch.frexp(x).exponent - 1)
    spacing = power.clamp(min=info.smallest_normal) * info.eps
    steps = x / spacing  # exact: the spacing is a power of 2
    below = steps.floor()
    up = torch.rand(x.shape, dtype=x.dtype, device=x.device, generator=generator) < steps - below
    return torch.where(x.isfinite(), (below + up) * spacing, x).to(dtype)


def round_weights(optimizer: Optimizer, rounding: Rounding = "stochastic", seed: int = 0) -> Optimizer:
    """Let `optimizer` train 16-bit weights with FP32 moments: its step runs in FP32, then the weights are rounded.

    - "stochastic": at random, so that small updates count on average; 2 bytes a weight.
    - "nearest": updates under half a spacing are lost, and training stalls; 2 bytes a weight.
    - "master": to nearest, from FP32 weights that are kept beside them; 6 bytes a weight.

    The random numbers depend on the seed and the update only: replicas stay equal, and a run that goes on from
    `state_dict()` is the one that was not interrupted. Everything of the model that is FP32 stays as it was.

    Args:
        optimizer: any of torch's or packlib's, over parameters in bfloat16 or float16, before its first step; its
            steps take no closure.

    Returns:
        The same optimizer, with hooks.
    """
    instance("optimizer", optimizer, Optimizer)
    one_of("rounding", rounding, ROUNDINGS)
    seed = whole_number("seed", seed, 0)
    widened: list[tuple[Tensor, Tensor, Tensor | None]] = []  # each parameter with its 16-bit weight and gradient

    def widen(*_: object) -> None:
        """Give each 16-bit parameter its weight and gradient in FP32."""
        for p in [p for group in optimizer.param_groups for p in group["params"] if p.dtype in HALVES]:
            gradient = p.grad
            widened.append((p, p.data, gradient))
            p.grad = None  # while the weight's type changes: a gradient must have the same
            p.data = optimizer.state.get(p, {}).get("master", p.data.float())
            p.grad = None if gradient is None else gradient.float()

    def narrow(*_: object, after_step: bool = True) -> None:
        """Give each its 16-bit weight and gradient back; after a step the weight is the rounded FP32 one."""
        first_group = optimizer.param_groups[0]  # what stands in a group is saved by `state_dict`
        roundings = first_group.get("roundings", 0)
        devices = {p.device for p, *_ in widened}
        generators = {device: torch.Generator(device).manual_seed(seed + roundings) for device in devices}
        for p, half_weight, half_gradient in widened:
            if after_step and p.grad is not None:
                if rounding == "master":
                    optimizer.state[p]["master"] = p.data
                if rounding == "stochastic":
                    half_weight.copy_(stochastic_round(p.data, half_weight.dtype, generators[p.device]))
                else:
                    half_weight.copy_(p.data)  # to nearest
            p.grad = None
            p.data = half_weight
            p.grad = half_gradient
        widened.clear()
        first_group["roundings"] = roundings + after_step

    optimizer.register_step_pre_hook(widen)
    optimizer.register_step_post_hook(narrow)
    # loading casts the state to the type of the weights, which must not cut the moments to 16 bits
    optimizer.register_load_state_dict_pre_hook(widen)
    optimizer.register_load_state_dict_post_hook(lambda *_: narrow(after_step=False))
    return optimizer
