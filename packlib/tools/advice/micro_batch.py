"""The micro batch and the accumulation of packed rows: as many sequences behind an update as before."""

import math
from dataclasses import dataclass, replace

from packlib.checks import whole_number
from packlib.training.adjustment import TOLERATED
from packlib.training.recipe import Recipe

EVIDENCE = {  # notebook 17: betas to the power of 2 at twice the sequences, less nothing adjusted
    "adamw": "In notebook 17, with AdamW and twice the sequences, the loss ended 0.084 ± 0.051 lower with such betas "
    "than with nothing adjusted (five seeds).",
    "lamb": "Betas and rate stay: in notebook 17, with LAMB and twice the sequences, the loss ended 0.179 ± 0.058 "
    "higher with such betas than with nothing adjusted (five seeds), and no lower with a scaled rate.",
}


@dataclass(frozen=True)
class Update:
    """What an update of packed rows is made of.

    Attributes:
        before, after: the recipes.
        most: the largest micro batch that was allowed.
        runner_up: another micro batch and accumulation: of the larger micro batches, or if there is none of all others,
            the one nearest to the old sequences per update; None if there is no other.
    """

    before: Recipe
    after: Recipe
    most: int
    runner_up: tuple[int, int] | None

    @property
    def off(self) -> float:
        """The share of sequences that an update has more than before."""
        return self.off_with(self.after.micro_batch, self.after.gradient_accumulation_steps)

    def off_with(self, micro_batch: int, accumulation: int) -> float:
        """The same for another micro batch and accumulation."""
        rows = micro_batch * accumulation * self.after.replicas
        off = rows * self.after.packing_factor / self.before.sequences_per_update - 1
        return off if abs(off) >= 1e-9 else 0.0

    @property
    def exact(self) -> bool:
        """Whether an update has as many sequences as before, within 2 %."""
        return abs(self.off) <= TOLERATED


def fit_update(before: Recipe, packing_factor: float, most: int, devices: int | None = None) -> Update:
    """The largest micro batch that comes within 2 % of the old sequences an update, or else the nearest of all.

    Where none comes within 2 %, AdamW's betas are raised to the power of the ratio of new to old sequences per update;
    LAMB's betas stay.

    >>> from packlib.tools.advice import fit_update
    >>> from packlib.training import Recipe
    >>> found = fit_update(Recipe(32, 1e-4, 10**6, gradient_accumulation_steps=8), packing_factor=7.0, most=10)
    >>> found.after.micro_batch, found.after.gradient_accumulation_steps, f"{found.off:+.1%}"
    (9, 4, '-1.6%')

    Args:
        before: the recipe of today.
        packing_factor: sequences in an average pack.
        most: the largest micro batch that fits.
        devices: that share an update; by default as many as before.
    """
    whole_number("most", most, 1)
    replicas = before.replicas if devices is None else whole_number("devices", devices, 1)
    rows = before.sequences_per_update / (replicas * packing_factor)
    packed = replace(before, packing_factor=float(packing_factor), max_length=None, replicas=replicas)
    pairs = [
        (micro_batch, accumulation)
        for micro_batch in range(1, min(most, math.ceil(rows)) + 1)
        for accumulation in {max(1, math.floor(rows / micro_batch)), math.ceil(rows / micro_batch)}
    ]
    found = Update(before, packed, most, None)

    def order(pair: tuple[int, int]) -> tuple:
        off = abs(found.off_with(*pair))
        return (-pair[0] if off <= TOLERATED else 0, off, -pair[0])

    best = min(pairs, key=order)
    fewer = [pair for pair in pairs if pair[0] > best[0]]  # passes an update
    others = fewer or [pair for pair in pairs if pair != best]
    other = min(others, key=lambda pair: (abs(found.off_with(*pair)), -pair[0]), default=None)
    after = replace(packed, micro_batch=best[0], gradient_accumulation_steps=best[1])
    found = Update(before, after, most, other)
    if found.exact or before.optimizer != "adamw":
        return found
    return replace(found, after=replace(after, betas=tuple(beta ** (1 + found.off) for beta in before.betas)))
