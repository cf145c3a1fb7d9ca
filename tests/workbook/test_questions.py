"""A question folds its answer until there is a guess, then shows it; each wrong choice gets its own reply."""

from types import SimpleNamespace

import numpy as np
import pytest

from packbook.figures import label_ends, new_figure, styled
from packbook.guesses import NO_GUESS
from packbook.questions import Question, Questions, compare


@pytest.fixture
def questions():
    return Questions(
        share=Question(why="{packs} <packs>.", unit="%"),
        rule=Question(
            truth="least",
            why="It fills up.",
            choices={"most": "It spreads.", "least": "", "none": "No."},
        ),
    )


def test_without_a_guess_the_answer_is_folded(questions, displayed):
    questions.reveal("share", ..., 25, packs=4)
    (bundle,) = displayed
    page, _, folded = bundle["text/html"].partition("<details><summary>Show the answer</summary>")
    assert page.startswith("<p>No guess yet.") and "25 %" not in page + bundle["text/plain"]
    assert folded == "<p><b>25 %.</b> 4 &lt;packs&gt;.</p></details>"
    meant = bundle["packlib"]
    judging = meant.pop("judging")
    assert meant == {"kind": "reveal", "answer": "25 %", "why": "4 <packs>."}
    assert judging == {"truth": 25.0, "unit": "%", "choices": {}, "limits": [0, 100], "by_factor": False}


def test_with_a_guess_verdict_and_reason_stand_open(questions, displayed):
    questions.reveal("share", 30, 25, packs=4)
    said = "5 points above the answer."
    page = f"<p>{said}</p><p><b>25 %.</b> 4 &lt;packs&gt;.</p>"
    assert displayed[0]["text/html"] == page and displayed[0]["text/plain"] == f"{said} 25 %. 4 <packs>."


def test_a_second_run_keeps_the_guess(questions, displayed):
    for guess in (30, ..., ..., 20, ...):
        questions.reveal("share", guess, 25, packs=4)
    said = [bundle["text/plain"].partition(" the")[0] for bundle in displayed]
    assert said == ["5 points above"] * 3 + ["5 points below"] * 2
    questions.reveal("rule", ...)
    assert "No guess yet" in displayed[-1]["text/plain"]


def test_an_unclear_guess_is_asked_back_and_the_answer_stays_folded(questions, displayed):
    questions.reveal("share", 0.3, 25, packs=4)
    (share,) = displayed
    assert share["text/html"].startswith("<p>Do you mean 30 %?") and "<details><summary>" in share["text/html"]
    assert "25" not in share["text/html"].partition("<details>")[0] + share["text/plain"]


@styled()
def test_a_guess_is_drawn_into_the_figure_that_answers_it(questions, displayed):
    _, (left, right) = new_figure(1, 2)
    left.set_xlim(0, 1)
    questions.mark(left, "share")
    questions.reveal("rule", "most")
    questions.mark(left, "rule")
    assert not left.lines and not left.texts, "no guess, and a word that no axis has"
    questions.reveal("share", 30, 25, packs=4)
    questions.mark(left, "share", at=lambda percent: percent / 100)
    questions.mark(right, "share", "y")
    assert left.lines[0].get_xdata() == [0.3, 0.3] and left.texts[0].get_text() == "your guess"
    assert right.get_ylim()[0] <= right.lines[0].get_ydata()[0] <= right.get_ylim()[1], "inside the picture"


@styled()
def test_the_words_of_a_guess_cover_no_label_at_the_end_of_a_line(questions, displayed):
    """In notebook 16 they hid the 4 of "4 answers"."""
    for guess in (30, 31.5, 60):
        _, ax = new_figure()
        (line,) = ax.plot([0, 1], [0, 30])
        ax.set(ylim=(0, 100))
        label_ends({line: "4 answers"})
        questions.reveal("share", guess, 25, packs=4)
        questions.mark(ax, "share", "y")
        label, words = ax.texts
        assert words.get_text() == "your guess" and not words.get_window_extent().overlaps(label.get_window_extent())
        assert (words.get_ha() == "right") is (guess == 60), "at the right where there is room"


@pytest.mark.parametrize(
    ("guess", "says"),
    [
        ("Most.", "That is wrong. It spreads. least. It fills up."),
        ("the least", "That is right. least. It fills up."),
        ("longest", "That is not among the choices: most, least, none."),
    ],
)
def test_each_wrong_choice_gets_its_reply(questions, displayed, guess, says):
    questions.reveal("rule", guess)
    assert displayed[0]["text/plain"] == says
    assert ("fills" in displayed[0]["text/html"].partition("<details>")[0]) is (guess != "longest")
    if guess == "Most.":  # "It" is what was guessed, so the reply comes before the answer, as on the site
        page = "<p>That is wrong. It spreads.</p><p><b>least.</b> It fills up.</p>"
        assert displayed[0]["text/html"] == page


def test_a_guess_is_none_at_the_next_question(questions, displayed, monkeypatch):
    shell = SimpleNamespace(user_ns={"guess": "most"})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    questions.reveal("rule", shell.user_ns["guess"])
    assert shell.user_ns["guess"] is ...


