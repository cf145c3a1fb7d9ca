"""Guesses are read as people write them, judged by the truth alone, and never stop a notebook."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from packlib.workbook.guesses import NO_GUESS, judge_guess
from packlib.workbook.questions import Question, Questions


class Hostile:
    """A learner's object, each method of which fails."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    __repr__ = __str__ = __float__ = __len__ = __eq__ = __hash__ = __iter__ = __getattribute__


@pytest.mark.parametrize(
    ("guess", "truth", "unit"),
    [
        # packs, as texts and as lists; their order does not matter
        ("4+3+3", "4 + 3 + 3", ""), ("4 + 3 + 3", "4 + 3 + 3", ""), ([4, 3, 3], "4 + 3 + 3", ""),
        ("[4, 3, 3]", "4 + 3 + 3", ""), ("3 4 3", "4 + 3 + 3", ""), (np.array([4, 3, 3]), "4 + 3 + 3", ""),
        ((4, 3, 3), "4 + 3 + 3", ""), ([4.0, 3], "4 + 3", ""), ({3, 4}, "4 + 3", ""), ("3, 4", "4 + 3", ""),
        ("4+3+3 = 10", "4 + 3 + 3", ""), ("4, 3 and 3", "4 + 3 + 3", ""), ("4, 3, and 3", "4 + 3 + 3", ""),
        ("four, three and three", "4 + 3 + 3", ""),
        # numbers with their unit and without
        (4, 4, "packs"), ("4", 4, "packs"), ("4 packs", 4, "packs"), ("1 pack", 1, "packs"), (" 4 Packs. ", 4, "packs"),
        ("about 4", 4, "packs"), ("1 strategy", 1, "strategies"), ("4 sequences", 4, "sequences in a pack"),
        ("2x", 2, "times"), ("2 ×", 2.0, "times"), ("424 seconds", 424, "s"), ("111 kb", 111, "KB"),
        ("87.1%", 87.1, "%"), ("87.1 %", 87.1, "%"), ("87.1 percent", 87.1, "%"), ("−25 %", -25.0, "%"),
        ("0.5 %", 0.5, "%"), (0.5, 0.5, "%"), ("1,144", 1144, "times"), ("39 711", 39_711, "ways"), ("1e3", 1000, ""),
        ("3/8", 0.375, "packs"), (3 / 8, 0.375, "packs"), (Fraction(3, 8), 0.375, ""), (Decimal("0.375"), 0.375, ""),
        ("four", 4, "packs"), ("Four packs", 4, "packs"), ("half", 0.5, ""), ("minus 25", -25, "%"),
        ("10k", 10_000, "packs"), ("2.5 million", 2_500_000, ""), ("a million strategies", 10**6, "strategies"),
        ("3 billion rows", 3 * 10**9, "rows"), ("a thousand", 1000, "times"), ("go down", "down", ""),
        ("- 25 %", -25, "%"),
        # a truth that is shown as rounded
        (1.875, 1.875, "times"), (1.88, 1.875, "times"), (131, 131.15, "sequences"), (1 / 3, 0.333, "packs"),
        # yes and no
        (True, "yes", ""), ("y", "yes", ""), ("Yes.", "yes", ""), (False, "no", ""), ("n", "no", ""),
        ("no", np.False_, ""), (np.True_, True, ""),
        # words
        ("Sorted", "sorted", ""), ('"no mask"', "no mask", ""), ("no-mask", "no mask", ""), 
        ("sqrt", "square root", ""), ("square root", "sqrt", ""), (float("nan"), "nan", ""),
        # the types of NumPy and torch
        (np.float32(87.1), np.float32(87.1), "%"), (np.int64(5), np.int64(5), "packs"),
        (np.str_("a"), np.str_("a"), ""), (np.array(5), np.array(5.0), ""), (5, Fraction(5), ""),
        (torch.tensor(5), torch.tensor(5), ""),
    ],
)  # fmt: skip
def test_a_right_answer_is_right_however_it_is_written(guess, truth, unit):
    judged = judge_guess(guess, truth, unit)
    assert judged.state == "right" and type(judged.guess) in (float, str), judged.message
    assert type(judged.truth) in (int, float, str)


