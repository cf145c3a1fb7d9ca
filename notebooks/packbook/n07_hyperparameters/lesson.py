"""Notebook 07: what packing does to a recipe, and what to change in it."""

import math
from dataclasses import replace
from numbers import Integral

import numpy as np
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice, slider
from packbook.figures import OKABE_ITO, new_figure
from packbook.n07_hyperparameters.figures import draw_recipes
from packbook.n07_hyperparameters.runs import above_padded, signed
from packbook.questions import Questions, compare
from packlib.training import Recipe, adjust

HOWS = {"nothing": "nothing", "accumulation": "accumulation", "betas": "betas", "linear_rate": "rate × k"}


class RecipeExplorer(Explorer):
    """A recipe before and after packing, and how far the optimizer remembers."""

    title = "What does packing change, and what do you?"
    shown_controls = ("accumulation", "how")

    def __init__(self, factor: float = 1.99) -> None:
        self.factors = sorted({1.0, 1.5, 1.99, 3.0, 5.0, 8.5, round(float(factor), 2)})
        self.factor = round(float(factor), 2)
        super().__init__()

    def controls(self):
        betas = [(f"{b1} and {b2}", (b1, b2)) for b1, b2 in ((0.81, 0.81), (0.81, 0.98), (0.9, 0.98), (0.9, 0.999))]
        return {
            "factor": choice("Packing factor", [(f"{k:g}", k) for k in self.factors], self.factor),
            "accumulation": slider("Accumulation", 1, 128, value=3),
            "betas": choice("Betas", betas, (0.9, 0.98)),
            "how": choice("Change", [(said, how) for how, said in HOWS.items()], "accumulation"),
        }

    def draw(self, factor, accumulation, betas, how) -> tuple[Figure, str]:
        before = Recipe(
            micro_batch=15,
            gradient_accumulation_steps=accumulation,
            learning_rate=0.006,
            betas=betas,
            optimizer="lamb",
            total_sequences=10_500_000,
            warmup_sequences=3_000_000,
        )
        packed = replace(before, packing_factor=float(factor))
        after = packed if how == "nothing" else adjust(before, factor, how).recipe
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        draw_recipes(left, before, after)
        ages = np.geomspace(10, 1e6, 60)
        for recipe, look in ((before, {"color": "#cccccc", "linewidth": 7}), (after, {"linewidth": 2.5})):
            for beta, line in zip(recipe.betas, ("-", "--"), strict=True):
                weights = 100 * beta ** (ages / recipe.sequences_per_update)  # that are left of a gradient's
                style = {"color": OKABE_ITO[0], "linestyle": line, **look}
                right.plot(ages, weights, antialiased=recipe is after, **style)
        m, v = after.half_lives
        right.text(m / 2, 30, "m", fontsize=15, ha="right")  # left of its curve, and v right of its own
        right.text(1.6 * v, 60, "v", fontsize=15)
        right.set(xscale="log", xlabel="sequences later", xticks=(1e1, 1e3, 1e5), yticks=(0, 50, 100))
        right.set_title("Weight left, %; gray: before", fontsize=13)
        right.minorticks_off()
        lives = [", ".join(f"{life:,.0f}" for life in recipe.half_lives) for recipe in (before, after)]
        off = after.sequences_per_update / before.sequences_per_update - 1
        memory = after.half_lives[0] / before.half_lives[0]
        fig.suptitle(f"{signed(off)} sequences an update, memory × {memory:.2f}")
        return fig, (
            f"Factor {factor:g}, change {HOWS[how]}: sequences an update {before.sequences_per_update:,.0f} before, "
            f"{after.sequences_per_update:,.0f} after ({signed(off)}); rows {before.global_batch:,} and "
            f"{after.global_batch:,}; updates {before.total_steps:,} and {after.total_steps:,}. Betas "
            f"{before.betas[0]:.4g} and {before.betas[1]:.4g} become {after.betas[0]:.4g} and {after.betas[1]:.4g}. "
            f"The moments halve after {lives[0]} sequences before, {lives[1]} after."
        )


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "update": lambda before, after: (
            "its sequences" if after.sequences_per_update > before.sequences_per_update else "nothing"
        ),
        "recorded": lambda found: found.verdict,
        "keep_batch": lambda recorded: (
            "all" if all(above_padded(recorded)) else "some" if any(above_padded(recorded)) else "none"
        ),
        "half_life": lambda recipe: round(recipe.half_lives[0]),
        "rate_rule": lambda misses: min(("linear", "sqrt"), key=misses.get),
        "lamb_step": lambda shares, adamw: compare(shares[0], shares[1], "large", "equal", "small", within=1e-6),
        "schedule": lambda left, factor: round(100 * left),
    },
    reasons={
        "keep_batch": lambda recorded: (
            f"{sum(above_padded(recorded))} of {len(above_padded(recorded))} intervals lie above 0, of both optimizers."
        ),
        "schedule": lambda left, factor: (
            f"The schedule waits for updates that never come. The warm-up took {factor:g} times as many sequences as "
            "planned, and the data ended before the rate had fallen."
            if left
            else "A row holds no more sequences than before, so the schedule ends as planned."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def same_memory(beta, before, after):
    """The beta for `after` sequences an update that forgets, sequence for sequence, as `beta` does for `before`."""
    return beta ** (after / before)


def first_lamb_step(weights, gradient, rate, decay):
    """A tensor's values after LAMB's first update, with bias correction and epsilon 0."""
    signs = (math.copysign(1.0, g) for g in gradient)  # m̂ is the gradient, and v̂ its square
    u = [sign + decay * x for sign, x in zip(signs, weights, strict=True)]
    ratio = math.hypot(*weights) / math.hypot(*u) if any(weights) and any(u) else 1.0
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
    if not (isinstance(rows, Integral) and isinstance(steps, Integral)) or min(rows, steps) < 1:
        return "both must be whole numbers from 1 on."
    if not most_rows / 2 <= rows <= most_rows:
        return f"a micro batch of {rows} rows is not from {most_rows / 2:g} to {most_rows}."
    sequences = rows * steps * replicas * factor
    if abs(sequences / target - 1) > 0.03:
        return f"that is {sequences:,.1f} sequences an update, {signed(sequences / target - 1)} against {target:,}."
    return None


check = Exercises.beside(
    __file__,
    same_memory,
    Exercise("fit_device", fit_device, fault=_fault),
    first_lamb_step,
)
