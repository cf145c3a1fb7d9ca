"""What notebook 03 computes: packing by least squares, rounded as in the published code.

A strategy says what a pack holds; with a repeat count it provides places, one for each of its lengths.
"""

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import nonnegative_least_squares
from packlib.packing.nnls import nnls_problem, strategy_matrix


def solve(histogram: LengthHistogram, depth: int, cutoff: int = 8, weight: float = 0.09) -> np.ndarray:
    """Return how often NNLSHP uses each strategy, before rounding; float64, shape (strategies,).

    Args:
        depth: most sequences in a pack.
        cutoff: length in tokens up to which the residual of a length counts less.
        weight: of these residuals, from 0 to 1.
    """
    return nonnegative_least_squares(*nnls_problem(histogram, depth, cutoff, weight))


def published_result(histogram: LengthHistogram, depth: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Round the repeats of strategies to the nearest whole numbers, and count the packs, as the published code does.

    A sequence without a place opens a pack; a place without a sequence stays empty.

    Args:
        x: repeats of each strategy, shape (strategies,), as `solve` returns them.

    Returns:
        Sequences left over and empty places by length, both int64, shape (max_length + 1,); and the number of packs.
    """
    repeats = np.rint(x).astype(np.int64)
    matrix = strategy_matrix(histogram.max_length, depth).astype(np.int64)  # row 0 is length 1
    places = np.array([0, *(matrix @ repeats).tolist()])
    lacking_places = histogram.counts - places  # negative where there are more places than sequences
    left_over = np.maximum(lacking_places, 0)
    empty = np.maximum(-lacking_places, 0)
    return left_over, empty, int(repeats.sum() + left_over.sum())


def about(number: float) -> str:
    """Return a number rounded to two significant digits, with thousands set off."""
    return f"{float(f'{number:.1e}'):,.0f}"
