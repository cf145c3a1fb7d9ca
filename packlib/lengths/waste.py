"""What padding costs under the batching habits people have: expected slots, by formula, from the histogram.

A batch is a rectangle: as many rows as sequences, as many columns as its longest has tokens. When the data is
shuffled, the expected width is the mean of an order statistic of a sample drawn without replacement. The
formula is exact; the tests hold it to every order of small data sets, and to simulation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.lengths.histogram import LengthHistogram

_FEW = 1024  # sequences in a batch: up to so many it takes less to look at them one after the other


@dataclass(frozen=True)
class PaddingWaste:
    """What one pass over the data costs.

    Attributes:
        habit: how the batches are made, a name in `HABITS`.
        batch_size: sequences in a batch.
        tokens: slots that hold a token.
        slots: all slots that are computed; the expected number where the habit shuffles.
    """

    habit: str
    batch_size: int
    tokens: int
    slots: float

    @property
    def random(self) -> bool:
        """Whether the habit shuffles, so that `slots` is an expectation."""
        return self.habit not in ("maximum", "sorted")

    @property
    def padding_fraction(self) -> float:
        """Share of the slots that are padding."""
        return 1 - self.tokens / self.slots

    def __repr__(self) -> str:
        mark = " expected" if self.random else ""
        return (
            f"PaddingWaste({self.habit}, batch size {self.batch_size}: "
            f"{self.padding_fraction:.2%} padding{mark}, {self.slots:,.0f} slots for {self.tokens:,} tokens)"
        )


def padding_waste(
    lengths: LengthHistogram | Iterable[int], batch_size: int, habit: str = "random", **options: Any
) -> PaddingWaste:
    """The slots that one pass over the data takes under a batching habit.

    >>> from packlib.lengths import padding_waste
    >>> padding_waste([5, 3, 3, 2, 8], batch_size=2, habit="maximum").slots
    40
    >>> padding_waste([5, 3, 3, 2, 8], batch_size=2, habit="sorted")
    PaddingWaste(sorted, batch size 2: 12.50% padding, 24 slots for 21 tokens)

    Args:
        lengths: a histogram, or lengths in tokens (their maximum length is then the longest).
        batch_size: sequences in a batch; what is left over makes a smaller one.
        habit: a name in `HABITS`: "maximum", "random", "sorted", "buckets" or "megabatches".
        options: `buckets` of "buckets", `window` of "megabatches"; see those functions.

    Raises:
        TypeError, ValueError: for an unknown habit or option, or a batch size under 1.
    """
    one_of("habit", habit, HABITS)
    whole_number("batch_size", batch_size, 1)
    histogram = lengths if isinstance(lengths, LengthHistogram) else LengthHistogram.from_lengths(lengths)
    allowed = list(signature(HABITS[habit]).parameters)[2:]
    for option in options:
        if option not in allowed:
            known = f"it takes {' and '.join(allowed)}" if allowed else "it takes none"
            raise TypeError(f'The habit "{habit}" has no option {option!r}: {known}.')
    slots = max(HABITS[habit](histogram, batch_size, **options), histogram.num_tokens)  # rounding may end below
    return PaddingWaste(habit, batch_size, histogram.num_tokens, slots)


def pad_to_maximum(histogram: LengthHistogram, batch_size: int) -> float:
    """Every batch is as wide as the maximum length."""
    return histogram.num_sequences * histogram.max_length


def pad_to_longest(histogram: LengthHistogram, batch_size: int) -> float:
    """Shuffle, cut into batches, pad each to its longest."""
    return _expected_slots(histogram.counts, batch_size, window=1)


def pad_sorted(histogram: LengthHistogram, batch_size: int) -> float:
    """Sort all sequences, cut into batches, pad each to its longest; the smaller batch is the longest."""
    ends = np.cumsum(histogram.counts) // batch_size  # full batches that end at this length or before
    full = int(np.diff(ends) @ np.arange(1, len(ends)))
    rest = histogram.num_sequences % batch_size
    return batch_size * full + rest * int(np.flatnonzero(histogram.counts)[-1])


def pad_in_buckets(histogram: LengthHistogram, batch_size: int, buckets: int | Iterable[int] = 8) -> float:
    """Shuffle, and batch only lengths of one range together; each bucket ends with a smaller batch.

    Args:
        buckets: the number of equal ranges, or the longest length of each range, up to the maximum length.
    """
    bounds = bucket_bounds(histogram.max_length, buckets)
    slots = 0.0
    for low, high in zip([0, *bounds], bounds, strict=False):
        counts = histogram.counts[: high + 1].copy()
        counts[: low + 1] = 0
        slots += _expected_slots(counts, batch_size, window=1)
    return slots


def pad_in_megabatches(histogram: LengthHistogram, batch_size: int, window: int = 50) -> float:
    """Shuffle, cut into windows of `window` batches, sort each, cut it into batches, pad each to its longest.

    With `window=1` this is "random"; with a window as large as the data it is "sorted".
    """
    if batch_size * whole_number("window", window, 1) >= histogram.num_sequences:
        return pad_sorted(histogram, batch_size)
    return _expected_slots(histogram.counts, batch_size, window)


HABITS: dict[str, Callable] = {
    "maximum": pad_to_maximum,
    "random": pad_to_longest,
    "sorted": pad_sorted,
    "buckets": pad_in_buckets,
    "megabatches": pad_in_megabatches,
}


def bucket_bounds(max_length: int, buckets: int | Iterable[int]) -> list[int]:
    """The longest length of each bucket, ascending; `buckets` as in `pad_in_buckets`."""
    if isinstance(buckets, Iterable):
        bounds = [whole_number("bucket boundary", bound, 1) for bound in buckets]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] < max_length:
            raise ValueError(f"Bucket boundaries must ascend to the maximum length {max_length}, not {bounds}.")
        return bounds
    number = min(whole_number("buckets", buckets, 1), max_length)
    return [max_length * i // number for i in range(1, number + 1)]


def _expected_slots(counts: np.ndarray, batch_size: int, window: int) -> float:
    """Expected slots when shuffled data is cut into windows, and each sorted window into batches."""
    total = int(counts.sum())
    sample = min(batch_size * window, total)
    windows, rest = divmod(total, sample) if sample else (0, 0)
    return windows * _window_slots(counts, sample, batch_size) + _window_slots(counts, rest, batch_size)


def _window_slots(counts: np.ndarray, sample: int, batch_size: int) -> float:
    """Expected slots of one sorted window of `sample` sequences, a random sample without replacement.

    A batch is as wide as the sequence that ends it is long. How many sequences of the sample are shorter
    than l is hypergeometric, and the r-th in order is l or longer if that number is under r. The mean of a
    length is the sum over l of the probability that it is l or longer.
    """
    if not sample:
        return 0.0
    ranks = np.minimum(np.arange(batch_size, sample + batch_size, batch_size), sample)
    rows = np.diff(ranks, prepend=0)
    used = np.flatnonzero(counts)
    shorter = np.concatenate([[0], np.cumsum(counts[used])[:-1]])
    steps = np.diff(used, prepend=0)  # the probability stays the same from one used length to the next
    total = int(counts.sum())
    if len(ranks) == 1 and sample <= _FEW:  # one batch is shorter than l if each of its sequences is
        all_shorter = np.ones(len(used))
        for drawn in range(sample):
            all_shorter *= np.maximum(shorter - drawn, 0) / (total - drawn)
        return float(sample * (steps @ (1 - all_shorter)))
    longer = [rows @ _at_most(ranks - 1, total, few, sample) for few in shorter.tolist()]
    return float(steps @ longer)


def _at_most(values: np.ndarray, total: int, marked: int, sample: int) -> np.ndarray:
    """P(X <= value) for X hypergeometric: how many of `marked` among `total` a sample holds.

    From the mode outward each probability is a ratio times the one before: nothing is lost to factorials.
    """
    low, high = max(0, sample + marked - total), min(sample, marked)
    mode = min(high, (sample + 1) * (marked + 1) // (total + 2))
    spread = sample * (marked / total) * (1 - marked / total)
    reach = int(12 * np.sqrt(spread)) + 40  # what lies beyond has a probability under 1e-25 (Bernstein)
    low, high = max(low, mode - reach), min(high, mode + reach)
    up = np.arange(mode, high, dtype=float)
    down = np.arange(mode, low, -1, dtype=float)
    others = total - marked - sample
    rising = np.cumprod((marked - up) * (sample - up) / ((up + 1) * (others + up + 1)))
    falling = np.cumprod(down * (others + down) / ((marked - down + 1) * (sample - down + 1)))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    cumulative = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return cumulative[np.clip(values - low + 1, 0, len(weights))]
