"""One talk made of the chapters' slides: `make talk`, `python -m packbook.publish.talk slides/talk.html figures`

`talk.toml` beside this file says which slides, in which order, and what the speaker says with each.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import nbformat

from packbook.pages import markdown_to_html
from packbook.publish.gallery import pictures_of
from packbook.publish.slides import Slide, deck, headed, slides_of
from packbook.results import meanings
from packbook.run.running import NOTEBOOKS, find_notebook, notebooks
from packlib.checks import escaped, one_of
from packlib.files import naming, output_path, write_text
from packlib.tools.exits import exit_code

SCRIPT = Path(__file__).with_name("talk.toml")


def talk(script: Path = SCRIPT, figures: Path | None = None, address: str = "") -> list[Slide]:
    """The slides of a talk.

    Args:
        script: a TOML file with a `title`, a `subtitle`, the `minutes` that are planned, and tables `[[slide]]` with
            `notes` and either a `notebook` and the name of one of its figures, or a `claim` and a `text` in Markdown. A
            claim beside a figure stands above it in place of its title. `numbers` are patterns that are looked for in
            title and alt text of the figure; what their group finds fills their names, in braces, in claim and notes.
            In a text `{check}` becomes what `check_packing` finds in a collator with faults, and `{address}` the
            `address`. A `section` holds for the slides that follow.
        figures: where `make figures` left the pictures; without it the images in the notebooks are taken.
        address: where the audience finds all of it.

    Raises:
        ValueError: if it names a notebook or figure that is not there, or a number that its figure does not say.
    """
    words = tomllib.loads(script.read_text(encoding="utf-8"))

    @cache
    def drawn(notebook: str) -> dict[str, tuple[Slide, str]]:
        """The slides of a notebook's figures, each with what its figure says."""
        path = NOTEBOOKS / f"{find_notebook(notebook)}.ipynb"
        with naming(path, "notebook for a talk"):
            cells = nbformat.read(path, as_version=4)
            pictures = pictures_of(path.stem, figures) if figures else ()
            slides = slides_of(cells, pictures)
        still = [figure for figure in meanings(cells, "figure") if "explorer" not in figure]
        says = {figure["name"]: f"{figure['title']}. {figure['alt']}" for figure in still}
        says |= {picture.name: f"{picture.title}. {picture.alt}" for picture in pictures if picture.name in says}
        return {slide.name: (slide, says[slide.name]) for slide in slides if slide.name in says}

    title = f"<h1>{escaped(words['title'])}</h1>\n<p>{escaped(words['subtitle'])}</p>"
    made, section = [Slide("title", words["title"], title, markdown_to_html(words["notes"]))], ""
    for wish in words["slide"]:
        section = wish.get("section", section)
        made.append(replace(_slide(wish, drawn, address), section=section))
    return made


def _slide(wish: Mapping[str, Any], drawn: Any, address: str) -> Slide:
    if "figure" in wish:
        slides = drawn(wish["notebook"])
        slide, says = slides[one_of("figure", wish["figure"], slides)]
        claim, notes = wish.get("claim", ""), wish["notes"]
        if "numbers" in wish:
            numbers = _numbers(wish["numbers"], slide.name, says)
            claim, notes = claim.format_map(numbers), notes.format_map(numbers)
        slide = replace(slide, notes=markdown_to_html(notes))
        image = slide.body[slide.body.index("<img ") :]
        return replace(slide, heading=claim, body=headed(claim, image)) if claim else slide
    notes = markdown_to_html(wish["notes"])
    text = wish["text"].replace("{address}", address)
    if "{check}" in text:
        text = text.replace("{check}", f"```text\n{check_with_faults()}\n```")
    return Slide("text", wish["claim"], f"<h2>{escaped(wish['claim'])}</h2>\n{markdown_to_html(text)}", notes)


def _numbers(patterns: Mapping[str, str], figure: str, says: str) -> dict[str, str]:
    """What a figure says, by the names of the patterns."""
    numbers = {}
    for name, pattern in patterns.items():
        if not (found := re.search(pattern, says)):
            raise ValueError(f"The figure {figure!r} does not say {name!r}, looked for as {pattern!r}.")
        numbers[name] = found[1]
    return numbers


def check_with_faults() -> str:
    """What `check_packing` finds in a collator that lays sequences end to end and says no more, a line a question."""
    import torch  # here, since it takes seconds

    from packbook.n06_unpacking_losses import lab
    from packlib.tools.check import check_packing

    def collate(sequences: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        def row(name: str) -> list[int]:
            return list(chain.from_iterable(one[name] for one in sequences))

        return {name: torch.tensor([row(name)]) for name in ("input_ids", "labels")}

    lines = []
    for finding in check_packing(lab.model(), collate, lab.texts(6)).findings:
        lines.append(f"{finding.verdict:<10} {finding.question}")
        if finding.verdict == "failed":
            short = re.split("; |, and", finding.evidence)[0]
            lines.append(f"{'':10}   {short.rstrip('.')}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Write the talk.

    Raises:
        OSError: if the file cannot be written.
    """
    parser = argparse.ArgumentParser(prog="python -m packbook.publish.talk", description="Write the talk.")
    parser.add_argument("page", type=Path, help="the file to write")
    parser.add_argument("figures", type=Path, help="where `make figures` left the pictures")
    parser.add_argument("--speaker", default="", help="a line below the title: who speaks, where and when")
    parser.add_argument("--address", default="", help="where the audience finds all of it, for the last slide")
    given = parser.parse_args(arguments)
    path = output_path(given.page, reads=[SCRIPT, *notebooks().values(), *given.figures.glob("*.svg")])
    minutes = tomllib.loads(SCRIPT.read_text(encoding="utf-8"))["minutes"]
    write_text(path, deck(talk(figures=given.figures, address=given.address), given.speaker, minutes))
    print(given.page)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
