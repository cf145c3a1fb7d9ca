"""Guesses, read as people write them ("4+3+3", "4 packs", "87 %", "1,144", "3/8", "y") and compared with the truth.

Text is parsed and never evaluated. Whatever a learner guesses, the answer is a sentence and not an error.
"""

import math
import numbers
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from packlib.checks import shown

NO_GUESS = "No guess yet. Replace the dots above with your guess and run both cells, or open the answer below."
_LONGEST = 200  # characters or items of a guess
_NEAR = 0.05  # of the truth
WORDS = tomllib.loads(Path(__file__).with_name("guess_words.toml").read_text(encoding="utf-8"))
_PARTS = {"%": 100, "thousandths": 1000}  # a guess below 1 in these units may be meant as a share of one
_DIGITS = r"[+-]?(?:\d{1,3}(?:[, ]\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
_WRITTEN = re.compile(
    rf"(?:about|around|roughly|~|≈)?\s*({_DIGITS})(?:\s*/\s*({_DIGITS}))?\s*(\D*)", re.ASCII | re.IGNORECASE
)
_SUM = re.compile(r"\d+(?: \+ \d+)+", re.ASCII)  # how a notebook writes a pack


class UnreadableGuessError(ValueError):
    """A guess that cannot be compared with the truth; the message is the sentence for the learner."""


@dataclass(frozen=True)
class Judgment:
    """What is said about a guess.

    Attributes:
        state: "near" is a number within 5 % of the truth; what is "unclear" cannot be judged.
        message: one or two sentences about the guess.
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
        unit: "%" for a truth in percent, "times", "packs": a guess may carry it or not.
        choices: the words that the learner chooses from, if the question offers some; any other is unclear.
        limits: a number outside is impossible, and the message says so.
        by_factor: whether a number within a factor of two is near.
    """
    truth, compare = _as_told(truth)
    answer = said(truth, unit)
    try:
        guess = as_python(guess)
        if guess is None or guess is ... or (isinstance(guess, str) and not guess.strip(" .…?\t\n")):
            return Judgment("none", NO_GUESS, answer, truth)
        if isinstance(guess, (str, list, tuple, set, frozenset)) and len(guess) > _LONGEST:
            raise UnreadableGuessError(f"{in_short(guess)} is too long for a guess; guess again.")
        if choices and compare is _compare_words and not any(same_word(guess, one) for one in choices):
            raise UnreadableGuessError(f"{in_short(guess)} is not among the choices: {', '.join(choices)}.")
        if compare is _compare_numbers:
            state, message, read = _compare_numbers(guess, truth, unit, limits, by_factor)
        else:
            state, message, read = compare(guess, truth, unit)
    except UnreadableGuessError as unreadable:
        return Judgment("unclear", str(unreadable), answer, truth)
    except Exception:  # whatever the methods of a learner's object do
        return Judgment("unclear", f"{in_short(guess)} cannot be read; guess again.", answer, truth)
    return Judgment(state, message, answer, truth, read)


def said(value: float | str, unit: str) -> str:
    """A number with its unit, as people write it; a text as it is."""
    if not isinstance(value, str):
        value = f"{value:,.0f}" if 999.5 <= abs(value) < 1e15 else f"{value:,.3g}"
    return _with_unit(value, unit)


def in_short(value: Any, form: Callable[[Any], str] = shown) -> str:
    """A value in one line of at most 100 characters, all of them printable; never raises."""
    try:
        text = " ".join(form(value).split())
    except Exception:
        text = f"something of type {type(value).__name__}"
    if not text.isprintable():
        text = repr(text)[1:-1]
    return text if len(text) <= 100 else f"{text[:97]}..."


def as_python(value: Any) -> Any:
    """A scalar or an array of NumPy or torch as Python's own numbers, bools, texts and lists."""
    return value.tolist() if callable(getattr(value, "tolist", None)) else value


