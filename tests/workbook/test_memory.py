"""What a learner guessed is kept once, only here, only for people, and forgotten on demand."""

import json
import os
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlib.workbook import cli, exercises, memory
from packlib.workbook.guesses import Judgment
from packlib.workbook.questions import Question, Questions

CHECKS = exercises.Exercises([exercises.Exercise("half", 0.5), exercises.Exercise("third", 1 / 3)])
WORDS = "How much is it, in percent?"


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """The file, in a folder of its own; the test runs where nothing else speaks of a notebook."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in (memory.SWITCH, "CI", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "IPython.display.display", lambda bundle, raw, metadata=None: shown.append(bundle["text/plain"])
    )
    shown.clear()
    return tmp_path / "packlib" / "learner.json"


shown: list[str] = []


class Shell:
    def __init__(self, **names):
        self.user_ns = names


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """As in the kernel of an open notebook."""
    path = tmp_path / "90_small.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.setattr("IPython.get_ipython", Shell)
    return path


def guess(value, truth=50.0, unit="%", name="share", words=WORDS):
    Questions({name: Question(words, truth, "Because.", unit)}).reveal(name, value)


def test_a_guess_is_kept_with_its_question_and_how_far_off_it_was(at_work, data):
    guess(30)
    assert json.loads(data.read_text())["guesses"] == {
        "90_small: share": {
            "question": "How much is it, in percent?", "guess": 30.0, "truth": 50.0, "unit": "%", "right": False,
        }
    }  # fmt: skip
    guess(50)
    assert memory.recall()["guesses"]["90_small: share"]["guess"] == 30, "the first counts"


@pytest.mark.parametrize("value", [..., None, [1], "a lot", 0.5, float("nan"), 10**400])
def test_what_is_no_guess_is_not_kept(at_work, data, value):
    guess(value)
    assert shown and not data.exists()


def test_exercises_are_counted_until_they_are_right(at_work, data, capsys):
    for answer in (..., 1, 2, 0.5, 3):
        CHECKS("half", answer)
    CHECKS("third", 1)
    assert memory.recall()["exercises"] == {
        "90_small: half": {"right": True, "tries": 3}, "90_small: third": {"right": False, "tries": 1},
    }  # fmt: skip


def test_the_biggest_errors_are_told_first(at_work, data, capsys):
    guess(49, name="near", words="Near.")
    guess(25, name="half", words="Half of it.")
    guess("Sorted", "random", "", "word", "A word.")
    guess(1, 1000.0, "packs", "far", "Far.")
    CHECKS("half", 0.5)
    memory.surprises(2)
    assert shown[-1].splitlines() == [
        "You made 4 guesses; 1 was right or very close.",
        "90_small: A word. You guessed Sorted; it is random.",
        "90_small: Far. You guessed 1 pack; it is 1,000 packs.",
        "You tried 1 exercise and solved 1. Most tries: 90_small: half, 1.",
        f"All this is in {data} and nowhere else; packlib forget deletes it.",
    ]
    memory.surprises(9)
    assert "Half of it. You guessed 25 %; it is 50 %." in shown[-1] and "Near." not in shown[-1]


@pytest.mark.parametrize(
    "change",
    [
        {memory.SWITCH: "off"}, {memory.SWITCH: "OFF"}, {"CI": "true"}, {"JPY_SESSION_NAME": ""},
        {"JPY_SESSION_NAME": "/x/notebooks/solutions/01_a.ipynb"}, {"JPY_SESSION_NAME": "/x/console-1"},
    ],
)  # fmt: skip
def test_nothing_is_kept_or_told_where_nobody_works_on_a_notebook(at_work, data, monkeypatch, capsys, change):
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    guess(30)
    CHECKS("half", 1)
    memory.surprises()
    assert not data.exists() and shown[-1].startswith("Nothing to tell yet")


def test_a_run_by_machine_says_the_same_whatever_is_remembered(at_work, data, monkeypatch):
    memory.surprises()
    guess(30)
    monkeypatch.delenv("JPY_SESSION_NAME")
    memory.surprises()
    assert shown[0] == shown[-1] and data.exists()


def test_vs_code_names_its_notebook_too(at_work, data, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME")
    monkeypatch.setattr("IPython.get_ipython", lambda: Shell(__vsc_ipynb_file__=str(at_work)))
    guess(30)
    assert list(memory.recall()["guesses"]) == ["90_small: share"]


def kept():
    """What is remembered about the one question."""
    (entry,) = memory.recall()["guesses"].values()
    return entry["question"], entry["guess"]


def test_a_guess_of_version_0_1_is_the_same_guess(at_work, data):
    question = WORDS
    entry = {
        "question": question, "guess": 20.0, "truth": 50.0, "unit": "%", "error": 30.0, "right": False,
    }  # fmt: skip
    data.parent.mkdir()
    data.write_text(json.dumps({"guesses": {f"90_small: {question}": entry}, "exercises": {}}))
    guess(30)
    assert kept() == (question, 20)


def test_a_question_is_known_by_its_name_or_its_words(at_work, monkeypatch):
    """Neither another name nor other words, nor the copy of a changed chapter, make it another question."""
    for name, words in (("share", "How much?"), ("share", "How many?"), ("part", "How many?")):
        Questions({name: Question(words, 50.0, "Because.", "%")}).reveal(name, 30)
        monkeypatch.setenv("JPY_SESSION_NAME", str(at_work.with_name("90_small (new).ipynb")))
    assert list(memory.recall()["guesses"]) == ["90_small: share"] and kept() == ("How many?", 30)


def test_two_questions_of_one_notebook_are_two(at_work):
    guess(30)
    guess(30, name="then", words="And now?")
    assert [entry["question"] for entry in memory.recall()["guesses"].values()] == [WORDS, "And now?"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["", "a", "right", "tries"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["guesses", "exercises", "a", *memory._FIELDS["guesses"], "tries"]), inner),
    max_leaves=12,
)  # fmt: skip


@given(JSON.map(json.dumps) | st.text() | st.binary())
def test_a_damaged_file_never_stops_the_lesson(content):
    path = memory.memory_path()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    assert set(memory.recall()) == {"guesses", "exercises"}
    assert isinstance(memory.tell(), list)


ENTRY = '{"guesses": {"a: b": {"question": "b", "guess": %s, "truth": 1, "unit": "", "right": false}}}'


@pytest.mark.parametrize(
    "content", [ENTRY % n for n in ("1" + "0" * 400, "1" * 5000, "NaN", "1e999")] + ["[" * 100_000]
)
def test_numbers_that_cannot_be_compared_count_as_forgotten(data, content):
    data.parent.mkdir()
    data.write_text(content)
    assert not memory.recall()["guesses"] and memory.tell() == []
    data.write_text(ENTRY % "1e308")
    assert len(memory.tell()) == 3


def test_after_damage_it_goes_on_from_nothing(at_work, data):
    data.parent.mkdir()
    data.write_text('{"guesses": {"cut of')
    guess(30)
    assert len(json.loads(data.read_text())["guesses"]) == 1


def test_a_disk_that_cannot_be_written_gets_a_warning(at_work, data):
    data.parent.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match=f"This cannot be kept .*; {memory.SWITCH}=off stops the attempt"):
        guess(30)
        CHECKS("half", 1)
    assert shown


@pytest.mark.parametrize(
    "value", [np.float32(3), np.bool_(True), np.int64(3), True, 3, Fraction(1, 2), "4 + 3", "naïve"]
)
def test_it_keeps_what_reveal_reads_whatever_its_type(at_work, data, value):
    """A truth of NumPy's types once stopped the notebook, since JSON does not know them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guess(value, truth=value, unit="")
    assert len(memory.recall()["guesses"]) == 1 and len(memory.tell()) == 2
    assert memory.recall() == json.loads(data.read_text(encoding="utf-8"))


