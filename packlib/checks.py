"""One clear sentence for bad input: what was given, and what is allowed."""

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Any


def one_of(kind: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the `allowed` names, else raise a ValueError that names the near ones."""
    names = list(allowed)
    if value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(names)}."
    raise ValueError(f"There is no {kind} {value!r}: {hint}")


def whole_number(name: str, value: Any, at_least: int, at_most: float = math.inf) -> int:
    """Return `value` as an int, or raise: TypeError if it is no whole number, ValueError if out of range."""
    limits = f"at least {at_least}" if at_most == math.inf else f"from {at_least} to {at_most}"
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number {limits}, not {value!r}.") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number {limits}, not {value!r}.")
    if not at_least <= number <= at_most:
        raise ValueError(f"{name} must be {limits}, not {number}.")
    return number


def number(
    name: str, value: Any, above: float = -math.inf, at_least: float = -math.inf, below: float = math.inf
) -> None:
    """Raise unless `value` is a finite number within the limits: TypeError if it is none, ValueError if out of them."""
    limits = {"above": above, "at least": at_least, "below": below}
    allowed = " and ".join(f"{words} {limit}" for words, limit in limits.items() if math.isfinite(limit))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number {allowed}, not {value!r}.")
    if not (math.isfinite(value) and value > above and value >= at_least and value < below):
        raise ValueError(f"{name} must be {allowed}, not {value}.")


def depth_limit(value: Any) -> int | None:
    """Check a `max_sequences_per_pack`: a whole number from 1 up, or None for no limit."""
    return None if value is None else whole_number("max_sequences_per_pack", value, 1)