def _as_told(truth: Any) -> tuple[float | str, Callable]:
    """The truth as a number or a text, and the function that compares guesses with it."""
    truth = as_python(truth)
    if isinstance(truth, bool) or truth in ("yes", "no"):
        return ("yes" if truth in (True, "yes") else "no"), _compare_yes_or_no
    if isinstance(truth, (numbers.Real, Decimal)) and math.isfinite(_float(truth)):
        return (truth if isinstance(truth, int) else float(truth)), _compare_numbers
    text = truth if isinstance(truth, str) and truth.isprintable() else in_short(truth, str)
    return text, (_compare_packs if _SUM.fullmatch(text) else _compare_words)


# Each of these returns a state and a message for a `Judgment`, and the guess as it was read.


def _compare_numbers(
    guess: Any, truth: float, unit: str, limits: tuple[float, float], by_factor: bool
) -> tuple[Any, str, Any]:
    if isinstance(guess, str) and _word(guess) in WORDS["unlimited"]:  # to say that it is no number would tell
        return _right_or_wrong(_word(guess), False)
    number, has_unit = read_number(guess, unit)
    off = number - truth
    if not math.isfinite(off):
        raise UnreadableGuessError(f"{in_short(guess)} is too large to compare; guess again.")
    answer = said(truth, "")
    guessed = f"You guessed {_with_unit(f'{number:,.10g}', unit)}"
    if math.isclose(number, truth, rel_tol=1e-9):
        return "right", f"{guessed}: exactly right.", number
    if number == float(answer.replace(",", "")) or (truth != round(truth) and said(number, "") == answer):
        return "right", f"{guessed}: right to the digits that the answer shows.", number
    if unit in _PARTS and not has_unit and 0 < abs(number) < 1:
        whole, part = f"{_PARTS[unit] * number:.4g}", f"{number:.4g}"
        raise UnreadableGuessError(
            f"Do you mean {whole} {unit}? Then write {whole}; if you mean {part} {unit}, write '{part} {unit}'."
        )
    low, high = (_with_unit(f"{limit:,g}", unit) for limit in limits)
    if number < limits[0] or number > limits[1]:
        bound = f"less than {low}" if number < limits[0] else f"more than {high}"
        return "wrong", f"{guessed}: impossible, since it cannot be {bound}.", number
    # "2 times above" would say a factor
    amount = said(abs(off), {"%": "points", "times": ""}.get(unit, unit))
    distance = f"{amount} {'above' if off > 0 else 'below'} the answer."
    factor = max(number / truth, truth / number) if number * truth > 0 else math.nan
    if factor >= (2 if by_factor else 10):
        distance = f"{said(factor, 'times')} too {'large' if off > 0 else 'small'}."
    near = abs(off) <= _NEAR * abs(truth) * (1 + 1e-9)  # 1.05 is near 1, though binary fractions say 0.0500…04
    if near or (by_factor and factor <= 2):
        return "near", f"{guessed}: {'very ' if near else ''}close, {distance}", number
    return "wrong", f"{guessed}: {distance}", number


def _compare_words(guess: Any, truth: str, unit: str) -> tuple[str, str, str]:
    if not isinstance(guess, (str, numbers.Real)):
        raise UnreadableGuessError(f"{in_short(guess)} is not a word; guess again.")
    return _right_or_wrong(in_short(guess, str).strip(), same_word(guess, truth))


def _compare_yes_or_no(guess: Any, truth: str, unit: str) -> tuple[str, str, str]:
    word = _word(str(guess)) if isinstance(guess, (bool, str)) else ""
    read = next((answer for answer in ("yes", "no") if word in WORDS[answer]), "")
    if not read:
        raise UnreadableGuessError(f"{in_short(guess)} is neither yes nor no; guess again.")
    return _right_or_wrong(read, read == truth)


def _compare_packs(guess: Any, truth: str, unit: str) -> tuple[str, str, str]:
    read = _items(guess)
    if all(isinstance(item, str) for item in read):
        raise UnreadableGuessError(f"{in_short(guess)} has no numbers like 3 + 2 + 1; guess again.")
    return _right_or_wrong(in_short(guess, str), sorted(read, key=str) == sorted(_items(truth), key=str))


def _right_or_wrong(read: str, right: bool) -> tuple[str, str, str]:
    state = "right" if right else "wrong"
    return state, f"You guessed {read}, and that is {state}.", read


