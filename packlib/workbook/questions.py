"""Questions to guess: the notebook asks, and `reveal` answers: openly once there is a guess, folded before.

Truth and reason stand in the chapter, so that nobody reads them in a cell before the guess.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from matplotlib.axes import Axes

from packlib.checks import one_of
from packlib.markup import escaped
from packlib.workbook.figures import INK
from packlib.workbook.guesses import Judgment, judge_guess, same_word
from packlib.workbook.results import display_as


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        words: the question as it stands in bold in the notebook.
        truth: what `judge_guess` compares with, or a function of the values that the notebook gives to `reveal`.
        why: one or two sentences: the reason, not the number again; or a function of the same values.
        unit: as for `judge_guess`.
        choices: the words to choose from, each with what to say to somebody who chose it and is wrong.
        limits: no answer lies outside; by default 0 and 100 in percent, and else 0 and infinity.
        by_factor: whether a guess that is off by a factor of two is close, as for a truth of unknown magnitude.
    """

    words: str
    truth: Any
    why: Any
    unit: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[float, float] | None = None
    by_factor: bool = False

    def judge(self, guess: Any, truth: Any) -> Judgment:
        """What `judge_guess` says to a guess."""
        limits = self.limits or (0, 100 if self.unit == "%" else math.inf)
        return judge_guess(guess, truth, self.unit, tuple(self.choices), limits=limits, by_factor=self.by_factor)


class Questions(dict[str, Question]):
    """The questions of one chapter, by name. Its `reveal` is what the notebook imports."""

    def __init__(self, **questions: Question) -> None:
        super().__init__(questions)
        self._guesses: dict[str, Any] = {}  # of this kernel, so that an answer that is run again stays
        self._judged: dict[str, Judgment] = {}

    def reveal(self, name: str, guess: Any, **values: Any) -> None:
        """Show how near a guess is, the answer, and why; without a guess the answer is folded.

        A guess of "?" asks for the answer. No guess makes it raise. A guess holds for its own question, also when the
        answer is run again, and is none at the next question.

        Args:
            values: what the notebook computed, for the functions of the question.
        """
        from IPython import get_ipython

        question = self[one_of("question", name, self)]
        shell = get_ipython()
        if shell is not None and shell.user_ns.get("guess") is guess:
            shell.user_ns["guess"] = ...
        guess = self._guesses.get(name, ...) if guess is ... else guess
        truth, why = (part(**values) if callable(part) else part for part in (question.truth, question.why))
        judged = question.judge(guess, truth)
        self._guesses[name], self._judged[name] = guess, judged
        wrong = question.choices if judged.state == "wrong" else {}
        reason = " ".join([*(reply for choice, reply in wrong.items() if same_word(choice, judged.guess)), why])
        answer = f"<p><b>{escaped(judged.answer)}.</b> {escaped(reason)}</p>"
        asks = isinstance(guess, str) and "?" in guess
        if judged.state in ("right", "near", "wrong") or (judged.state == "none" and asks):
            verdict = "" if asks else judged.message
            page = f"<p>{escaped(verdict)}</p>{answer}" if verdict else answer
            plain = f"{verdict} {judged.answer}. {reason}".strip()
        else:
            page = f"<p>{escaped(judged.message)}</p><details><summary>Show the answer</summary>{answer}</details>"
            plain = f"{question.words} {judged.message}"
        fields = {"question": question.words, "answer": judged.answer, "why": why}
        display_as("reveal", {"text/html": page, "text/plain": plain}, **fields)

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
        seen = min(max(at(judged.guess), min(limits)), max(limits))  # at the edge if it is outside
        draw, place = (ax.axvline, (seen, 1)) if axis == "x" else (ax.axhline, (1, seen))
        draw(seen, color=INK, linestyle=(0, (2, 3)), linewidth=1.5)
        beside = {"xycoords": ax.get_xaxis_transform() if axis == "x" else ax.get_yaxis_transform()}
        ax.annotate(
            "your guess", place, xytext=(-4, -4), textcoords="offset points", ha="right", va="top", color=INK, **beside
        )
