"""Numbers of 64 bits that stand for lists: equal lists have equal numbers, and others have others, by all odds."""

import secrets
from functools import cache

import numpy as np

_BITS = 1 << 64
_BASE = secrets.randbits(63) << 1 | 1  # odd, so that it has an inverse; drawn anew in each process
_INVERSE = pow(_BASE, -1, _BITS)
_OF_LENGTH = np.uint64(_BASE ^ 0x9E3779B97F4A7C14)  # times the number of values: lists with more zeros differ
MARKED = np.uint64(secrets.randbits(63) << 1 | 1)  # factor of `marks`, which are added to the numbers of tokens


@cache
def _powers(base: int, count: int) -> np.ndarray:
    """Return the powers of a base from 0 to `count - 1`; uint64."""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _of_places(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return, for each list, the sum of its values times the powers of the base at their places in it; uint64.

    Args:
        values, sizes: the lists end to end, and how many values each has.
    """
    ends = np.cumsum(sizes)
    count = 1 << int(ends[-1] if len(ends) else 0).bit_length()
    summed = _sums(np.multiply(values, _powers(_BASE, count)[: len(values)], dtype=np.uint64, casting="unsafe"), sizes)
    return summed * _powers(_INVERSE, count)[ends - sizes]  # as if each list began at place 0


def hashes(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return a number for the first `sizes[0]` values, for the next `sizes[1]`, and so on; uint64.

    It is a polynomial whose coefficients are the values, at a random point, beside a number for how many they are.
    """
    return _of_places(values, sizes) + sizes.astype(np.uint64) * _OF_LENGTH


class Parts:
    """The numbers of parts of one list, each as `hashes` has it for the part alone."""

    def __init__(self, values: np.ndarray) -> None:
        self._count = 1 << (len(values) + 1).bit_length()
        by_place = np.multiply(values, _powers(_BASE, self._count)[: len(values)], dtype=np.uint64, casting="unsafe")
        self._sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(by_place, dtype=np.uint64)])

    def hashes(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return a number for the `sizes[0]` values from place `starts[0]` on, and so on; uint64."""
        summed = self._sums[starts + sizes] - self._sums[starts]
        return summed * _powers(_INVERSE, self._count)[starts] + sizes.astype(np.uint64) * _OF_LENGTH


def with_one_more(numbers: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the numbers that `hashes` gives to lists with one value more at their ends; uint64.

    Args:
        numbers, sizes: of the lists without it.
        values: what each gets.
    """
    at_ends = _at_ends(sizes)
    return numbers + np.multiply(values, at_ends, dtype=np.uint64, casting="unsafe") + _OF_LENGTH


def without_the_last(numbers: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the numbers that `hashes` gives to lists without their last values, which are `values`; uint64."""
    at_ends = _at_ends(sizes - 1)
    return numbers - np.multiply(values, at_ends, dtype=np.uint64, casting="unsafe") - _OF_LENGTH


def marks_with_one_more(numbers: np.ndarray, sizes: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Return the numbers that `marks` gives to lists with one place more at their ends; uint64."""
    return numbers + _at_ends(sizes) * marked.astype(np.uint64) * MARKED


def _at_ends(sizes: np.ndarray) -> np.ndarray:
    """Return the power of the base at the place behind the last value of lists of these sizes; uint64."""
    return _powers(_BASE, 1 << int(sizes.max(initial=0) + 1).bit_length())[sizes]


def marks(marked: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return a number for which of the first `sizes[0]` places are marked, of the next `sizes[1]`, …; uint64."""
    return _of_places(marked, sizes) * MARKED


def _sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the sum of the first `sizes[0]` values, of the next `sizes[1]`, and so on; uint64, which may overflow."""
    sums, has_values = np.zeros(len(sizes), np.uint64), sizes > 0
    if has_values.all():
        return np.add.reduceat(values, np.cumsum(sizes) - sizes) if len(sizes) else sums
    sums[has_values] = _sums(values, sizes[has_values])
    return sums