def read_number(guess: Any, unit: str = "") -> tuple[float, bool]:
    """The number that a guess says, and whether the unit stands behind it.

    Args:
        guess: a number, or a text such as "4", "1,144", "3/8", "about 4 packs", "87 %".

    Raises:
        UnreadableGuessError: if it is no number, too large for one, or in another unit.
    """
    if isinstance(guess, str):
        text = re.sub("^(?:minus |[-−]) *", "-", guess.strip())
        first, _, others = re.sub("^an? ", "", _word(text)).partition(" ")
        if first in WORDS["numbers"]:
            text = f"{WORDS['numbers'][first]} {others}".strip()
        if comma := re.fullmatch(r"([+-]?\d+),(\d{1,2}|\d{4,})\b\D*", text, re.ASCII):
            raise UnreadableGuessError(f"Do you mean {comma[1]}.{comma[2]}? Then write it with a point.")
        if not (written := _WRITTEN.fullmatch(text)):
            raise UnreadableGuessError(f"{in_short(guess)} is not a number; guess again.")
        top, bottom = (float(re.sub("[, ]", "", part or "1")) for part in written.group(1, 2))
        rest = written[3].casefold().strip(" .!")
        first, _, others = rest.partition(" ")
        if multiple := WORDS["multiples"].get(first):
            top, rest = top * multiple, others
        if less := re.search(r"\b(fewer|less|lower)$", rest):
            raise UnreadableGuessError(
                f"Write {written[1]} if the question asks how much {less[1]}, -{written[1]} if it asks for a change."
            )
        if rest and rest not in _ways_to_write(unit):
            plain = unit == "" or unit.startswith("of ")
            counted = "a plain number" if plain else "a percentage" if unit == "%" else f"counted in {unit}"
            raise UnreadableGuessError(f"{in_short(guess)} is not {counted}; guess again.")
        number = top / bottom if bottom else math.nan
    elif isinstance(guess, (numbers.Real, Decimal)) and not isinstance(guess, bool):
        number, rest = _float(guess), ""
    else:
        number = math.nan
    if math.isnan(number):
        raise UnreadableGuessError(f"{in_short(guess)} is not a number; guess again.")
    if math.isinf(number):
        raise UnreadableGuessError(f"{in_short(guess)} is too large to compare; guess again.")
    return number, bool(rest)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _items(guess: Any) -> list[float | str]:
    """The numbers and words of a list, or of a text such as "4+3+3", "4, 3, 3" and "[4 3 3]"."""
    if isinstance(guess, str):
        inside = re.sub(r",?\s*\band\b", ",", guess.partition("=")[0]).strip(" ()[]{}")
        guess = re.split("[,;+]", inside) if re.search("[,;+]", inside) else re.split(r" +(?=\d)", inside)
    items: list[float | str] = []
    for item in guess if isinstance(guess, (list, tuple, set, frozenset)) else [guess]:
        try:
            items.append(read_number(item)[0])
        except UnreadableGuessError:
            items.append(_word(in_short(item, str)))
    return items


def _word(text: str) -> str:
    """A word as it is compared: without case, quotes, end marks, and what joins its parts."""
    word = re.sub(r"[\s_-]+", " ", text.casefold()).strip(" .!?`'\"")
    return re.sub(r"\bsqrt\b", "square root", word)


def same_word(one: Any, other: Any) -> bool:
    """Whether two words are the same but for case, punctuation, article and plural."""
    return _root(str(one)) == _root(str(other))


def _root(text: str) -> str:
    return re.sub("^(?:an?|the|go) ", "", _word(text)).removesuffix("s")


def _ways_to_write(unit: str) -> set[str]:
    first = unit.partition(" ")[0]
    ways = {unit, first, *WORDS["units"].get(unit, ())}
    return {way.casefold() for way in (*ways, _singular(unit), _singular(first))}


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {_singular(unit) if number == '1' else unit}".strip()


def _singular(unit: str) -> str:
    """The unit of one: "pack" of "packs", "sequence in a pack" of "sequences in a pack"."""
    first, *others = unit.split(" ")
    if first not in ("s", "times"):
        first = re.sub("ies$", "y", first) if first.endswith("ies") else first.removesuffix("s")
    return " ".join([first, *others])
