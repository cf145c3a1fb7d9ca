"""Counts and shares in words, and the templates that are filled with them."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from packlib.arguments import plural as plural
from packlib.lengths import LengthHistogram


def share_of(part: float, total: float = 1) -> str:
    """Write a share in percent, with more digits near 0 and 100: "0.05 %", "3.1 %", "over 99.99 %"."""
    value = 100 * part / total
    if 0 < abs(value) < 0.005:
        return "under 0.01 %"
    if 99.995 <= value < 100:
        return "over 99.99 %"
    return f"{value:.2f} %" if 0 < abs(value) < 1 or 99 < value < 100 else f"{value:,.1f} %"


def signed(difference: float) -> str:
    """Write a relative difference: "+3.1 %", "−0.20 %", "±0 %", and "× 3.4" for +2.4, from twice as much on."""
    if difference >= 1:
        return f"× {1 + difference:,.1f}"
    return "±0 %" if abs(difference) < 0.00005 else f"{'+' if difference > 0 else '−'}{share_of(abs(difference))}"


def compared(value: float, base: float, noun: str) -> str:
    """Compare a number with another in words: "the same number of packs", "1.8 % more", "3.4 times as many packs".

    Whole numbers are the same only if they are equal, others if they round to the same.
    """
    difference = value / base - 1
    if value == base or (abs(difference) < 0.00005 and not (isinstance(value, int) and isinstance(base, int))):
        return f"the same number of {noun}"
    return f"{more_or_fewer(value, base)} {noun}"


def more_or_fewer(value: float, base: float) -> str:
    """Say how much one number differs from another: "1.8 % more", "0.20 % fewer", "3.4 times as many"."""
    difference = value / base - 1
    if difference >= 1:
        return f"{value / base:,.1f} times as many"
    return f"{share_of(abs(difference))} {'more' if difference > 0 else 'fewer'}"


def work_compared(value: float, base: float) -> str:
    """Compare the work of two things in words: "the same work", "1.8 % less work", "3.4 times as much work"."""
    difference = value / base - 1
    if abs(difference) < 0.00005:
        return "the same work"
    if difference >= 1:
        return f"{value / base:,.1f} times as much work"
    return f"{share_of(abs(difference))} {'more' if difference > 0 else 'less'} work"


def than_or_as(comparison: str) -> str:
    """Return the word that follows a comparison: "1.8 % more packs than", "3.4 times as many packs as"."""
    return "as" if comparison.startswith("the same") or " times as " in comparison else "than"


def gigabytes(number: float) -> str:
    """Write bytes in words: "79.5 GB"."""
    return f"{number / 1e9:,.1f} GB" if number >= 5e7 else f"{number / 1e9:,.3g} GB"


def large(number: float) -> str:
    """Write a number in words: "18.5 million"."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:,.3g} {name}"
    return f"{number:,.0f}"


def longest(lengths: LengthHistogram) -> int:
    """Return the longest length that a sequence has."""
    return int(lengths.counts.nonzero()[0][-1])


def unbroken(text: str) -> str:
    """Return a text whose numbers stay on one line with their percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


_FILTERS = {
    "share": share_of, "signed": signed, "plural": plural, "count": "{:,.0f}".format, "unbroken": unbroken,
}  # fmt: skip


class _Undefined(StrictUndefined):
    """Makes a name without a value an error in a template, but lets an `if` without `else` write nothing."""

    def __str__(self) -> str:  # type: ignore[override]
        return "" if self._undefined_name is None else super().__str__()


@cache
def _templates(autoescape: bool) -> Environment:
    """Return the templates of this folder."""
    loader = FileSystemLoader(Path(__file__).parent)
    options: dict[str, Any] = {"autoescape": autoescape, "trim_blocks": True, "lstrip_blocks": True}
    templates = Environment(loader=loader, undefined=_Undefined, **options)
    templates.filters |= _FILTERS
    return templates


def filled(name: str, autoescape: bool = False, **values: Any) -> str:
    """Return the text of a template of this folder, filled with these values."""
    return _templates(autoescape).get_template(name).render(values)


def parts_of(text: str) -> dict[str, str]:
    """Cut a text at its lines "=== NAME"; return the parts by name."""
    _, *names_and_parts = re.split("^=== (.*)\n", text, flags=re.MULTILINE)  # in turn, after what is before them
    return dict(zip(names_and_parts[::2], names_and_parts[1::2], strict=True))
