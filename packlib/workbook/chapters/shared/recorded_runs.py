"""Recorded experiments: a run for each arm and seed, and where it ended."""

import numpy as np

Runs = dict[str, list[dict[str, np.ndarray]]]  # by arm, for each seed, columns of shape (evaluations,)


def by_arm(rows: list[dict]) -> Runs:
    """The runs of a recorded experiment."""
    records: dict[tuple, list[dict]] = {}
    for row in rows:
        records.setdefault((str(row["arm"]), row["seed"]), []).append(row)
    runs: Runs = {}
    for (arm, _), run in records.items():
        columns = {name: np.array([record[name] for record in run]) for name in run[0]}
        runs.setdefault(arm, []).append(columns)
    return runs


def at_end(runs: Runs, column: str = "held_out_loss") -> dict[str, np.ndarray]:
    """By arm: the last value of each seed."""
    return {arm: np.array([run[column][-1] for run in seeds]) for arm, seeds in runs.items()}
