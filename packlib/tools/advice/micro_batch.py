"""Packs per update: the micro batch and the accumulation that keep the sequences per update."""

import math
from dataclasses import dataclass, replace

from packlib.arguments import instance, number, whole_number
from packlib.training.adjustment import TOLERATED
from packlib.training.recipe import Recipe

MATTERS = 0.1  # share of the sequences per update: a smaller difference changes no betas
EVIDENCE = {  # notebook 17: betas to the power of 2 at twice the sequences, less nothing adjusted
    "adamw": "In notebook 17, with AdamW and twice the sequences per update, the final loss is 0.084 ± 0.051 lower "
    "with such betas than with nothing adjusted (five seeds).",
    "lamb": "Betas and learning rate stay: in notebook 17, with LAMB and twice the sequences per update, the final "
    "loss is 0.179 ± 0.058 higher with such betas than with nothing adjusted (five seeds), and no lower with a scaled "
    "learning rate.",
}


@dataclass(frozen=True)
class Batch:
    """The rows behind one update: micro batch × accumulation × devices.

    >>> from packlib.tools.advice import Batch
    >>> batch = Batch(micro_batch=8, gradient_accumulation_steps=4, packing_factor=2.5)
    >>> batch.global_batch, batch.sequences_per_update
    (32, 80.0)

    Attributes:
        micro_batch: rows in one forward pass of one device.
        gradient_accumulation_steps: forward passes of a device behind one update.
        replicas: devices that share an update.
        packing_factor: sequences in an average row; 1 if each row is one sequence.
    """

    micro_batch: int
    gradient_accumulation_steps: int = 1
    replicas: int = 1
    packing_factor: float = 1.0

    def __post_init__(self) -> None:
        for name in ("micro_batch", "gradient_accumulation_steps", "replicas"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
        number("packing_factor", self.packing_factor, at_least=1)

    @property
    def global_batch(self) -> int:
        """Rows behind one update."""
        return self.micro_batch * self.gradient_accumulation_steps * self.replicas

    @property
    def sequences_per_update(self) -> float:
        """Sequences behind one update, on average."""
        return self.global_batch * self.packing_factor


@dataclass(frozen=True)
class PackedUpdate:
    """The batch of an update of packed rows, next to today's.

    Attributes:
        before, after: the batch of today's update, and of the update of packed rows.
        most: the largest micro batch that was allowed.
        all_packs: whether one update takes all packs, since today's has at least as many sequences as the data.
        runner_up: the next best micro batch and accumulation, whose sequences per update are nearest to today's. It is
            chosen among larger micro batches or, if there is none, among all others; None if there is no other.
    """

    before: Batch
    after: Batch
    most: int
    all_packs: bool
    runner_up: tuple[int, int] | None

    @property
    def off(self) -> float:
        """By which share an update has more sequences than today's; negative if it has fewer."""
        return self.off_with(self.after.micro_batch, self.after.gradient_accumulation_steps)

    def off_with(self, micro_batch: int, accumulation: int) -> float:
        """Return `off` for another micro batch and accumulation."""
        rows = micro_batch * accumulation * self.after.replicas
        off = rows * self.after.packing_factor / self.before.sequences_per_update - 1
        return off if abs(off) >= 1e-9 else 0.0  # rounding is no difference

    @property
    def exact(self) -> bool:
        """True if an update has the same number of sequences as today's, within 2 %."""
        return abs(self.off) <= TOLERATED


def fit_update(
    before: Batch, packing_factor: float, most: int, devices: int | None = None, packs: int | None = None
) -> PackedUpdate:
    """Choose the largest micro batch with today's sequences per update within 2 %, or else the nearest to these.

    >>> from packlib.tools.advice.micro_batch import Batch, fit_update
    >>> update = fit_update(Batch(32, 8), packing_factor=7.0, most=10)
    >>> update.after.micro_batch, update.after.gradient_accumulation_steps, f"{update.off:+.1%}"
    (9, 4, '-1.6%')

    Args:
        before: the batch of today's update.
        packing_factor: sequences in an average pack.
        most: the largest micro batch that fits.
        devices: number of devices that share an update; by default the same as today.
        packs: number of packs in the data, the most for an update, in which each device has at least one; None for no
            limit.

    Raises:
        TypeError, ValueError: naming the argument that is wrong, and what is allowed.
    """
    instance("before", before, Batch)
    number("packing_factor", packing_factor, at_least=1)
    whole_number("most", most, 1)
    replicas = before.replicas if devices is None else whole_number("devices", devices, 1)
    rows = before.sequences_per_update / (replicas * packing_factor)  # of a device in an update, not rounded
    most_rows = math.inf if packs is None else max(1, whole_number("packs", packs, 1) // replicas)
    pairs = [  # of micro batch and accumulation
        (micro_batch, accumulation)
        for micro_batch in range(1, int(min(most, math.ceil(rows), most_rows)) + 1)
        for accumulation in {max(1, math.floor(rows / micro_batch)), math.ceil(rows / micro_batch)}
        if micro_batch * accumulation <= most_rows
    ] or [(1, int(most_rows))]
    packed = Batch(1, 1, replicas, float(packing_factor))
    update = PackedUpdate(before, packed, most, all_packs=rows >= most_rows, runner_up=None)

    def by_difference(pair: tuple[int, int]) -> tuple[float, int]:
        """Order pairs by their difference from today's sequences per update; of equal ones, larger batches first."""
        micro_batch, _ = pair
        return abs(update.off_with(*pair)), -micro_batch

    def by_size(pair: tuple[int, int]) -> tuple:
        """Order pairs with today's sequences per update first, the largest micro batch first; then the others."""
        difference, negative_size = by_difference(pair)
        return (negative_size if difference <= TOLERATED else 0, difference, negative_size)

    best = min(pairs, key=by_size)
    micro_batch, accumulation = best
    larger_pairs = [pair for pair in pairs if pair[0] > micro_batch]
    other_pairs = larger_pairs or [pair for pair in pairs if pair != best]
    after = replace(packed, micro_batch=micro_batch, gradient_accumulation_steps=accumulation)
    return replace(update, after=after, runner_up=min(other_pairs, key=by_difference, default=None))


def packed_recipe(before: Recipe, update: PackedUpdate) -> Recipe:
    """Adapt a recipe to packed rows; the learning rate stays.

    The betas stay, too, unless an update differs by over 10 % though there are enough packs. Then AdamW's betas are
    raised to the power of the ratio of new to old sequences per update; LAMB's betas stay.
    """
    after = update.after
    packed = replace(
        before,
        micro_batch=after.micro_batch,
        gradient_accumulation_steps=after.gradient_accumulation_steps,
        replicas=after.replicas,
        packing_factor=after.packing_factor,
        max_length=None,
    )
    if abs(update.off) <= MATTERS or update.all_packs or before.optimizer != "adamw":
        return packed
    return replace(packed, betas=tuple(beta ** (1 + update.off) for beta in before.betas))
