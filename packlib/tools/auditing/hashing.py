"""Numbers of 64 bits that stand for lists: equal lists have equal numbers, and others have others, by all odds."""

import secrets
from functools import cache

import numpy as np

_BITS = 1 << 64
_BASE = secrets.randbits(63) << 1 | 1  # odd, so that it has an inverse; drawn anew in each process
MARKED = np.uint64(secrets.randbits(63) << 1 | 1)  # what a trained token adds to a token's number


@cache
def _powers(base: int, count: int) -> np.ndarray:
    """The powers of a base from 0 to `count - 1`; uint64."""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _of_places(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """For each list, the sum of its values times the powers of the base at their places in it; uint64."""
    ends = np.cumsum(sizes)
    count = 1 << int(ends[-1] if len(ends) else 0).bit_length()
    summed = _sums(np.multiply(values, _powers(_BASE, count)[: len(values)], dtype=np.uint64, casting="unsafe"), sizes)
    return summed * _powers(pow(_BASE, -1, _BITS), count)[ends - sizes]  # as if each list began at place 0


def hashes(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return a number for the first `sizes[0]` values, for the next `sizes[1]`, and so on; uint64.

    It is a polynomial whose coefficients are the values, at a random point, beside a number for how many they are.
    """
    return _of_places(values, sizes) + sizes.astype(np.uint64) * np.uint64(_BASE ^ 0x9E3779B97F4A7C14)


def marks(marked: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return a number for which of the first `sizes[0]` places are marked, of the next `sizes[1]`, …; uint64."""
    return _of_places(marked, sizes) * MARKED


def _sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    found, some = np.zeros(len(sizes), np.uint64), sizes > 0
    if some.all():
        return np.add.reduceat(values, np.cumsum(sizes) - sizes) if len(sizes) else found
    found[some] = _sums(values, sizes[some])
    return found