def test_letters_that_no_file_holds_are_kept_as_their_codes(at_work):
    guess("\ud800\0", truth="sorted", unit="")
    assert kept() == (WORDS, r"\ud800\x00")


@pytest.mark.parametrize("value", [np.bool_(True), object(), {1}, "\ud800"])
def test_what_cannot_be_written_gets_a_warning_and_leaves_the_file(at_work, data, value):
    guess(30)
    before = data.read_bytes()
    with pytest.warns(UserWarning, match="This cannot be kept"):
        memory.note_guess(Judgment("wrong", "", "50 %", 50.0, value), "%", "Another?", "another")
    assert data.read_bytes() == before and list(data.parent.iterdir()) == [data]


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_data_folder_it_lies_in_the_home(monkeypatch, tmp_path, home):
    monkeypatch.setenv("XDG_DATA_HOME", home)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert memory.memory_path() == tmp_path / ".local/share/packlib/learner.json"


def test_forget_deletes_and_says_what(at_work, data, capsys):
    guess(30)
    CHECKS("half", 1)
    capsys.readouterr()
    assert cli.main(["forget"]) == 0
    assert capsys.readouterr().out == f"Deleted {data} with 1 guess and 1 exercise.\n"
    assert not data.parent.exists()
    assert cli.main(["forget"]) == 0
    assert capsys.readouterr().out == f"There is nothing to forget: {data} does not exist.\n"


def test_forget_needs_nothing_heavy(data):
    import subprocess

    code = "import sys; from packlib.workbook.cli import main; main(['forget']); assert 'torch' not in sys.modules"
    environment = {**os.environ, "XDG_DATA_HOME": str(data.parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
