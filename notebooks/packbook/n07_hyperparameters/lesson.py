"""The explorer and the questions of notebook 07."""

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice, slider
from packbook.figures import OKABE_ITO, new_figure, styled
from packbook.n07_hyperparameters.figures import draw_recipes
from packbook.n07_hyperparameters.runs import signed
from packbook.questions import Questions
from packlib.training import Recipe, adjust

# what the explorer changes, by the names of `adjust`, and how it says so
HOWS = {"nothing": "nothing", "accumulation": "accumulation", "betas": "betas", "linear_rate": "rate × k"}


class RecipeExplorer(Explorer):
    """Show a recipe before and after packing, and for how many sequences the optimizer remembers a gradient.

    Args:
        factor: the packing factor at first.
    """

    title = "What does packing change, and what do you?"
    shown_controls = ("accumulation", "how")

    def __init__(self, factor: float = 1.99) -> None:
        self.factors = sorted({1.0, 1.5, 1.99, 3.0, 5.0, 8.5, round(float(factor), 2)})
        self.factor = round(float(factor), 2)
        super().__init__()

    def controls(self):
        pairs = ((0.81, 0.81), (0.81, 0.98), (0.9, 0.98), (0.9, 0.999))
        betas = [(f"{beta1} and {beta2}", (beta1, beta2)) for beta1, beta2 in pairs]
        return {
            "factor": choice("Packing factor", [(f"{k:g}", k) for k in self.factors], self.factor),
            "accumulation": slider("Accumulation", 1, 128, value=3),
            "betas": choice("Betas", betas, (0.9, 0.98)),
            "how": choice("Change", [(label, how) for how, label in HOWS.items()], "accumulation"),
        }

    @styled()
    def draw(self, factor, accumulation, betas, how) -> tuple[Figure, str]:
        before = Recipe(
            micro_batch=15,
            gradient_accumulation_steps=accumulation,
            learning_rate=1e-3,
            betas=betas,
            total_sequences=10_500_000,
            warmup_sequences=1_050_000,
        )
        packed = replace(before, packing_factor=float(factor))
        after = packed if how == "nothing" else adjust(before, factor, how).recipe
        fig, (left, right) = new_figure(1, 2, width_ratios=(5, 4))
        draw_recipes(left, before, after)
        ages = np.geomspace(10, 1e6, 60)  # sequences since a gradient
        for recipe, look in ((before, {"color": "#cccccc", "linewidth": 7}), (after, {"linewidth": 2.5})):
            for beta, line in zip(recipe.betas, ("-", "--"), strict=True):
                weights = 100 * beta ** (ages / recipe.sequences_per_update)  # of the gradient in the moment, percent
                style = {"color": OKABE_ITO[0], "linestyle": line, **look}
                right.plot(ages, weights, antialiased=recipe is after, **style)
        half_life_of_m, half_life_of_v = after.half_lives  # of the first and the second moment, in sequences
        right.text(half_life_of_m / 2, 30, "m", fontsize=15, ha="right")  # left of its curve
        right.text(1.6 * half_life_of_v, 60, "v", fontsize=15)  # right of its curve
        right.set(xscale="log", xlabel="sequences later", xticks=(1e1, 1e3, 1e5), yticks=(0, 50, 100))
        right.set_title("Weight left, %; gray: before", fontsize=13)
        right.minorticks_off()
        lives = [", ".join(f"{life:,.0f}" for life in recipe.half_lives) for recipe in (before, after)]
        change = after.sequences_per_update / before.sequences_per_update - 1
        memory = after.half_lives[0] / before.half_lives[0]
        sequences = f"{before.sequences_per_update:,.0f} to {after.sequences_per_update:,.0f}"
        fig.suptitle(f"Sequences per update: {sequences}; memory × {memory:.2f}")
        return fig, (
            f"Factor {factor:g}, change {HOWS[how]}: sequences per update {before.sequences_per_update:,.0f} before, "
            f"{after.sequences_per_update:,.0f} after ({signed(change)}); rows {before.global_batch:,} and "
            f"{after.global_batch:,}; updates {before.total_steps:,} and {after.total_steps:,}. Betas "
            f"{before.betas[0]:.4g} and {before.betas[1]:.4g} become {after.betas[0]:.4g} and {after.betas[1]:.4g}. "
            f"The moments halve after {lives[0]} sequences before, {lives[1]} after."
        )


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
