"""Count what padding costs under common batching habits: expected slots, by formula, from the histogram.

A batch is a rectangle: a row for each sequence, and a column for each token of the longest one. When the data is
shuffled, the expected width is the mean of an order statistic of a sample drawn without replacement. The formula is
exact; the tests compare it with every order of small data sets, and with simulation.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from packlib.arguments import one_of, percent, whole_number
from packlib.lengths.histogram import LengthHistogram

_FEW = 1024  # sequences in a batch: up to so many it takes less time to multiply probabilities one by one
BatchingHabit = Literal["maximum", "random", "sorted", "buckets", "megabatches"]  # `padding_waste` describes them
HABITS: tuple[BatchingHabit, ...] = get_args(BatchingHabit)
BUCKETS = 8  # of "buckets", by default
WINDOW = 50  # batches in a window of "megabatches", by default


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
    - "sorted": sort all sequences, cut into batches, pad each to its longest; if a batch is smaller, it is the last.
    - "buckets": shuffle, and batch only lengths of one range together; each bucket ends with a smaller batch.
    - "megabatches": shuffle, cut into windows, sort each, cut it into batches, pad each to its longest.

    >>> from packlib.lengths import padding_waste
    >>> padding_waste([5, 3, 3, 2, 8], batch_size=2, habit="maximum").slots
    40
    >>> padding_waste([5, 3, 3, 2, 8], batch_size=2, habit="sorted")
    PaddingWaste(sorted, batch size 2: 12.50 % padding, 24 slots for 21 tokens)

    Args:
        lengths: a histogram, or lengths in tokens (their maximum length is then the longest).
        batch_size: sequences in a batch; the remaining ones make a smaller batch.
        buckets: how many ranges of lengths there are, all of equal width, for "buckets".
        window: batches in a window, for "megabatches": with 1 it is "random", with all batches of the data "sorted".

    Raises:
        TypeError, ValueError: for an unknown habit, or a number under 1.
    """
    one_of("habit", habit, HABITS)
    whole_number("batch_size", batch_size, 1)
    whole_number("window", window, 1)
    histogram = lengths if isinstance(lengths, LengthHistogram) else LengthHistogram.from_lengths(lengths)
    bounds = bucket_bounds(histogram.max_length, buckets if habit == "buckets" else 1)
    counts = histogram.counts
    num_sequences = histogram.num_sequences
    slots = 0.0
    if habit == "maximum":
        slots = num_sequences * histogram.max_length
    elif habit == "sorted" or (habit == "megabatches" and batch_size * window >= num_sequences):
        batches_up_to = (
            np.cumsum(counts) // batch_size
        )  # by length l: full batches whose longest sequence is l or less
        batches_of_width = np.diff(batches_up_to)  # from width 1 on
        slots = batch_size * int(batches_of_width @ np.arange(1, len(batches_up_to)))
        slots += num_sequences % batch_size * int(np.flatnonzero(counts)[-1])  # the smaller batch
    else:
        for low, high in pairwise([0, *bounds]):
            counts_in_range = np.where(np.arange(len(counts)) > low, counts, 0)[: high + 1]
            slots += _expected_slots(counts_in_range, batch_size, window if habit == "megabatches" else 1)
    slots = max(slots, histogram.num_tokens)  # where nothing is padding, rounding may make it less
    return PaddingWaste(habit, batch_size, histogram.num_tokens, slots)


def bucket_bounds(max_length: int, buckets: int) -> list[int]:
    """Cut the lengths into `buckets` equal ranges; return the longest length of each, ascending."""
    num_ranges = min(whole_number("buckets", buckets, 1), max_length)
    return [max_length * i // num_ranges for i in range(1, num_ranges + 1)]


def _expected_slots(counts: np.ndarray, batch_size: int, window: int) -> float:
    """Return expected slots when shuffled data is cut into windows, and each sorted window into batches.

    Args:
        counts: `counts[l]` sequences have length l; there may be none at all.
        batch_size: sequences in a batch.
        window: batches in a window.
    """
    total = int(counts.sum())
    if not total:
        return 0.0
    sample = min(batch_size * window, total)  # sequences in a window
    windows, remainder = divmod(total, sample)
    return windows * _window_slots(counts, sample, batch_size) + _window_slots(counts, remainder, batch_size)


def _window_slots(counts: np.ndarray, sample: int, batch_size: int) -> float:
    """Return expected slots of one sorted window of `sample` sequences, a random sample without replacement.

    The width of a batch is the length of its last sequence, the r-th of the sorted sample. This one is l or longer if
    fewer than r sequences of the sample are shorter than l; how many are is hypergeometric. The mean of a length is the
    sum over l = 1, 2, 3 … of the probability that it is l or longer.

    Args:
        counts: `counts[l]` sequences have length l.
        sample: sequences in the window.
        batch_size: sequences in a batch; the last one of the window may be smaller.
    """
    if not sample:
        return 0.0
    last_ranks = np.minimum(np.arange(batch_size, sample + batch_size, batch_size), sample)  # r of each batch
    rows = np.diff(last_ranks, prepend=0)  # of each batch
    # The probability is the same for all l from one length that occurs, excluded, to the next, included.
    occurring = np.flatnonzero(counts)
    steps = np.diff(occurring, prepend=0)
    num_shorter = np.concatenate([[0], np.cumsum(counts[occurring])[:-1]])  # sequences of the data shorter than each
    total = int(counts.sum())
    if len(last_ranks) == 1 and sample <= _FEW:  # the only batch is shorter than l if each of its sequences is
        all_shorter = np.ones(len(occurring))  # probability
        for drawn in range(sample):
            all_shorter *= np.maximum(num_shorter - drawn, 0) / (total - drawn)
        return float(sample * (steps @ (1 - all_shorter)))
    rows_as_long = [rows @ _at_most(last_ranks - 1, total, shorter, sample) for shorter in num_shorter.tolist()]
    return float(steps @ rows_as_long)


def _at_most(values: np.ndarray, total: int, marked: int, sample: int) -> np.ndarray:
    """Return P(X <= value) for each of `values`, where X is hypergeometric.

    X is how many marked sequences a sample holds. From the mode outward, each probability is a ratio times the one
    before, so that no factorial overflows or loses digits.

    Args:
        values: integers, shape (n,).
        total: sequences that the sample is drawn from, without replacement.
        marked: how many of them are marked.
        sample: sequences in the sample.
    """
    low, high = max(0, sample + marked - total), min(sample, marked)  # the range of X
    mode = min(high, (sample + 1) * (marked + 1) // (total + 2))
    variance_bound = sample * (marked / total) * (1 - marked / total)
    reach = int(12 * np.sqrt(variance_bound)) + 40  # farther from the mode the probability is under 1e-25 (Bernstein)
    low, high = max(low, mode - reach), min(high, mode + reach)
    # P(x + 1) / P(x) above the mode, and P(x - 1) / P(x) below it
    x = np.arange(mode, high, dtype=float)
    slack = total - marked - sample
    above_mode = np.cumprod((marked - x) * (sample - x) / ((x + 1) * (slack + x + 1)))
    x = np.arange(mode, low, -1, dtype=float)
    below_mode = np.cumprod(x * (slack + x) / ((marked - x + 1) * (sample - x + 1)))
    weights = np.concatenate([below_mode[::-1], [1.0], above_mode])  # of low to high, in multiples of the mode's
    cumulative = np.concatenate(
        [[0.0], np.cumsum(weights) / weights.sum()]
    )  # P(X < low), P(X <= low), …, P(X <= high)
    return cumulative[np.clip(values - low + 1, 0, len(weights))]
