"""The page for instructors: its minutes are those of the notebooks, and its commands do what it says."""

import importlib
import re
import shutil
from pathlib import Path

import nbformat

from packbook.run import copies
from packbook.run.running import notebooks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "notebooks/INSTRUCTORS.md").read_text(encoding="utf-8")


def test_lessons_take_the_minutes_that_the_notebooks_state():
    lessons = [line for line in PAGE.splitlines() if ".ipynb)" in line and line.startswith("|")]
    found = [re.findall(r"\((\w+)\.ipynb\)", line) for line in lessons]
    assert sorted(name for names in found for name in names) == sorted(notebooks())
    for line, names in zip(lessons, found, strict=True):
        first = [nbformat.read(notebooks()[name], as_version=4).cells[0].source for name in names]
        modules = [importlib.import_module(f"packbook.n{name}") for name in names]
        levels = [(one.level, one.minutes) for module in modules for one in module.check.values() if one.level]
        at_home = sum(minutes for level, minutes in levels if level == 3)
        in_class = sum(minutes for _, minutes in levels) - at_home
        to_read = sum(int(re.search(r"(\d+) minutes to read", source)[1]) for source in first)
        assert line.endswith(f" | {to_read} min | {in_class} min | {at_home} min |"), line


def test_what_is_handed_out_has_no_solutions(tmp_path):
    copy, remove = re.search(r"```sh\n(.*)\n(.*)\n```", PAGE).groups()
    assert remove == "rm -r handout/solutions"
    *module, source, _ = copy.split()[1:]
    assert module == ["-m", copies.__name__]
    copies.main([str(ROOT / source), str(tmp_path / "handout")])
    shutil.rmtree(tmp_path / "handout" / "solutions")
    found = sorted((tmp_path / "handout").rglob("*"))
    assert [path.stem for path in found] == [*sorted(notebooks()), "GLOSSARY", "RECORDS"]
    for path in found[:-2]:
        assert not any(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells)
