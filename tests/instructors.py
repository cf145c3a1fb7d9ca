"""The tables of the page for instructors, from the notebooks and their exercises: `python -m tests.instructors`."""

import importlib
import re
from pathlib import Path

import nbformat

from packlib.files import write_text
from packlib.workbook.running import notebooks

PAGE = Path(__file__).parents[1] / "notebooks/INSTRUCTORS.md"
LESSONS = {  # what goes together, and in which order
    "Why pack": ("00_tour", "01_padding_waste"),
    "Greedy packing": ("02_greedy_packing",),
    "Best packing": ("03_nnls_packing", "04_optimal_packing"),
    "The model": ("05_packed_attention", "06_unpacking_losses"),
    "Hyper-parameters": ("07_hyperparameters",),
    "Order and batches": ("08_curriculum",),
    "Many processes": ("09_distributed_sorting", "10_compilation"),
    "Large machines": ("11_scaling_up",),
    "Your own data": ("12_your_dataset",),
    "Work and documents": ("13_balanced_work", "14_whole_documents"),
    "Chats and rewards": ("15_fine_tuning",),
    "Answers that share a prompt": ("16_shared_prompts",),
    "What was measured": ("17_evidence",),
}


def minutes_to_read(name: str) -> int:
    """As the notebook's first cell says."""
    first = nbformat.read(notebooks()[name], as_version=4).cells[0].source
    return int(re.search(r"(\d+) minutes to read", first)[1])


def exercises(name: str) -> list:
    """The chapter's exercises, in their order."""
    return list(importlib.import_module(f"packlib.workbook.chapters.n{name}.lesson").EXERCISES.values())


def lessons_table() -> str:
    """A row for each lesson: its notebooks, minutes to read, and minutes of exercises in class and at home."""
    rows = ["| lesson | notebooks | to read | exercises in class | at home |", "|---|---|---|---|---|"]
    for lesson, names in LESSONS.items():
        links = ", ".join(f"[{name}]({name}.ipynb)" for name in names)
        minutes = [sum(e.minutes or 0 for name in names for e in exercises(name) if (e.level in (1, 2)) is in_class)
                   for in_class in (True, False)]  # fmt: skip
        in_class, at_home = (f"{total} min" if total else "–" for total in minutes)
        rows.append(f"| {lesson} | {links} | {sum(map(minutes_to_read, names))} min | {in_class} | {at_home} |")
    return "\n".join(rows)


def exercises_table() -> str:
    """A row for each exercise that has a level."""
    rows = ["| notebook | exercise | level | minutes |", "|---|---|---|---|"]
    for name in sorted(notebooks()):
        rows += [f"| {name} | `{e.name}` | {e.level} | {e.minutes} |" for e in exercises(name) if e.level]
    return "\n".join(rows)


def with_tables(page: str) -> str:
    """The page with both tables in their places."""
    for title, table in (("Lessons", lessons_table()), ("Exercises", exercises_table())):
        old = rf"(## {title}\n\n(?:[^|\n][^\n]*\n)+\n)(?:\|[^\n]*\n)*"  # a heading, a text, and a table
        page, found = re.subn(old, lambda match, new=table: f"{match[1]}{new}\n", page)
        if found != 1:
            raise ValueError(f"{PAGE.name} must have one heading {title!r} with a text below it, not {found}.")
    return page


if __name__ == "__main__":
    write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8")))