@pytest.mark.parametrize(
    ("guess", "truth", "unit", "says"),
    [
        (5, 5, "packs", "You guessed 5 packs: exactly right."),
        (4.9, 5, "packs", "You guessed 4.9 packs: very close, 0.1 packs below the answer."),
        (4.9999, 5, "packs", "You guessed 4.9999 packs: very close, 0.0001 packs below the answer."),
        (1.88, 1.875, "times", "You guessed 1.88 times: right to the digits that the answer shows."),
        (131, 131.234, "rows", "You guessed 131 rows: right to the digits that the answer shows."),
        (131.2, 131.234, "rows", "You guessed 131.2 rows: right to the digits that the answer shows."),
        (1.05, 1.0, "", "You guessed 1.05: very close, 0.05 above the answer."),
        (1e300, 4, "packs", "You guessed 1e+300 packs: 2.5e+299 times too large."),
        ("a million rows", 1000, "rows", "You guessed 1,000,000 rows: 1,000 times too large."),
        (30, 1000, "rows", "You guessed 30 rows: 33.3 times too small."),
        ("no limit", 8, "", "You guessed no limit, and that is wrong."),
        (8, "no limit", "", "You guessed 8, and that is wrong."),
        (1 / 3, 0.333, "", "You guessed 0.3333333333: right to the digits that the answer shows."),
        (0.5004, 0.5, "packs", "right to the digits that the answer shows."),
        (105.2, 100, "packs", "You guessed 105.2 packs: 5.2 packs above the answer."),
        (87, 87.1, "%", "You guessed 87 %: very close, 0.1 points below the answer."),
        (30, 50.0, "%", "You guessed 30 %: 20 points below the answer."),
        ("0.87 %", 87.1, "%", "You guessed 0.87 %: 100 times too small."),
        (51, 50.0, "%", "very close, 1 point above the answer."),
        (-24, -25.0, "%", "very close, 1 point above the answer."),
        (900, 999.7, "rows", "You guessed 900 rows: 99.7 rows below the answer."),
        ("1 pack", 4, "packs", "You guessed 1 pack: 3 packs below the answer."),
        (6, 4, "times", "You guessed 6 times: 2 above the answer."),
        (0, 1000, "rows", "You guessed 0 rows: 1,000 rows below the answer."),
        (0.4, 1000, "rows", "You guessed 0.4 rows: 2,500 times too small."),
        ("random", "sorted", "", "You guessed random, and that is wrong."),
        ("y", "no", "", "You guessed yes, and that is wrong."),
        ([5, 5], "4 + 3 + 3", "", "You guessed [5, 5], and that is wrong."),
        ((3, 4), "3 + 3", "", "You guessed (3, 4), and that is wrong."),
        ("3 + 3 + 2", "3 + 2", "", "You guessed 3 + 3 + 2, and that is wrong."),
        (1.23e18, 1_234_567_890_123_456_789, "ways", "right to the digits that the answer shows."),
    ],
)
def test_only_the_exact_answer_is_exactly_right(guess, truth, unit, says):
    judged = judge_guess(guess, truth, unit)
    assert says in judged.message and judged.guess is not None
    assert judged.state == ("right" if "right" in says else "near" if "very close" in says else "wrong")


def test_a_guess_of_an_unknown_magnitude_is_close_within_a_factor_of_two():
    def says(guess):
        return judge_guess(guess, 1144, "times", by_factor=True)

    assert [says(guess).state for guess in (500, 573, 1000, 1100, 2288, 2300)] == [
        "wrong", "near", "near", "near", "near", "wrong",
    ]  # fmt: skip
    assert says(1100).message == "You guessed 1,100 times: very close, 44 below the answer."
    assert says(2000).message == "You guessed 2,000 times: close, 856 above the answer."
    assert says(16_000_000).message == "You guessed 16,000,000 times: 13,986 times too large."


def test_an_impossible_guess_is_said_to_be_impossible():
    for guess, says in {130: "more than 100 %", -5: "less than 0 %"}.items():
        judged = judge_guess(guess, 40, "%", limits=(0, 100))
        assert judged.state == "wrong"
        assert judged.message == f"You guessed {guess} %: impossible, since it cannot be {says}."


