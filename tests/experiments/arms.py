"""The experiments: each a few arms that differ from the padded run in what their name says."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from packlib.training import PretrainingObjective, Recipe, adjust, parameter_groups

PADDED = Recipe(
    micro_batch=16, gradient_accumulation_steps=4, learning_rate=0.02, betas=(0.81, 0.98), optimizer="lamb",
    weight_decay=0.01, total_sequences=80_000, warmup_sequences=8_000, max_length=64,
)  # fmt: skip


class WithoutMask(PretrainingObjective):
    """Every token attends to its whole pack."""

    def __call__(self, model, batch):
        return super().__call__(lambda **f: model(**{**f, "segment_ids": f["segment_ids"].clamp(max=1)}), batch)


class WithoutReset(PretrainingObjective):
    """Positions count through the pack."""

    def __call__(self, model, batch):
        slots = torch.arange(batch.max_length, device=batch.input_ids.device).expand_as(batch.input_ids)
        return super().__call__(lambda **f: model(**{**f, "position_ids": slots}), batch)


def l2_in_the_loss(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam whose weight decay goes through the gradient and its moments."""
    groups = parameter_groups(model, recipe.weight_decay)
    return torch.optim.Adam(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=1e-6)


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        recipe: from the padded recipe and the packing factor to the arm's recipe.
        packed: packs without a depth limit; else one sequence a row.
        start: the arm of "curves", of the same seed and padded, that it begins from; None for random weights.
    """

    recipe: Callable[[Recipe, float], Recipe]
    packed: bool = True
    objective: PretrainingObjective | None = None
    optimizer: Callable[[nn.Module, Recipe], torch.optim.Optimizer] | None = None
    even_updates: bool = False
    start: str | None = None


def same(padded: Recipe, factor: float) -> Recipe:
    return padded


def divided(padded: Recipe, factor: float) -> Recipe:
    return adjust(padded, factor).recipe


def raised_betas(padded: Recipe, factor: float) -> Recipe:
    return adjust(padded, factor, "betas").recipe


def doubled_rate(padded: Recipe, factor: float) -> Recipe:
    return replace(padded, packing_factor=factor, learning_rate=2 * padded.learning_rate)


def nothing(padded: Recipe, factor: float) -> Recipe:
    return replace(padded, packing_factor=factor)


def doubled_batch(padded: Recipe, factor: float) -> Recipe:
    return replace(nothing(padded, factor), gradient_accumulation_steps=2 * padded.gradient_accumulation_steps)


def adamw(padded: Recipe, factor: float) -> Recipe:
    return replace(divided(padded, factor), optimizer="adamw", learning_rate=2e-3, betas=(0.9, 0.98))


def strong_decay(padded: Recipe, factor: float) -> Recipe:
    return replace(adamw(padded, factor), weight_decay=0.1)


def batch(times: int, optimizer: str, warm: bool = True) -> Callable[[Recipe, float], Recipe]:
    """A batch `times` as large as one micro-batch; the rate scaled linearly for AdamW, by the square root for LAMB."""

    def scaled(padded: Recipe, factor: float) -> Recipe:
        recipe = adamw(padded, factor) if optimizer == "adamw" else divided(padded, factor)
        return replace(
            recipe,
            gradient_accumulation_steps=times,
            learning_rate=5e-4 * times if optimizer == "adamw" else 0.01 * times**0.5,
            warmup_sequences=recipe.warmup_sequences if warm else 0,
        )

    return scaled


EXPERIMENTS: dict[str, dict[str, Arm]] = {
    "curves": {
        "padded": Arm(same, packed=False),
        "packed, accumulation divided": Arm(divided),
        "packed, even updates": Arm(divided, even_updates=True),
        "packed, betas adjusted": Arm(raised_betas),
        "packed, rate doubled": Arm(doubled_rate),
        "packed, nothing adjusted": Arm(nothing),
        "packed, batch doubled": Arm(doubled_batch),
    },
    "continued": {
        "padded": Arm(same, packed=False, start="padded"),
        "packed, accumulation divided": Arm(divided, start="padded"),
        "packed, betas adjusted": Arm(raised_betas, start="padded"),
        "packed, nothing adjusted": Arm(nothing, start="padded"),
    },
    "weight-decay": {"AdamW": Arm(strong_decay), "L2 in the loss": Arm(strong_decay, optimizer=l2_in_the_loss)},
    "warm-up": {
        f"rate × {times}, {'with' if warm else 'without'} warm-up": Arm(batch(times, "adamw", warm))
        for times in (1, 4, 8)
        for warm in (True, False)
    },
    "batch": {
        f"{optimizer}, batch × {times}": Arm(batch(times, optimizer))
        for optimizer in ("adamw", "lamb")
        for times in (1, 2, 4, 8)
    },
    "ablations": {
        "packed": Arm(divided),
        "no mask": Arm(divided, objective=WithoutMask()),
        "no position reset": Arm(divided, objective=WithoutReset()),
        "pack mean": Arm(divided, objective=PretrainingObjective("pack")),
    },
}
