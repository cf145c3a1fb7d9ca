"""The page for instructors: its tables are those of the notebooks, and its commands do what it says."""

import re
import shutil
import subprocess
import sys

import nbformat
from instructors import LESSONS, PAGE, exercises, with_tables

from packlib.workbook.running import notebooks

ROOT = PAGE.parents[1]


def test_the_tables_are_those_of_the_notebooks():
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run python -m tests.instructors"
    levels = [(name, e.name) for name in sorted(notebooks()) for e in exercises(name) if e.level]
    assert len(re.findall(r"^\| \w+ \| `\w+` \| [123] \| \d+ \|$", page, re.M)) == len(levels) > 0


def test_every_notebook_is_in_one_lesson():
    assert sorted(name for names in LESSONS.values() for name in names) == sorted(notebooks())


def test_what_is_handed_out_has_no_solutions(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    copy, remove = re.search(r"```sh\n(.*)\n(.*)\n```", page).groups()
    assert remove == "rm -r handout/solutions"
    command = [sys.executable, *copy.split()[1:-1], str(tmp_path / "handout")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    shutil.rmtree(tmp_path / "handout" / "solutions")
    found = sorted((tmp_path / "handout").rglob("*"))
    assert [path.stem for path in found] == [*sorted(notebooks()), "GLOSSARY"]
    assert found.pop().suffix == ".md"
    for path in found:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") for cell in cells)
