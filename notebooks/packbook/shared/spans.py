"""The range of some numbers in words."""

from collections.abc import Iterable


def span(numbers: Iterable[float], digits: int = 0) -> str:
    """Return the least and the largest number in words, "1 to 144", or "10" if both are written alike.

    >>> from packbook.shared.spans import span
    >>> span([3, 1, 144]), span([10, 10]), span([0.333, 1], digits=2)
    ('1 to 144', '10', '0.33 to 1.00')
    """
    values = list(numbers)
    lowest, highest = (f"{number:,.{digits}f}" for number in (min(values), max(values)))
    return lowest if lowest == highest else f"{lowest} to {highest}"
