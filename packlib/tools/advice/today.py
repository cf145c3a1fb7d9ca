"""What training costs today: the slots that batches take now, as they are made now."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from packlib.arguments import depth_limit, instance, one_of, whole_number
from packlib.lengths import LengthHistogram, padding_waste
from packlib.lengths.waste import BUCKETS, WINDOW, BatchingHabit
from packlib.packing import plan

_PADDED = "each padded to its longest sequence"
Habit: TypeAlias = Literal[BatchingHabit, "packed"]  # the habits of `padding_waste`, and one that pads no batch
TODAY: dict[Habit, str] = {  # and how a sentence names each
    "random": f"random batches, {_PADDED}",
    "sorted": f"sorted batches, {_PADDED}",
    "maximum": "batches padded to the row length",
    "buckets": f"batches from {BUCKETS} ranges of lengths, {_PADDED}",
    "megabatches": f"batches sorted within windows of {WINDOW}, {_PADDED}",
    "packed": "packs filled in random order",  # since a histogram has no order
}
BESIDE: tuple[Habit, ...] = ("random", "sorted", "maximum")  # what the habit of today is compared with


@dataclass(frozen=True)
class Today:
    """One pass over the data as it is trained on now.

    Attributes:
        habit: how batches are made, a name in `TODAY`.
        batch_size: rows in a forward pass of one device.
        rows: sequences, or packs if they are packed already.
        slots: in one pass; an expected number where batches are random.
        packing_factor: sequences in an average row.
    """

    habit: Habit
    batch_size: int
    rows: int
    slots: float
    packing_factor: float

    @property
    def batches(self) -> int:
        return math.ceil(self.rows / self.batch_size)

    @property
    def slots_a_batch(self) -> float:
        """Slots of an average forward pass."""
        return self.slots / self.batches

    @property
    def in_words(self) -> str:
        return TODAY[self.habit]

    @property
    def sized(self) -> bool:
        """True if the slots depend on the batch size."""
        return self.habit not in ("maximum", "packed")

    @property
    def as_subject(self) -> str:
        """The batches in words, as what stands before a verb; with their size where slots depend on it."""
        subject = self.in_words
        if self.sized and self.batch_size == 1:
            return "batches of 1 sequence"
        if self.sized:
            subject = subject.replace("batches", f"batches of {self.batch_size:,}") + ","
        return subject


def batches_today(
    histogram: LengthHistogram,
    batch_size: int,
    today: Habit = "random",
    max_sequences_per_pack: int | None = None,
    seed: int = 0,
) -> Today:
    """Count the slots that one pass takes now.

    >>> from packlib.tools.advice.today import batches_today
    >>> from packlib.lengths import LengthHistogram
    >>> batches_today(LengthHistogram.from_lengths([5, 3, 3, 2, 8]), batch_size=2, today="maximum").slots
    40

    Args:
        histogram: the lengths, for rows as they are now.
        batch_size: rows in a forward pass.
        today: a habit of `padding_waste`, such as "random" or "sorted" batches padded to their longest, or "maximum",
            rows of one length; or "packed" in random order by `next_fit`.
        max_sequences_per_pack: the most sequences that a pack holds, where they are packed; None for no limit.
        seed: of the order, where they are packed.

    Raises:
        TypeError, ValueError: naming the argument that is wrong, and what is allowed.
    """
    one_of("today", today, TODAY)
    size = whole_number("batch_size", batch_size, 1)
    depth_limit(max_sequences_per_pack)
    whole_number("seed", seed, 0)
    n = instance("histogram", histogram, LengthHistogram).num_sequences
    if today != "packed":
        return Today(today, size, n, padding_waste(histogram, size, today).slots, 1.0)
    packed = plan(histogram, method="next_fit", max_sequences_per_pack=max_sequences_per_pack, seed=seed)
    return Today(today, size, packed.num_packs, packed.num_packs * histogram.max_length, packed.packing_factor)
