"""Packing by least squares: NNLSHP, and its extended variant.

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027), section 3.2 and
appendix. A column of the strategy matrix A is a pack that is full to the last slot, a row is a length, and an entry
is the number of sequences of this length in the pack. Non-negative least squares finds how often to use each column.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from packlib.arguments import number, one_of, whole_number
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.filling import fill_places
from packlib.packing.greedy import EqualPacks, lpfhp
from packlib.packing.least_squares import nonnegative_least_squares

_PENALTY = 100  # the K of `ennlshp`
_MOST_BYTES = 2 << 30  # of a problem, so that it fits into the memory of a laptop
_ENTRY_BYTES = 100  # that each entry of a strategy takes, while the problem is set up and solved
_SHORT_OF_WHOLE = 1e-6  # a solution that is less than this below a whole number counts as the whole number


def full_strategies(max_length: int, max_sequences_per_pack: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of at most `max_sequences_per_pack` lengths with the sum `max_length`, each ascending.

    >>> from packlib.packing import full_strategies
    >>> list(full_strategies(4, max_sequences_per_pack=3))
    [(1, 1, 2), (1, 3), (2, 2), (4,)]
    """
    whole_number("max_length", max_length, 1)
    whole_number("max_sequences_per_pack", max_sequences_per_pack, 1)

    def fillings(space: int, places: int, shortest: int) -> Iterator[tuple[int, ...]]:
        """Yield 1 to `places` lengths in ascending order, none below `shortest`, that fill the space exactly."""
        if places > 1:
            for first in range(shortest, space // 2 + 1):
                for longer_lengths in fillings(space - first, places - 1, first):
                    yield (first, *longer_lengths)
        if space >= shortest:
            yield (space,)

    return fillings(max_length, max_sequences_per_pack, 1)


def num_full_strategies(max_length: int, max_sequences_per_pack: int) -> int:
    """Count the columns of the strategy matrix: partitions of `max_length` into at most `max_sequences_per_pack` parts.

    By conjugation, there are as many partitions into parts of at most that size, which are easier to count.
    """
    max_length = whole_number("max_length", max_length, 1)
    max_sequences_per_pack = whole_number("max_sequences_per_pack", max_sequences_per_pack, 1)
    ways = [1] + [0] * max_length  # ways[t]: partitions of t into the parts up to the current one
    for part in range(1, min(max_sequences_per_pack, max_length) + 1):
        for total in range(part, max_length + 1):
            ways[total] += ways[total - part]
    return ways[max_length]


def strategy_matrix(max_length: int, max_sequences_per_pack: int) -> np.ndarray:
    """Build the matrix A; float64, shape (max_length, number of strategies), row l - 1 for length l.

    Raises:
        ValueError: with the number of columns, if the matrix would not fit in memory.
    """
    max_length = whole_number("max_length", max_length, 1)
    max_sequences_per_pack = whole_number("max_sequences_per_pack", max_sequences_per_pack, 1)
    _refuse_too_many_columns(max_length, max_sequences_per_pack, 8 * max_length)
    return _sparse_strategy_matrix(max_length, max_sequences_per_pack).toarray()


def _sparse_strategy_matrix(max_length: int, max_sequences_per_pack: int) -> Any:
    """Return the matrix of `strategy_matrix` as a sparse one of SciPy, which takes a small part of the memory."""
    from scipy.sparse import csc_array  # here, since it takes a while to import

    _refuse_too_many_columns(max_length, max_sequences_per_pack, _ENTRY_BYTES * max_sequences_per_pack)
    columns = num_full_strategies(max_length, max_sequences_per_pack)
    sizes = np.fromiter(map(len, full_strategies(max_length, max_sequences_per_pack)), np.int64, columns)
    items = itertools.chain.from_iterable(full_strategies(max_length, max_sequences_per_pack))
    rows = np.fromiter(items, np.int64, int(sizes.sum())) - 1
    ones = np.ones(len(rows))  # of equal entries SciPy makes one, their sum
    return csc_array((ones, (rows, np.repeat(np.arange(columns), sizes))), shape=(max_length, columns))


def _refuse_too_many_columns(max_length: int, max_sequences_per_pack: int, bytes_of_a_column: int) -> None:
    """Raise a ValueError with the number of columns if they take more memory than a laptop has."""
    columns, most_columns = num_full_strategies(max_length, max_sequences_per_pack), _MOST_BYTES // bytes_of_a_column
    if columns > most_columns:
        raise ValueError(
            f"The strategy matrix for maximum length {max_length} and depth {max_sequences_per_pack} has {columns:,} "
            f"columns; at most {most_columns:,} fit in memory. Take a smaller max_sequences_per_pack, or the method "
            "optimal."
        )


def nnlshp(
    histogram: LengthHistogram,
    max_sequences_per_pack: int = 3,
    cutoff: int = 8,
    weight: float = 0.09,
    rounding: Literal["down", "nearest"] = "down",
) -> list[EqualPacks]:
    """Pack full packs by non-negative least squares on weighted rows, and the remaining sequences by LPFHP.

    The solution x minimizes the norm of W(Ax - counts) over x >= 0. The rounded x says how many packs with which places
    there are. A place for which no sequence of its length is left takes a shorter one. LPFHP packs the sequences that
    find no place, at the same depth limit.

    Args:
        histogram: the lengths.
        max_sequences_per_pack: the depth limit.
        cutoff, weight: lengths up to `cutoff` have this weight in W, all others 1: short sequences are easy to
            place later.
        rounding: of x, "down" or to "nearest" (as published).
    """
    x = nonnegative_least_squares(*nnls_problem(histogram, max_sequences_per_pack, cutoff, weight))
    return _round_and_fill(histogram, max_sequences_per_pack, x, rounding)


def nnls_problem(
    histogram: LengthHistogram, max_sequences_per_pack: int = 3, cutoff: int = 8, weight: float = 0.09
) -> tuple[Any, np.ndarray]:
    """Return the matrix WA, a sparse one of SciPy, and the target W counts of NNLSHP; arguments as of `nnlshp`."""
    whole_number("cutoff", cutoff, 0)
    number("weight", weight, above=0)
    weights = np.where(np.arange(1, histogram.max_length + 1) <= cutoff, weight, 1.0)
    matrix = _sparse_strategy_matrix(histogram.max_length, max_sequences_per_pack)
    return matrix.multiply(weights[:, None]), weights * histogram.counts[1:]


def ennlshp(
    histogram: LengthHistogram, max_sequences_per_pack: int = 3, rounding: Literal["down", "nearest"] = "down"
) -> list[EqualPacks]:
    """Pack by extended NNLSHP: every sequence is covered, and padding has a price.

    A variable y[l] says how many places of length l take a sequence of length l - 1, so that a token is padding (Y has
    -1 in row l and 1 in row l - 1). The solution minimizes, over x, y >= 0, the sum of the squares of
    K(Ax + Yy - counts) and of y / L. K is large: it costs much to leave sequences uncovered. The paper writes one
    padding variable for each length instead; taken literally, that prices padding and no packs, and loses badly.

    Args:
        histogram: the lengths.
        max_sequences_per_pack: the depth limit.
        rounding: of x, "down" or to "nearest".
    """
    from scipy.sparse import block_array, diags_array, eye_array  # here, since it takes a while to import

    max_length = histogram.max_length
    shift = diags_array([np.ones(max_length - 1), -np.ones(max_length)], offsets=[1, 0])
    matrix = _sparse_strategy_matrix(max_length, max_sequences_per_pack)
    both_objectives = block_array([[_PENALTY * matrix, _PENALTY * shift], [None, eye_array(max_length) / max_length]])
    target = np.concatenate([_PENALTY * histogram.counts[1:], np.zeros(max_length)])
    x = nonnegative_least_squares(both_objectives, target)[: matrix.shape[1]]
    return _round_and_fill(histogram, max_sequences_per_pack, x, rounding)


def _round_and_fill(histogram: LengthHistogram, limit: int, x: np.ndarray, rounding: str) -> list[EqualPacks]:
    """Round how often each full strategy is used, fill its places with sequences, and pack the others by LPFHP.

    Args:
        histogram: the lengths.
        limit: the depth limit.
        x: how often each strategy is used, in the order of `full_strategies`; float64.
        rounding: as of `nnlshp`.
    """
    one_of("rounding", rounding, ("down", "nearest"))
    repeats = np.floor(x + _SHORT_OF_WHOLE) if rounding == "down" else np.rint(x)
    strategies = zip(full_strategies(histogram.max_length, limit), map(int, repeats.tolist()), strict=True)
    strategies_in_use = [(lengths, packs) for lengths, packs in strategies if packs]
    filled, counts_left = fill_places(strategies_in_use, histogram.counts)
    return filled + (lpfhp(LengthHistogram(counts_left), limit) if counts_left.any() else [])
