"""What notebook 03 computes: least squares as published."""

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import nonnegative_least_squares
from packlib.packing.nnls import nnls_problem, strategy_matrix


def solve(histogram: LengthHistogram, depth: int, cutoff: int = 8, weight: float = 0.09) -> np.ndarray:
    """Return how often NNLSHP uses each strategy, before rounding; float64, shape (number of strategies,)."""
    return nonnegative_least_squares(*nnls_problem(histogram, depth, cutoff, weight))


def published_result(histogram: LengthHistogram, depth: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Round to the nearest; a sequence without a place opens a pack; a place without a sequence stays empty.

    Returns:
        Sequences left over and empty places, both int64, shape (max_length + 1,); and the number of packs.
    """
    repeats = np.rint(x).astype(np.int64)
    places = (strategy_matrix(histogram.max_length, depth).astype(np.int64) @ repeats).tolist()
    more = histogram.counts - np.array([0, *places])
    left_over = np.maximum(more, 0)
    return left_over, left_over - more, int(repeats.sum() + left_over.sum())


def about(number: float) -> str:
    """Return a number to two digits."""
    return f"{float(f'{number:.1e}'):,.0f}"
