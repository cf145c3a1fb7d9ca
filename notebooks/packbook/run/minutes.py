"""How long each chapter takes, in the tables of README.md and notebooks/INSTRUCTORS.md.

The notebooks state the minutes to read and the seconds to run, the exercises have theirs.
`python -m packbook.run.minutes` brings the tables up to date; `make notebooks` does so, too.
"""

import importlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from packbook.run import running
from packlib.files import write_text
from packlib.tools.exits import exit_code

_README = re.compile(
    r"^(?P<before>\| \[(?P<name>\d\d_\w+)\]\(notebooks/\w+\.ipynb\) \| .* \|) \d+ min \| \d+ s \|$", re.M
)
_LESSON = re.compile(r"^(?P<before>\| [^|\n]* \| [^|\n]*\.ipynb\)[^|\n]* \|) \d+ min \| \d+ min \| \d+ min \|$", re.M)


def time_of(notebook: str) -> tuple[int, int]:
    """The minutes to read and the seconds of CPU that a notebook states in its first cell.

    Raises:
        ValueError: if it states none.
    """
    first = _first_cell(notebook)
    stated = re.search(r"\*\*Time\*\*: (\d+) minutes? to read, (\d+) seconds? of CPU\.", first)
    if not stated:
        said = "**Time**: 20 minutes to read, 10 seconds of CPU."
        raise ValueError(f"The first cell of {notebook} must end like this: {said}")
    return int(stated[1]), int(stated[2])


def minutes_of(notebooks: Sequence[str]) -> tuple[int, int, int]:
    """The minutes of a lesson: to read, for exercises in class, and for those at home, which have level 3."""
    chapters = [importlib.import_module(f"packbook.n{name}") for name in notebooks]
    exercises = [exercise for chapter in chapters for exercise in chapter.check.values()]
    in_class = sum(exercise.minutes for exercise in exercises if exercise.level != 3)
    at_home = sum(exercise.minutes for exercise in exercises if exercise.level == 3)
    return sum(time_of(name)[0] for name in notebooks), in_class, at_home


def readme_with_times(page: str) -> str:
    """README.md with the times of all chapters; one that its table lacks gets a row, with its first goal."""

    def row(before: str, name: str) -> str:
        to_read, to_run = time_of(name)
        return f"{before} {to_read} min | {to_run} s |"

    page = _README.sub(lambda found: row(found["before"], found["name"]), page)
    named = [found["name"] for found in _README.finditer(page)]
    new = [
        row(f"| [{name}](notebooks/{name}.ipynb) | {_first_goal(name)} |", name)
        for name in running.notebooks()
        if name not in named
    ]
    return _after_the_last(_README, page, new)


def lessons_with_minutes(page: str) -> str:
    """INSTRUCTORS.md with the minutes of all lessons; a chapter that its table lacks gets a row, as a lesson."""

    def row(before: str, names: Sequence[str]) -> str:
        return " | ".join([before.removesuffix(" |"), *(f"{minutes} min" for minutes in minutes_of(names))]) + " |"

    def names_in(line: str) -> list[str]:
        return re.findall(r"\((\d\d_\w+)\.ipynb\)", line)

    page = _LESSON.sub(lambda found: row(found["before"], names_in(found["before"])), page)
    named = [name for found in _LESSON.finditer(page) for name in names_in(found[0])]
    new = [
        row(f"| {_title(name)} | [{name}]({name}.ipynb) |", [name])
        for name in running.notebooks()
        if name not in named
    ]
    return _after_the_last(_LESSON, page, new)


PAGES = {"README.md": readme_with_times, "notebooks/INSTRUCTORS.md": lessons_with_minutes}  # seen from the root


def update_pages() -> None:
    """Bring the tables up to date."""
    root = running.NOTEBOOKS.parent
    for name, updated in PAGES.items():
        before = (root / name).read_text(encoding="utf-8")
        after = updated(before)
        if after != before:
            write_text(root / name, after)


def _after_the_last(row: re.Pattern, page: str, lines: Sequence[str]) -> str:
    """The page with further lines at the end of its table."""
    *_, last = row.finditer(page)
    return page[: last.end()] + "".join(f"\n{line}" for line in lines) + page[last.end() :]


def _first_cell(notebook: str) -> str:
    cells = json.loads(Path(running.notebooks()[notebook]).read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"])


def _title(notebook: str) -> str:
    return _first_cell(notebook).splitlines()[0].lstrip("# ")


def _first_goal(notebook: str) -> str:
    (goal, *_) = re.findall(r"^- ((?:.|\n(?!- |\n))*)", _first_cell(notebook), re.M)
    return " ".join(goal.split()).rstrip(",.")


if __name__ == "__main__":
    sys.exit(exit_code(update_pages))
