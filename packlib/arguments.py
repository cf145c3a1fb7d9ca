"""One clear sentence for bad input: the parameter's name, what is allowed, and what was given instead.

Text from outside (names of files and data, cells) is shown in one line, and in a page it is text and never markup.
"""

import difflib
import html
import numbers
import operator
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf, isfinite
from typing import Any, TypeVar

import numpy as np

_MOST_NAMES = 12  # a sentence lists no more
Word = TypeVar("Word", bound=str)  # or the Literal that it is one of
Kind = TypeVar("Kind")


def one_of(name: str, value: Any, allowed: Iterable[Word]) -> Word:
    """Return `value` if it is one of the `allowed` names, else raise a ValueError that names the near ones."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    near_names = difflib.get_close_matches(str(value), names, n=3, cutoff=0.5)
    hint = f": did you mean {' or '.join(map(shown, near_names))}?" if near_names else "."
    raise ValueError(f"{name} must be {_alternatives(names)}, not {shown(value)}{hint}")


def _alternatives(names: Sequence[str]) -> str:
    """Join the names that are allowed, with "or" before the last."""
    if not names:
        return "left out: there is nothing to choose from"
    if len(names) > _MOST_NAMES:
        return f"one of {', '.join(map(shown, names[:_MOST_NAMES]))} and {len(names) - _MOST_NAMES} more"
    *first_names, last_name = map(shown, names)
    return f"{', '.join(first_names)} or {last_name}" if first_names else last_name


def listed(names: Iterable[Any]) -> str:
    """Join names from outside, such as those of columns: each in at most 40 characters, and at most twelve of them."""
    all_names = map(str, names)
    first_names = [
        one_line(name if name and name.isprintable() else repr(name), 40) for name in islice(all_names, _MOST_NAMES)
    ]
    num_more = sum(1 for _ in all_names)
    return ", ".join(first_names) + f" and {num_more} more" * (num_more > 0)


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool, or raise a TypeError: neither "no" nor 0 is False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name} must be True or False, not {shown(value)}.")


def instance(name: str, value: Any, kind: type[Kind]) -> Kind:
    """Return `value` if it is of the class `kind`, or raise a TypeError that names the class."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {article} {kind.__name__}, not {shown(value)}.")
    return value


def function(name: str, value: Any, kind: str = "a function") -> Any:
    """Return `value` if it can be called, or raise a TypeError that says which `kind` of thing is needed."""
    if not callable(value):
        raise TypeError(f"{name} must be {kind}, not {shown(value)}.")
    return value


def sized(name: str, value: Any) -> int:
    """Return how many items `value` has, or raise a TypeError if it cannot tell."""
    try:
        return len(value)
    except TypeError:
        raise TypeError(f"{name} must have a length, as a list has, not be {shown(value)}.") from None


def as_floats(name: str, values: Any) -> np.ndarray:
    """Return numbers as float64, in the shape that they have, or raise a TypeError if one of them is no number."""
    try:
        array = np.asarray(list(values) if isinstance(values, Iterator) else values)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, not {shown(values)}.")
    return array.astype(np.float64)


def text(name: str, value: Any) -> str:
    """Return `value` if it is a string, or raise a TypeError."""
    if isinstance(value, str):
        return value
    raise TypeError(f"{name} must be text, not {shown(value)}.")


def path_of(name: str, value: Any) -> str | os.PathLike[str]:
    """Return `value` if it can name a file or a folder, or raise a TypeError."""
    if isinstance(value, (str, os.PathLike)):
        return value
    raise TypeError(f"{name} must name a file or folder, as text or a pathlib.Path, not {shown(value)}.")


def whole_number(name: str, value: Any, at_least: int, at_most: float = inf) -> int:
    """Return `value` as an int, or raise: TypeError if it is no whole number, ValueError if out of range."""
    limits = f"at least {at_least}" if at_most >= 2**63 - 1 else f"from {at_least} to {at_most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number {limits}, not {shown(value)}.") from None
    if not at_least <= number <= at_most:
        fits = " and fit in 64 bits" if number > at_most >= 2**63 - 1 else ""
        raise ValueError(f"{name} must be {limits}{fits}, not {shown(number)}.")
    return number


def number(
    name: str, value: Any, above: float = -inf, at_least: float = -inf, below: float = inf, at_most: float = inf
) -> int | float:
    """Return `value` as an int or a float, or raise unless it is finite and within the limits.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is out of the limits, infinite or NaN.
    """
    limits = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    allowed = " and ".join(f"{words} {limit}" for words, limit in limits.items() if isfinite(limit))
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {f'a number {allowed}'.strip()}, not {shown(value)}.")
    plain = int(value) if isinstance(value, numbers.Integral) else float(value)
    finite = abs(plain) <= sys.float_info.max  # an integer can be beyond every float
    if not (finite and plain > above and plain >= at_least and plain < below and plain <= at_most):
        raise ValueError(f"{name} must be {allowed or 'a finite number'}, not {shown(value)}.")
    return plain


def depth_limit(value: Any) -> int | None:
    """Check a `max_sequences_per_pack`: a whole number from 1 up, or None for no limit."""
    return None if value is None else whole_number("max_sequences_per_pack", value, 1)


def no_frame(name: str, value: Any) -> None:
    """Refuse a pandas frame, which hands out the names of its columns where rows are read."""
    if hasattr(value, "iloc") and hasattr(value, "columns"):  # a series hands out its values
        raise TypeError(f"{name} must not be a pandas frame: pass datasets.Dataset.from_pandas(frame).")


def shown(value: Any) -> str:
    """Write a value for a sentence that refuses it: on one line, and never a screenful."""
    try:
        words = str(value.item()) if isinstance(value, np.generic) else repr(value)
    except (ValueError, RecursionError):
        # an integer of more than 4,300 digits, or something nested very deep
        is_int = isinstance(value, int)
        words = f"an integer of {value.bit_length()} bits" if is_int else f"a {type(value).__name__}"
    words = " ".join(words.split())
    return words if len(words) <= 200 else f"{words[:150]} … ({len(words)} characters)"


def one_line(text: str, most: int = 80) -> str:
    """Put the text on one line of at most `most` printable characters; the middle of a longer one becomes "…"."""
    printable = "".join(letter for letter in text if letter.isprintable() or letter.isspace())
    line = " ".join(printable.split())
    end = most // 3
    return line if len(line) <= most else f"{line[: most - end - 1]}…{line[len(line) - end :]}"


def percent(share: float, digits: int = 1) -> str:
    """Write a share as people do: `percent(0.5)` is "50.0 %"."""
    return f"{np.round(100 * share, digits) + 0.0:.{digits}f} %"  # + 0.0: no minus zero


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: "1 pack", "2,000 packs", "3 batches", "2 strategies"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:] not in ("ay", "ey", "oy"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 'ss')) else 's'}"


def escaped(text: str) -> str:
    """Escape text for an attribute in quotes, or for an element that holds text alone, such as `<title>`."""
    return html.escape(text)


def in_html(text: str) -> str:
    """Escape text for an element. Tags part `$` and backslashes from the rest, else MathJax sees formulas there."""
    return re.sub(r"[$\\]", r"<span>\g<0></span>", escaped(text))
