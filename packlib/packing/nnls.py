"""Packing by least squares: NNLSHP, and its extended variant.

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027), section 3.2 and
appendix. A column of the strategy matrix A is a pack that is full to the last slot, a row is a length, an entry
says how many sequences of the length the pack holds. Non-negative least squares finds how often to use each.
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

_PENALTY = 100  # the K of the extended variant
_MOST_BYTES = 2 << 30  # of a problem, so that it fits into the memory of a laptop
_ENTRY_BYTES = 100  # each entry of a strategy takes so many while the problem is set up and solved


def full_strategies(max_length: int, max_sequences_per_pack: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of at most that many lengths with the sum `max_length`, each in ascending order."""
    whole_number("max_length", max_length, 1)
    whole_number("max_sequences_per_pack", max_sequences_per_pack, 1)

    def extend(start: int, room: int, more: int) -> Iterator[tuple[int, ...]]:
        """Fill `room` exactly with 1 to `more` lengths in ascending order, none below `start`."""
        if more > 1:
            for first in range(start, room // 2 + 1):
                for longer_lengths in extend(first, room - first, more - 1):
                    yield (first, *longer_lengths)
        if room >= start:
            yield (room,)

    return extend(1, max_length, max_sequences_per_pack)


def num_full_strategies(max_length: int, max_sequences_per_pack: int) -> int:
    """Count the columns of the strategy matrix: partitions of `max_length` into at most that many parts."""
    max_length = whole_number("max_length", max_length, 1)
    max_sequences_per_pack = whole_number("max_sequences_per_pack", max_sequences_per_pack, 1)
    ways = [1] + [0] * max_length  # by conjugation, parts of at most that size are counted instead
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
    """Return the same as a sparse matrix of SciPy, which takes a small part of the memory."""
    from scipy.sparse import csc_array  # here, since it takes a while to import

    _refuse_too_many_columns(max_length, max_sequences_per_pack, _ENTRY_BYTES * max_sequences_per_pack)
    columns = num_full_strategies(max_length, max_sequences_per_pack)
    sizes = np.fromiter(map(len, full_strategies(max_length, max_sequences_per_pack)), np.int64, columns)
    items = itertools.chain.from_iterable(full_strategies(max_length, max_sequences_per_pack))
    rows = np.fromiter(items, np.int64, int(sizes.sum())) - 1
    ones = np.ones(len(rows))  # of equal entries SciPy makes one, their sum
    return csc_array((ones, (rows, np.repeat(np.arange(columns), sizes))), shape=(max_length, columns))


def _refuse_too_many_columns(max_length: int, max_sequences_per_pack: int, bytes_of_a_column: int) -> None:
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
    """Pack full packs by non-negative least squares on weighted rows, and the rest by LPFHP.

    Minimizes the norm of W(Ax - counts) over x >= 0. The rounded x is a set of places: a shorter sequence takes a
    place that no sequence of its length wants, and LPFHP packs what is left at the same depth.

    Args:
        cutoff, weight: lengths up to `cutoff` have this weight in W, all others 1: short sequences are easy to
            place later.
        rounding: of x, "down" or to "nearest" (as published).
    """
    x = nonnegative_least_squares(*nnls_problem(histogram, max_sequences_per_pack, cutoff, weight))
    return _round_and_fill(histogram, max_sequences_per_pack, x, rounding)


def nnls_problem(
    histogram: LengthHistogram, max_sequences_per_pack: int = 3, cutoff: int = 8, weight: float = 0.09
) -> tuple[Any, np.ndarray]:
    """Make the matrix WA, a sparse one of SciPy, and the right-hand side W counts of NNLSHP."""
    whole_number("cutoff", cutoff, 0)
    number("weight", weight, above=0)
    weights = np.where(np.arange(1, histogram.max_length + 1) <= cutoff, weight, 1.0)
    matrix = _sparse_strategy_matrix(histogram.max_length, max_sequences_per_pack)
    return matrix.multiply(weights[:, None]), weights * histogram.counts[1:]


def ennlshp(
    histogram: LengthHistogram, max_sequences_per_pack: int = 3, rounding: Literal["down", "nearest"] = "down"
) -> list[EqualPacks]:
    """Pack by extended NNLSHP: every sequence is covered, and padding has a price.

    A variable y[l] moves a place from l to l - 1 (Y has -1 in row l and 1 in row l - 1). Minimizes, over x, y >= 0,
    the squares of K(Ax + Yy - counts) and of y / L. The paper writes one padding variable for each length instead;
    taken literally, that prices padding and no packs, and loses badly.
    K is large: it costs much to leave sequences uncovered.
    """
    from scipy.sparse import block_array, diags_array, eye_array  # here, since it takes a while to import

    top = histogram.max_length
    shift = diags_array([np.ones(top - 1), -np.ones(top)], offsets=[1, 0])
    matrix = _sparse_strategy_matrix(top, max_sequences_per_pack)
    both_objectives = block_array([[_PENALTY * matrix, _PENALTY * shift], [None, eye_array(top) / top]])
    target = np.concatenate([_PENALTY * histogram.counts[1:], np.zeros(top)])
    x = nonnegative_least_squares(both_objectives, target)[: matrix.shape[1]]
    return _round_and_fill(histogram, max_sequences_per_pack, x, rounding)


def _round_and_fill(histogram: LengthHistogram, limit: int, x: np.ndarray, rounding: str) -> list[EqualPacks]:
    one_of("rounding", rounding, ("down", "nearest"))
    repeats = np.floor(x + 1e-6) if rounding == "down" else np.rint(x)
    strategies = zip(full_strategies(histogram.max_length, limit), map(int, repeats.tolist()), strict=True)
    filled, left = fill_places([s for s in strategies if s[1]], histogram.counts)
    return filled + (lpfhp(LengthHistogram(left), limit) if left.any() else [])
