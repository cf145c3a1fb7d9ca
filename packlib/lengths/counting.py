"""Lengths checked and counted, a chunk at a time, so that memory stays bounded however long the data is."""

import operator
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import numpy as np

from packlib.arguments import listed, shown
from packlib.lengths.overlong import Overlong

MAX_LENGTH = 1 << 24  # 17 million tokens: to plan longer rows would take over a gigabyte
INT64_MAX = 2**63 - 1
# what an error advises where a sequence is too long
WAYS_OUT = 'pass a larger maximum, or overlong="truncate", "drop" or "split" (in the shell --overlong truncate).'
Place = Callable[[int], str]  # from the index of a value to the words for its place in an error
position: Place = "position {}".format
_NO_LIST = (str, bytes, bytearray, Mapping, Set)  # iterable, but no list of numbers
_NO_NUMBER = (bool, np.bool, str, bytes)  # next to integers, NumPy would make numbers of bools, or text of all


def as_integers(values: Iterable[int], noun: str, place: Place = position) -> np.ndarray:
    """Return whole numbers as an integer array, shape (n,).

    An integer array is returned as it is, without a copy; a memory-mapped one stays mapped.

    Args:
        values: an array, a list or another iterable; bools and floats are refused, also floats without a fraction.
        noun: what one value is called in an error, such as "Length".
        place: makes the words for a value's place in an error, from its index.

    Raises:
        TypeError, ValueError: naming the first that is fractional, NaN, no number, or too large for 64 bits.
    """
    values = _as_list(values, noun, place)
    array = _as_flat_array(values, noun)
    if array.dtype.kind in "iu":
        return values if isinstance(values, np.memmap) else array
    # NumPy may have made rounded floats of large integers in a list: check the list itself
    numbers = list(values) if array.dtype.kind == "O" or isinstance(values, list) else array.tolist()
    return _integers_of(numbers, array.dtype, noun, place)


def _as_list(values: Any, noun: str, place: Place) -> Any:
    """Return an array as it is, and another iterable as a list; arguments as of `as_integers`.

    Raises:
        TypeError: if it is no list of numbers, or has a bool or a string in it.
    """
    refuse_tables(values, noun)
    if hasattr(values, "__array__"):
        return values
    if not isinstance(values, Iterable) or isinstance(values, _NO_LIST):
        raise TypeError(f"{noun}s must be an array or a list of whole numbers, not {shown(values)}.")
    values = values if isinstance(values, list) else list(values)
    if any(issubclass(kind, _NO_NUMBER) for kind in set(map(type, values))):
        _refuse_no_numbers(values, noun, place)
    return values


def _as_flat_array(values: Any, noun: str) -> np.ndarray:
    """Return values as an array of one dimension, of whatever kind."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different sizes
        raise ValueError(f"{noun}s must be whole numbers, one after the other, not lists of them.") from None
    if array.ndim != 1:
        raise ValueError(f"{noun}s must have one dimension, not the shape {array.shape}.")
    return array


def _integers_of(numbers: list, dtype: np.dtype, noun: str, place: Place) -> np.ndarray:
    """Return numbers as int64, or raise the error that says why NumPy did not make an integer array of them.

    It makes none of an empty list, of floats, or of integers some of which do not fit in 64 bits.

    Args:
        numbers: the values in a call of `as_integers`, as a list.
        dtype: that of the array which NumPy made.
        noun, place: as of `as_integers`.

    Raises:
        TypeError, ValueError: naming the first that is no integer, or too large for 64 bits.
    """
    _refuse_no_numbers(numbers, noun, place)
    if any(isinstance(number, float) for number in numbers):
        raise TypeError(f"{noun}s must be integers, not {dtype}: convert them with .astype(int) first.")
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        at = next(index for index, number in enumerate(numbers) if abs(number) > INT64_MAX)
        raise ValueError(f"{noun} {shown(numbers[at])} at {place(at)} does not fit in 64 bits.") from None


def refuse_tables(values: Any, noun: str) -> None:
    """Raise a TypeError if values are a whole table of pandas, Arrow or datasets, and not one column of it."""
    names = getattr(values, "column_names", getattr(values, "columns", None))
    if names is not None:
        columns = [str(name) for name in names] or ["lengths"]
        raise TypeError(
            f"{noun}s must be one column of whole numbers, not a {type(values).__name__} with {listed(columns)}: pass "
            f"table[{columns[0]!r}], or how many tokens each row has."
        )


def as_int64(values: Iterable[int], noun: str, place: Place = position) -> np.ndarray:
    """Return a copy of whole numbers as int64, shape (n,); arguments as in `as_integers`.

    Raises:
        TypeError, ValueError: naming the first that is no whole number, or too large for 64 bits.
    """
    array = as_integers(values, noun, place)
    if array.size and int(array.max()) > INT64_MAX:
        at = int(array.argmax())
        raise ValueError(f"{noun} {array[at]} at {place(at)} does not fit in 64 bits.")
    return array.astype(np.int64)


def _refuse_no_numbers(values: list, noun: str, place: Place) -> None:
    """Raise a TypeError that names the first value which is no whole number."""
    for at, value in enumerate(values):
        if not _is_whole(value):
            raise TypeError(f"{noun} {shown(value)} at {place(at)} is not a whole number.")


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number: an integer of any type, or a float without a fraction."""
    if isinstance(value, float):
        return value.is_integer()
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, (bool, np.bool))


