"""One run of a notebook tries four guesses at every question.

A guess goes nowhere but into `reveal` (tests/workbook/test_notebooks.py), so it is tried there: each question is
reached once, with what the cells before it computed.
"""

import re

import numpy as np

from packlib.workbook.guesses import judge_guess
from packlib.workbook.results import meaning

_SAID = {  # by guess; what comes first is tried first
    "the answer as it is shown": r"Exactly right|Right to the digits|That is right",
    "the truth in NumPy's type": r"Exactly right|That is right",
    "a wrong one": r"(above|below) the answer|too (large|small)|Impossible|That is wrong",
    "a word": r"is not a number|That is wrong|neither yes nor no|has no numbers|is not among the choices",
    "none": "No guess yet",
}


def guesses_at(truth, unit, choices=()):
    """A guess for each line of `_SAID` but the last."""
    told = judge_guess(..., truth, unit)
    opposite = {"yes": "no", "no": True}
    other = next((choice for choice in choices if choice != told.truth), "5 + 5")
    wrong = opposite.get(told.truth, other) if isinstance(told.truth, str) else 2 * abs(told.truth) + 10
    return told.answer, np.array(told.truth)[()], wrong, "plenty"


def install(lesson, monkeypatch):
    """Have each question of a lesson tried; what comes from the notebook's own guess, `...`, comes last."""
    asked = lesson.QUESTIONS

    def ask_each(name, guess, **values):
        question = asked[name]
        truth = question.truth(**values) if callable(question.truth) else question.truth
        for tried in (*guesses_at(truth, question.unit, question.choices), guess):
            asked._guesses.pop(name, None)  # else no guess would be the one before
            asked.reveal(name, tried, **values)

    monkeypatch.setattr(lesson, "reveal", ask_each)


def faults(executed):
    """What is wrong with the answers to the guesses."""
    cells = [cell for cell in executed.cells if re.search(r"^reveal\(", cell.source, re.M)]
    assert cells
    for cell in cells:
        texts = [o.data["text/plain"] for o in cell.outputs if meaning(o).get("kind") == "reveal"]
        if len(texts) != len(_SAID):
            yield f"{len(texts)} answers to {len(_SAID)} guesses: {cell.source}"
        for (kind, said), text in zip(_SAID.items(), texts, strict=False):
            if not re.search(said, text):
                yield f"{kind} is told {text}"
