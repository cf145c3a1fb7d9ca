"""Guesses are read as people write them, judged by the truth alone, and never stop a notebook."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from packlib.workbook.guesses import NO_GUESS, judge_guess


class Hostile:
    """A learner's object, each method of which fails."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    __repr__ = __str__ = __float__ = __len__ = __eq__ = __hash__ = __iter__ = __getattribute__


TYPED = json.loads((Path(__file__).parents[1] / "guess_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", TYPED, ids=lambda case: case["guess"][:20])
def test_what_is_typed_is_judged_as_on_the_site(case):
    low, high = case.get("limits", (None, None))
    judged = judge_guess(
        case["guess"],
        case["truth"],
        case["unit"],
        case.get("choices", ()),
        (-math.inf if low is None else low, math.inf if high is None else high),
        case.get("by_factor", False),
    )
    assert (judged.state, judged.message) == (case["state"], case["says"])


@pytest.mark.parametrize(
    ("guess", "truth", "unit"),
    [
        # packs; their order does not matter
        (np.array([4, 3, 3]), "4 + 3 + 3", ""),
        ({3, 4}, "4 + 3", ""),
        # numbers
        (0.5, 0.5, "%"),
        (Fraction(3, 8), 0.375, ""),
        (Decimal("0.375"), 0.375, ""),
        # a truth that is shown as rounded
        (1.88, 1.875, "times"),
        (131, 131.15, "sequences"),
        # yes and no
        (True, "yes", ""),
        ("no", np.False_, ""),
        # words
        ('"no-mask"', "no mask", ""),
        (float("nan"), "nan", ""),
        # the types of NumPy and torch
        (np.float32(87.1), np.float32(87.1), "%"),
        (np.str_("a"), np.str_("a"), ""),
        (5, Fraction(5), ""),
        (torch.tensor(5), np.array(5.0), ""),
    ],
)
def test_a_right_answer_is_right_however_it_is_written(guess, truth, unit):
    judged = judge_guess(guess, truth, unit)
    assert judged.state == "right" and type(judged.guess) in (float, str), judged.message
    assert type(judged.truth) in (int, float, str)


@pytest.mark.parametrize(
    ("guess", "truth", "unit", "says"),
    [
        (0.5004, 0.5, "packs", "right to the digits that the answer shows."),
        (1.23e18, 1_234_567_890_123_456_789, "ways", "right to the digits that the answer shows."),
        (1.05, 1.0, "", "You guessed 1.05: very close, 0.05 above the answer."),
        (51, 50.0, "%", "very close, 1 point above the answer."),
        (-24, -25.0, "%", "very close, 1 point above the answer."),
        (6, 4, "times", "You guessed 6 times: 2 above the answer."),
        (0, 1000, "rows", "You guessed 0 rows: 1,000 rows below the answer."),
        (1e300, 4, "packs", "You guessed 1e+300 packs: 2.5e+299 times too large."),
        (8, "no limit", "", "You guessed 8, and that is wrong."),
        ((3, 4), "3 + 3", "", "You guessed (3, 4), and that is wrong."),
    ],
)
def test_only_the_exact_answer_is_exactly_right(guess, truth, unit, says):
    judged = judge_guess(guess, truth, unit)
    assert says in judged.message and judged.guess is not None
    assert judged.state == ("right" if "right" in says else "near" if "very close" in says else "wrong")


@pytest.mark.parametrize(
    ("guess", "truth", "unit", "says"),
    [
        (-0.25, -25.0, "%", "Do you mean -25 %?"),
        (0.005, 5, "thousandths", "Do you mean 5 thousandths? Then write 5; if you mean 0.005 thousandths, write"),
        ([1], 4, "", "[1] is not a number"),
        (True, 4, "", "True is not a number"),
        (float("nan"), 4, "", "nan is not a number"),
        (1, "yes", "", "1 is neither yes nor no"),
        ({"a": 1}, "a", "", "{'a': 1} is not a word"),
        # hostile ones
        (10**5000, 4, "", "an integer of 16610 bits is too large to compare; guess again."),
        (1e308, -1e308, "", "1e+308 is too large"),
        ("x" * 10_000, "yes", "", "is too long for a guess"),
        ([1] * 10_000, "1 + 1", "", "is too long for a guess"),
        (Hostile(), 4, "", "something of type Hostile cannot be read; guess again."),
        (Hostile(), "yes", "", "cannot be read"),
        (Hostile(), "a", "", "cannot be read"),
        (Hostile(), "4 + 3", "", "cannot be read"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_guess_that_cannot_be_judged_gets_one_sentence(guess, truth, unit, says):
    judged = judge_guess(guess, truth, unit)
    assert judged.state == "unclear" and judged.guess is None
    assert says in judged.message and judged.message.endswith(".") and "\n" not in judged.message
    assert len(judged.message) < 160


@pytest.mark.parametrize("guess", [..., None, "", "  ", "...", "…", "?"])
@pytest.mark.parametrize("truth", [4, "sorted", True, "4 + 3"])
def test_dots_are_no_guess(guess, truth):
    judged = judge_guess(guess, truth)
    assert judged.state == "none" and judged.message == NO_GUESS and judged.guess is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
    | st.from_regex(r"[0-9,./ e%+-]{1,12}( packs|%| rows)?", fullmatch=True),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@given(
    ANYTHING, ANYTHING | st.sampled_from(["yes", "4 + 3 + 3", {1, 2}]), st.sampled_from(["", "%", "packs", "times"])
)
def test_any_guess_and_any_truth_give_a_sentence(guess, truth, unit):
    judged = judge_guess(guess, truth, unit)
    assert judged.message and judged.message.isprintable() and len(judged.message) < 400
    assert (judged.guess is None) is (judged.state in ("none", "unclear"))


NUMBERS = st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9).map(lambda x: round(x, 1))


@given(NUMBERS, st.sampled_from(["", "%", "packs", "times", "s"]))
def test_the_answer_that_is_shown_is_right(truth, unit):
    assert judge_guess(judge_guess(..., truth, unit).answer, truth, unit).state == "right"


def test_an_answer_is_written_as_people_write_it():
    for truth, answer in {
        999.4: "999 rows",
        999.7: "1,000 rows",
        12_345.6: "12,346 rows",
        0.1234: "0.123 rows",
    }.items():
        assert judge_guess(..., truth, "rows").answer == answer
