"""All recorded experiments, as differences from their bases: `RECORDS.md` lists them.

An arm is one of the configurations that an experiment compares, with runs of several seeds.
"""

from typing import NamedTuple

import numpy as np

from packbook.records import recorded
from packbook.shared.recorded_runs import Interval, Swept, against, at_end, by_rate, interval, runs_of


class Recorded(NamedTuple):
    """A recorded experiment.

    Attributes:
        asks: what it asks.
        base: the arm that all others are compared with.
        text: name of the held-out text, as in the table `baselines`.
    """

    asks: str
    base: str
    text: str


EXPERIMENTS = {
    "curves-adamw": Recorded("how to adjust a recipe to packs, AdamW", "padded", "docstrings"),
    "curves-lamb": Recorded("how to adjust a recipe to packs, LAMB", "padded", "docstrings"),
    "ablations": Recorded("what a missing mask or restart costs", "packed", "docstrings"),
    "weight-decay": Recorded("weight decay or L2 in the loss", "AdamW", "docstrings"),
    "warm-up": Recorded("with or without a warm-up of the rate", "rate × 1, with warm-up", "docstrings"),
    "batch-adamw": Recorded("larger batches, AdamW, the rate in proportion", "batch × 1", "docstrings"),
    "batch-lamb": Recorded("larger batches, LAMB, the rate by the square root", "batch × 1", "docstrings"),
    "curriculum-rates": Recorded("rules and orders for batches by tokens", "shuffled, none", "functions"),
    "curriculum-length": Recorded("short rows first, as many tokens", "no warm-up", "modules"),
    "curriculum-comparison": Recorded("five ways to batch", "padded", "functions"),
    "documents": Recorded("documents cut or kept whole", "split", "documents"),
}


def ends_of(name: str) -> dict[str, np.ndarray]:
    """Return, by arm of a recorded experiment, the held-out loss at the end of each seed."""
    return at_end(runs_of(name))


def differences_of(name: str, confidence: float = 0.95) -> dict[str, Interval]:
    """Return, by arm, the interval of its final loss less that of the experiment's base."""
    return against(ends_of(name), EXPERIMENTS[name].base, confidence)


def swept(name: str) -> Swept:
    """Return, by arm of a recorded sweep and by rate from low to high, the held-out loss at the end of each seed."""
    return by_rate(at_end(runs_of(name)))


def baselines() -> dict[str, dict[str, float]]:
    """Return, by text and by "unigram" or "bigram", the loss of counting."""
    loss_by_text: dict[str, dict[str, float]] = {}
    for row in recorded("baselines", "runs").rows:
        loss_by_text.setdefault(row["text"], {})[row["baseline"]] = row["loss"]
    return loss_by_text


# pairs of arms with batches by tokens: each rule less none in both orders, and ascending less shuffled
RATE_PAIRS = {
    f"{order}: {rule} less none": (f"{order}, {rule}", f"{order}, none")
    for order in ("shuffled", "ascending")
    for rule in ("sqrt", "linear")
} | {
    f"{rule}: ascending less shuffled": (f"ascending, {rule}", f"shuffled, {rule}")
    for rule in ("none", "sqrt", "linear")
}


def paired(ended: dict[str, np.ndarray], pairs: dict[str, tuple[str, str]], confidence: float) -> dict[str, Interval]:
    """Return, by name of a pair, the interval of its first arm's final losses less its second's, seed by seed."""
    return {name: interval(ended[arm] - ended[base_arm], confidence) for name, (arm, base_arm) in pairs.items()}


def short_first(confidence: float) -> dict[str, Interval]:
    """Return, by arm with short rows first, the interval of its final loss less that of full rows.

    All arms read the same number of bytes. Some have the rate of full rows, others their own, with fewer seeds.
    """
    ended = ends_of("curriculum-length") | ends_of("curriculum-length-rates")
    full_rows = ended.pop("no warm-up")
    return {arm: interval(losses - full_rows[: len(losses)], confidence) for arm, losses in ended.items()}


def fine_tuned(confidence: float) -> dict[str, Interval]:
    """Return intervals of differences of accuracy, in points, for two tasks.

    They are of packed less padded rows from each start, and of the checkpoint less random weights for each kind of
    rows.
    """
    intervals = {}
    for task in ("lexname", "span"):
        points_by_arm: dict[tuple[str, str], dict[int, float]] = {}  # by start and rows, then by seed
        for row in recorded(task, "runs").rows:
            points_by_arm.setdefault((row["start"], row["rows"]), {})[row["seed"]] = 100 * row["accuracy"]

        for start in ("random", "checkpoint"):
            packed, padded = points_by_arm[start, "packed"], points_by_arm[start, "padded"]
            intervals[f"{task}, {start}: packed less padded"] = _seed_by_seed(packed, padded, confidence)
        for rows in ("padded", "packed"):
            checkpoint, random = points_by_arm["checkpoint", rows], points_by_arm["random", rows]
            intervals[f"{task}, {rows}: checkpoint less random"] = _seed_by_seed(checkpoint, random, confidence)
    return intervals


def _seed_by_seed(values: dict[int, float], base_values: dict[int, float], confidence: float) -> Interval:
    """Return the interval of values less base values, both by seed."""
    differences = [values[seed] - base_values[seed] for seed in sorted(base_values)]
    return interval(np.array(differences), confidence)


def shares(name: str, column: str, confidence: float) -> dict[str, Interval]:
    """Return, by arm, the interval of the last value of a `column`, as a share of the base's, seed by seed."""
    amounts = at_end(runs_of(name), column)
    base = amounts.pop(EXPERIMENTS[name].base)
    return {arm: interval(amount / base, confidence) for arm, amount in amounts.items()}
