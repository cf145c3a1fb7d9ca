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
    """Show the intervals of forty simulated experiments, and how many of them find a true difference.

    Args:
        confidence: of the intervals.
        seed: of the simulation.
        own: differences of the reader's own, one for each seed.
    """

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
        """Return what the browser draws: simulated experiments, and the interval of the reader's `own` differences.

        "by_seeds" has for each number of seeds the means and half widths of forty experiments without a true
        difference, since a difference of d only shifts the means by d. Its "share" is a list: for each difference of
        the control, the share of experiments that find it. "most" of "own" is where the axis of the interval ends.
        """
        seeds, effect = (self.widgets[name] for name in ("seeds", "effect"))
        differences = np.arange(effect.min, effect.max + 1, effect.step) / 100
        experiments = {}
        for number in range(seeds.min, seeds.max + 1):
            means, halves = self._experiments(0, number)
            shares = [
                runs.found_share(difference, number, self.confidence, seed=self.seed) for difference in differences
            ]
            experiments[number] = {"share": shares, "means": means.tolist(), "halves": halves.tolist()}
        own = interval(self.own, self.confidence)
        listed = {"mean": own.mean, "half": own.half if np.isfinite(own.half) else None, "verdict": own.verdict}
        return {
            "by_seeds": experiments,
            "step": effect.step,
            "confidence": self.confidence,
            "own": {**listed, "text": str(own), "most": _room(own)},
        }

    def _experiments(self, effect: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
        """Simulate forty experiments; return the mean and half of the interval's width of each, shape (40,).

        Args:
            effect: the true difference, in percent of a deviation.
        """
        differences = runs.simulated(effect / 100, seeds, 40, self.seed)  # (40, seeds)
        deviations = differences.std(1, ddof=1)
        return differences.mean(1), deviations * runs.half_widths(np.array(seeds), self.confidence)

    @styled()
    def draw(self, mine, seeds, effect) -> tuple[Figure, str]:
        fig, ax = new_figure()
        share = runs.found_share(effect / 100, seeds, self.confidence, seed=self.seed)
        if mine:
            own_interval = interval(self.own, self.confidence)
            draw_intervals(ax, {"your own": own_interval})
            ax.set_xlim(-_room(own_interval), _room(own_interval))
            simulated = f"{seeds} pairs with a true difference of {effect / 100:g} s"
            prediction = f"{simulated}: {percent(share, 0)} would exclude 0"
            ax.set_xlabel(f"difference\n{prediction}")
            ax.set_title(own_interval.verdict.capitalize())
            verdict = f"The interval of your own differences is {own_interval}: {own_interval.verdict}."
            return fig, f"{verdict} Of experiments of {prediction}."
        means, halves = self._experiments(effect, seeds)
        draw_experiments(ax, means, halves)
        # the same for all settings, so that one sees intervals shrink; those of two seeds go beyond
        ax.set(xlim=(-1, 40), ylim=(-4, 7))
        title = f"{seeds} seeds: the interval excludes 0 in {percent(share, 0)} of experiments"
        ax.set_title(title)
        return fig, (
            f"Forty simulated experiments of {seeds} pairs, true difference {effect / 100:g} s, and their "
            f"intervals of {percent(self.confidence)}. Of 4,000 such experiments {percent(share, 0)} exclude 0."
        )


def _room(found: Interval) -> float:
    """Return how far an axis must reach to both sides of 0 to hold an interval."""
    half = found.half if np.isfinite(found.half) else 0
    return 1.2 * (abs(found.mean) + half) or 1.0


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
