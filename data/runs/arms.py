"""The experiments: each a few arms that differ from the padded run in what their name says."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from packlib.batches import IGNORED, PackedBatch
from packlib.model import packed_output
from packlib.training import CausalObjective, Recipe, adjust, parameter_groups
from packlib.training.objective import Objective

# the best rates of the two sweeps, for padded rows
ADAMW = Recipe(
    micro_batch=8, gradient_accumulation_steps=2, learning_rate=1.5e-3, betas=(0.9, 0.98), weight_decay=0.01,
    total_sequences=12_000, warmup_sequences=1_200, max_length=128,
)  # fmt: skip
LAMB = replace(ADAMW, optimizer="lamb", learning_rate=0.04, betas=(0.81, 0.98))
PAIRS = replace(
    LAMB, micro_batch=16, gradient_accumulation_steps=4, learning_rate=0.02, total_sequences=80_000,
    warmup_sequences=8_000, max_length=64,
)  # fmt: skip


class WithoutMask(CausalObjective):
    """Every token attends to all of its pack before it. No first token of a text is predicted, as in the other arms."""

    def __call__(self, model, batch):
        joined = PackedBatch(
            input_ids=batch.input_ids,
            segment_ids=batch.segment_ids.clamp(max=1),
            position_ids=batch.position_ids,
            labels=torch.where(batch.position_ids > 0, batch.input_ids, IGNORED),
        )
        return self.sums(packed_output(model, joined), batch)


class WithoutReset(CausalObjective):
    """Positions count through the pack."""

    def __call__(self, model, batch):
        slots = torch.arange(batch.max_length, device=batch.input_ids.device).expand_as(batch.input_ids)
        return super().__call__(model, PackedBatch({**batch, "position_ids": slots}))


def l2_in_the_loss(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Make an Adam whose weight decay goes through the gradient and its moments."""
    groups = parameter_groups(model, recipe.weight_decay)
    return torch.optim.Adam(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=1e-6)


Adjusted = Callable[[Recipe, float], Recipe]  # from the padded recipe and the packing factor to an arm's recipe


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        recipe: from the padded recipe and the packing factor to the arm's recipe.
        packed: packs without a depth limit; else one sequence a row.
        times: what the padded recipe's rate is multiplied by before all else.
        even: updates end at the sequence, so that each holds as many as the recipe says.
    """

    recipe: Adjusted
    packed: bool = True
    objective: Objective | None = None
    optimizer: Callable[[nn.Module, Recipe], torch.optim.Optimizer] | None = None
    times: float = 1.0
    even: bool = False


@dataclass(frozen=True)
class Experiment:
    """Arms that are compared; all come from one padded recipe.

    Attributes:
        text: of `pretraining.TEXTS`, what is trained on.
    """

    padded: Recipe
    arms: dict[str, Arm]
    text: str = "docstrings"


def same(padded: Recipe, factor: float) -> Recipe:
    return padded


def adjusted(how: str) -> Adjusted:
    return lambda padded, factor: adjust(padded, factor, how).recipe


divided = adjusted("accumulation")


def nothing(padded: Recipe, factor: float) -> Recipe:
    return replace(padded, packing_factor=factor)


def betas_and_rate(padded: Recipe, factor: float) -> Recipe:
    """Raise betas to the power k and the rate by √k, as the theory of small steps has it (Malladi and others 2022)."""
    recipe = adjust(padded, factor, "betas").recipe
    return replace(recipe, learning_rate=recipe.learning_rate * factor**0.5)


def as_many(padded: Recipe, factor: float) -> Recipe:
    """Put the sequences of a padded update into each update, so as many updates; about half of the rows."""
    return replace(padded, packing_factor=float(padded.gradient_accumulation_steps), gradient_accumulation_steps=1)


def strong_decay(padded: Recipe, factor: float) -> Recipe:
    return replace(divided(padded, factor), weight_decay=0.1)


def batch(times: int, power: float, warm: bool = True) -> Adjusted:
    """Return a batch `times` as large as the divided one, and the rate scaled by `times` to the `power`."""

    def scaled(padded: Recipe, factor: float) -> Recipe:
        recipe = divided(padded, factor)
        return replace(
            recipe,
            gradient_accumulation_steps=times * recipe.gradient_accumulation_steps,
            learning_rate=recipe.learning_rate * times**power,
            warmup_sequences=recipe.warmup_sequences if warm else 0,
        )

    return scaled


def curves(padded: Recipe) -> Experiment:
    """Return the ways to adjust a recipe."""
    return Experiment(padded, {
        "padded": Arm(same, packed=False),
        "divided": Arm(divided),
        "nothing adjusted": Arm(nothing),
        "betas": Arm(adjusted("betas")),
        "square-root rate": Arm(adjusted("sqrt_rate")),
        "linear rate": Arm(adjusted("linear_rate")),
        "betas and square-root rate": Arm(betas_and_rate),
        "divided, as many updates": Arm(as_many, even=True),
    })  # fmt: skip


def sweep(padded: Recipe, rates: tuple[float, ...]) -> Experiment:
    """Return four of these ways, each at several rates."""
    return Experiment(padded, {
        f"{name}, {rate:g}": replace(arm, times=rate / padded.learning_rate)
        for rate in rates
        for name, arm in curves(padded).arms.items()
        if name in ("padded", "divided", "nothing adjusted", "betas")
    })  # fmt: skip


EXPERIMENTS: dict[str, Experiment] = {
    "sweep-adamw": sweep(ADAMW, (7.5e-4, 1.5e-3, 3e-3, 6e-3)),
    "sweep-lamb": sweep(LAMB, (0.01, 0.02, 0.04, 0.08)),
    "curves-adamw": curves(ADAMW),
    "curves-lamb": curves(LAMB),
    "ablations": Experiment(LAMB, {
        "packed": Arm(divided),
        "no mask": Arm(divided, objective=WithoutMask()),
        "no position reset": Arm(divided, objective=WithoutReset()),
        "pack mean": Arm(divided, objective=CausalObjective("pack")),
    }),
    "weight-decay": Experiment(
        ADAMW, {"AdamW": Arm(strong_decay), "L2 in the loss": Arm(strong_decay, optimizer=l2_in_the_loss)}
    ),
    "warm-up": Experiment(ADAMW, {
        f"rate × {times}, {'with' if warm else 'without'} warm-up": Arm(batch(1, 1, warm), times=times)
        for times in (1, 4, 8)
        for warm in (True, False)
    }),
    "batch-adamw": Experiment(ADAMW, {f"batch × {times}": Arm(batch(times, 1)) for times in (1, 2, 4, 8)}),
    "batch-lamb": Experiment(LAMB, {f"batch × {times}": Arm(batch(times, 0.5)) for times in (1, 2, 4, 8)}),
    "checkpoints": Experiment(PAIRS, {"padded": Arm(same, packed=False), "divided": Arm(divided)}, "pairs"),
}  # fmt: skip
