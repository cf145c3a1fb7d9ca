"""LAMB, step by step as in the paper, and the optimizer that a recipe asks for."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from packlib.arguments import flag, instance, number
from packlib.training.recipe import Recipe, check_betas


class Lamb(torch.optim.Optimizer):
    """Adam whose step is scaled, layer by layer, to the size of the weights.

    Source: You et al. 2019, "Large batch optimization for deep learning" (arXiv 1904.00962), algorithm 2, with φ the
    identity. For a layer x with gradient g:

        m ← β1 m + (1 − β1) g          m̂ = m / (1 − β1^t)
        v ← β2 v + (1 − β2) g²         v̂ = v / (1 − β2^t)
        u = m̂ / (√v̂ + ε) + λ x         x ← x − η (‖x‖ / ‖u‖) u

    Every parameter tensor is a layer, so a weight and its bias are two. Where ‖x‖ or ‖u‖ is 0 the ratio is 1. The
    last ratio is kept as `optimizer.state[x]["trust_ratio"]`.

    Args:
        params: parameters, or groups of them; a group may have its own values of all the others.
        lr: η, the learning rate.
        betas: (β1, β2), each at least 0 and below 1.
        eps: ε, at least 0.
        weight_decay: λ, at least 0.
        adapt: False leaves the ratio 1: an Adam step, for biases and norms (see `parameter_groups`).
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        adapt: bool = True,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "adapt": adapt})

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Check a group's values, its own or the defaults, and add it."""
        values = {**self.defaults, **group}
        for name in ("lr", "eps", "weight_decay"):
            number(name, values[name], at_least=0)
        check_betas(values["betas"])
        flag("adapt", values["adapt"])
        super().add_param_group(group)

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Change all parameters that have a gradient; returns what `closure` does, if there is one."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            layers = [x for x in group["params"] if x.grad is not None]
            if layers:
                self._step_group(group, layers)
        return loss

    def _step_group(self, group: dict[str, Any], layers: list[torch.Tensor]) -> None:
        """Change the layers of a group, all at once; m, v and u below are lists of tensors, one for each layer."""
        beta1, beta2 = group["betas"]
        gradients = [x.grad for x in layers]
        states = [self.state[x] for x in layers]
        for x, state in zip(layers, states, strict=True):
            if x.grad.is_sparse:
                raise TypeError("Lamb needs dense gradients; this one is sparse.")
            if not state:
                state.update(step=0, m=torch.zeros_like(x), v=torch.zeros_like(x))
            state["step"] += 1
        m, v = [state["m"] for state in states], [state["v"] for state in states]
        torch._foreach_lerp_(m, gradients, 1 - beta1)
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, gradients, gradients, 1 - beta2)

        # u = m̂ / (√v̂ + ε) + λ x
        denominator = torch._foreach_sqrt(v)
        torch._foreach_div_(denominator, [math.sqrt(1 - beta2 ** state["step"]) for state in states])
        torch._foreach_add_(denominator, group["eps"])
        u = torch._foreach_div(m, [1 - beta1 ** state["step"] for state in states])
        u = torch._foreach_div(u, denominator)
        if group["weight_decay"]:
            torch._foreach_add_(u, layers, alpha=group["weight_decay"])
        if group["adapt"]:
            norms = zip(torch._foreach_norm(layers), torch._foreach_norm(u), strict=True)
            ratios = [torch.where((norm_x > 0) & (norm_u > 0), norm_x / norm_u, 1.0) for norm_x, norm_u in norms]
            torch._foreach_mul_(u, ratios)
            for state, ratio in zip(states, ratios, strict=True):
                state["trust_ratio"] = ratio
        torch._foreach_add_(layers, u, alpha=-group["lr"])


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the parameters into weights, and biases and norms, which get neither weight decay nor LAMB's ratio.

    Biases and the gains of norms are the parameters of at most one dimension. A parameter that two modules
    share comes once; one that needs no gradient is left out.
    """
    instance("model", model, nn.Module)
    number("weight_decay", weight_decay, at_least=0)
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("The model has no parameter that needs a gradient.")
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0, "adapt": False},
    ]
    return [group for group in groups if group["params"]]


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Make the recipe's optimizer for the model, biases and norms apart: `Lamb`, or torch's `AdamW`."""
    instance("recipe", recipe, Recipe)
    kind = {"lamb": Lamb, "adamw": torch.optim.AdamW}[recipe.optimizer]
    groups = parameter_groups(model, recipe.weight_decay)
    return kind(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=1e-6)
