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

from packbook.guesses import NO_GUESS, judge_guess

TYPED = json.loads((Path(__file__).parents[1] / "guess_cases.json").read_text(encoding="utf-8"))


class Hostile:
    """A learner's object, each method of which fails."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    __str__ = __float__ = __len__ = __eq__ = __iter__ = __getattribute__


def test_what_is_typed_is_judged_as_on_the_site():
    for case in TYPED:
        low, high = case.get("limits", (None, None))
        limits = -math.inf if low is None else low, math.inf if high is None else high
        judged = judge_guess(case["guess"], case["truth"], case["unit"], (), limits, case.get("by_factor", False))
        assert (judged.state, judged.message) == (case["state"], case["says"]), case


@pytest.mark.parametrize(
    ("guess", "truth", "unit"),
    [
        (np.array([4, 3, 3]), "4 + 3 + 3", ""),
        (Fraction(3, 8), 0.375, ""),
        (Decimal("0.375"), 0.375, ""),
        (True, "yes", ""),
        ("no", np.False_, ""),
        (np.float32(87.1), np.float32(87.1), "%"),
        (torch.tensor(5), np.array(5.0), ""),
    ],
)
def test_a_right_answer_is_right_in_whatever_type(guess, truth, unit):
    judged = judge_guess(guess, truth, unit)
    assert judged.state == "right" and type(judged.guess) in (float, str), judged.message
    assert type(judged.truth) in (int, float, str)


@pytest.mark.parametrize(
    ("guess", "truth", "says"),
    [
        ([1], 4, "That is not a number such as"),
        (1, "yes", "That is neither yes nor no"),
        (1e308, -1, "too large"),
        ([1] * 10_000, "1 + 1", "too long for a guess"),
        (Hostile(), 4, "That cannot be read; guess again."),
        ("longest", "least", "That is not among the choices: least, most."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_guess_that_cannot_be_judged_gets_one_sentence(guess, truth, says):
    judged = judge_guess(guess, truth, choices=("least", "most") if truth == "least" else ())
    assert judged.state == "unclear" and judged.guess is None and says in judged.message


@pytest.mark.parametrize("guess", [..., None, "  ", "…", "?"])
def test_dots_are_no_guess(guess):
    judged = judge_guess(guess, 4)
    assert judged.state == "none" and judged.message == NO_GUESS and judged.guess is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
    | st.from_regex(r"[0-9,./ e%+-]{1,12}( packs|%| rows)?", fullmatch=True),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip
NUMBERS = st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9).map(lambda x: round(x, 1))
UNITS = st.sampled_from(["", "%", "packs", "times", "s"])


@given(ANYTHING, NUMBERS | st.sampled_from(["yes", "4 + 3 + 3", "sorted"]), UNITS)
def test_any_guess_gets_a_sentence_that_does_not_repeat_it(guess, truth, unit):
    judged = judge_guess(guess, truth, unit)
    assert judged.message.isprintable() and len(judged.message) < 160
    assert (judged.guess is None) is (judged.state in ("none", "unclear"))


@given(NUMBERS, UNITS)
def test_the_answer_that_is_shown_is_right(truth, unit):
    judged = judge_guess(judge_guess(..., truth, unit).answer, truth, unit)
    assert judged.state == "right"
