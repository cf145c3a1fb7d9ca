"""The page for instructors: its minutes are those of the notebooks, and its commands do what it says."""

import importlib
import re
import shutil
from pathlib import Path

import nbformat

from packbook.run import copies, course
from packbook.run.running import notebooks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "notebooks/INSTRUCTORS.md").read_text(encoding="utf-8")


def minutes_in(line):
    return list(map(int, re.findall(r"(\d+) min", line)))


def test_chapters_take_the_minutes_that_the_notebooks_state():
    """In the order of the course, and the days add up."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| day") or line.startswith("| by need")]
    listed = [name for line in lines for name in re.findall(r"\((\w+)\.ipynb\)", line)]
    assert sorted(listed) == sorted(notebooks()) and listed == [one.notebook for one in course.chapters()]
    sums = {}
    for line in lines:
        when = line.split(" | ")[0]
        if "**all**" in line:
            assert minutes_in(line) == sums.pop(when), line
            continue
        (name,) = re.findall(r"\((\w+)\.ipynb\)", line)
        first = nbformat.read(notebooks()[name], as_version=4).cells[0].source
        exercises = importlib.import_module(f"packbook.n{name}").check.values()
        at_home = sum(one.minutes for one in exercises if one.level == 3)
        in_class = sum(one.minutes for one in exercises if one.level) - at_home
        to_read = int(re.search(r"(\d+) minutes to read", first)[1])
        assert minutes_in(line) == [to_read, in_class, at_home], line
        sums[when] = [sum(both) for both in zip(sums.get(when, [0, 0, 0]), minutes_in(line), strict=True)]
    assert list(sums) == ["| by need"], "each day has its sum"


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
