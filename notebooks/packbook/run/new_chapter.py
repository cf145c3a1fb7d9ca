"""A new chapter that runs, to be rewritten piece by piece: `packbook new 19_my_chapter`.

It is made of the templates in `skeleton/`, in which NOTEBOOK, NUMBER, TITLE and LOWER_TITLE stand for the chapter's.
"""

import re
import shutil
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import packbook
from packbook.run import running
from packbook.run.execution import run_in_place, write
from packbook.run.minutes import update_pages
from packlib.arguments import shown
from packlib.files import write_text

CHAPTERS = Path(packbook.__path__[0])
SKELETON = Path(__file__).with_name("skeleton")
# what is left to do by hand
LEFT = """\
The chapter runs and passes the tests. Rewrite it, and when a cell has changed, run
    python -m packbook.run.execution {paths}
It is read by need; a line of packbook/run/course.csv gives it a place and a question in the course, and
    python -m packbook.run.minutes
brings the map, the tables and the last line of each chapter up to date. Then add it to CHANGELOG.md."""


def make_chapter(notebook: str) -> list[Path]:
    """Make a chapter, its notebook and solutions, run both, and add it to the tables of README and INSTRUCTORS.

    Args:
        notebook: its name, such as "19_my_chapter": two digits that no other chapter has, and words in lower case.

    Returns:
        The paths of the notebook, its solutions, and the folder of the chapter.

    Raises:
        ValueError: if the name has another form.
        FileExistsError: if there is a chapter of this number, or something in the place of one of its files.
        NotebookFailedError: if it does not run; then nothing is left of it.
    """
    if not re.fullmatch(r"\d\d(_[a-z][a-z0-9]*)+", notebook):
        raise ValueError(f"A chapter's name is like 19_my_chapter, not {shown(notebook)}.")
    if same_number := [name for name in running.notebooks() if name[:2] == notebook[:2]]:
        raise FileExistsError(f"There is a chapter {notebook[:2]} already: {same_number[0]}. Take another number.")
    path = running.NOTEBOOKS / f"{notebook}.ipynb"
    solutions = running.NOTEBOOKS / "solutions" / path.name
    chapter = CHAPTERS / f"n{notebook}"
    if occupied := [place for place in (path, solutions, chapter) if place.exists()]:
        raise FileExistsError(f"{occupied[0]} is there already; remove it, or take another name.")
    try:
        for template in SKELETON.glob("*.py.template"):
            write_text(chapter / template.stem, _filled(template, notebook))
        write_text(chapter / "questions.toml", _filled(SKELETON / "questions.toml.template", notebook))
        for place, kind in ((path, "notebook"), (solutions, "solutions")):
            write(_as_notebook(_filled(SKELETON / f"{kind}.md.template", notebook)), place)
            run_in_place(place)
    except BaseException:  # an interrupt, too
        shutil.rmtree(chapter, ignore_errors=True)
        path.unlink(missing_ok=True)
        solutions.unlink(missing_ok=True)
        raise
    update_pages()
    return [path, solutions, chapter]


def _filled(template: Path, notebook: str) -> str:
    """Return the text of a template, with the chapter's words in place of the names in capital letters."""
    title = notebook[3:].replace("_", " ")
    words = {
        "NOTEBOOK": notebook,
        "NUMBER": notebook[:2],
        "LOWER_TITLE": title,
        "TITLE": title.capitalize(),
    }
    text = template.read_text(encoding="utf-8")
    return re.sub("|".join(words), lambda match: words[match[0]], text)


def _as_notebook(text: str) -> NotebookNode:
    """Turn a page of Markdown into a notebook: a block of Python becomes a code cell, the text between a text cell.

    Tags of a code cell stand behind the word that opens its block: "```python parameters".
    """
    # the text before the first block, and for each block its tags, its code and the text behind it
    first_text, *parts = re.split(r"^```python(.*)\n((?s:.*?))^```\n", text, flags=re.M)
    cells = [new_markdown_cell(first_text.strip())] if first_text.strip() else []
    for tags, code, text_behind in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        cells.append(new_code_cell(code.strip(), metadata={"tags": tags.split()} if tags.split() else {}))
        if text_behind.strip():
            cells.append(new_markdown_cell(text_behind.strip()))
    notebook = new_notebook(cells=cells)
    nbformat.validate(notebook)
    return notebook
