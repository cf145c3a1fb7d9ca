"""The least and the largest of some numbers in words."""

from collections.abc import Iterable


def span(numbers: Iterable[float], digits: int = 0) -> str:
    """Write "1 to 144", or "10" if the least and the largest number are written alike.

    >>> from packbook.shared.spans import span
    >>> span([3, 1, 144]), span([10, 10]), span([0.333, 1], digits=2)
    ('1 to 144', '10', '0.33 to 1.00')
    """
    found = list(numbers)
    least, largest = (f"{number:,.{digits}f}" for number in (min(found), max(found)))
    return least if least == largest else f"{least} to {largest}"
