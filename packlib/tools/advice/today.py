"""The cost of training today: the slots that batches take, by the habit that makes them."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from packlib.arguments import depth_limit, instance, one_of, whole_number
from packlib.lengths import LengthHistogram, padding_waste
from packlib.lengths.waste import BUCKETS, WINDOW, BatchingHabit
from packlib.packing import plan

_PADDED = "each padded to its longest sequence"
Habit: TypeAlias = Literal[BatchingHabit, "packed"]  # the habits of `padding_waste`, and one that pads no batch
TODAY: dict[Habit, str] = {  # how a sentence names the batches of each habit
    "random": f"random batches, {_PADDED}",
    "sorted": f"sorted batches, {_PADDED}",
    "maximum": "batches padded to the row length",
    "buckets": f"batches from {BUCKETS} ranges of lengths, {_PADDED}",
    "megabatches": f"batches sorted within windows of {WINDOW}, {_PADDED}",
    "packed": "packs filled in random order",  # since a histogram has no order
}
BESIDE: tuple[Habit, ...] = ("random", "sorted", "maximum")  # the habits that today's is compared with


@dataclass(frozen=True)
class Today:
    """One pass over the data as it is trained on now.

    Attributes:
        habit: how batches are made, a name in `TODAY`.
        batch_size: rows in a forward pass of one device.
        rows: number of sequences, or of packs if the data is packed today.
        slots: number of slots in one pass; an expected value where batches are random.
        packing_factor: sequences in an average row.
    """

    habit: Habit
    batch_size: int
    rows: int
    slots: float
    packing_factor: float

    @property
    def batches(self) -> int:
        """Batches in one pass."""
        return math.ceil(self.rows / self.batch_size)

    @property
    def slots_a_batch(self) -> float:
        """Slots of an average forward pass."""
        return self.slots / self.batches

    @property
    def in_words(self) -> str:
        """The batches in words, such as "sorted batches, each padded to its longest sequence"."""
        return TODAY[self.habit]

    @property
    def sized(self) -> bool:
        """True if the slots depend on the batch size."""
        return self.habit not in ("maximum", "packed")

    @property
    def as_subject(self) -> str:
        """The batches in words, as the subject of a sentence; with their size if the slots depend on it."""
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
    """Return the slots that one pass over the data takes today.

    >>> from packlib.tools.advice.today import batches_today
    >>> from packlib.lengths import LengthHistogram
    >>> batches_today(LengthHistogram.from_lengths([5, 3, 3, 2, 8]), batch_size=2, today="maximum").slots
    40

    Args:
        histogram: the lengths, for rows as they are now.
        batch_size: rows in a forward pass.
        today: a habit of `padding_waste`, such as "random" or "sorted" batches padded to their longest sequence, or
            "maximum", rows of one length; or "packed", packs filled in random order by `next_fit`.
        max_sequences_per_pack: the most sequences in a pack, for "packed"; None for no limit.
        seed: of the random order, for "packed".

    Raises:
        TypeError, ValueError: naming the argument that is wrong, and what is allowed.
    """
    one_of("today", today, TODAY)
    size = whole_number("batch_size", batch_size, 1)
    depth_limit(max_sequences_per_pack)
    whole_number("seed", seed, 0)
    instance("histogram", histogram, LengthHistogram)
    if today != "packed":
        slots = padding_waste(histogram, size, today).slots
        return Today(today, size, histogram.num_sequences, slots, packing_factor=1.0)
    packs = plan(histogram, method="next_fit", max_sequences_per_pack=max_sequences_per_pack, seed=seed)
    return Today(today, size, packs.num_packs, packs.num_packs * histogram.max_length, packs.packing_factor)
