"""Learning rates that count sequences, not updates, and so stay the same when packing changes the updates."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from packlib.arguments import instance, number, whole_number
from packlib.training.recipe import Decay, Recipe, check_decay


def rate_at(sequences: float, total: int, warmup: int = 0, decay: Decay = "linear", power: float = 1.0) -> float:
    """Compute the share of the highest learning rate after `sequences` sequences.

    It rises in a straight line from 0 over the `warmup` sequences, falls to 0 at `total`, and stays there.

    >>> from packlib.training import rate_at
    >>> [rate_at(sequences, total=100, warmup=20) for sequences in (10, 20, 60, 100)]
    [0.5, 1.0, 0.5, 0.0]

    Args:
        sequences: trained on so far, at least 0.
        total, warmup, decay, power: as in `SequenceSchedule`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    sequences = number("sequences", sequences, at_least=0)
    total = whole_number("total", total, 1)
    warmup = whole_number("warmup", warmup, 0, total)
    power = check_decay(decay, power)
    if sequences < warmup:
        return sequences / warmup
    share_left = max(0.0, (total - sequences) / (total - warmup)) if total > warmup else 0.0
    return (1 - math.cos(math.pi * share_left)) / 2 if decay == "cosine" else share_left**power


class SequenceSchedule(LRScheduler):
    """A torch scheduler whose clock is the number of sequences: `step(n)` after an update that saw n of them.

    Until the first `step` the rate is that of 0 sequences: with a warm-up the first update has rate 0, as in
    BERT's own code. The optimizer's rate, when the schedule is made, is the highest one.

    Args:
        total, warmup: in sequences; `warmup` is at most `total`.
        decay: "linear", "polynomial" (of `power`) or "cosine".
        power: 1 is a straight line; BERT with LAMB was trained with 0.5 and 1.
    """

    def __init__(self, optimizer: Optimizer, total: int, warmup: int = 0, decay: Decay = "linear", power: float = 1.0):
        instance("optimizer", optimizer, Optimizer)
        self.total = whole_number("total", total, 1)
        self.warmup = whole_number("warmup", warmup, 0, total)
        self.decay, self.power = decay, check_decay(decay, power)
        self.sequences = 0
        super().__init__(optimizer)

    @classmethod
    def for_recipe(cls, optimizer: Optimizer, recipe: Recipe) -> "SequenceSchedule":
        """Make the schedule that `recipe` describes."""
        return cls(optimizer, recipe.total_sequences, recipe.warmup_sequences, recipe.decay, recipe.power)

    def step(self, sequences: int = 0) -> None:
        """Set the rate for the next update, after one that saw `sequences` sequences."""
        self.sequences += whole_number("sequences", sequences, 0)
        super().step()

    def get_lr(self) -> list[float]:
        """Compute the learning rate of each group of parameters, as torch's schedulers are asked for it."""
        share = rate_at(self.sequences, self.total, self.warmup, self.decay, self.power)
        return [highest * share for highest in self.base_lrs]
