"""What a learner guessed is kept once, only here, only for people, and forgotten on demand."""

import json
import os
import sys

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlib.workbook import cli, exercises, memory

CHECKS = exercises.Exercises([exercises.Exercise("half", 0.5), exercises.Exercise("third", 1 / 3)])
REVEAL = 'reveal(guess, 50.0, "Because.", unit="%")'


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """The file, in a folder of its own; the test runs where nothing else speaks of a notebook."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in (memory.SWITCH, "CI", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(bundle["text/plain"]))
    shown.clear()
    return tmp_path / "packlib" / "learner.json"


shown: list[str] = []


class Shell:
    def __init__(self, **names):
        self.user_ns = names


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """As in the kernel of an open notebook that runs the cell REVEAL."""
    cells = [
        nbformat.v4.new_markdown_cell("## A\n\n**Bold** first. **How much\nis `it`, in percent?** Think."),
        nbformat.v4.new_code_cell("guess = ..."), nbformat.v4.new_code_cell(REVEAL),
    ]  # fmt: skip
    path = tmp_path / "90_small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.setattr("IPython.get_ipython", lambda: Shell(In=["", REVEAL + "\n"]))
    return path


def guess(value, truth=50.0, why="Because.", unit="%"):
    exercises.reveal(value, truth, why, unit=unit)


def test_a_guess_is_kept_with_its_question_and_how_far_off_it_was(at_work, data):
    guess(30)
    assert json.loads(data.read_text())["guesses"] == {
        "90_small: 5a6ab4b0": {
            "question": "How much is it, in percent?", "guess": 30.0, "truth": 50.0, "unit": "%", "right": False,
        }
    }  # fmt: skip
    guess(50)
    assert memory.recall()["guesses"]["90_small: 5a6ab4b0"]["guess"] == 30, "the first counts"


@pytest.mark.parametrize("value", [..., None, [1], "half", 0.5, float("nan"), 10**400])
def test_what_is_no_guess_is_not_kept(at_work, data, value):
    guess(value)
    assert shown and not data.exists()


def test_exercises_are_counted_until_they_are_right(at_work, data, capsys):
    for answer in (..., 1, 2, 0.5, 3):
        CHECKS.check("half", answer)
    CHECKS.check("third", 1)
    assert memory.recall()["exercises"] == {
        "90_small: half": {"right": True, "tries": 3}, "90_small: third": {"right": False, "tries": 1},
    }  # fmt: skip


def test_the_biggest_errors_are_told_first(at_work, data, monkeypatch, capsys):
    monkeypatch.setattr(memory, "question_of", lambda notebook: "")
    guess(49, why="Near.")
    guess(25, why="Half of it.")
    guess("Sorted", "random", why="A word.", unit="")
    guess(1, 1000.0, why="Far.", unit="packs")
    CHECKS.check("half", 0.5)
    memory.surprises(2)
    assert shown[-1].splitlines() == [
        "You made 4 guesses; 1 were right or very close.",
        "90_small: A word. You guessed Sorted; it is random.",
        "90_small: Far. You guessed 1 packs; it is 1,000 packs.",
        "You tried 1 exercises and solved 1. Most tries: 90_small: half, 1.",
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
    CHECKS.check("half", 1)
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
    monkeypatch.setattr("IPython.get_ipython", lambda: Shell(In=[REVEAL], __vsc_ipynb_file__=str(at_work)))
    guess(30)
    assert list(memory.recall()["guesses"]) == ["90_small: How much is it, in percent?"]


@pytest.mark.parametrize("cell", ["reveal(guess, 1, 'edited')", ""])
def test_a_cell_that_was_edited_is_remembered_by_its_reason(at_work, monkeypatch, cell):
    monkeypatch.setattr("IPython.get_ipython", lambda: Shell(In=[cell]))
    guess(30)
    at_work.unlink()
    guess(30, why="Gone.")
    assert list(memory.recall()["guesses"]) == ["90_small: Because.", "90_small: Gone."]


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


def test_after_damage_it_goes_on_from_nothing(at_work, data):
    data.parent.mkdir()
    data.write_text('{"guesses": {"cut of')
    guess(30)
    assert len(json.loads(data.read_text())["guesses"]) == 1


def test_a_disk_that_cannot_be_written_gets_a_warning(at_work, data):
    data.parent.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="Your guesses cannot be kept"):
        guess(30)
    assert shown


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_data_folder_it_lies_in_the_home(monkeypatch, tmp_path, home):
    monkeypatch.setenv("XDG_DATA_HOME", home)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert memory.memory_path() == tmp_path / ".local/share/packlib/learner.json"


def test_forget_deletes_and_says_what(at_work, data, capsys):
    guess(30)
    CHECKS.check("half", 1)
    capsys.readouterr()
    assert cli.main(["forget"]) == 0
    assert capsys.readouterr().out == f"Deleted {data} with 1 guesses and 1 exercises.\n"
    assert not data.parent.exists()
    assert cli.main(["forget"]) == 0
    assert capsys.readouterr().out == f"There is nothing to forget: {data} does not exist.\n"


def test_forget_needs_nothing_heavy(data):
    import subprocess

    code = "import sys; from packlib.workbook.cli import main; main(['forget']); assert 'torch' not in sys.modules"
    environment = {**os.environ, "XDG_DATA_HOME": str(data.parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
