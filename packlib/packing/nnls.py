"""Packing by least squares: NNLSHP, and its extended variant.

Krell, Kosec, Perez, Fitzgibbon, Packing: Towards 2x NLP BERT Acceleration (arXiv 2107.02027), section 3.2 and
appendix. A column of the strategy matrix A is a pack that is full to the last slot, a row is a length, an entry
says how many sequences of the length the pack holds. Non-negative least squares finds how often to use each.
"""

from collections.abc import Iterator

import numpy as np

from packlib.checks import number, one_of, whole_number
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.filling import fill_places
from packlib.packing.greedy import Group, lpfhp

_MOST_BYTES = 4 << 30  # of the strategy matrix; SciPy's solver holds another copy


def full_strategies(max_length: int, max_sequences_per_pack: int) -> Iterator[tuple[int, ...]]:
    """Every multiset of at most that many lengths that sum to exactly `max_length`, each in ascending order."""

    def extend(start: int, room: int, more: int) -> Iterator[tuple[int, ...]]:
        if more > 1:
            for first in range(start, room // 2 + 1):
                for rest in extend(first, room - first, more - 1):
                    yield (first, *rest)
        if room >= start:
            yield (room,)

    return extend(1, max_length, max_sequences_per_pack)


def num_full_strategies(max_length: int, max_sequences_per_pack: int) -> int:
    """How many columns the strategy matrix has: partitions of `max_length` into at most that many parts."""
    ways = [1] + [0] * max_length  # by conjugation, parts of at most that size are counted instead
    for part in range(1, min(max_sequences_per_pack, max_length) + 1):
        for total in range(part, max_length + 1):
            ways[total] += ways[total - part]
    return ways[max_length]


def strategy_matrix(max_length: int, max_sequences_per_pack: int) -> np.ndarray:
    """The matrix A; float64, shape (max_length, number of strategies), row l - 1 for length l.

    Raises:
        ValueError: with the number of columns, if the matrix would not fit in memory.
    """
    columns = num_full_strategies(max_length, max_sequences_per_pack)
    if columns * max_length * 8 > _MOST_BYTES:
        raise ValueError(
            f"The strategy matrix for maximum length {max_length} and depth {max_sequences_per_pack} has {columns:,} "
            f"columns; at most {_MOST_BYTES // (8 * max_length):,} fit in memory. Take a smaller depth, or "
            "method='optimal'."
        )
    matrix = np.zeros((max_length, columns))
    for column, lengths in enumerate(full_strategies(max_length, max_sequences_per_pack)):
        for length in lengths:
            matrix[length - 1, column] += 1
    return matrix


def nnlshp(
    histogram: LengthHistogram,
    max_sequences_per_pack: int = 3,
    cutoff: int = 8,
    weight: float = 0.09,
    rounding: str = "down",
) -> list[Group]:
    """Full packs by non-negative least squares on weighted rows; the rest by LPFHP.

    Minimizes the norm of W(Ax - counts) over x >= 0. The rounded x is a set of places: a shorter sequence takes a
    place that no sequence of its length wants, and LPFHP packs what is left at the same depth.

    Args:
        cutoff, weight: lengths up to `cutoff` have this weight in W, all others 1: short sequences are easy to
            place later.
        rounding: of x, "down" or to "nearest" (as published).
    """
    x = _least_squares("nnlshp", histogram, *nnls_problem(histogram, max_sequences_per_pack, cutoff, weight))
    return _round_and_fill(histogram, max_sequences_per_pack, x, rounding)


def nnls_problem(
    histogram: LengthHistogram, max_sequences_per_pack: int = 3, cutoff: int = 8, weight: float = 0.09
) -> tuple[np.ndarray, np.ndarray]:
    """The matrix WA and the right-hand side W counts of NNLSHP."""
    whole_number("cutoff", cutoff, 0)
    number("weight", weight, above=0)
    weights = np.where(np.arange(1, histogram.max_length + 1) <= cutoff, weight, 1.0)
    matrix = strategy_matrix(histogram.max_length, max_sequences_per_pack)
    return weights[:, None] * matrix, weights * histogram.counts[1:]


def ennlshp(
    histogram: LengthHistogram, max_sequences_per_pack: int = 3, penalty: float = 1e4, rounding: str = "down"
) -> list[Group]:
    """Extended NNLSHP: every sequence is covered, and padding has a price.

    A variable y[l] moves a place from l to l - 1 (Y has -1 in row l and 1 in row l - 1). Minimizes, over x, y >= 0,
    the squares of K(Ax + Yy - counts) and of y / L. The paper writes one padding variable for each length instead;
    taken literally, that prices padding and no packs, and loses badly.

    Args:
        penalty: K, large: what it costs to leave sequences uncovered.
    """
    number("penalty", penalty, above=0)
    top = histogram.max_length
    shift = np.diag(np.ones(top - 1), 1) - np.eye(top)
    matrix = strategy_matrix(top, max_sequences_per_pack)
    columns = matrix.shape[1]
    matrix = np.block([[penalty * matrix, penalty * shift], [np.zeros_like(matrix), np.eye(top) / top]])
    target = np.concatenate([penalty * histogram.counts[1:], np.zeros(top)])
    x = _least_squares("ennlshp", histogram, matrix, target)[:columns]
    return _round_and_fill(histogram, max_sequences_per_pack, x, rounding)


def _least_squares(method: str, histogram: LengthHistogram, matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    from scipy.optimize import nnls

    try:
        return nnls(matrix, target, maxiter=10 * matrix.shape[1])[0]
    except RuntimeError as error:
        raise ValueError(f"{method} found no least squares for {histogram.name}: {error}") from None


def _round_and_fill(histogram: LengthHistogram, limit: int, x: np.ndarray, rounding: str) -> list[Group]:
    one_of("rounding", rounding, ("down", "nearest"))
    repeats = np.floor(x + 1e-6) if rounding == "down" else np.rint(x)
    strategies = zip(full_strategies(histogram.max_length, limit), map(int, repeats.tolist()), strict=True)
    filled, left = fill_places([s for s in strategies if s[1]], histogram.counts)
    return filled + (lpfhp(LengthHistogram(left), limit) if left.any() else [])
