"""One talk made of the chapters' slides: `make talk`, `python -m packbook.publish.talk slides/talk.html figures`

`talk.toml` beside this file says which slides, in which order, and what the speaker says with each.
"""

import argparse
import base64
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

from packbook.figures import svg
from packbook.pages import markdown_to_html
from packbook.publish.gallery import pictures_of
from packbook.publish.slides import Slide, deck, headed, slides_of
from packbook.publish.talk_figures import FIGURES
from packbook.results import meanings
from packbook.run.running import NOTEBOOKS, find_notebook, notebooks
from packlib.arguments import escaped, one_of
from packlib.files import naming, output_path, write_text
from packlib.installed import checkout_path, needed_by
from packlib.tools.exits import exit_code

SCRIPT = Path(__file__).with_name("talk.toml")


def talk(script: Path = SCRIPT, figures: Path | None = None, address: str = "") -> list[Slide]:
    """Return the slides of a talk.

    Args:
        script: a TOML file with a `title`, a `subtitle`, the `minutes` that are planned, and tables `[[slide]]` with
            `notes` and either a `notebook` and the name of one of its figures, or the name of a `drawn` figure of the
            talk's own, or a `claim` and a `text` in Markdown. A claim beside a figure stands above it in place of its
            title. A name in braces, in claim and notes, stands for a number that the figure carries, or for a named
            result of its notebook. In a text `{check}` becomes what `check_packing` finds in a collator with faults,
            and `{address}` the `address` and a QR code that leads there. A `section` holds for the slides that follow.
        figures: where `make figures` left the pictures; without it the images in the notebooks are taken.
        address: where the audience finds all of it.

    Raises:
        ValueError: if it names a notebook or figure that is not there, or a number that its figure does not carry.
        MissingExtraError: if there is an address, and nothing that draws its QR code.
    """
    words = tomllib.loads(script.read_text(encoding="utf-8"))

    @cache
    def of_notebook(notebook: str) -> dict[str, tuple[Slide, dict[str, Any]]]:
        """Return the slides of a notebook's figures, each with its numbers and the results of the notebook."""
        path = NOTEBOOKS / f"{find_notebook(notebook)}.ipynb"
        with naming(path, "notebook for a talk"):
            cells = nbformat.read(path, as_version=4)
            pictures = pictures_of(path.stem, figures) if figures else ()
            slides = slides_of(cells, pictures)
        results = {result["name"]: result["value"] for result in meanings(cells, "result")}
        still = [figure for figure in meanings(cells, "figure") if "explorer" not in figure]
        numbers = {figure["name"]: figure.get("numbers", {}) for figure in still}
        numbers |= {picture.name: picture.numbers for picture in pictures if picture.name in numbers}
        return {slide.name: (slide, results | numbers[slide.name]) for slide in slides if slide.name in numbers}

    # drawn in the page, since as an image it would move for those who want it still
    cover = checkout_path("README.svg").read_text(encoding="utf-8")
    opening = markdown_to_html(words["notes"].replace("{minutes}", str(words.get("minutes", ""))))
    title = f"<h1>{escaped(words['title'])}</h1>\n<p>{escaped(words['subtitle'])}</p>\n{cover}"
    slides_made, section = [Slide("title", words["title"], title, opening)], ""
    for wish in words["slide"]:
        section = wish.get("section", section)
        slides_made.append(replace(_slide(wish, of_notebook, address), section=section))
    return slides_made


def _slide(wish: Mapping[str, Any], of_notebook: Any, address: str) -> Slide:
    if "drawn" in wish:
        name = one_of("drawn", wish["drawn"], FIGURES)
        drawn = FIGURES[name]()
        drawing = base64.b64encode(svg(drawn.figure, drawn.alt).encode()).decode()
        image = f'<img alt="{escaped(drawn.alt)}" src="data:image/svg+xml;base64,{drawing}">'
        notes = f"{_filled(wish['notes'], name, drawn.numbers)}\n\n{drawn.source}."
        return _figure_slide(_filled(wish["claim"], name, drawn.numbers), image, notes, name)
    if "figure" in wish:
        slides = of_notebook(wish["notebook"])
        slide, numbers = slides[one_of("figure", wish["figure"], slides)]
        image = slide.body[slide.body.index("<img ") :]
        claim = wish.get("claim", slide.heading)
        return _figure_slide(
            _filled(claim, slide.name, numbers), image, _filled(wish["notes"], slide.name, numbers), slide.name
        )
    notes = markdown_to_html(wish["notes"])
    body = markdown_to_html(wish["text"].replace("{address}", address))
    if "{check}" in wish["text"]:
        body = markdown_to_html(wish["text"].replace("{check}", f"```text\n{check_with_faults()}\n```"))
    if "{address}" in wish["text"] and address:
        body = f'<div class="beside"><div>{body}</div>{_code_of(address)}</div>'
    return Slide("text", wish["claim"], f"<h2>{escaped(wish['claim'])}</h2>\n{body}", notes)


def _figure_slide(claim: str, image: str, notes: str, name: str) -> Slide:
    return Slide("figure", claim, headed(claim, image), markdown_to_html(notes), name)


def _filled(words: str, figure: str, numbers: Mapping[str, Any]) -> str:
    """Return the words with the numbers of a figure in place of their names in braces."""
    try:
        return words.format_map(numbers)
    except KeyError as missing:
        known_numbers = ", ".join(map(repr, numbers)) or "none"
        raise ValueError(f"The figure {figure!r} has no number {missing}; it has {known_numbers}.") from None


def _code_of(address: str) -> str:
    """Return the QR code of an address, as a picture."""
    with needed_by("the QR code of make talk REPOSITORY=owner/name"):
        import segno
    drawn = segno.make_qr(address).svg_data_uri(border=2, omitsize=True, encode_minimal=True)
    return f'<img class="code" alt="QR code of {escaped(address)}" src="{escaped(drawn)}">'


def check_with_faults() -> str:
    """List what `check_packing` finds in a collator that only lays sequences end to end, one line per question."""
    import torch  # here, since it takes seconds

    from packbook.n06_unpacking_losses import lab
    from packlib.tools.check import check_packing

    def collate(sequences: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        def row(name: str) -> list[int]:
            return list(chain.from_iterable(sequence[name] for sequence in sequences))

        return {name: torch.tensor([row(name)]) for name in ("input_ids", "labels")}

    lines = []
    for finding in check_packing(lab.model(), collate, lab.texts(6)).findings:
        lines.append(f"{finding.verdict:<10} {finding.question}")
        if finding.verdict == "failed":
            evidence = re.split("; |, and", finding.evidence)[0]
            lines.append(f"{'':10}   {evidence.rstrip('.')}")
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
    options = parser.parse_args(arguments)
    path = output_path(options.page, reads=[SCRIPT, *notebooks().values(), *options.figures.glob("*.svg")])
    minutes = tomllib.loads(SCRIPT.read_text(encoding="utf-8"))["minutes"]
    write_text(path, deck(talk(figures=options.figures, address=options.address), options.speaker, minutes))
    print(options.page)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
