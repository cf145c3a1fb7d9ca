"""What padding costs under the batching habits people have: expected slots, by formula, from the histogram.

A batch is a rectangle: as many rows as sequences, as many columns as its longest has tokens. When the data is
shuffled, the expected width is the mean of an order statistic of a sample drawn without replacement. The
formula is exact; the tests hold it to every order of small data sets, and to simulation.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from packlib.arguments import one_of, percent, whole_number
from packlib.lengths.histogram import LengthHistogram

_FEW = 1024  # sequences in a batch: up to so many it takes less to look at them one after the other
BatchingHabit = Literal["maximum", "random", "sorted", "buckets", "megabatches"]  # as `padding_waste` says
HABITS: tuple[BatchingHabit, ...] = get_args(BatchingHabit)
BUCKETS, WINDOW = 8, 50  # those of "buckets" and "megabatches", where nobody says others


@dataclass(frozen=True)
class PaddingWaste:
    """Slots and tokens of one pass over the data.

    Attributes:
        habit: how the batches are made, a name in `HABITS`.
        batch_size: sequences in a batch.
        tokens: slots that hold a token.
        slots: all slots that are computed; the expected number where the habit shuffles.
    """

    habit: BatchingHabit
    batch_size: int
    tokens: int
    slots: float

    @property
    def random(self) -> bool:
        """True if the habit shuffles, so that `slots` is an expectation."""
        return self.habit not in ("maximum", "sorted")

    @property
    def padding_fraction(self) -> float:
        """Share of the slots that are padding."""
        return 1 - self.tokens / self.slots

    def __repr__(self) -> str:
        mark = " expected" if self.random else ""
        return (
            f"PaddingWaste({self.habit}, batch size {self.batch_size}: "
            f"{percent(self.padding_fraction, 2)} padding{mark}, {self.slots:,.0f} slots for {self.tokens:,} tokens)"
        )


def padding_waste(
    lengths: LengthHistogram | Iterable[int],
    batch_size: int,
    habit: BatchingHabit = "random",
    *,
    buckets: int = BUCKETS,
    window: int = WINDOW,
) -> PaddingWaste:
    """Count the slots that one pass over the data takes under a batching habit.

    - "maximum": every batch is as wide as the maximum length.
    - "random": shuffle, cut into batches, pad each to its longest.
    - "sorted": sort all sequences, cut into batches, pad each to its longest; the smaller batch is the longest.
    - "buckets": shuffle, and batch only lengths of one range together; each bucket ends with a smaller batch.
    - "megabatches": shuffle, cut into windows, sort each, cut it into batches, pad each to its longest.

    >>> from packlib.lengths import padding_waste
    >>> padding_waste([5, 3, 3, 2, 8], batch_size=2, habit="maximum").slots
    40
    >>> padding_waste([5, 3, 3, 2, 8], batch_size=2, habit="sorted")
    PaddingWaste(sorted, batch size 2: 12.50 % padding, 24 slots for 21 tokens)

    Args:
        lengths: a histogram, or lengths in tokens (their maximum length is then the longest).
        batch_size: sequences in a batch; what is left over makes a smaller one.
        buckets: equal ranges of lengths, for "buckets".
        window: batches of a window, for "megabatches": 1 is "random", and as many as the data has is "sorted".

    Raises:
        TypeError, ValueError: for an unknown habit, or a number under 1.
    """
    one_of("habit", habit, HABITS)
    whole_number("batch_size", batch_size, 1)
    whole_number("window", window, 1)
    histogram = lengths if isinstance(lengths, LengthHistogram) else LengthHistogram.from_lengths(lengths)
    bounds = bucket_bounds(histogram.max_length, buckets if habit == "buckets" else 1)
    counts = histogram.counts
    number = histogram.num_sequences
    slots = 0.0
    if habit == "maximum":
        slots = number * histogram.max_length
    elif habit == "sorted" or (habit == "megabatches" and batch_size * window >= number):
        batches_until = np.cumsum(counts) // batch_size  # full batches that end at this length or before
        slots = batch_size * int(np.diff(batches_until) @ np.arange(1, len(batches_until)))
        slots += number % batch_size * int(np.flatnonzero(counts)[-1])
    else:
        for low, high in pairwise([0, *bounds]):
            counts_in_range = np.where(np.arange(len(counts)) > low, counts, 0)[: high + 1]
            slots += _expected_slots(counts_in_range, batch_size, window if habit == "megabatches" else 1)
    slots = max(slots, histogram.num_tokens)  # rounding may end below
    return PaddingWaste(habit, batch_size, histogram.num_tokens, slots)


def bucket_bounds(max_length: int, buckets: int) -> list[int]:
    """Cut the lengths into so many equal ranges; return the longest length of each, ascending."""
    number = min(whole_number("buckets", buckets, 1), max_length)
    return [max_length * i // number for i in range(1, number + 1)]


def _expected_slots(counts: np.ndarray, batch_size: int, window: int) -> float:
    """Return expected slots when shuffled data is cut into windows, and each sorted window into batches."""
    total = int(counts.sum())
    sample = min(batch_size * window, total)
    windows, remainder = divmod(total, sample) if sample else (0, 0)
    return windows * _window_slots(counts, sample, batch_size) + _window_slots(counts, remainder, batch_size)


def _window_slots(counts: np.ndarray, sample: int, batch_size: int) -> float:
    """Return expected slots of one sorted window of `sample` sequences, a random sample without replacement.

    A batch is as wide as the sequence that ends it is long. How many sequences of the sample are shorter
    than l is hypergeometric, and the r-th in order is l or longer if that number is under r. The mean of a
    length is the sum over l of the probability that it is l or longer.
    """
    if not sample:
        return 0.0
    ranks = np.minimum(np.arange(batch_size, sample + batch_size, batch_size), sample)
    rows = np.diff(ranks, prepend=0)
    used_lengths = np.flatnonzero(counts)
    shorter = np.concatenate([[0], np.cumsum(counts[used_lengths])[:-1]])
    steps = np.diff(used_lengths, prepend=0)  # the probability stays the same from one used length to the next
    total = int(counts.sum())
    if len(ranks) == 1 and sample <= _FEW:  # one batch is shorter than l if each of its sequences is
        all_shorter = np.ones(len(used_lengths))
        for drawn in range(sample):
            all_shorter *= np.maximum(shorter - drawn, 0) / (total - drawn)
        return float(sample * (steps @ (1 - all_shorter)))
    longer = [rows @ _at_most(ranks - 1, total, number_shorter, sample) for number_shorter in shorter.tolist()]
    return float(steps @ longer)


def _at_most(values: np.ndarray, total: int, marked: int, sample: int) -> np.ndarray:
    """Return P(X <= value) for X hypergeometric: how many of `marked` among `total` a sample holds.

    From the mode outward each probability is a ratio times the one before: nothing is lost to factorials.
    """
    low, high = max(0, sample + marked - total), min(sample, marked)
    mode = min(high, (sample + 1) * (marked + 1) // (total + 2))
    spread = sample * (marked / total) * (1 - marked / total)
    reach = int(12 * np.sqrt(spread)) + 40  # what lies beyond has a probability under 1e-25 (Bernstein)
    low, high = max(low, mode - reach), min(high, mode + reach)
    ascending = np.arange(mode, high, dtype=float)
    descending = np.arange(mode, low, -1, dtype=float)
    slack = total - marked - sample
    rising = np.cumprod((marked - ascending) * (sample - ascending) / ((ascending + 1) * (slack + ascending + 1)))
    falling = np.cumprod(descending * (slack + descending) / ((marked - descending + 1) * (sample - descending + 1)))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    cumulative = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return cumulative[np.clip(values - low + 1, 0, len(weights))]