@pytest.mark.parametrize(
    ("guess", "truth", "unit", "says"),
    [
        (0.87, 87.1, "%", "Do you mean 87 %? Then write 87; if you mean 0.87 %, write '0.87 %'."),
        ("0.87", 87.1, "%", "Do you mean 87 %?"), ("3/8", 40, "%", "Do you mean 37.5 %?"), (1 / 3, 40, "%", "33.33 %?"),
        (-0.25, -25.0, "%", "Do you mean -25 %?"),
        ("half", 50, "%", "Do you mean 50 %? Then write 50"),
        ("a lot", 50, "%", "'a lot' is not a number; guess again."),
        (0.005, 5, "thousandths", "Do you mean 5 thousandths? Then write 5; if you mean 0.005 thousandths, write"),
        ("1,5", 1.5, "", "Do you mean 1.5? Then write it with a point."),
        ("25 fewer", -25, "", "Write 25 if the question asks how much fewer, -25 if it asks for a change."),
        ("25 packs fewer", 25, "packs", "Write 25 if the question asks how much fewer, -25 if it asks for a change."),
        ([1], 4, "", "[1] is not a number"),
        (True, 4, "", "True is not a number"), ("4 rows", 4, "packs", "'4 rows' is not counted in packs; guess again."),
        ("4 rows", 4, "", "'4 rows' is not a plain number"), ("1,14", 114, "", "Do you mean 1.14?"),
        ("4 of 10", 4, "", "is not a number"), ("3/0", 4, "", "'3/0' is not a number"),
        ("maybe", "yes", "", "'maybe' is neither yes nor no; guess again."), (1, "yes", "", "1 is neither yes nor no"),
        ("many", "4 + 3 + 3", "", "'many' has no numbers like 3 + 2 + 1"),
        ({"a": 1}, "a", "", "{'a': 1} is not a word"),
        # hostile ones
        (10**5000, 4, "", "an integer of 16610 bits is too large to compare; guess again."),
        ("1e999", 4, "", "'1e999' is too large"), (1e308, -1e308, "", "1e+308 is too large"),
        ("9" * 10_000, 4, "", "is too long for a guess"), ("x" * 10_000, "yes", "", "is too long for a guess"),
        ([1] * 10_000, "1 + 1", "", "is too long for a guess"), (float("nan"), 4, "", "nan is not a number"),
        ("__import__('os').remove('x')", 4, "", "is not a number"), ("2**9", 512, "", "'2**9' is not a number"),
        (Hostile(), 4, "", "something of type Hostile cannot be read; guess again."),
        (Hostile(), "yes", "", "cannot be read"), (Hostile(), "a", "", "cannot be read"),
        (Hostile(), "4 + 3", "", "cannot be read"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
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


def test_a_word_outside_the_choices_is_no_wrong_guess():
    judged = judge_guess("longest", "least space", choices=("least space", "most space"))
    assert (judged.state, judged.guess) == ("unclear", None)
    assert judged.message == "'longest' is not among the choices: least space, most space."
    for guess, state in {"The least-space.": "right", "most space": "wrong"}.items():
        assert judge_guess(guess, "least space", choices=("least space", "most space")).state == state
    assert judge_guess(True, "yes", choices=("yes", "no")).state == "right"


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


@pytest.fixture
def displayed(monkeypatch):
    """What a notebook would be sent."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw, metadata: shown.append(bundle))
    return shown


def reveal(guess, truth, why, unit=""):
    Questions(asked=Question("How many?", truth, why, unit)).reveal("asked", guess)


@pytest.mark.parametrize(
    "guess", ["<img src=x onerror=alert(1)>", "</details><script>alert(1)</script>", "\x1b[31m\ud800\0"]
)
@pytest.mark.parametrize("truth", [4, "sorted", True, "4 + 3 + 3"])
def test_a_guess_brings_no_markup_into_the_page(guess, truth, displayed):
    reveal(guess, truth, "Because.")
    (bundle,) = displayed
    assert set(re.findall(r"<[^>]*>", bundle["text/html"])) <= {
        "<details>", "<summary>", "</summary>", "<p>", "<b>", "</b>", "</p>", "</details>",
    }  # fmt: skip
    assert bundle["text/html"].isprintable() and bundle["text/plain"].isprintable()
