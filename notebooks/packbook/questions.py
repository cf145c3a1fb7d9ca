"""Questions to guess: the notebook asks, and `reveal` answers: openly once there is a guess, folded before.

The words of a question stand in the notebook, in bold. Its truth is a value that the notebook computes and gives to
`reveal`. Choices, replies and the reason stand in the chapter's `questions.toml`, so that nobody reads them before the
guess.
"""

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes

from packbook.figures import INK
from packbook.guesses import Judgment, judge_guess, same_word
from packbook.results import display_as
from packlib.arguments import escaped, one_of, text


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        why: one or two sentences: the reason, not the number again. `{name}` or `{name:,}` stands for a value that the
            notebook gives to `reveal`, as in `str.format`.
        truth: only if no data can change it, else the notebook gives it to `reveal`; it is what `judge_guess` compares
            with.
        unit: as for `judge_guess`.
        choices: the words to choose from, each with what to say to somebody who chose it and is wrong.
        limits: no answer lies outside; by default 0 and 100 in percent, and else 0 and infinity.
        by_factor: whether a guess that is off by a factor of two is close, as for a truth of unknown magnitude.
    """

    why: str
    truth: Any = ...
    unit: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[float, float] | None = None
    by_factor: bool = False

    def __post_init__(self) -> None:
        # only "%" limits guesses to 0 to 100, asks whether 0.25 is a share, and counts the distance in points
        text("unit", self.unit)
        if self.unit != "%" and re.match(r"\s*(%|per\s?cent|pct\b)", self.unit, re.IGNORECASE):
            raise ValueError(f'unit must be "%" for a truth in percent, not {self.unit!r}.')

    def judge(self, guess: Any, truth: Any) -> Judgment:
        """Return the reply of `judge_guess` to a guess."""
        return judge_guess(guess, truth, self.unit, tuple(self.choices), self.bounds, self.by_factor)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the limits that no answer is below or above."""
        return self.limits or (0, 100 if self.unit == "%" else math.inf)


def compare(left: float, right: float, less: str, equal: str, more: str, within: float = 0) -> str:
    """Compare two numbers in the words of a choice; numbers not farther apart than `within` are equal."""
    if abs(left - right) <= within:
        return equal
    return less if left < right else more


