"""A chapter that `packbook new` makes passes the tests; the tables of README and INSTRUCTORS have each chapter."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import packbook.cli
from packbook.run import course, minutes, new_chapter, running
from packlib.tools.exits import NotebookFailedError

ROOT = Path(__file__).parents[2]
NAME = "98_first_try"


@pytest.fixture
def workbook(tmp_path, monkeypatch):
    """A workbook of one chapter, where new ones go; no notebook is run."""
    (tmp_path / "notebooks" / "solutions").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks/02_greedy_packing.ipynb", tmp_path / "notebooks")
    for page in minutes.PAGES:
        shutil.copy(ROOT / page, tmp_path / page)
    monkeypatch.setattr(running, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(new_chapter, "CHAPTERS", tmp_path)
    monkeypatch.setattr(new_chapter, "run_in_place", lambda path: None)
    return tmp_path


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("19-my-chapter", "A chapter's name is like 19_my_chapter, not '19-my-chapter'."),
        ("18_Token", "not '18_Token'."),
        ("18_../up", "not '18_../up'."),
        ("token_budgets", "not 'token_budgets'."),
        ("18_", "not '18_'."),
        ("02_other_rules", "There is a chapter 02 already: 02_greedy_packing. Take another number."),
        ("18_there", "n18_there is there already; remove it, or take another name."),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_one_sentence(workbook, capsys, name, says):
    (workbook / "n18_there").mkdir()
    before = files_of(workbook)
    assert packbook.cli.main(["new", name]) == 2
    said = capsys.readouterr().err
    assert says in said and said.startswith("packbook: ") and said.count("\n") == 1
    assert files_of(workbook) == before


def test_nothing_is_left_of_a_chapter_that_does_not_run(workbook, monkeypatch):
    before = files_of(workbook), (workbook / "README.md").read_bytes()

    def fail(path):
        if path.parent.name == "solutions":
            raise NotebookFailedError("it failed")

    monkeypatch.setattr(new_chapter, "run_in_place", fail)
    with pytest.raises(NotebookFailedError):
        new_chapter.make_chapter(NAME)
    assert (files_of(workbook), (workbook / "README.md").read_bytes()) == before


def test_a_block_of_a_template_is_a_cell_with_its_tags():
    text = "# Title\n\nText.\n\n```python parameters\nseed: int = 0\n```\n\nMore `code`.\n\n```python\n1\n\n2\n```\n"
    made = new_chapter._as_notebook(text).cells
    assert [cell.source for cell in made] == ["# Title\n\nText.", "seed: int = 0", "More `code`.", "1\n\n2"]
    assert [cell.metadata.get("tags") for cell in made] == [None, ["parameters"], None, None]


@pytest.mark.slow
def test_a_new_chapter_passes_the_tests_right_away(tmp_path):
    """In a copy of the project, with all that is asked of each chapter, of its files, and of the two tables."""
    for name in ("packlib", "notebooks", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "conftest.py", "pyproject.toml", "packlib_command.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    paths = [str(tmp_path), str(tmp_path / "notebooks"), os.environ["PYTHONPATH"]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*command):
        run = [sys.executable, "-m", *command]
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said = run("packbook", "new", NAME)
    assert f"notebooks/{NAME}.ipynb" in said
    chapter = f"notebooks/packbook/n{NAME}"
    files = [
        f"tests/workbook/test_{name}.py" for name in ("notebooks", "exercises", "instructors", "other_parameters")
    ]
    files += ["tests/workbook/test_new_chapter.py", f"notebooks/{NAME}.ipynb"]
    chosen = f"({NAME} or instructors or table or lessons) and not right_away"
    tested = run("pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *files)
    assert int(re.search(r"(\d+) passed", tested)[1]) > 40
    run("ruff", "check", chapter)
    run("ruff", "format", "--check", chapter)


# The tables of README and INSTRUCTORS


@pytest.mark.parametrize("page", minutes.PAGES)
def test_the_table_has_each_chapter_with_the_times_that_it_states(page):
    before = (ROOT / page).read_text(encoding="utf-8")
    rows = [line for line in before.splitlines() if line.startswith("|") and ".ipynb)" in line]
    assert [name for row in rows for name in re.findall(r"(\d\d_\w+)\.ipynb\)", row)] == [
        chapter.notebook for chapter in course.chapters()
    ]
    assert minutes.PAGES[page](before) == before, "run python -m packbook.run.minutes"


def test_the_times_of_the_readme_are_those_of_the_notebooks():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, path in running.notebooks().items():
        first = nbformat.read(path, as_version=4).cells[0].source
        to_read, to_run = re.search(r"(\d+) minutes to read, (\d+) seconds of CPU", first).groups()
        assert re.search(rf"^\| [\w ]+ \| \[{name}\]\(.*\| {to_read} min \| {to_run} s \|$", page, re.M), name


@pytest.mark.parametrize("page", minutes.PAGES)
def test_a_time_that_is_wrong_and_a_chapter_that_lacks_are_mended(page):
    right = (ROOT / page).read_text(encoding="utf-8")
    wrong = (
        right.replace(" 25 min |", " 24 min |").replace(" 20 min | ", " 3 min | ").replace("| day 2 |", "| day 1 |")
    )
    assert wrong != right and minutes.PAGES[page](wrong) == right
    *_, before, last = (chapter.notebook for chapter in course.chapters())
    row = next(line for line in right.splitlines() if f"{last}.ipynb)" in line)
    added = minutes.PAGES[page](right.replace(f"{row}\n", ""))
    assert added.count(f"[{last}](") == 1 and re.search(rf"{before}\.ipynb\).*\n\|.*{last}\.ipynb\)", added)


def test_a_notebook_without_its_time_is_named(workbook):
    path = workbook / "notebooks" / "02_greedy_packing.ipynb"
    path.write_text(path.read_text().replace("minutes to read", "minutes of reading"))
    with pytest.raises(ValueError, match=r"^The first cell of 02_greedy_packing must end like this: \*\*Time"):
        minutes.time_of("02_greedy_packing")
