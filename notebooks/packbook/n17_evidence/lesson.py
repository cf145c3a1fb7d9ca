"""Notebook 17: what was measured, and how sure it is."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from ipywidgets import Checkbox
from matplotlib.figure import Figure
from scipy.stats import t

from packbook.exercises import Exercises
from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, percent
from packbook.n17_evidence import runs
from packbook.n17_evidence.figures import draw_experiments
from packbook.questions import Questions
from packbook.shared.recorded_figures import draw_intervals
from packbook.shared.recorded_runs import Interval, interval


class ExperimentExplorer(Explorer):
    """Forty experiments with as many seeds: how many of them see a difference that is there?"""

    title = "What would an experiment like this tell?"

    def __init__(self, confidence: float = 0.95, seed: int = 0, own: Sequence[float] = (-0.07, -0.02, 0.04)) -> None:
        self.confidence, self.seed, self.own = confidence, seed, np.array(own, float)
        super().__init__()

    def controls(self):
        return {
            "mine": Checkbox(False, description="Your own differences"),
            "seeds": slider("Seeds of each way", 2, 20, value=3),
            "effect": slider("Difference, % of s", 0, 300, value=100, step=10),
        }

    def data(self):
        """By seeds: the share that excludes 0 for each difference, and forty experiments without one; and your own."""
        seeds, effect = (self.widgets[name] for name in ("seeds", "effect"))
        differences = np.arange(effect.min, effect.max + 1, effect.step) / 100
        made = {}
        for number in range(seeds.min, seeds.max + 1):
            drawn, halves = self._experiments(0, number)
            share = [runs.found_share(one, number, self.confidence, seed=self.seed) for one in differences]
            made[number] = {"share": share, "means": drawn.mean(1).tolist(), "halves": halves.tolist()}
        own = interval(self.own, self.confidence)
        listed = {"mean": own.mean, "half": own.half if np.isfinite(own.half) else None, "verdict": own.verdict}
        return {
            "by_seeds": made,
            "step": effect.step,
            "confidence": self.confidence,
            "own": {**listed, "text": str(own), "most": _room(own)},
        }

    def _experiments(self, effect: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
        drawn = runs.simulated(effect / 100, seeds, 40, self.seed)
        return drawn, drawn.std(1, ddof=1) * runs.half_widths(np.array(seeds), self.confidence)

    def draw(self, mine, seeds, effect) -> tuple[Figure, str]:
        fig, ax = new_figure()
        share = runs.found_share(effect / 100, seeds, self.confidence, seed=self.seed)
        if mine:
            found = interval(self.own, self.confidence)
            draw_intervals(ax, {"your own": found})
            ax.set_xlim(-_room(found), _room(found))
            again = f"{seeds} pairs with a true difference of {effect / 100:g} s: {percent(share, 0)} would exclude 0"
            ax.set_xlabel(f"difference\n{again}")
            ax.set_title(found.verdict.capitalize())
            return fig, f"The interval of your own differences is {found}: {found.verdict}. Of experiments of {again}."
        drawn, halves = self._experiments(effect, seeds)
        draw_experiments(ax, drawn.mean(1), halves)
        # the same for all settings, so that one sees intervals shrink; those of two seeds go beyond
        ax.set(xlim=(-1, 40), ylim=(-4, 7))
        title = f"{seeds} seeds: the interval excludes 0 in {percent(share, 0)} of experiments"
        ax.set_title(title)
        return fig, (
            f"Forty simulated experiments of {seeds} pairs, true difference {effect / 100:g} deviations, and their "
            f"intervals of {percent(self.confidence)}. Of 4,000 such experiments {percent(share, 0)} exclude 0."
        )


def _room(found: Interval) -> float:
    """How far an axis goes that holds an interval and 0."""
    return 1.2 * (abs(found.mean) + (found.half if np.isfinite(found.half) else 0)) or 1.0


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "band": lambda share, pairs: round(100 * share),
        "two_seeds": lambda half: round(half, 1),
        "table_or_model": lambda early, end, bigram: "the model" if early < bigram else "the bigram",
        "rule": lambda found: found.verdict,
        "short_time": lambda share: {"lower": "less", "higher": "more"}.get(
            replace(share, mean=share.mean - 1).verdict, "cannot be told"
        ),
    },
    reasons={
        "short_time": lambda share: (
            f"It takes {percent(share.mean)} ± {percent(share.half)} of the time of full rows, for as many bytes. "
            "Something else takes more time than attention saves. What it is was not measured."
        ),
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises


def paired_interval(first, second, t):
    """The lowest and the highest mean difference of `first` less `second`; `t` is Student's factor."""
    d = [one - other for one, other in zip(first, second, strict=True)]
    n, mean = len(d), sum(d) / len(d)
    s = (sum((x - mean) ** 2 for x in d) / (n - 1)) ** 0.5
    return mean - t * s / n**0.5, mean + t * s / n**0.5


def sign_flip_p(differences):
    """The share of all ways to flip signs whose sum is at least as far from 0 as the one that was observed."""
    observed = abs(sum(differences))
    flipped = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-12 for one in flipped) / len(flipped)


def choose_seeds(deviation, wanted, arms, most):
    """The fewest seeds for which all of `arms` intervals together hold with 95 %, each at most ± `wanted`; or 0."""
    confidence = 1 - 0.05 / arms
    for n in range(2, most + 1):
        if t.ppf((1 + confidence) / 2, n - 1) * deviation / n**0.5 <= wanted:
            return n
    return 0


check = Exercises.beside(__file__, paired_interval, sign_flip_p, choose_seeds)
