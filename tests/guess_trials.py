"""One run of a notebook tries four guesses at every question, with the memory on.

A guess goes nowhere but into `reveal` (tests/workbook/test_notebooks.py), so it is tried there, in the
notebook's own kernel: each question is reached once, with what the cells before it computed.
"""

import json
import os
import re
from pathlib import Path

import nbformat
import numpy as np

from packlib.workbook.results import meaning

_SAID = {  # by guess; what comes first is tried first
    "the answer as it is shown": r"exactly right|right to the digits|and that is right",
    "the truth in NumPy's type": r"exactly right|and that is right",
    "a wrong one": r"(above|below) the answer|and that is wrong",
    "a word": r"is not a number|and that is wrong|neither yes nor no|has no numbers|is not among the choices",
    "none": "No guess yet",
}


def guesses_at(truth, unit, choices=()):
    """A guess for each line of `_SAID` but the last."""
    from packlib.workbook.guesses import judge_guess

    told = judge_guess(..., truth, unit)
    opposite = {"yes": "no", "no": True}
    other = next((choice for choice in choices if choice != told.truth), "5 + 5")
    wrong = opposite.get(told.truth, other) if isinstance(told.truth, str) else 2 * abs(told.truth) + 10
    return told.answer, np.array(told.truth)[()], wrong, "plenty"


def prepare(notebook, folder, monkeypatch):
    """Let the next kernel try the guesses and remember those at the notebook in `folder`, a file for each guess."""
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    code = f"sys.path.insert(0, {str(Path(__file__).parent)!r}); import guess_trials; sys.path.pop(0)"
    code += f"; guess_trials._install({str(notebook)!r}, {str(folder)!r})"
    (startup / "00_guesses.py").write_text(f"import sys; {code}\n")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))


def _install(notebook, folder):
    """In the kernel: what comes from the notebook's own guess, `...`, comes last."""
    from packlib.workbook import memory, questions

    ask = questions.Questions.reveal

    def ask_each(asked, name, guess, **values):
        question = asked[name]
        truth = question.truth(**values) if callable(question.truth) else question.truth
        tried_ones = (*guesses_at(truth, question.unit, question.choices), guess)
        for kind, tried in zip(_SAID, tried_ones, strict=True):
            os.environ["XDG_DATA_HOME"] = str(_memory(folder, kind))
            ask(asked, name, tried, **values)

    questions.Questions.reveal = ask_each
    for name in (memory.SWITCH, "CI"):
        os.environ.pop(name, None)
    os.environ["JPY_SESSION_NAME"] = notebook


def _memory(folder, kind):
    return Path(folder) / kind.replace(" ", "-")


def faults(executed, folder):
    """What is wrong with the answers to the guesses, and with what is remembered."""
    cells = [
        cell for cell in nbformat.read(executed, as_version=4).cells if re.search(r"^reveal\(", cell.source, re.M)
    ]
    assert cells
    for cell in cells:
        texts = [o.data["text/plain"] for o in cell.outputs if meaning(o).get("kind") == "reveal"]
        if len(texts) != len(_SAID):
            yield f"{len(texts)} answers to {len(_SAID)} guesses: {cell.source}"
        for (kind, said), text in zip(_SAID.items(), texts, strict=False):
            if not re.search(said, text):
                yield f"{kind} is told {text}"
        yield from (o.text for o in cell.outputs if o.get("name") == "stderr" and "cannot be kept" in o.text)
    for kind, right in zip(_SAID, (True, True, False), strict=False):
        kept = json.loads((_memory(folder, kind) / "packlib" / "learner.json").read_text())["guesses"]
        if len(kept) != len(cells) or {entry["right"] for entry in kept.values()} != {right}:
            yield f"{len(kept)} of {len(cells)} guesses are remembered, right should be {right}: {kept}"
        yield from (f"no question, but {e['question']}" for e in kept.values() if not e["question"].endswith("?"))
