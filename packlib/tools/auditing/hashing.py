"""Numbers of 64 bits that stand for lists: equal lists have equal numbers, and others have others, by all odds."""

import secrets
from functools import cache

import numpy as np

from packlib.packing.ragged import ranges

_SEED = secrets.randbits(63)  # drawn anew in each process, so that nobody can write a file with equal numbers
MARKED = np.uint64(secrets.randbits(63) << 1 | 1)  # what a trained token adds to a token's number


@cache
def _keys(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A random number for each of the first `count` positions, and the sum of those before each; uint64."""
    keys = np.random.PCG64(_SEED).random_raw(count)
    return keys, np.concatenate([[np.uint64(0)], np.cumsum(keys, dtype=np.uint64)])


def keys_of(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a random number for each place in lists of these sizes, and one for each size; uint64."""
    longest = int(sizes.max(initial=1))
    keys, before = _keys(1 << (longest - 1).bit_length())
    return keys[ranges(np.zeros_like(sizes), sizes)], before[sizes]


def hashes(values: np.ndarray, sizes: np.ndarray, keys: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    """Return a number for the first `sizes[0]` values, for the next `sizes[1]`, and so on; uint64.

    It is the sum of each value and 1, times the random number of its place.

    Args:
        keys: of `keys_of`, where the caller has them.
    """
    of_places, of_sizes = keys or keys_of(sizes)
    return _sums(np.multiply(values, of_places, dtype=np.uint64, casting="unsafe"), sizes) + of_sizes


def marks(marked: np.ndarray, sizes: np.ndarray, keys: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return a number for which of the first `sizes[0]` places are marked, of the next `sizes[1]`, and so on; uint64."""
    return _sums(np.multiply(marked, keys[0], dtype=np.uint64), sizes) * MARKED


def _sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    found, some = np.zeros(len(sizes), np.uint64), sizes > 0
    if some.all():
        return np.add.reduceat(values, np.cumsum(sizes) - sizes) if len(sizes) else found
    found[some] = _sums(values, sizes[some])
    return found
