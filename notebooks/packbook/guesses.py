"""Guesses, read as people write them ("4 packs", "87 %", "1,144", "3/8", "10k", "4+3+3"), and compared with the truth.

Text is parsed and never evaluated. Whatever a learner guesses, the answer is a sentence and not an error.
`publish/website/static/guesses.js` judges in the same way; both are tested with the same cases.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal

NO_GUESS = "No guess yet. Replace the dots above with your guess and run both cells, or open the answer below."
_LONGEST = 200  # characters of a guess
_SMALLEST, _LARGEST = 1e-9, 1e15  # other numbers are refused, since `said` would write them with too many digits
_NEAR = 0.05  # relative difference up to which a guess is near
_YES_OR_NO = {"yes": "yes", "y": "yes", "true": "yes", "no": "no", "n": "no", "false": "no"}
_PARTS = {"%": 100, "thousandths": 1000}  # a guess below 1 in these units may be meant as a share of one
_MULTIPLES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_NUMBER = r"[+-]?(?:\d{1,3}(?:[, ]\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
# a number, or a fraction of two, with words before and a unit behind: "about 3/8 packs"
_WRITTEN = re.compile(
    rf"(?:about|around|roughly|~|≈)? ?({_NUMBER})(?: ?/ ?({_NUMBER}))? ?(\D*)", re.ASCII | re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"^\D*(\d+),(\d{1,9})\D*$", re.ASCII)  # 12,5, as half of Europe writes it
_PACK = re.compile(r"\d+(?: \+ \d+)+", re.ASCII)  # how a notebook writes a pack


class UnreadableGuessError(ValueError):
    """A guess that cannot be compared with the truth; the message is the sentence for the learner."""


@dataclass(frozen=True)
class Judgment:
    """Hold the reply to a guess.

    Attributes:
        state: "none" without a guess; "unclear" if the guess cannot be judged; "near" for a number within 5 % of the
            truth, or within a factor of two if the question allows it.
        message: a sentence about the guess, which does not repeat it.
        answer: the truth with its unit, as the learner reads it.
        truth: the number or the text that the guess was compared with.
        guess: the number or the text that was read; None if there was none.
    """

    state: Literal["none", "unclear", "right", "near", "wrong"]
    message: str
    answer: str
    truth: float | str
    guess: float | str | None = None


def judge_guess(
    guess: Any,
    truth: Any,
    unit: str = "",
    choices: Sequence[str] = (),
    limits: tuple[float, float] = (-math.inf, math.inf),
    by_factor: bool = False,
) -> Judgment:
    """Compare a guess with the truth; nothing that a learner writes makes it raise.

    Args:
        guess: of any type; `...`, None, "?" and an empty text are no guess.
        truth: a number, a bool (yes or no), or a text, such as "4 + 3 + 3" for a pack; NumPy's types too.
        unit: of the truth, such as "%" for a truth in percent, "times" or "packs"; a guess may have it or not.
        choices: the words that the learner chooses from, if the question offers some; any other word is unclear.
        limits: lowest and highest possible number; the message says that a number outside is impossible.
        by_factor: whether a number within a factor of two is near.
    """
    truth = as_python(truth)
    truth = {True: "yes", False: "no"}[truth] if isinstance(truth, bool) else truth
    answer = said(truth, unit)
    try:
        if guess is None or guess is ... or (isinstance(guess, str) and not guess.strip(" .…?\t\n")):
            return Judgment("none", NO_GUESS, answer, truth)
        text = " ".join(str(as_python(guess)).split())
        if len(text) > _LONGEST:
            raise UnreadableGuessError("That is too long for a guess; guess again.")
        if not isinstance(truth, str):
            state, message, number = _compare_numbers(text, truth, unit, limits, by_factor)
            return Judgment(state, message, answer, truth, number)
        words = _read(text, truth, choices)
    except UnreadableGuessError as unreadable:
        return Judgment("unclear", str(unreadable), answer, truth)
    except Exception:  # whatever the methods of a learner's object do
        return Judgment("unclear", "That cannot be read; guess again.", answer, truth)
    is_pack = _PACK.fullmatch(truth)
    if _lengths(words) == _lengths(truth) if is_pack else same_word(words, truth):
        return Judgment("right", "That is right.", answer, truth, words)
    return Judgment("wrong", "That is wrong.", answer, truth, words)


def said(value: float | str, unit: str) -> str:
    """Return a number with its unit, rounded to three digits, but with all digits before the point; a text as it is.

    A share of less than 100 % never reads as 100 %: it has as many digits as that takes, as in 99.96 %.
    """
    if not isinstance(value, str):
        exact = Decimal(value)
        last_place = min(0, exact.adjusted() - 2)  # the power of ten of the last digit
        if unit == "%" and 99 < exact < 100:
            last_place = min(last_place, (100 - exact).adjusted())
        step = Decimal(1).scaleb(last_place)
        rounded = exact.quantize(step, ROUND_HALF_UP)  # as JavaScript rounds
        value = f"{rounded.normalize() + 0:,f}"  # + 0 turns minus zero into 0
    return f"{value} {_singular(unit) if value == '1' else unit}".strip()


def as_python(value: Any) -> Any:
    """Return a scalar or an array of NumPy or torch as Python's own numbers, bools, texts and lists."""
    return value.tolist() if callable(getattr(value, "tolist", None)) else value


