"""JSON as its standard has it: a name comes once, NaN is no number, and what is wrong is one sentence."""

import json
from typing import Any

from packlib.checks import one_of, shown


def parse_json(text: str, constants: bool = False) -> Any:
    """Parse JSON text.

    Args:
        constants: take NaN, Infinity and -Infinity for numbers, which Python writes and the standard does not know.

    Raises:
        ValueError: if it is no JSON, a name comes twice, a number is no number of JSON or has thousands of digits,
            or it is nested too deeply.
    """
    try:
        constant = float if constants else _refuse
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"It is not JSON: {error}.") from None
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None


def has_exactly(raw: Any, what: str, names: set[str]) -> None:
    """Raise a TypeError or a ValueError unless `raw` is a JSON object with these names and no other."""
    if not isinstance(raw, dict):
        raise TypeError(f"{what} must be a JSON object, not {shown(raw)}.")
    for name in raw:
        one_of("a name in its JSON", name, sorted(names))
    if missing := sorted(names - raw.keys()):
        raise ValueError(f"{what} needs {', '.join(missing)}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"The name {shown(name)} comes twice.")
        found[name] = value
    return found


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise ValueError(f"A number of {len(digits)} digits is too long.") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number.")
