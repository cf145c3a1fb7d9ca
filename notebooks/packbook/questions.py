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
    """Hold a question without its words, which stand in the notebook.

    Attributes:
        why: the reason of the answer, in one or two sentences, without the number again. `{name}` or `{name:,}` stands
            for a value that the notebook gives to `reveal`, as in `str.format`.
        truth: the answer, as for `judge_guess`, if no data can change it; otherwise the notebook gives it to `reveal`.
        unit: as for `judge_guess`.
        choices: the words to choose from, each with the reply to somebody who chose it wrongly.
        limits: lowest and highest possible answer; by default 0 and 100 in percent, and otherwise 0 and infinity.
        by_factor: whether a guess within a factor of two is near, as for a truth of unknown magnitude.
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
    """Return one of three words: whether `left` is `less` than, `equal` to or `more` than `right`.

    Args:
        within: numbers that are at most so far apart count as equal.
    """
    if abs(left - right) <= within:
        return equal
    return less if left < right else more


class Questions(dict[str, Question]):
    """Hold the questions of one chapter by name. The notebook imports its `reveal`, and figures its `mark`."""

    def __init__(self, **questions: Question) -> None:
        super().__init__(questions)
        self._guesses: dict[str, Any] = {}  # the last guess at each question, for cells that are run again
        self._judged: dict[str, Judgment] = {}  # the last judgment of each question, for figures

    @classmethod
    def beside(cls, lesson: str) -> "Questions":
        """Return the questions of `questions.toml` next to a lesson: a table for each, with the fields of `Question`.

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

        A guess of "?" asks for the answer. Whatever the guess is, no error is raised. After the call the variable
        `guess` of the notebook is `...` again, so that the next question begins without a guess. If the cell is run
        again, the guess at this question is remembered.

        Args:
            name: of the question.
            truth: computed by the notebook: a number, a bool, or one of the choices.
            values: further values that the notebook computed, for the reason.

        Raises:
            ValueError: if there is no such question; if the truth is missing, is in `questions.toml` already, or is not
                among the choices; or if the reason needs a value that is not in `values`.
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
        replies = []  # to the choice that is wrong
        if judged.state == "wrong":
            chosen = [reply for choice, reply in question.choices.items() if same_word(choice, judged.guess)]
            replies = [reply for reply in chosen if reply]
        answer = f"<p><b>{escaped(judged.answer)}.</b> {escaped(reason)}</p>"
        asks_for_answer = isinstance(guess, str) and "?" in guess
        is_judged = judged.state in ("right", "near", "wrong")
        if is_judged or (judged.state == "none" and asks_for_answer):
            verdict = "" if asks_for_answer else " ".join([judged.message, *replies])
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
        """Draw the guess at a question, if it is a number, as a line into the figure that answers it.

        Args:
            name: of the question.
            axis: on which guesses are positions.
            at: returns the position on this axis of a guess.
        """
        judged = self._judged.get(name)
        if judged is None or not isinstance(judged.guess, (int, float)):
            return
        limits = ax.get_xlim() if axis == "x" else ax.get_ylim()
        position = min(max(at(judged.guess), min(limits)), max(limits))  # at the edge if it is outside
        line_look = {"color": INK, "linestyle": (0, (2, 3)), "linewidth": 1.5}
        if axis == "x":
            ax.axvline(position, **line_look)
            place, coordinates = (position, 1), ax.get_xaxis_transform()  # at the upper end of the line
        else:
            ax.axhline(position, **line_look)
            place, coordinates = (1, position), ax.get_yaxis_transform()  # at the right end of the line

        # the words stand left of their place, unless that is near the left edge, where there is no room
        to_the_right = axis == "x" and position < limits[0] + (limits[1] - limits[0]) / 4
        offset = {"xytext": (4 if to_the_right else -4, -4), "textcoords": "offset points"}
        offset["ha"] = "left" if to_the_right else "right"
        background = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # the words may stand on a bar
        words = ax.annotate("your guess", place, **offset, va="top", color=INK, xycoords=coordinates, bbox=background)
        other_boxes = [text.get_window_extent() for text in ax.texts if text is not words]
        if axis == "y" and any(words.get_window_extent().overlaps(box) for box in other_boxes):
            words.xy = (0, position)  # to the left end: labels of lines are at the right one
            words.set(ha="left", position=(4, -4))


def _truth_of(name: str, question: Question, from_call: Any) -> Any:
    """Return the truth of a question from the call of `reveal`, or from `questions.toml` if the call has none.

    Raises:
        ValueError: if both have one or none has, or if it is not among the choices.
    """
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
    """Return the reason of a question's answer, filled with the values that the notebook computed.

    Raises:
        ValueError: if a value is missing.
    """
    try:
        return question.why.format(**values)
    except KeyError as missing:
        lacks = missing.args[0]
        raise ValueError(f"{name}: its reason needs the value {lacks}, which reveal was not given.") from None
