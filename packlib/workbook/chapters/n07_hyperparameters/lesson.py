"""Notebook 07: what packing does to a recipe, and what to change in it."""

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from packlib.training import Recipe, adjust
from packlib.workbook.chapters.n07_hyperparameters.figures import draw_recipes
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import OKABE_ITO, new_figure


def weight_left(beta: float, sequences_per_update: float, age: np.ndarray) -> np.ndarray:
    """The weight of a gradient in a moment `age` sequences later, as a share of what it was."""
    return beta ** (age / sequences_per_update)


class RecipeExplorer(Explorer):
    """A recipe before and after packing, and how far the optimizer remembers."""

    title = "What does packing change, and what do you?"

    def controls(self):
        return {
            "factor": choice("Packing factor", (1, 1.5, 1.99, 2.05, 3, 5, 8.5), 1.99),
            "micro_batch": slider("Micro batch", 1, 64, value=15),
            "accumulation": slider("Accumulation", 1, 128, value=100),
            "beta1": choice("Beta 1", (0.5, 0.81, 0.9, 0.95), 0.81),
            "beta2": choice("Beta 2", (0.81, 0.95, 0.98, 0.999), 0.98),
            "how": choice("Change", ("nothing", "accumulation", "betas", "linear_rate"), "accumulation"),
        }

    def draw(self, factor, micro_batch, accumulation, beta1, beta2, how) -> tuple[Figure, str]:
        before = Recipe(
            micro_batch=micro_batch, gradient_accumulation_steps=accumulation, learning_rate=0.006,
            betas=(beta1, beta2), optimizer="lamb", total_sequences=10_500_000, warmup_sequences=3_000_000,
        )  # fmt: skip
        packed = replace(before, packing_factor=float(factor))
        after = packed if how == "nothing" else adjust(before, factor, how).recipe
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        draw_recipes(left, before, after)
        ages = np.geomspace(100, 1e6, 60)
        for recipe, color, width in ((before, "#cccccc", 7), (after, OKABE_ITO[0], 2.5)):
            for beta in recipe.betas:
                weights = 100 * weight_left(beta, recipe.sequences_per_update, ages)
                right.plot(ages, weights, color=color, linewidth=width, linestyle="-", antialiased=width < 5)
        for name, life in zip("mv", after.half_lives, strict=True):
            right.text(1.3 * life, 52, name, fontsize=15)
        right.set(xscale="log", xlabel="sequences later", xticks=(1e2, 1e4, 1e6), yticks=(0, 50, 100))
        right.set_title("Weight left in m and v, %", fontsize=13)
        right.minorticks_off()
        lives = [", ".join(f"{life:,.0f}" for life in recipe.half_lives) for recipe in (before, after)]
        off = after.sequences_per_update / before.sequences_per_update - 1
        memory = after.half_lives[0] / before.half_lives[0]
        title = f"{off:+.1%} sequences an update, memory × {memory:.2f}"
        fig.suptitle(title, x=0.02, ha="left", fontsize=15)
        return fig, (
            f"Factor {factor:g}, change {how}: sequences an update {before.sequences_per_update:,.0f} before, "
            f"{after.sequences_per_update:,.0f} after ({off:+.1%}); rows {before.global_batch:,} and "
            f"{after.global_batch:,}; updates {before.total_steps:,} and {after.total_steps:,}. Betas "
            f"{before.betas[0]:.4g} and {before.betas[1]:.4g} become {after.betas[0]:.4g} and {after.betas[1]:.4g}. "
            f"The moments halve after {lives[0]} sequences before, {lives[1]} after."
        )  # fmt: skip


# Exercises


def same_memory(beta, before, after):
    """The beta for `after` sequences an update that forgets, sequence for sequence, as `beta` does for `before`."""
    return beta ** (after / before)


def first_lamb_step(weights, gradient, rate):
    """A layer's weights after LAMB's first update: bias correction, no weight decay, epsilon 0."""
    u = [math.copysign(1.0, g) for g in gradient]  # m̂ is the gradient, v̂ its square
    ratio = math.hypot(*weights) / math.hypot(*u) or 1.0
    return [x - rate * ratio * part for x, part in zip(weights, u, strict=True)]