def test_questions_stand_in_a_file_beside_the_lesson(tmp_path, displayed):
    lesson = str(tmp_path / "lesson.py")
    first = '[share]\nunit = "%"\nwhy = "{packs:,} packs and {best.real}."\n'
    second = '[rule]\ntruth = "a"\nwhy = "Since."\nchoices.a = ""\nchoices.b = "No."\n'
    (tmp_path / "questions.toml").write_text(first + second)
    found = Questions.beside(lesson)
    found.reveal("share", "?", 1e5 / 4000, packs=4000, best=3)
    found.reveal("rule", "b")
    said = ["25 %. 4,000 packs and 3.", "That is wrong. No. a. Since."]
    assert list(found) == ["share", "rule"] and [bundle["text/plain"] for bundle in displayed] == said
    (tmp_path / "questions.toml").write_text(first + "limit = 3\n")
    with pytest.raises(
        ValueError, match=r"^a field of share in questions\.toml .* not 'limit': did you mean 'limits'"
    ):
        Questions.beside(lesson)
    (tmp_path / "questions.toml").write_text('[share]\nunit = "%"\n')
    with pytest.raises(ValueError, match=r"^A reason, why, is missing in questions\.toml: of share\.$"):
        Questions.beside(lesson)


@pytest.fixture
def told(tmp_path):
    """Three questions of a chapter: the notebook computes the truths of two, and no data can change the third's."""
    (tmp_path / "questions.toml").write_text(
        '[share]\nunit = "%"\nwhy = "{packs:,} packs."\n'
        '[rule]\nwhy = "Since."\nchoices.most = "It spreads."\nchoices.least = ""\n'
        '[spoiled]\ntruth = "mix"\nwhy = "No pack is changed."\nchoices.cap = "It holds."\nchoices.mix = ""\n'
    )
    return Questions.beside(str(tmp_path / "lesson.py"))


def test_a_truth_is_a_value_at_the_call(told, displayed):
    told.reveal("share", ..., 25, packs=4000)
    told.reveal("share", "20 %", np.float64(25), packs=4000)
    told.reveal("rule", "most", compare(2, 1, "least", "least", "most"))
    told.reveal("rule", "most", compare(1, 2, "least", "least", "most"))
    told.reveal("spoiled", "cap")
    said = [bundle["text/plain"] for bundle in displayed]
    assert said[0] == NO_GUESS, "the words stand above, and the answer is folded"
    assert said[1] == "5 points below the answer. 25 %. 4,000 packs."
    assert said[2:] == [
        "That is right. most. Since.",
        "That is wrong. It spreads. least. Since.",
        "That is wrong. It holds. mix. No pack is changed.",
    ]
    assert "question" not in displayed[0]["packlib"] and displayed[0]["packlib"]["judging"]["truth"] == 25


def test_a_truth_that_is_missing_or_there_twice_is_named(told, displayed):
    with pytest.raises(ValueError, match=r"^share has no truth: give it as the third argument of reveal\.$"):
        told.reveal("share", 3, packs=4)
    with pytest.raises(ValueError, match=r"^spoiled has its truth in questions\.toml, so reveal takes none\.$"):
        told.reveal("spoiled", "cap", "mix")
    with pytest.raises(ValueError, match=r"^rule must have one of its choices as truth, not 'any': .*'least'"):
        told.reveal("rule", "most", "any")
    assert not displayed


def test_a_reason_names_the_value_that_it_lacks(told, displayed):
    with pytest.raises(ValueError, match=r"^share: its reason needs the value packs, which reveal was not given\.$"):
        told.reveal("share", 3, 25)


def test_a_guess_brings_no_markup_into_the_page(displayed):
    asked = Questions(asked=Question(truth="sorted", why="Because."))
    for guess in ("<img src=x onerror=alert(1)>", "\x1b[31m\ud800\0"):
        asked.reveal("asked", guess)
    for bundle in displayed:
        assert "img" not in bundle["text/html"] and bundle["text/html"].isprintable()


def test_an_unknown_question_is_refused(questions, displayed):
    with pytest.raises(ValueError, match="question must be 'share' or 'rule', not 'rules': did you mean 'rule'"):
        questions.reveal("rules", 1)


@pytest.mark.parametrize("unit", ["percent", "Percent", "%age", "per cent", "pct", "percentage", " %", "% of slots"])
def test_percent_in_other_words_is_refused(unit):
    with pytest.raises(ValueError, match=r'unit must be "%" for a truth in percent') as refused:
        Question(why="It is half.", unit=unit)
    assert repr(unit) in str(refused.value)


@pytest.mark.parametrize("unit", [5, None, True, ["%"]])
def test_a_unit_that_is_no_text_is_refused(unit):
    with pytest.raises(TypeError, match="unit must be text") as refused:
        Question(why="It is half.", unit=unit)
    assert repr(unit) in str(refused.value)


@pytest.mark.parametrize("unit", ["", "%", "times", "packs", "sequences in a pack", "points"])
def test_other_units_are_taken(unit):
    assert Question(why="It is half.", unit=unit).unit == unit
