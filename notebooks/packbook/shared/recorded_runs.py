"""Recorded experiments: a run for each arm and seed, where it ended, and intervals over the seeds.

An arm is one of the configurations that an experiment compares.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from packbook.records import recorded

Runs = dict[str, list[dict[str, np.ndarray]]]  # by arm, then for each seed, columns of shape (evaluations,)
Swept = dict[str, dict[float, np.ndarray]]  # by arm, then by rate from low to high, values of shape (seeds,)


def by_arm(rows: list[dict]) -> Runs:
    """Return the runs of a recorded experiment; those of an arm are in the order of their seeds.

    Args:
        rows: of the table, one for each evaluation of a run, in the order of training.
    """
    evaluations: dict[tuple[str, int], list[dict]] = {}  # by arm and seed
    for row in rows:
        evaluations.setdefault((str(row["arm"]), row["seed"]), []).append(row)
    runs: Runs = {arm: [] for arm, _ in evaluations}
    for (arm, _), rows_of_run in sorted(evaluations.items(), key=lambda item: item[0][1]):
        columns = {name: np.array([row[name] for row in rows_of_run]) for name in rows_of_run[0]}
        runs[arm].append(columns)
    return runs


def runs_of(name: str) -> Runs:
    """Return the runs of a recorded experiment by its name; `show_recorded` shows where they were recorded."""
    return by_arm(recorded(name, "runs").rows)


def at_end(runs: Runs, column: str = "held_out_loss") -> dict[str, np.ndarray]:
    """Return, by arm, the last value of a column for each seed, shape (seeds,)."""
    return {arm: np.array([run[column][-1] for run in seeds]) for arm, seeds in runs.items()}


def by_rate(ended: dict[str, np.ndarray]) -> Swept:
    """Sort the final losses of a sweep by arm and rate; the rate stands behind the last comma of a name."""
    swept: Swept = {}
    for name, losses in ended.items():
        arm, _, rate = name.rpartition(", ")  # "padded, 0.003"
        swept.setdefault(arm, {})[float(rate)] = losses
    return {arm: dict(sorted(rates.items())) for arm, rates in swept.items()}


def best_rates(swept: Swept) -> dict[str, float]:
    """Return, by arm of a sweep, the rate with the lowest mean."""
    return {arm: min(rates, key=lambda rate: rates[rate].mean()) for arm, rates in swept.items()}


@dataclass(frozen=True)
class Interval:
    """Hold the interval of a mean difference.

    Attributes:
        mean: of the differences.
        half: half of the interval's width; infinite for one seed.
        seeds: how many differences there are.
    """

    mean: float
    half: float
    seeds: int

    @property
    def verdict(self) -> str:
        """Return "higher" or "lower", or "inconclusive" if the interval includes 0."""
        if abs(self.mean) <= self.half:
            return "inconclusive"
        return "higher" if self.mean > 0 else "lower"

    def __str__(self) -> str:
        half = f" ± {self.half:.3f}" if np.isfinite(self.half) else ""
        mean = round(self.mean, 3) + 0.0  # no minus zero
        return f"{mean:+.3f}{half} (n = {self.seeds})"


def interval(differences: np.ndarray, confidence: float = 0.95) -> Interval:
    """Return Student's interval of the mean of paired differences, one for each seed."""
    n = len(differences)
    if n < 2:
        return Interval(float(np.mean(differences)), float("inf"), n)
    half = t.ppf((1 + confidence) / 2, n - 1) * np.std(differences, ddof=1) / n**0.5
    return Interval(float(np.mean(differences)), float(half), n)


def against(ended: dict[str, np.ndarray], base: str, confidence: float = 0.95) -> dict[str, Interval]:
    """Return, by arm, the interval of its final losses less those of the arm `base`, seed by seed.

    Args:
        ended: by arm, final losses, shape (seeds,); all arms have the same seeds.
    """
    return {arm: interval(losses - ended[base], confidence) for arm, losses in ended.items() if arm != base}