def _compare_numbers(
    text: str, truth: float, unit: str, limits: tuple[float, float], by_factor: bool
) -> tuple[Any, str, float]:
    """Return a state and a message for a `Judgment`, and the number that was read; the arguments are `judge_guess`'s.

    Raises:
        UnreadableGuessError: if the text is no number, or may mean two.
    """
    number, has_unit = _number(text)
    if math.isclose(number, truth, rel_tol=1e-9):
        return "right", "Exactly right.", number
    both_whole_or_not = truth != round(truth) or number == round(number)  # 4.001 packs are not 4
    if said(number, unit) == said(truth, unit) and both_whole_or_not:
        return "right", "Right to the digits that the answer shows.", number
    if unit in _PARTS and not has_unit and 0 < abs(number) < 1:
        scaled, unscaled = said(_PARTS[unit] * number, ""), said(number, "")
        ask = f"Do you mean {scaled} {unit}? Then write {scaled}"
        raise UnreadableGuessError(f"{ask}; if you mean {unscaled} {unit}, write '{unscaled} {unit}'.")
    low, high = limits
    if not low <= number <= high:
        bound = f"less than {said(low, unit)}" if number < low else f"more than {said(high, unit)}"
        return "wrong", f"Impossible, since it cannot be {bound}.", number
    difference = number - truth
    have_one_sign = number * truth > 0
    factor = max(number / truth, truth / number) if have_one_sign else 0  # 0 if there is none
    if factor >= (2 if by_factor else 10):
        distance = f"{said(factor, 'times')} too {'large' if difference > 0 else 'small'}."
    else:  # "2 times above" would say a factor
        amount = said(abs(difference), {"%": "points", "times": ""}.get(unit, unit))
        distance = f"{amount} {'above' if difference > 0 else 'below'} the answer."
    # 1.05 is near 1, though in binary the difference is 0.0500…04
    is_near = abs(difference) <= _NEAR * abs(truth) * (1 + 1e-9)
    if is_near or (by_factor and 0 < factor <= 2):
        return "near", f"{'Very close' if is_near else 'Close'}, {distance}", number
    return "wrong", distance, number


def _number(text: str) -> tuple[float, bool]:
    """Return the number in a text, and whether a unit stands behind it.

    Raises:
        UnreadableGuessError: if there is no number, or one with a decimal comma, too large or too small.
    """
    text = re.sub("^an? (?=thousand|million|billion)", "1 ", text, flags=re.IGNORECASE)
    match = _WRITTEN.fullmatch(re.sub("^(?:minus |[-−]) ?", "-", text, flags=re.IGNORECASE))
    if not match and (comma := _DECIMAL_COMMA.search(text)):
        raise UnreadableGuessError(f"The comma sets off thousands here. Write a decimal point: {comma[1]}.{comma[2]}.")
    if not match:
        raise UnreadableGuessError("That is not a number such as 4, 1,144, 0.5 or 3/8; guess again.")
    numerator, denominator = (float(re.sub("[, ]", "", part or "1")) for part in match.group(1, 2))
    first_word, _, later_words = match[3].lower().partition(" ")  # "million packs"
    multiple = _MULTIPLES.get(first_word, 1)
    number = numerator / denominator * multiple if denominator else math.inf
    if not (number == 0 or _SMALLEST <= abs(number) <= _LARGEST):
        raise UnreadableGuessError("That number is too large or too small to compare; guess again.")
    unit = later_words if first_word in _MULTIPLES else first_word
    return number, unit != ""


def _read(text: str, truth: str, choices: Sequence[str]) -> str:
    """Return a guess in the kind of the truth: yes or no, a pack, a choice, or any word.

    Raises:
        UnreadableGuessError: if the text is not of this kind.
    """
    if truth in ("yes", "no"):
        if not (answer := _YES_OR_NO.get(_word(text), "")):
            raise UnreadableGuessError("That is neither yes nor no; guess again.")
        return answer
    if _PACK.fullmatch(truth) and not _lengths(text):
        raise UnreadableGuessError("That has no numbers like 3 + 2 + 1; guess again.")
    if choices and not any(same_word(text, choice) for choice in choices):
        raise UnreadableGuessError(f"That is not among the choices: {', '.join(choices)}.")
    return text


def _lengths(text: str) -> list[float]:
    """Return the lengths of a pack, sorted, from a text such as "4+3+3 = 10", "4, 3, 3" or "[3 4 3]"."""
    return sorted(map(float, re.findall(r"\d+(?:\.\d+)?", text.partition("=")[0], re.ASCII)))


def same_word(word: Any, other_word: Any) -> bool:
    """Return whether two words are equal up to case, punctuation, article and plural."""
    return _stem(str(word)) == _stem(str(other_word))


def _stem(text: str) -> str:
    """Return a word without its article and its plural s."""
    return re.sub("^(?:an?|the) ", "", _word(text)).removesuffix("s")


def _word(text: str) -> str:
    """Return a text in lower case, with single spaces, and without punctuation around it."""
    return re.sub(r"[\s_-]+", " ", text.lower()).strip(" .!?`'\"")


def _singular(unit: str) -> str:
    """Return the singular of a unit: "pack" for "packs", "sequence in a pack" for "sequences in a pack"."""
    noun, *later_words = unit.split(" ")
    if noun not in ("s", "times"):  # s stands for seconds
        noun = re.sub("ies$", "y", noun) if noun.endswith("ies") else noun.removesuffix("s")
    return " ".join([noun, *later_words])
