"""A question keeps its answer to itself until there is a guess; each wrong choice gets its own reply."""

import json
from types import SimpleNamespace

import pytest

from packlib.workbook.questions import Question, Questions
from packlib.workbook.results import unfold

QUESTIONS = Questions(
    share=Question("How full, in percent?", lambda packs: 100 / packs, lambda packs: f"{packs} <packs>.", "%"),
    rule=Question(
        "Which: most, least or none?",
        "least",
        "It fills packs up.",
        choices={"most": "It spreads.", "least": "", "none": "They differ."},
    ),
)


@pytest.fixture
def displayed(monkeypatch):
    """What a notebook would be sent: data and metadata."""
    shown = []
    monkeypatch.setattr(
        "IPython.display.display", lambda bundle, raw, metadata: shown.append((bundle, metadata["packlib"]))
    )
    return shown


def test_without_a_guess_the_answer_is_folded(displayed):
    QUESTIONS.reveal("share", ..., packs=4)
    ((bundle, told),) = displayed
    seen = json.dumps([bundle, told])
    assert "25 %" not in seen and "packs" not in seen and "<details" not in seen
    assert "guess = '?'" in bundle["text/html"]
    assert (told["kind"], told["question"]) == ("reveal", "How full, in percent?")
    assert unfold(told["folded"]) == ("25 %", "4 <packs>.")
    QUESTIONS.reveal("share", ..., packs=5)
    assert displayed[1][0]["text/plain"] != bundle["text/plain"], "a comparison of outputs sees another answer"


def test_with_a_guess_the_answer_is_behind_a_click(displayed):
    QUESTIONS.reveal("share", 30, packs=4)
    said = "You guessed 30 %: 5 points above the answer. 4"
    page = f"<details><summary>Reveal the answer</summary><p><b>25 %.</b> {said} &lt;packs&gt;.</p></details>"
    assert displayed[0][0] == {"text/html": page, "text/plain": f"25 %. {said} <packs>."}


def test_an_unclear_guess_is_asked_back_and_nothing_is_shown(displayed):
    for name, guess in {"share": 0.3, "rule": "longest"}.items():
        QUESTIONS.reveal(name, guess, **({"packs": 4} if name == "share" else {}))
    (share, _), (rule, _) = displayed
    assert share["text/html"].startswith("<p>Do you mean 30 %?") and "25" not in str(share)
    assert rule["text/plain"] == "'longest' is not among the choices: most, least, none."
    assert "fills" not in rule["text/html"]


def test_who_gives_up_sees_the_answer(displayed):
    QUESTIONS.reveal("rule", "?")
    assert displayed[0][0]["text/html"].startswith("<details><summary>") and "<b>least.</b>" in str(displayed)


@pytest.mark.parametrize(
    ("guess", "says"),
    [
        ("Most.", "You guessed Most., and that is wrong. It spreads. It fills packs up."),
        ("none", "You guessed none, and that is wrong. They differ. It fills packs up."),
        ("the least", "You guessed the least, and that is right. It fills packs up."),
    ],
)
def test_each_wrong_choice_gets_its_reply(displayed, guess, says):
    QUESTIONS.reveal("rule", guess)
    assert displayed[0][0]["text/plain"] == f"least. {says}"


def test_a_guess_is_none_at_the_next_question(displayed, monkeypatch):
    shell = SimpleNamespace(user_ns={"guess": "most"})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    QUESTIONS.reveal("rule", shell.user_ns["guess"])
    assert shell.user_ns["guess"] is ...


def test_an_unknown_question_is_refused(displayed):
    with pytest.raises(ValueError, match="question must be 'share' or 'rule', not 'rules': did you mean 'rule'"):
        QUESTIONS.reveal("rules", 1)
