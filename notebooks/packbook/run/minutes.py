"""How long each chapter takes, and where it stands in the course: in the chapters, README.md and INSTRUCTORS.md.

The minutes to read follow from a notebook's words and questions, the seconds to run are stated in its first cell, and
exercises have their own minutes. `python -m packbook.run.minutes` brings all places up to date, which `make notebooks`
does, too.
"""

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import nbformat

from packbook.results import questions_of
from packbook.run import course, running
from packbook.run.execution import write
from packlib.files import write_text
from packlib.tools.exits import exit_code

WORDS_A_MINUTE = 200
MINUTES_A_QUESTION = 1.5
_ROUNDED_TO = 5  # minutes

# the time in the first cell of a chapter
_STATED = re.compile(r"\*\*Time\*\*: (\d+) minutes? to read, (\d+) seconds? of CPU\.")
# a row of the table in README.md: [day,] notebook, goal, minutes, seconds
_README = re.compile(
    r"^\| (?:(?:day \d|by need) \| )?\[(?P<name>\d\d_\w+)\]\(notebooks/\w+\.ipynb\) \| (?P<goal>.*) "
    r"\| \d+ min \| \d+ s \|$",
    re.M,
)
# a row of the table in INSTRUCTORS.md: day, notebook or **all**, and three columns of minutes
_LESSON = re.compile(
    r"^\| [^|\n]* \| (?:[^|\n]*\.ipynb\)|\*\*all\*\*)[^|\n]* \|(?: (?:\*\*)?\d+ min(?:\*\*)? \|){3}$", re.M
)
_LAST_LINE = re.compile(r"^The solutions are in \[(?s:.*)\Z", re.M)
_MAP = re.compile(r"(?<=^## The map\n\n)(?:\|.*\n)+", re.M)


def reading_minutes(notebook: str) -> int:
    """Return the minutes that it takes to read a notebook and make all guesses, rounded to five minutes."""
    chapter = nbformat.read(running.notebooks()[notebook], as_version=4)
    text = " ".join(cell.source for cell in chapter.cells if cell.cell_type == "markdown")
    text = re.sub(r"\]\([^)]*\)|\$[^$]*\$", " ", text)  # without addresses of links and formulas
    words = len(re.findall(r"\w[\w'’-]*", text))
    exact = words / WORDS_A_MINUTE + MINUTES_A_QUESTION * len(questions_of(chapter))
    return max(_ROUNDED_TO, round(exact / _ROUNDED_TO) * _ROUNDED_TO)


def time_of(notebook: str) -> tuple[int, int]:
    """Return the minutes to read and the seconds of CPU that a notebook states in its first cell.

    Raises:
        ValueError: if it states none.
    """
    stated = _STATED.search(_first_cell(notebook))
    if not stated:
        example = "**Time**: 20 minutes to read, 10 seconds of CPU."
        raise ValueError(f"The first cell of {notebook} must end like this: {example}")
    return int(stated[1]), int(stated[2])


def minutes_of(notebooks: Sequence[str]) -> tuple[int, int, int]:
    """Return three sums of minutes over chapters: to read, for exercises in class, and for exercises at home.

    Exercises of level 3 are done at home.
    """
    chapters = [importlib.import_module(f"packbook.n{name}") for name in notebooks]
    exercises = [exercise for chapter in chapters for exercise in chapter.check.values()]
    in_class = sum(exercise.minutes for exercise in exercises if exercise.level != 3)
    at_home = sum(exercise.minutes for exercise in exercises if exercise.level == 3)
    to_read = sum(time_of(name)[0] for name in notebooks)
    return to_read, in_class, at_home


def readme_with_times(page: str) -> str:
    """Return README.md with a row for each chapter in the order of the course, with its times.

    A chapter keeps the goal that its row has now; a new chapter gets the first goal of its notebook.
    """
    goals = {row_match["name"]: row_match["goal"] for row_match in _README.finditer(page)}

    def row(chapter: course.Chapter) -> str:
        name = chapter.notebook
        to_read, to_run = time_of(name)
        goal = goals.get(name) or _first_goal(name)
        return f"| {chapter.when} | [{name}](notebooks/{name}.ipynb) | {goal} | {to_read} min | {to_run} s |"

    return _in_place_of(_README, page, map(row, course.chapters()))


def lessons_with_minutes(page: str) -> str:
    """Return INSTRUCTORS.md with the minutes of all chapters in the order of the course, and the sum of each day."""
    rows = []
    for when, names in course.days().items():
        for name in names:
            columns = " | ".join(f"{minutes} min" for minutes in minutes_of([name]))
            rows.append(f"| {when} | [{name}]({name}.ipynb) | {columns} |")
        if when != course.BY_NEED:
            columns = " | ".join(f"**{minutes} min**" for minutes in minutes_of(names))
            rows.append(f"| {when} | **all** | {columns} |")
    return _in_place_of(_LESSON, page, rows)


# what brings a page, given by its path from the root, up to date
PAGES = {"README.md": readme_with_times, "notebooks/INSTRUCTORS.md": lessons_with_minutes}


def update_chapter(notebook: str, changed: Callable[[str, str], str]) -> None:
    """Change the Markdown of a chapter's notebook in place; outputs stay, since no code changes.

    Args:
        changed: returns the new text of a cell, given the name of the notebook and the old text.
    """
    path = Path(running.notebooks()[notebook])
    chapter = nbformat.read(path, as_version=4)
    old_sources = [cell.source for cell in chapter.cells]
    for cell in chapter.cells:
        if cell.cell_type == "markdown":
            cell.source = changed(notebook, cell.source)
    if [cell.source for cell in chapter.cells] != old_sources:
        write(chapter, path)


def with_its_course(notebook: str, text: str) -> str:
    """Return the text of a cell with minutes, last line and map as of now, where it has such a part.

    The first cell of a chapter has the minutes, the last one the last line, and 00 has the map.
    """
    text = re.sub(r"(?<=\*\*Time\*\*: )\d+(?= minutes? to read)", str(reading_minutes(notebook)), text)
    text = _LAST_LINE.sub(lambda _: course.last_line(notebook), text)
    if notebook == "00_tour":
        table = course.map_of_all({name: reading_minutes(name) for name in running.notebooks()})
        text = _MAP.sub(lambda _: f"{table}\n", text)
    return text


def update_pages() -> None:
    """Bring the chapters, README.md and INSTRUCTORS.md up to date."""
    for name in running.notebooks():
        update_chapter(name, with_its_course)
    root = running.NOTEBOOKS.parent
    for name, updated in PAGES.items():
        old_text = (root / name).read_text(encoding="utf-8")
        new_text = updated(old_text)
        if new_text != old_text:
            write_text(root / name, new_text)


def _in_place_of(row: re.Pattern, page: str, lines: Iterable[str]) -> str:
    """Return the page with these lines in place of all rows of a table, which must stand below one another.

    Args:
        row: matches a row of the table, and no other line.
    """
    rows = list(row.finditer(page))
    before, after = page[: rows[0].start()], page[rows[-1].end() :]
    return before + "\n".join(lines) + after


def _first_cell(notebook: str) -> str:
    """Return the text of a notebook's first cell, with title, goals and time."""
    cells = json.loads(Path(running.notebooks()[notebook]).read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"])


def _first_goal(notebook: str) -> str:
    """Return the first item of the list in a notebook's first cell, on one line."""
    items = re.findall(r"^- ((?:.|\n(?!- |\n))*)", _first_cell(notebook), re.M)  # up to the next item or empty line
    return " ".join(items[0].split()).rstrip(",.")


if __name__ == "__main__":
    sys.exit(exit_code(update_pages))