class Questions(dict[str, Question]):
    """The questions of one chapter, by name. Its `reveal` is what the notebook imports."""

    def __init__(self, **questions: Question) -> None:
        super().__init__(questions)
        self._guesses: dict[str, Any] = {}  # of this kernel, so that an answer that is run again stays
        self._judged: dict[str, Judgment] = {}

    @classmethod
    def beside(cls, lesson: str) -> "Questions":
        """Return the questions of `questions.toml` beside a lesson: a table for each, with the fields of `Question`.

        Args:
            lesson: `__file__` of the lesson.

        Raises:
            ValueError: if a question has no reason, or a field that `Question` does not have.
        """
        texts = tomllib.loads(Path(lesson).with_name("questions.toml").read_text(encoding="utf-8"))
        field_names = [question_field.name for question_field in fields(Question)]
        for name, table in texts.items():
            for key in table:
                one_of(f"a field of {name} in questions.toml", key, field_names)
        if lacking := [name for name, table in texts.items() if "why" not in table]:
            raise ValueError(f"A reason, why, is missing in questions.toml: of {', '.join(lacking)}.")
        return cls(**{name: Question(**table) for name, table in texts.items()})

    def reveal(self, name: str, guess: Any, truth: Any = ..., /, **values: Any) -> None:
        """Show how near a guess is, the answer, and why; without a guess the answer is folded.

        A guess of "?" asks for the answer. No guess makes it raise. A guess holds for its own question, also when the
        answer is run again, and is none at the next question.

        Args:
            truth: what the notebook computed: a number, a bool, or one of the choices.
            values: what else it computed, for the reason.

        Raises:
            ValueError: if there is no such question, or if the cell does not fit it: it gives no truth, or one that
                `questions.toml` has, or that is no choice, or lacks a value of the reason.
        """
        from IPython import get_ipython

        question = self[one_of("question", name, self)]
        truth = _truth_of(name, question, truth)
        reason = _reason_of(name, question, values)
        shell = get_ipython()
        if shell is not None and shell.user_ns.get("guess") is guess:
            shell.user_ns["guess"] = ...
        guess = self._guesses.get(name, ...) if guess is ... else guess
        judged = question.judge(guess, truth)
        self._guesses[name], self._judged[name] = guess, judged
        offered = question.choices if judged.state == "wrong" else {}
        replies = [reply for choice, reply in offered.items() if reply and same_word(choice, judged.guess)]
        answer = f"<p><b>{escaped(judged.answer)}.</b> {escaped(reason)}</p>"
        asks = isinstance(guess, str) and "?" in guess
        if judged.state in ("right", "near", "wrong") or (judged.state == "none" and asks):
            verdict = "" if asks else " ".join([judged.message, *replies])  # a reply is about the guess
            page = f"<p>{escaped(verdict)}</p>{answer}" if verdict else answer
            plain = f"{verdict} {judged.answer}. {reason}".strip()
        else:
            page = f"<p>{escaped(judged.message)}</p><details><summary>Show the answer</summary>{answer}</details>"
            plain = judged.message
        means: dict[str, Any] = {"answer": judged.answer, "why": reason}
        means["judging"] = {  # for the site, which judges without a kernel; JSON has no infinity
            "truth": judged.truth,
            "unit": question.unit,
            "choices": dict(question.choices),
            "limits": [bound if math.isfinite(bound) else None for bound in question.bounds],
            "by_factor": question.by_factor,
        }
        display_as("reveal", {"text/html": page, "text/plain": plain}, **means)

    def mark(
        self,
        ax: Axes,
        name: str,
        axis: Literal["x", "y"] = "x",
        at: Callable[[float], float] = float,
    ) -> None:
        """Draw the guess at a question into the figure that answers it, if one was made.

        Args:
            axis: on which the guess stands.
            at: where on the axis a guess stands.
        """
        judged = self._judged.get(name)
        if judged is None or not isinstance(judged.guess, (int, float)):
            return
        limits = ax.get_xlim() if axis == "x" else ax.get_ylim()
        position = min(max(at(judged.guess), min(limits)), max(limits))  # at the edge if it is outside
        draw, place = (ax.axvline, (position, 1)) if axis == "x" else (ax.axhline, (1, position))
        draw(position, color=INK, linestyle=(0, (2, 3)), linewidth=1.5)
        look = {"xycoords": ax.get_xaxis_transform() if axis == "x" else ax.get_yaxis_transform()}
        look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # it may stand on a bar
        # at the left edge there is no room for the words left of the line
        to_the_right = axis == "x" and position < limits[0] + (limits[1] - limits[0]) / 4
        offset = {"xytext": (4 if to_the_right else -4, -4), "textcoords": "offset points"}
        offset["ha"] = "left" if to_the_right else "right"
        words = ax.annotate("your guess", place, **offset, va="top", color=INK, **look)
        other_boxes = [text.get_window_extent() for text in ax.texts if text is not words]
        if axis == "y" and any(words.get_window_extent().overlaps(box) for box in other_boxes):  # labels at line ends
            words.xy = (0, position)
            words.set(ha="left", position=(4, -4))


def _truth_of(name: str, question: Question, from_call: Any) -> Any:
    """Return the truth of a question, from where it stands: at the call, or in `questions.toml`."""
    if from_call is not ... and question.truth is not ...:
        raise ValueError(f"{name} has its truth in questions.toml, so reveal takes none.")
    truth = question.truth if from_call is ... else from_call
    if truth is ...:
        raise ValueError(f"{name} has no truth: give it as the third argument of reveal.")
    if question.choices and truth not in question.choices:
        choices = ", ".join(map(repr, question.choices))
        raise ValueError(f"{name} must have one of its choices as truth, not {truth!r}: {choices}.")
    return truth


def _reason_of(name: str, question: Question, values: Mapping[str, Any]) -> str:
    """Return the reason in words, with the values that the notebook computed."""
    try:
        return question.why.format(**values)
    except KeyError as missing:
        lacks = missing.args[0]
        raise ValueError(f"{name}: its reason needs the value {lacks}, which reveal was not given.") from None
