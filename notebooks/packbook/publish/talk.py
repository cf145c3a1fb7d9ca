"""One talk made of the chapters' slides: `make talk`, `python -m packbook.publish.talk slides/talk.html figures`

`talk.toml` beside this file says which slides, in which order, and what the speaker says with each.
"""

import argparse
import base64
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

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


NumberedSlide: TypeAlias = tuple[Slide, Mapping[str, Any]]  # with the numbers that its claim and notes may name


def talk(script: Path = SCRIPT, figures: Path | None = None, address: str = "") -> list[Slide]:
    """Return the slides of a talk.

    Args:
        script: a TOML file with a `title`, a `subtitle`, `notes` for the first slide, the `minutes` that are planned,
            and a table `[[slide]]` for each further slide (see `_slide`). A `section` in such a table holds for the
            slides that follow, too.
        figures: where `make figures` left the pictures; without it the images in the notebooks are taken.
        address: where the audience finds all of it.

    Raises:
        ValueError: if it names a notebook or figure that is not there, or a number that its figure does not carry.
        MissingExtraError: if there is an address, and nothing that draws its QR code.
    """
    words = tomllib.loads(script.read_text(encoding="utf-8"))
    slides = [_opening(words)]
    slides_of_notebook = cache(partial(_slides_of_figures, figures=figures))  # several slides are of one notebook
    section = ""
    for wish in words["slide"]:
        section = wish.get("section", section)
        slide = _slide(wish, slides_of_notebook, address)
        slides.append(replace(slide, section=section))
    return slides


def _opening(words: Mapping[str, Any]) -> Slide:
    """Return the first slide: title, subtitle and the drawing of README."""
    # the SVG itself, not an image: an image would move even for viewers who ask for reduced motion
    cover = checkout_path("README.svg").read_text(encoding="utf-8")
    body = f"<h1>{escaped(words['title'])}</h1>\n<p>{escaped(words['subtitle'])}</p>\n{cover}"
    notes = words["notes"].replace("{minutes}", str(words.get("minutes", "")))
    return Slide("title", words["title"], body, markdown_to_html(notes))


def _slides_of_figures(notebook: str, figures: Path | None) -> dict[str, NumberedSlide]:
    """Return the slides of a notebook's figures, by the name of the figure.

    The numbers of a slide are the named results of its notebook and what the figure carries. If there are pictures, it
    is what the picture carries, since it may be of a later run than the notebook.
    """
    path = NOTEBOOKS / f"{find_notebook(notebook)}.ipynb"
    with naming(path, "notebook for a talk"):
        cells = nbformat.read(path, as_version=4)
        pictures = pictures_of(path.stem, figures) if figures else ()
        slides = slides_of(cells, pictures)
    results = {result["name"]: result["value"] for result in meanings(cells, "result")}

    # explorers have no numbers, and no slide in a talk
    plain_figures = [figure for figure in meanings(cells, "figure") if "explorer" not in figure]
    numbers_by_figure = {figure["name"]: figure.get("numbers", {}) for figure in plain_figures}
    for picture in pictures:
        if picture.name in numbers_by_figure:
            numbers_by_figure[picture.name] = picture.numbers

    numbered_slides: dict[str, NumberedSlide] = {}
    for slide in slides:
        if slide.name in numbers_by_figure:
            numbered_slides[slide.name] = (slide, results | numbers_by_figure[slide.name])
    return numbered_slides


def _slide(
    wish: Mapping[str, Any], slides_of_notebook: Callable[[str], Mapping[str, NumberedSlide]], address: str
) -> Slide:
    """Return the slide that a table `[[slide]]` of the script describes; it has `notes`, and one of

    - `drawn` and `claim`: the name of a figure that only the talk has;
    - `notebook` and `figure`: their names. A `claim` here stands above the figure in place of the figure's title;
    - `claim` and `text`, in Markdown.

    A name in braces, in the claim and notes of a figure, stands for one of the figure's numbers.

    Args:
        wish: that table.
        slides_of_notebook: returns the slides of a notebook, by the names of their figures.
        address: as in `talk`.
    """
    if "drawn" in wish:
        return _slide_of_own_figure(wish)
    if "figure" in wish:
        return _slide_of_notebook(wish, slides_of_notebook(wish["notebook"]))
    return _slide_of_text(wish, address)


