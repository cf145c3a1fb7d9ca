"""Round lengths up a little, where very many differ: a packing of the rounded ones is found sooner.

The true lengths fit in the same packs. The time of the methods grows with the number of different lengths. Rounded up
by less than 0.1 %, a million lengths of which 100,000 differ are some 6,000 different ones, and need about 0.05 % more
packs.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks

_FEW = 4096  # different lengths: up to so many are left as they are
_LESS_THAN = 0.001  # share of a length: less than this is added to it
_OFTEN = 0.001  # share of the sequences: a length that more have is not rounded, since it may fill packs exactly


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
    # Lengths are divided into bands whose longest is less than 0.1 % above the shortest, and each is rounded up to the
    # longest of its band. A length that is often there ends a band of its own.
    band = np.floor(np.log(lengths) / np.log1p(_LESS_THAN))
    is_longest_of_band = np.append(band[1:] > band[:-1], True)
    is_often = sequences > _OFTEN * histogram.num_sequences
    ends_band = is_longest_of_band | is_often
    counts = np.zeros_like(histogram.counts)
    counts[lengths[ends_band]] = np.diff(np.cumsum(sequences)[ends_band], prepend=0)
    return replace(histogram, counts=counts)


def with_true_lengths(packs: Iterable[EqualPacks], histogram: LengthHistogram) -> list[EqualPacks]:
    """Put true lengths into packs of rounded ones; return equal packs together, as far as the true lengths allow.

    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.packing.rounding import with_true_lengths
    >>> with_true_lengths([((6, 4), 2), ((4, 4), 1)], LengthHistogram.from_lengths([5, 6, 3, 3, 4, 4]))
    [((6, 4), 1), ((5, 4), 1), ((3, 3), 1)]

    Args:
        packs: of all sequences of `rounded_up(histogram)`, or of lengths that were rounded up in another way.
        histogram: the true lengths.
    """
    packs = list(packs)
    true_lengths_of = _by_rounded(histogram, sorted({length for lengths, _ in packs for length in lengths}))
    packs_of_true_lengths = list[EqualPacks]()
    for lengths, repeats in packs:
        copies_of = Counter(lengths)
        while repeats:
            equal_packs = 1
            if repeats > 1:  # the longest true lengths that are left may be enough for several packs
                enough = min(
                    [true_lengths_of[rounded][-1].sequences // copies for rounded, copies in copies_of.items()]
                )
                equal_packs = max(1, min(enough, repeats))
            true_lengths = tuple([_take_longest(true_lengths_of[rounded], equal_packs) for rounded in lengths])
            packs_of_true_lengths.append((true_lengths, equal_packs))
            repeats -= equal_packs
    return packs_of_true_lengths


@dataclass
class _TrueLength:
    """A true length, and how many sequences that have it are in no pack yet."""

    length: int
    sequences: int


def _by_rounded(histogram: LengthHistogram, ascending: list[int]) -> dict[int, list[_TrueLength]]:
    """List for each rounded length the true ones that it stands for, ascending.

    Args:
        histogram: the true lengths.
        ascending: the rounded lengths.
    """
    true_lengths_of: dict[int, list[_TrueLength]] = {rounded: [] for rounded in ascending}
    lengths = np.flatnonzero(histogram.counts)
    rounded_lengths = np.array(ascending)[np.searchsorted(ascending, lengths)]  # the next one that is not shorter
    counts = histogram.counts[lengths]
    for length, rounded, count in zip(lengths.tolist(), rounded_lengths.tolist(), counts.tolist(), strict=True):
        true_lengths_of[rounded].append(_TrueLength(length, count))
    return true_lengths_of


def _take_longest(true_lengths: list[_TrueLength], packs: int) -> int:
    """Take a sequence of the longest of these lengths for each of so many packs, and return the length."""
    longest = true_lengths[-1]
    longest.sequences -= packs
    if not longest.sequences:
        true_lengths.pop()
    return longest.length
