"""Questions to guess: the notebook asks, and `reveal` answers once there is a guess.

Truth and reason stand in the chapter and not in the notebook. Without a guess the output holds them folded (base64):
nobody reads them by accident, a comparison of outputs still sees whether they changed, and slides unfold them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packlib.checks import one_of
from packlib.markup import escaped
from packlib.workbook.guesses import judge_guess, same_word
from packlib.workbook.results import display_as, fold

_UNGUESSED = "No guess yet. Replace the dots above with your guess and run both cells; guess = '?' shows the answer."


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

        A guess of "?" is no guess, and asks for the answer. No guess makes it raise. A guess is none at the
        next question.

        Args:
            values: what the notebook computed, for the functions of the question.
        """
        from IPython import get_ipython

        question = self[one_of("question", name, self)]
        truth, why = (part(**values) if callable(part) else part for part in (question.truth, question.why))
        judged = judge_guess(guess, truth, question.unit, tuple(question.choices))
        if judged.state == "wrong":
            replies = [reply for choice, reply in question.choices.items() if same_word(choice, judged.guess)]
            why = " ".join([*replies, why])
        folded = fold(judged.answer, why)
        if judged.state == "unclear":
            page, plain = f"<p>{escaped(judged.message)}</p>", judged.message
        elif judged.state == "none" and not (isinstance(guess, str) and "?" in guess):
            page, plain = f"<p>{_UNGUESSED}</p>", f"{question.words} {_UNGUESSED}\n{folded}"
        else:
            told, answer = f"{judged.message} {why}", f"<b>{escaped(judged.answer)}.</b>"
            page = f"<details><summary>Reveal the answer</summary><p>{answer} {escaped(told)}</p></details>"
            plain = f"{judged.answer}. {told}"
        display_as("reveal", {"text/html": page, "text/plain": plain}, question=question.words, folded=folded)
        shell = get_ipython()
        if shell is not None and shell.user_ns.get("guess") is guess:
            shell.user_ns["guess"] = ...
