"""One talk made of the chapters' slides: `make talk`, `python -m packlib.workbook.talk slides/talk.html figures`

`talk.toml` beside this file says which slides, in which order, and what the speaker says with each.
"""

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from packlib.checks import one_of
from packlib.files import write_text
from packlib.markup import escaped
from packlib.places import output_path
from packlib.reading import naming
from packlib.workbook.exits import exit_code
from packlib.workbook.gallery import pictures_of
from packlib.workbook.pages import markdown_to_html
from packlib.workbook.running import NOTEBOOKS, find_notebook, notebooks
from packlib.workbook.slides import Slide, deck, slides_of

SCRIPT = Path(__file__).with_name("talk.toml")


def talk(script: Path = SCRIPT, figures: Path | None = None) -> list[Slide]:
    """The slides of a talk.

    Args:
        script: a TOML file with a `title`, a `subtitle`, and tables `[[slide]]` with `notes` and either a `section`, a
            `notebook` and the name of one of its figures, or a `claim` and a `text` in Markdown. A claim beside a
            figure stands above it. A slide with an empty `section` belongs to none.
        figures: where `make figures` left the pictures; without it the images in the notebooks are taken.

    Raises:
        ValueError: if it names a notebook or figure that is not there.
    """
    told = tomllib.loads(script.read_text(encoding="utf-8"))

    @cache
    def drawn(notebook: str) -> dict[str, Slide]:
        path = NOTEBOOKS / f"{find_notebook(notebook)}.ipynb"
        with naming(path, "notebook for a talk"):
            slides = slides_of(nbformat.read(path, as_version=4), pictures_of(path.stem, figures) if figures else ())
        return {slide.name: slide for slide in slides if slide.name}

    title = f"<h1>{escaped(told['title'])}</h1>\n<p>{escaped(told['subtitle'])}</p>"
    made, section = [Slide("title", told["title"], title, markdown_to_html(told["notes"]))], ""
    for wish in told["slide"]:
        section = wish.get("section", section)
        made.append(replace(_slide(wish, drawn), notes=markdown_to_html(wish["notes"]), section=section))
    return made


def _slide(wish: Mapping[str, str], drawn: Any) -> Slide:
    if wish.get("section"):
        return Slide("section", wish["section"], f"<h1>{escaped(wish['section'])}</h1>")
    if "figure" in wish:
        slides = drawn(wish["notebook"])
        slide = slides[one_of("figure", wish["figure"], slides)]
        claim = wish.get("claim", "")
        image = slide.body[slide.body.index("<img ") :]
        return replace(slide, heading=claim, body=f"<h2>{escaped(claim)}</h2>\n{image}") if claim else slide
    text = markdown_to_html(wish["text"])
    return Slide("text", wish["claim"], f"<h2>{escaped(wish['claim'])}</h2>\n{text}")


def main(arguments: Sequence[str]) -> None:
    """Write the talk.

    Raises:
        OSError: if the file cannot be written.
    """
    parser = argparse.ArgumentParser(prog="python -m packlib.workbook.talk", description="Write the talk.")
    parser.add_argument("page", type=Path, help="the file to write")
    parser.add_argument("figures", type=Path, help="where `make figures` left the pictures")
    parser.add_argument("--speaker", default="", help="a line below the title: who speaks, where and when")
    given = parser.parse_args(arguments)
    path = output_path(given.page, reads=[SCRIPT, *notebooks().values(), *given.figures.glob("*.svg")])
    write_text(path, deck(talk(figures=given.figures), given.speaker))
    print(given.page)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
