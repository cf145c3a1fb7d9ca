"""Lengths rounded up a little, where very many differ: a packing of these is found sooner, and holds the true ones.

The time of the methods grows with the number of different lengths. Rounded up by less than 0.1 %, a million lengths of
which 100,000 differ are some 6,000 different ones, and need about 0.05 % more packs.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks

_FEW = 4096  # different lengths: up to so many are left as they are
_BY = 0.001  # of a length: less than that is added to it
_OFTEN = 0.001  # of the sequences: a length that so many have is not rounded, since it may fill packs exactly


def rounded_up(histogram: LengthHistogram) -> LengthHistogram:
    """Round lengths up by less than 0.1 % if more than 4,096 differ; else return them as they are.

    Each length becomes the longest near it that a sequence has. A length that over 0.1 % of the sequences have stays.

    >>> import numpy as np
    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.packing.rounding import rounded_up
    >>> whole = LengthHistogram.from_lengths(np.arange(1, 20_001))
    >>> rounded = rounded_up(whole)
    >>> int(np.count_nonzero(rounded.counts)), rounded.num_sequences, f"{rounded.num_tokens / whole.num_tokens - 1:.3%}"
    (3997, 20000, '0.045%')
    """
    lengths = np.flatnonzero(histogram.counts)
    if len(lengths) <= _FEW:
        return histogram
    sequences = histogram.counts[lengths]
    band = np.floor(np.log(lengths) / np.log1p(_BY))
    ends = np.append(band[1:] > band[:-1], True) | (sequences > _OFTEN * histogram.num_sequences)
    counts = np.zeros_like(histogram.counts)
    counts[lengths[ends]] = np.diff(np.cumsum(sequences)[ends], prepend=0)
    return replace(histogram, counts=counts)


def with_true_lengths(packs: Iterable[EqualPacks], histogram: LengthHistogram) -> list[EqualPacks]:
    """Put true lengths into packs of rounded ones.

    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.packing.rounding import with_true_lengths
    >>> with_true_lengths([((6, 4), 2), ((4, 4), 1)], LengthHistogram.from_lengths([5, 6, 3, 3, 4, 4]))
    [((6, 4), 1), ((5, 4), 1), ((3, 3), 1)]

    Args:
        packs: of all sequences of `rounded_up(histogram)`, or of lengths that were rounded up in another way.
        histogram: the true lengths.
    """
    packs = list(packs)
    left = _by_rounded(histogram, sorted({length for lengths, _ in packs for length in lengths}))
    found = list[EqualPacks]()
    for lengths, repeats in packs:
        needed = [(left[rounded], copies) for rounded, copies in Counter(lengths).items()]
        places = [left[rounded] for rounded in lengths]
        while repeats:
            enough = min([true[-1][1] // copies for true, copies in needed]) if repeats > 1 else 1
            times = max(1, min(enough, repeats))
            found.append((tuple([_take(true, times) for true in places]), times))
            repeats -= times
    return found


def _by_rounded(histogram: LengthHistogram, rounded: list[int]) -> dict[int, list[list[int]]]:
    """List for each rounded length the true ones, ascending, each with the number of its sequences."""
    left: dict[int, list[list[int]]] = {length: [] for length in rounded}
    lengths = np.flatnonzero(histogram.counts)
    becomes = np.array(rounded)[np.searchsorted(rounded, lengths)]
    for length, to, count in zip(lengths.tolist(), becomes.tolist(), histogram.counts[lengths].tolist(), strict=True):
        left[to].append([length, count])
    return left


def _take(left: list[list[int]], times: int) -> int:
    """Take a sequence of the longest length for each of `times` packs, and return its length."""
    longest = left[-1]
    longest[1] -= times
    if not longest[1]:
        left.pop()
    return longest[0]
