"""The course: the chapters in the order in which they are read, from the table `course.csv`.

A chapter gets into the course by a line of that table; a chapter without a line is read by need. README, the page for
instructors, the site, the map in 00 and the last line of each chapter follow the table: `packbook.run.minutes` brings
them up to date.
"""

import csv
import textwrap
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from packbook.run import running

BY_NEED = "by need"
MAP = "[the map](00_tour.ipynb#The-map)"
_WIDTH = 125  # of a line in a notebook's text


class Chapter(NamedTuple):
    """A chapter of the course.

    Attributes:
        when: the day on which it is read, such as "day 1", or "by need".
        notebook: its name, such as "01_padding_waste".
        question: the question that it answers.
        extras: extras of the package packlib that it needs besides "notebook", separated by spaces.
    """

    when: str
    notebook: str
    question: str
    extras: str = "train hub"


def chapters() -> list[Chapter]:
    """Return the chapters of all notebooks that are installed, in the order of the course, those by need last.

    The question of a chapter without a line in the table is its title.
    """
    notebooks = running.notebooks()
    with Path(__file__).with_name("course.csv").open(encoding="utf-8") as table:
        listed = [Chapter(**row) for row in csv.DictReader(table)]
    installed = [chapter for chapter in listed if chapter.notebook in notebooks]
    listed_names = {chapter.notebook for chapter in listed}
    unlisted = []
    for name in notebooks:
        if name not in listed_names:
            title = name[3:].replace("_", " ").capitalize()
            unlisted.append(Chapter(BY_NEED, name, title))
    return [*installed, *unlisted]


def days() -> dict[str, list[str]]:
    """Return the names of the notebooks by day, and last those by need."""
    return {
        when: [chapter.notebook for chapter in chapters_of_day]
        for when, chapters_of_day in groupby(chapters(), lambda chapter: chapter.when)
    }


def last_line(notebook: str) -> str:
    """Return the last line of a chapter, in Markdown: links to its solutions and to the next chapter."""
    solutions = f"The solutions are in [solutions/{notebook}](solutions/{notebook}.ipynb)."
    followers = dict(pairwise(chapter for chapter in chapters() if chapter.when != BY_NEED))  # by the one before
    this_chapter = {chapter.notebook: chapter for chapter in chapters()}[notebook]
    if this_chapter in followers:
        follower = followers[this_chapter]
        lead = "The second day begins with" if follower.when != this_chapter.when else "Next in the course:"
        sentence = f"{lead} [{follower.notebook}]({follower.notebook}.ipynb). {follower.question}"
    elif this_chapter.when == BY_NEED:
        sentence = f"This chapter is read by need; {MAP} has all others."
    else:
        sentence = "This is the end of the course. The other chapters are read by need: "
        sentence += f"{MAP} has a question for each."
    return wrapped(f"{solutions} {sentence}")


def wrapped(text: str) -> str:
    """Break a paragraph into lines of at most `_WIDTH` characters."""
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def map_of_all(minutes: dict[str, int]) -> str:
    """Return the map in 00: a row a chapter, with the minutes that it takes to read."""
    rows = []
    for chapter in chapters():
        link = f"[{chapter.notebook}]({chapter.notebook}.ipynb)"
        rows.append(f"| {chapter.when} | {chapter.question} | {link} | {minutes[chapter.notebook]} |")
    return "\n".join(["| when | your question | chapter | minutes |", "|---|---|---|---|", *rows])
