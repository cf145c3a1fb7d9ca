"""Recorded experiments: a run for each arm and seed, where it ended, and what its seeds can tell."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from packbook.records import recorded

Runs = dict[str, list[dict[str, np.ndarray]]]  # by arm, for each seed, columns of shape (evaluations,)
Swept = dict[str, dict[float, np.ndarray]]  # by arm, for each rate from low to high, a value a seed


def by_arm(rows: list[dict]) -> Runs:
    """Return the runs of a recorded experiment, those of each arm by seed."""
    records: dict[tuple, list[dict]] = {}
    for row in rows:
        records.setdefault((str(row["arm"]), row["seed"]), []).append(row)
    runs: Runs = {arm: [] for arm, _ in records}
    for (arm, _), run in sorted(records.items(), key=lambda item: item[0][1]):
        runs[arm].append({name: np.array([record[name] for record in run]) for name in run[0]})
    return runs


def runs_of(name: str) -> Runs:
    """Return the runs of a recorded experiment, and show nothing; `show_recorded` says where they come from."""
    return by_arm(recorded(name, "runs").rows)


def at_end(runs: Runs, column: str = "held_out_loss") -> dict[str, np.ndarray]:
    """Return, by arm, the last value of each seed."""
    return {arm: np.array([run[column][-1] for run in seeds]) for arm, seeds in runs.items()}


def by_rate(ended: dict[str, np.ndarray]) -> Swept:
    """Return the ends of a sweep, whose arms have their rate behind the last comma of their names."""
    swept: Swept = {}
    for name, losses in ended.items():
        arm, _, rate = name.rpartition(", ")
        swept.setdefault(arm, {})[float(rate)] = losses
    return {arm: dict(sorted(rates.items())) for arm, rates in swept.items()}


def best_rates(swept: Swept) -> dict[str, float]:
    """Return, by arm of a sweep, the rate with the lowest mean."""
    return {arm: min(rates, key=lambda rate: rates[rate].mean()) for arm, rates in swept.items()}


@dataclass(frozen=True)
class Interval:
    """Hold the interval of a mean difference, as far as its seeds tell; of one seed `half` is infinite."""

    mean: float
    half: float
    seeds: int

    @property
    def verdict(self) -> str:
        """ "higher", "lower" or "inconclusive"."""
        if abs(self.mean) <= self.half:
            return "inconclusive"
        return "higher" if self.mean > 0 else "lower"

    def __str__(self) -> str:
        sure = f" ± {self.half:.3f}" if np.isfinite(self.half) else ""
        mean = round(self.mean, 3) + 0.0  # no minus zero
        return f"{mean:+.3f}{sure} (n = {self.seeds})"


def interval(differences: np.ndarray, confidence: float = 0.95) -> Interval:
    """Return Student's interval of the mean of paired differences, one a seed."""
    n = len(differences)
    if n < 2:
        return Interval(float(np.mean(differences)), float("inf"), n)
    half = t.ppf((1 + confidence) / 2, n - 1) * np.std(differences, ddof=1) / n**0.5
    return Interval(float(np.mean(differences)), float(half), n)


def against(ended: dict[str, np.ndarray], base: str, confidence: float = 0.95) -> dict[str, Interval]:
    """Return, by arm, the interval of its ends less those of `base`, seed by seed; arms have the same seeds."""
    return {arm: interval(losses - ended[base], confidence) for arm, losses in ended.items() if arm != base}
