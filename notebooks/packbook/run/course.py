"""The course: the chapters in the order in which they are read, of the table `course.csv`.

A chapter gets into the course by a line of that table; one that it lacks is read by need. README, the page for
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
    """A chapter.

    Attributes:
        when: the day on which it is read, or "by need".
        question: that it answers.
        extras: of packlib that it needs beside "notebook", parted by spaces.
    """

    when: str
    notebook: str
    question: str
    extras: str = "train hub"


def chapters() -> list[Chapter]:
    """Return all chapters that there are, in the order of the course, those by need last."""
    there = running.notebooks()
    with Path(__file__).with_name("course.csv").open(encoding="utf-8") as table:
        listed = [Chapter(**row) for row in csv.DictReader(table)]
    known = {one.notebook for one in listed}
    others = [Chapter(BY_NEED, name, name[3:].replace("_", " ").capitalize()) for name in there if name not in known]
    return [*(one for one in listed if one.notebook in there), *others]


def days() -> dict[str, list[str]]:
    """Return the notebooks of each day, and those by need."""
    return {when: [one.notebook for one in found] for when, found in groupby(chapters(), lambda one: one.when)}


def last_line(notebook: str) -> str:
    """Return the last line of a chapter: its solutions, and where to go on."""
    solutions = f"The solutions are in [solutions/{notebook}](solutions/{notebook}.ipynb)."
    followers = dict(pairwise(one for one in chapters() if one.when != BY_NEED))
    found = {one.notebook: one for one in chapters()}[notebook]
    if found in followers:
        after = followers[found]
        begins = "The second day begins with" if after.when != found.when else "Next in the course:"
        said = f"{begins} [{after.notebook}]({after.notebook}.ipynb). {after.question}"
    elif found.when == BY_NEED:
        said = f"This chapter is read by need; {MAP} has all others."
    else:
        said = f"This is the end of the course. The other chapters are read by need: {MAP} has a question for each."
    return wrapped(f"{solutions} {said}")


def wrapped(text: str) -> str:
    """Return a paragraph in lines of a notebook."""
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def map_of_all(minutes: dict[str, int]) -> str:
    """Return the map in 00: a row a chapter, with the minutes that it takes to read."""
    rows = [
        f"| {one.when} | {one.question} | [{one.notebook}]({one.notebook}.ipynb) | {minutes[one.notebook]} |"
        for one in chapters()
    ]
    return "\n".join(["| when | your question | chapter | minutes |", "|---|---|---|---|", *rows])
