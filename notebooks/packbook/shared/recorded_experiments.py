"""Every recorded experiment as differences from its base: what `RECORDS.md` lists, and 17 takes one of."""

from typing import NamedTuple

import numpy as np

from packbook.records import recorded
from packbook.shared.recorded_runs import Interval, Swept, against, at_end, by_rate, interval, runs_of


class Recorded(NamedTuple):
    """A recorded experiment: what it asks, the arm that the others are compared with, and the text it is tested on."""

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
    """Return, by arm, its interval against the base of the experiment."""
    return against(ends_of(name), EXPERIMENTS[name].base, confidence)


def swept(name: str) -> Swept:
    """Return, by arm of a recorded sweep and by rate from low to high, the held-out loss at the end of each seed."""
    return by_rate(at_end(runs_of(name)))


def baselines() -> dict[str, dict[str, float]]:
    """Return, by text, the losses of the unigram and the bigram."""
    loss_by_text: dict[str, dict[str, float]] = {}
    for row in recorded("baselines", "runs").rows:
        loss_by_text.setdefault(row["text"], {})[row["baseline"]] = row["loss"]
    return loss_by_text


RATE_PAIRS = {  # batches by tokens: each rule less none in both orders, and ascending less shuffled
    f"{order}: {rule} less none": (f"{order}, {rule}", f"{order}, none")
    for order in ("shuffled", "ascending")
    for rule in ("sqrt", "linear")
} | {
    f"{rule}: ascending less shuffled": (f"ascending, {rule}", f"shuffled, {rule}")
    for rule in ("none", "sqrt", "linear")
}


def paired(ended: dict[str, np.ndarray], pairs: dict[str, tuple[str, str]], confidence: float) -> dict[str, Interval]:
    """Return, by name of a pair, the interval of the ends of its first arm less those of its second, seed by seed."""
    return {name: interval(ended[arm] - ended[base_arm], confidence) for name, (arm, base_arm) in pairs.items()}


def short_first(confidence: float) -> dict[str, Interval]:
    """Return short rows first less full rows, after as many bytes: at the rate of full rows, and at their own."""
    ended = ends_of("curriculum-length") | ends_of("curriculum-length-rates")
    full_rows = ended.pop("no warm-up")
    return {arm: interval(losses - full_rows[: len(losses)], confidence) for arm, losses in ended.items()}


def fine_tuned(confidence: float) -> dict[str, Interval]:
    """Return differences of accuracy in points: packed less padded from each start, checkpoint less random weights."""
    intervals = {}
    for task in ("lexname", "span"):
        right = {
            (row["start"], row["rows"], row["seed"]): 100 * row["accuracy"] for row in recorded(task, "runs").rows
        }
        seeds = sorted({seed for *_, seed in right})

        def less(first_kind, second_kind, right=right, seeds=seeds):
            differences = [right[*first_kind, seed] - right[*second_kind, seed] for seed in seeds]
            return interval(np.array(differences), confidence)

        for start in ("random", "checkpoint"):
            intervals[f"{task}, {start}: packed less padded"] = less((start, "packed"), (start, "padded"))
        for rows in ("padded", "packed"):
            intervals[f"{task}, {rows}: checkpoint less random"] = less(("checkpoint", rows), ("random", rows))
    return intervals


def shares(name: str, column: str, confidence: float) -> dict[str, Interval]:
    """Return, by arm, what it took of a `column`, as a share of the base's, seed by seed."""
    amounts = at_end(runs_of(name), column)
    base = amounts.pop(EXPERIMENTS[name].base)
    return {arm: interval(amount / base, confidence) for arm, amount in amounts.items()}
