"""What notebook 08 computes of recorded runs."""

from collections.abc import Sequence

import numpy as np


def bytes_to_reach(seeds: Sequence[dict[str, np.ndarray]], base: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """The share of the bytes of each base run after which the run of the same seed is at its last loss.

    Between two evaluations the loss counts as a line; a run that never gets there has infinity.
    """
    shares = []
    for run, other in zip(seeds, base, strict=True):
        end, losses, tokens = other["held_out_loss"][-1], run["held_out_loss"], run["tokens"]
        there = np.flatnonzero(losses <= end)
        if not len(there):
            shares.append(np.inf)
            continue
        around = slice(max(0, there[0] - 1), there[0] + 1)
        shares.append(np.interp(-end, -losses[around], tokens[around]) / other["tokens"][-1])
    return np.array(shares)