def fit_device(target, factor, replicas, most_rows):
    """Micro batch and accumulation of the packed run: few micro-batches, as full as the device allows."""

    def off(option):
        return abs(math.prod(option) * replicas * factor / target - 1)

    wanted = target / replicas / factor
    options = [(rows, max(1, round(wanted / rows))) for rows in range(most_rows, math.ceil(most_rows / 2) - 1, -1)]
    return min(options, key=off)


def _fault(got, target, factor, replicas, most_rows):
    rows, steps = got
    if not (isinstance(rows, int) and isinstance(steps, int)) or min(rows, steps) < 1:
        return "both must be whole numbers from 1 on."
    if not most_rows / 2 <= rows <= most_rows:
        return f"a micro batch of {rows} rows is not from {most_rows / 2:g} to {most_rows}."
    sequences = rows * steps * replicas * factor
    if abs(sequences / target - 1) > 0.03:
        return f"that is {sequences:,.1f} sequences an update, {sequences / target - 1:+.1%} against {target:,}."
    return None


def _layer_step(u, weights, rate, ratio):
    return [x - rate * ratio * float(part) for x, part in zip(weights, u, strict=True)]


EXERCISES = Exercises([
    Exercise(
        "same_memory", same_memory,
        cases=((0.81, 64, 128), (0.9, 100, 100), (0.9, 100, 50), (0.98, 64, 131.2), (0.999, 1500, 2985)),
        wrong={
            "upside down": lambda beta, before, after: beta ** (before / after),
            "times, not to the power": lambda beta, before, after: beta * before / after,
            "the first order only": lambda beta, before, after: 1 - (1 - beta) * after / before,
            "keeps it": lambda beta, before, after: beta,
        },
        hint="the weight that is left after n sequences is beta to the power of n / (sequences an update).",
    ),
    Exercise(
        "first_lamb_step", first_lamb_step,
        cases=(([2.0], [1.0], 0.1), ([3.0, 4.0], [1.0, 1.0], 0.1), ([3.0, 4.0], [-10.0, 0.1], 0.02),
               ([0.0, 0.0], [1.0, -2.0], 0.1)),
        wrong={
            "AdamW: no trust ratio": lambda weights, gradient, rate: _layer_step(np.sign(gradient), weights, rate, 1),
            "the gradient itself, scaled": lambda weights, gradient, rate: _layer_step(
                gradient, weights, rate, math.hypot(*weights) / math.hypot(*gradient) or 1
            ),
            "upside down": lambda weights, gradient, rate: _layer_step(
                np.sign(gradient), weights, rate, len(weights) ** 0.5 / (math.hypot(*weights) or len(weights) ** 0.5)
            ),
            "never leaves zero": lambda weights, gradient, rate: _layer_step(
                np.sign(gradient), weights, rate, math.hypot(*weights) / len(weights) ** 0.5
            ),
        },
        hint="at the first step m̂ / √v̂ is the sign of the gradient; the ratio is ‖x‖ / ‖u‖, or 1 where ‖x‖ is 0.",
    ),
    Exercise(
        "fit_device", fit_device,
        cases=((64, 2, 1, 16), (64, 2.05, 1, 16), (60, 1.5, 1, 16), (1500, 1.99, 10, 15), (30_000, 1.99, 8, 40)),
        wrong={
            "rounds only the accumulation": lambda target, factor, replicas, most_rows: (
                most_rows, max(1, round(target / (most_rows * replicas * factor)))
            ),
            "forgets the factor": lambda target, factor, replicas, most_rows: fit_device(
                target, 1, replicas, most_rows
            ),
            "forgets the replicas": lambda target, factor, replicas, most_rows: fit_device(
                target, factor, 1, most_rows
            ),
            "one micro-batch": lambda target, factor, replicas, most_rows: (round(target / replicas / factor), 1),
        },
        fault=_fault,
        hint="try every micro batch that is allowed, each with the accumulation that comes closest.",
    ),
])  # fmt: skip
check = EXERCISES
