"""The explorer and the questions of notebook 17."""

from collections.abc import Sequence

import numpy as np
from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packbook.explorers import Explorer, slider
from packbook.figures import new_figure, percent, styled
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
        """Return, by seeds, the share that excludes 0 for each difference, forty experiments without one, and yours."""
        seeds, effect = (self.widgets[name] for name in ("seeds", "effect"))
        differences = np.arange(effect.min, effect.max + 1, effect.step) / 100
        experiments = {}
        for number in range(seeds.min, seeds.max + 1):
            drawn, halves = self._experiments(0, number)
            share = [runs.found_share(one, number, self.confidence, seed=self.seed) for one in differences]
            experiments[number] = {"share": share, "means": drawn.mean(1).tolist(), "halves": halves.tolist()}
        own = interval(self.own, self.confidence)
        listed = {"mean": own.mean, "half": own.half if np.isfinite(own.half) else None, "verdict": own.verdict}
        return {
            "by_seeds": experiments,
            "step": effect.step,
            "confidence": self.confidence,
            "own": {**listed, "text": str(own), "most": _room(own)},
        }

    def _experiments(self, effect: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
        drawn = runs.simulated(effect / 100, seeds, 40, self.seed)
        return drawn, drawn.std(1, ddof=1) * runs.half_widths(np.array(seeds), self.confidence)

    @styled()
    def draw(self, mine, seeds, effect) -> tuple[Figure, str]:
        fig, ax = new_figure()
        share = runs.found_share(effect / 100, seeds, self.confidence, seed=self.seed)
        if mine:
            own_interval = interval(self.own, self.confidence)
            draw_intervals(ax, {"your own": own_interval})
            ax.set_xlim(-_room(own_interval), _room(own_interval))
            again = f"{seeds} pairs with a true difference of {effect / 100:g} s: {percent(share, 0)} would exclude 0"
            ax.set_xlabel(f"difference\n{again}")
            ax.set_title(own_interval.verdict.capitalize())
            verdict = f"The interval of your own differences is {own_interval}: {own_interval.verdict}."
            return fig, f"{verdict} Of experiments of {again}."
        drawn, halves = self._experiments(effect, seeds)
        draw_experiments(ax, drawn.mean(1), halves)
        # the same for all settings, so that one sees intervals shrink; those of two seeds go beyond
        ax.set(xlim=(-1, 40), ylim=(-4, 7))
        title = f"{seeds} seeds: the interval excludes 0 in {percent(share, 0)} of experiments"
        ax.set_title(title)
        return fig, (
            f"Forty simulated experiments of {seeds} pairs, true difference {effect / 100:g} s, and their "
            f"intervals of {percent(self.confidence)}. Of 4,000 such experiments {percent(share, 0)} exclude 0."
        )


def _room(found: Interval) -> float:
    """Return the extent of an axis that holds an interval and 0."""
    return 1.2 * (abs(found.mean) + (found.half if np.isfinite(found.half) else 0)) or 1.0


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
