"""Refusals have one form: the parameter, what is allowed, and what was given."""

import math
from fractions import Fraction

import numpy as np
import pytest

from packlib.arguments import flag, number, one_of, shown, text, whole_number


def test_right_values_come_back_as_python_has_them():
    for value in (7, np.int8(7), np.uint64(7)):
        assert whole_number("n", value, 0) == 7 and type(whole_number("n", value, 0)) is int
        assert number("x", value) == 7 and type(number("x", value)) is int
    for value in (0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)):
        assert number("x", value, above=0, at_most=0.5) == 0.5 and type(number("x", value)) is float
    for value in (True, np.True_):
        assert flag("f", value) is True
    assert text("name", "a") == "a"
    assert one_of("method", np.str_("lpfhp"), ["spfhp", "lpfhp"]) == "lpfhp"


REFUSED = [
    (lambda: whole_number("n", True, 0, 9), TypeError, "n must be a whole number from 0 to 9, not True."),
    (lambda: whole_number("n", np.int64(-1), 0), ValueError, "n must be at least 0, not -1."),
    (lambda: number("x", "a"), TypeError, "x must be a number, not 'a'."),
    (lambda: number("x", np.float32(2), at_most=1), ValueError, "x must be at most 1, not 2.0."),
    (lambda: number("x", math.nan), ValueError, "x must be a finite number, not nan."),
    (lambda: text("t", None), TypeError, "t must be text, not None."),
    (lambda: flag("f", "no"), TypeError, "f must be True or False, not 'no'."),
    (lambda: one_of("m", "c", ["ab", "cd"]), ValueError, "m must be 'ab' or 'cd', not 'c': did you mean 'cd'?"),
    (lambda: one_of("m", ["a"], ["a"]), ValueError, "m must be 'a', not ['a']."),
    (lambda: one_of("m", "x", map(str, range(20))), ValueError, "m must be one of '0', '1', '2', '3', '4', "
     "'5', '6', '7', '8', '9', '10', '11' and 8 more, not 'x'."),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, sentence", REFUSED)
def test_a_refusal_names_parameter_value_and_what_is_allowed(call, kind, sentence):
    with pytest.raises(kind) as refusal:
        call()
    assert str(refusal.value) == sentence


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def test_what_is_huge_is_refused_in_one_short_line():
    for call in (
        lambda: number("x", 10**400, above=0),
        lambda: number("x", 10**5000, above=0),
        lambda: whole_number("n", 10**5000, 0, 9),
        lambda: flag("f", "no\n" * 1000),
        lambda: flag("f", [10**5000]),
        lambda: flag("f", nested(10_000)),
    ):
        with pytest.raises((TypeError, ValueError)) as refusal:
            call()
        assert len(str(refusal.value)) < 300 and "\n" not in str(refusal.value)
    assert shown(np.float32(0.25)) == "0.25"
