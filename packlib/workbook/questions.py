"""Questions to guess: the notebook asks, and `reveal` answers once there is a guess.

Truth and reason stand in the chapter and not in the notebook. Without a guess the output holds them folded (base64):
nobody reads them by accident, a comparison of outputs still sees whether they changed, and slides unfold them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packlib.checks import one_of
from packlib.markup import escaped
from packlib.workbook.guesses import Judgment, judge_guess, same_word
from packlib.workbook.memory import note_guess
from packlib.workbook.results import display_as, fold

_NO_GUESS_YET = (
    "No guess yet. Replace the dots above with your guess and run both cells; guess = '?' shows the answer."
)


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        words: the question as it stands in bold in the notebook.
        truth: what `judge_guess` compares with, or a function of the values that the notebook gives to `reveal`.
        why: one or two sentences: the reason, not the number again; or a function of the same values.
        unit: as for `judge_guess`.
        choices: the words to choose from, each with what to say to somebody who chose it and is wrong.
    """

    words: str
    truth: Any
    why: Any
    unit: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)


class Questions(dict[str, Question]):
    """The questions of one chapter, by name. Its `reveal` is what the notebook imports."""

    def reveal(self, name: str, guess: Any, **values: Any) -> None:
        """Show what is to say to a guess, and the answer behind a click; without a guess, or if it is unclear, neither.

        A guess of "?" is no guess, and asks for the answer. No guess makes it raise.

        Args:
            values: what the notebook computed, for the functions of the question.
        """
        question = self[one_of("question", name, self)]
        truth, why = (part(**values) if callable(part) else part for part in (question.truth, question.why))
        judged = judge_guess(guess, truth, question.unit, tuple(question.choices))
        if judged.state == "wrong":
            replies = [reply for choice, reply in question.choices.items() if same_word(choice, judged.guess)]
            why = " ".join([*replies, why])
        if judged.state == "none" and not (isinstance(guess, str) and "?" in guess):
            page, plain = f"<p>{_NO_GUESS_YET}</p>", f"{question.words} {_NO_GUESS_YET}\n{fold(judged.answer, why)}"
        elif judged.state == "unclear":
            page, plain = f"<p>{escaped(judged.message)}</p>", judged.message
        else:
            page, plain = answer_page(judged.answer, judged.message, why), f"{judged.answer}. {judged.message} {why}"
        show_answer(judged, why, guess, page, plain, question=question.words)
        note_guess(judged, question.unit, why, question.words, name)


def answer_page(answer: str, message: str, why: str) -> str:
    """The answer as HTML, closed until it is clicked."""
    page = f"<details><summary>Reveal the answer</summary><p><b>{escaped(answer)}.</b> "
    return f"{page}{escaped(f'{message} {why}'.strip())}</p></details>"


def show_answer(judged: Judgment, why: str, guess: Any, page: str, plain: str, **fields: str) -> None:
    """Display what was said to a guess, which is no guess at the next question."""
    from IPython import get_ipython

    data = {"text/html": page, "text/plain": plain}
    display_as("reveal", data, **fields, folded=fold(judged.answer, why))
    shell = get_ipython()
    if shell is not None and shell.user_ns.get("guess") is guess:
        shell.user_ns["guess"] = ...