def as_lengths(lengths: Iterable[int], place: Place = position, at_least: int = 1, noun: str = "Length") -> np.ndarray:
    """Check lengths in tokens and return them as an integer array, shape (n,); arguments as in `as_integers`.

    Args:
        lengths: the lengths.
        place, noun: as of `as_integers`.
        at_least: how many lengths there must be, 0 or 1.

    Raises:
        TypeError, ValueError: if there are too few, or naming the first that is fractional, NaN or under 1.
    """
    array = as_integers(lengths, noun, place)
    if array.size < at_least:
        raise ValueError(f"There are no {noun.lower()}s; at least one is needed.")
    if array.min(initial=1) < 1:
        at = int(np.argmax(array < 1))
        raise ValueError(f"{noun} {array[at]} at {place(at)} is not allowed: lengths start at 1.")
    return array


def count_lengths(
    chunks: Iterable[Iterable[int]], max_length: int | None, overlong: Overlong, place: Place = position
) -> tuple[np.ndarray, int]:
    """Count lengths that come in chunks, in one pass that holds one chunk at a time.

    Args:
        chunks, max_length, overlong, place: as of `LengthHistogram.from_chunks`.

    Returns:
        The counts, int64, up to `max_length` or the longest length; and how many lengths were over `max_length`.

    Raises:
        TypeError, ValueError: naming the first bad length and where it is.
    """
    counts = np.zeros(1 if max_length is None else max_length + 1, np.int64)
    limit = MAX_LENGTH if max_length is None else max_length
    num_over = 0
    full_rows = (
        0  # of longer sequences that are cut; added to the counts at the end, where Python's integers check them
    )
    first_index = 0  # of the chunk's first length, among all
    for chunk in chunks:
        array = as_lengths(chunk, lambda at, first=first_index: place(first + at), at_least=0)  # type: ignore[misc]
        chunk_size = array.size
        if array.size and int(array.max()) > limit:
            is_over = array > limit
            if max_length is None or overlong == "error":
                at = int(is_over.argmax())
                limit_in_words = f"{MAX_LENGTH}, the longest that a histogram can hold."
                if max_length is not None:
                    limit_in_words = f"the maximum length {limit}: {WAYS_OUT}"
                raise ValueError(f"Length {array[at]} at {place(first_index + at)} is over {limit_in_words}")
            longer, array = array[is_over], array[~is_over]
            num_over += len(longer)
            if overlong == "truncate":
                full_rows += len(longer)
            elif overlong == "split":
                full_rows += sum((longer // limit).tolist())  # in Python's integers, which do not overflow
                remainders = longer % limit
                array = np.concatenate([array, remainders[remainders > 0]])
        counts_so_far = np.bincount(array.astype(np.intp, copy=False), minlength=len(counts))
        counts_so_far[: len(counts)] += counts
        counts = counts_so_far
        first_index += chunk_size
    if not counts.any() and not num_over:
        raise ValueError("There are no lengths; at least one is needed.")
    if not counts.any() and not full_rows:
        raise ValueError(f'All {num_over:,} sequences are longer than {limit} tokens: overlong="drop" leaves none.')
    if int(counts[-1]) + full_rows > INT64_MAX:
        raise ValueError(
            f"The histogram holds {int(counts[-1]) + full_rows} rows; at most {INT64_MAX} fit in 64 bits."
        )
    counts[-1] += full_rows
    return counts, num_over


def exact_dot(counts: np.ndarray, values: np.ndarray) -> int:
    """Compute the scalar product of two integer arrays exactly: where 64 bits may overflow, in Python's integers.

    Args:
        counts, values: integers, both shape (n,), negative or not.
    """
    largest_sum = len(counts)
    for factors in (counts, values):
        largest_sum *= max(int(factors.max(initial=0)), -int(factors.min(initial=0)))
    if largest_sum <= INT64_MAX:
        return int(counts.astype(np.int64, copy=False) @ values.astype(np.int64, copy=False))
    return sum(n * value for n, value in zip(counts.tolist(), values.tolist(), strict=True))


def float_unit(counts: np.ndarray) -> int:
    """Return the number of sequences that count as 1 in a floating-point solver: a power of two.

    It is 1 for fewer than 2^30 sequences. A solver is exact to about 1e-7 of this unit; the 16 digits of a float then
    have room for about 2^30 units.
    """
    return 1 << max(0, int(counts.sum()).bit_length() - 30)


def apportion(weights: np.ndarray, total: int) -> np.ndarray:
    """Divide `total` into whole counts in proportion to `weights`: the largest fractions are rounded up.

    >>> import numpy as np
    >>> from packlib.lengths.counting import apportion
    >>> apportion(np.array([2.0, 1.0, 1.0]), total=7)  # exact shares are 3.5, 1.75 and 1.75
    array([3, 2, 2])
    """
    shares = weights / weights.sum() * total
    counts = np.floor(shares).astype(np.int64)
    missing = total - int(counts.sum())
    large_to_small_fractions = np.argsort(counts - shares, kind="stable")
    counts[large_to_small_fractions[:missing]] += 1
    return counts