def _slide_of_own_figure(wish: Mapping[str, Any]) -> Slide:
    """Return the slide of a figure that only the talk has, with its source at the end of the notes."""
    name = one_of("drawn", wish["drawn"], FIGURES)
    drawn = FIGURES[name]()
    data = base64.b64encode(svg(drawn.figure, drawn.alt).encode()).decode()
    image = f'<img alt="{escaped(drawn.alt)}" src="data:image/svg+xml;base64,{data}">'
    claim = _filled(wish["claim"], name, drawn.numbers)
    notes = _filled(wish["notes"], name, drawn.numbers)
    return _figure_slide(claim, image, f"{notes}\n\n{drawn.source}.", name)


def _slide_of_notebook(wish: Mapping[str, Any], slides: Mapping[str, NumberedSlide]) -> Slide:
    """Return the slide of a notebook's figure, with the notes of the talk; `slides` are those of the notebook."""
    slide, numbers = slides[one_of("figure", wish["figure"], slides)]
    image = slide.body[slide.body.index("<img ") :]  # without its heading
    claim = _filled(wish.get("claim", slide.heading), slide.name, numbers)
    notes = _filled(wish["notes"], slide.name, numbers)
    return _figure_slide(claim, image, notes, slide.name)


def _slide_of_text(wish: Mapping[str, Any], address: str) -> Slide:
    """Return a slide of a text, in which `{check}` and `{address}` are filled in.

    `{check}` becomes what `check_packing` finds in a collator with faults. `{address}` becomes the address, and a QR
    code that leads there stands next to the text.
    """
    text = wish["text"].replace("{address}", address)
    if "{check}" in text:
        text = text.replace("{check}", f"```text\n{check_with_faults()}\n```")
    body = markdown_to_html(text)
    if "{address}" in wish["text"] and address:
        body = f'<div class="beside"><div>{body}</div>{_code_of(address)}</div>'
    claim = wish["claim"]
    return Slide("text", claim, f"<h2>{escaped(claim)}</h2>\n{body}", markdown_to_html(wish["notes"]))


def _figure_slide(claim: str, image: str, notes: str, name: str) -> Slide:
    """Return the slide of a figure; `image` is HTML, `notes` are Markdown."""
    return Slide("figure", claim, headed(claim, image), markdown_to_html(notes), name)


def _filled(words: str, figure: str, numbers: Mapping[str, Any]) -> str:
    """Return the words with a figure's numbers in place of their names in braces, as `str.format` does.

    Raises:
        ValueError: naming the figure, if it lacks such a number.
    """
    try:
        return words.format_map(numbers)
    except KeyError as missing:
        known_numbers = ", ".join(map(repr, numbers)) or "none"
        raise ValueError(f"The figure {figure!r} has no number {missing}; it has {known_numbers}.") from None


def _code_of(address: str) -> str:
    """Return the QR code of an address, as an `<img>`."""
    with needed_by("the QR code of make talk REPOSITORY=owner/name"):
        import segno
    data_url = segno.make_qr(address).svg_data_uri(border=2, omitsize=True, encode_minimal=True)
    return f'<img class="code" alt="QR code of {escaped(address)}" src="{escaped(data_url)}">'


def check_with_faults() -> str:
    """List what `check_packing` finds in a collator that only lays sequences end to end.

    Returns:
        A line for each question with its verdict, and below a failed one the evidence.
    """
    import torch  # here, since it takes seconds

    from packbook.n06_unpacking_losses import lab
    from packlib.tools.check import check_packing

    def collate(sequences: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        """Lay all sequences end to end in one row, shape (1, tokens), without mask and positions."""
        batch = {}
        for name in ("input_ids", "labels"):
            row = list(chain.from_iterable(sequence[name] for sequence in sequences))
            batch[name] = torch.tensor([row])
        return batch

    lines = []
    for finding in check_packing(lab.model(), collate, lab.texts(6)).findings:
        lines.append(f"{finding.verdict:<10} {finding.question}")  # questions stand below one another
        if finding.verdict == "failed":
            first_clause = re.split("; |, and", finding.evidence)[0]  # a slide has no room for more
            lines.append(f"{'':10}   {first_clause.rstrip('.')}")
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
    inputs = [SCRIPT, *notebooks().values(), *options.figures.glob("*.svg")]
    path = output_path(options.page, reads=inputs)
    minutes = tomllib.loads(SCRIPT.read_text(encoding="utf-8"))["minutes"]
    slides = talk(figures=options.figures, address=options.address)
    write_text(path, deck(slides, options.speaker, minutes))
    print(options.page)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
