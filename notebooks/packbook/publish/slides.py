"""A deck of slides for each notebook: `make slides`, `python -m packbook.publish.slides slides figures NOTEBOOK …`

A deck is one HTML file that needs no network: 16:9, arrow keys, formulas as MathML. A slide says one thing: its title
is a claim, and below it stands the figure, or what the cell shows. Prose, questions and their answers become the
speaker's notes. The code of the cells stays in the notebook.
"""

import argparse
import base64
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from bs4 import BeautifulSoup
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from packbook.pages import fill_template, markdown_to_html
from packbook.publish.gallery import Picture, pictures_of
from packbook.results import meaning
from packlib.arguments import escaped, one_of
from packlib.files import naming, output_path, write_text
from packlib.tools.exits import exit_code

_FONTS = Path(__file__).parents[1] / "fonts"
_TEMPLATE = Path(__file__).with_name("slides.html")
_WEIGHTS = {400: "Inter-Regular.otf", 700: "Inter-Bold.otf"}  # files by CSS weight: figures have this typeface, too
_FOR_LEARNERS = ("Exercises", "Explore", "Play")  # sections that have no slide
MOST_ROWS = 6  # of a table that the last row of a hall can read


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        kind: "title", "figure" or "text", the slide's class in the style sheet.
        heading: its claim; the name of the notebook or the talk on the slide that opens it.
        body: HTML.
        notes: what the speaker says, as HTML; the presenter's view shows them, and the key N does.
        name: of its figure in the notebook, or "".
        section: the section that it belongs to, or "".
    """

    kind: str
    heading: str
    body: str
    notes: str = ""
    name: str = ""
    section: str = ""


def slides_of(notebook: NotebookNode, pictures: Sequence[Picture] = ()) -> list[Slide]:
    """Return the slides of a notebook: one that opens it, and one for each claim.

    The first slide has the notebook's title, the sentence below it and its first figure. Each figure makes a slide,
    with its title as the claim. The last slide is the summary; its claim is the first sentence below the title.

    The metadata of a cell may say otherwise, as `"packlib": {"slide": {…}}` with these keys:

    - `"claim"`: the claim of the slide. With a claim any cell makes a slide, also one without a figure.
    - `"notes"`: what the speaker says besides.
    - `"skip"`: true leaves the cell out.
    - `"figure"`: the name of the only figure to show, which another cell may have drawn.
    - `"rows"`: numbers of the rows of a table to show, from 0, such as `[0, 2]`.
    - `"build"`: how a picture from a file grows while its slide is shown. `[1, 3, 6]` shows its first panel, then three
      of them, then six. `4` shows in four steps, from left to right, what is drawn inside the panels. Print and
      overview show the last step alone.
    - `"thesis"`: in the cell with the title, the claim of the summary.

    Args:
        pictures: its figures as files; without them the images in the notebook are taken.

    Raises:
        ValueError: if there are pictures, but not those that the notebook shows, if a slide names no figure, or if it
            has a table of more than six rows.
    """
    return _Deck(notebook, pictures).read()


@dataclass
class _Deck:
    """Makes slides of a notebook's cells, one after the other.

    Attributes:
        slides: those made so far.
        notes: HTML of what the speaker says on the next slide; each slide takes them and empties the list.
        section: the last heading of level 2.
        thesis: Markdown, the claim of the summary.
    """

    notebook: NotebookNode
    pictures: Sequence[Picture]
    slides: list[Slide] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    section: str = ""
    thesis: str = ""

    def __post_init__(self) -> None:
        outputs = [output for cell in self.notebook.cells for output in cell.get("outputs", ())]
        self.figures = {meaning(output)["name"]: output for output in outputs if _is_figure(output)}
        self.files = {picture.name: picture for picture in self.pictures}
        if self.files and (missing := self.figures.keys() ^ self.files.keys()):
            raise ValueError(f"The files are not those of the notebook's figures: {sorted(missing)}. Export again.")

    def read(self) -> list[Slide]:
        """Go through all cells, and return the slides."""
        for cell in self.notebook.cells:
            wishes = meaning(cell).get("slide", {})
            if cell.cell_type == "markdown" and not wishes.get("claim"):
                self._read_prose(cell.source)
                self.thesis = wishes.get("thesis", self.thesis)
            elif not wishes.get("skip") and self.section not in _FOR_LEARNERS:
                self._read_cell(cell, wishes)
        self._add_summary()
        return self.slides

    def _read_prose(self, source: str) -> None:
        """Turn Markdown into notes; the notebook's title makes the first slide, a heading of level 2 a section."""
        for part in re.split(r"^(?=#{1,3} )", source, flags=re.M):  # before each heading
            marks, heading, text = re.findall(r"\A(?:(#+) (.*)\n?)?((?s:.*))\Z", part)[0]
            if marks == "#":
                first_paragraph = text.strip().partition("\n\n")[0]
                self.thesis = " ".join(first_paragraph.split())
                self.notes = [markdown_to_html(text, address=_in_decks)]
                self._add_slide("title", heading, self._opening(heading))
                continue
            if marks == "##":
                self.section = heading
                self.notes = []
            is_task = text.lstrip().startswith("*Level")  # of an exercise
            if text.strip() and not is_task:
                self.notes.append(markdown_to_html(text, address=_in_decks))

    def _opening(self, heading: str) -> str:
        """Return the title, the sentence below it, and the first figure, as HTML."""
        sentence = markdown_to_html(self.thesis, address=_in_decks)
        first_figure = next(iter(self.figures.values()), None)
        image = "" if first_figure is None else self._image(first_figure, {})
        return f"<h1>{escaped(heading)}</h1>\n{sentence}\n{image}"

    def _read_cell(self, cell: NotebookNode, wishes: Mapping[str, Any]) -> None:
        """Make a slide of each figure of a cell, or of its claim alone; answers and captions become notes.

        Args:
            wishes: what the metadata of the cell says of its slide (see `slides_of`).
        """
        outputs = cell.get("outputs", [])
        for output in outputs:
            self.notes += _spoken(output)

        figures = [output for output in outputs if _is_figure(output)]
        if wishes.get("figure"):
            name = one_of("figure", wishes["figure"], self.figures)
            figures = [self.figures[name]]
        for figure in figures:
            self._add_figure(figure, wishes)
        if wishes.get("claim") and not figures:
            self._add_claim(cell, wishes)

    def _add_figure(self, figure: NotebookNode, wishes: Mapping[str, Any]) -> None:
        """Add the slide of a figure: its claim, or another one that the cell wishes for, and its picture."""
        means = meaning(figure)
        file = self.files.get(means["name"])
        title = file.title if file else means["title"]  # a file is of a later run, which may have measured other times
        claim = wishes.get("claim") or title or means["alt"]
        body = self._image(figure, wishes)
        title_is_in_picture = not self.files and claim == title
        if not title_is_in_picture:
            body = headed(claim, body)
        self._add_wished("figure", claim, body, wishes, means["name"])

    def _add_claim(self, cell: NotebookNode, wishes: Mapping[str, Any]) -> None:
        """Add a slide that has a claim and no figure: below the claim stands the cell's text, or what it printed."""
        claim = wishes["claim"]
        if cell.cell_type == "markdown":
            without_headings = re.sub(r"^#+ .*\n?", "", cell.source, flags=re.M)
            text = markdown_to_html(without_headings, address=_in_decks)
        else:
            text = "".join(map(_shown, cell.get("outputs", [])))
        text = _with_rows(text, wishes.get("rows"), claim)
        body = f'<h2>{escaped(claim)}</h2>\n<div class="block">{text}</div>'
        self._add_wished("text", claim, body, wishes)

    def _add_wished(self, kind: str, claim: str, body: str, wishes: Mapping[str, Any], name: str = "") -> None:
        """Add a slide, and to its notes those that the cell wishes for."""
        if notes := wishes.get("notes", ""):
            self.notes.append(f"<p>{escaped(notes)}</p>")
        self._add_slide(kind, claim, body, name)

    def _add_slide(self, kind: str, heading: str, body: str, name: str = "") -> None:
        """Add a slide, and give it all notes since the last slide."""
        self.slides.append(Slide(kind, heading, body, "\n".join(self.notes), name, self.section))
        self.notes = []

    def _add_summary(self) -> None:
        """Turn the end of the notebook into the summary slide; the first sentence below the title is its claim."""
        if self.section != "Summary" or not self.notes:
            return
        below_title = BeautifulSoup(markdown_to_html(self.thesis), "html.parser").get_text().strip()
        claim = re.split(r"(?<=[.?!])\s", below_title)[0]
        summary = BeautifulSoup("\n".join(self.notes), "html.parser")
        points = summary.select_one("ul")  # the slide has the first list; all else stays in the notes
        points_html = "" if points is None else str(points.extract())
        self.notes = [str(summary)]
        self._add_slide("text", claim, f"<h2>{escaped(claim)}</h2>\n{points_html}")

    def _image(self, figure: NotebookNode, wishes: Mapping[str, Any]) -> str:
        """Return the figure's `<img>`: of its file, which may be built in steps, or else of the PNG in the notebook."""
        means = meaning(figure)
        file = self.files.get(means["name"])
        if file is None:
            return f'<img alt="{escaped(means["alt"])}" src="data:image/png;base64,{figure["data"]["image/png"]}">'
        svg = base64.b64encode(file.svg.read_bytes()).decode()
        build = f' data-build="{wishes["build"]}"' if "build" in wishes else ""
        return f'<img alt="{escaped(file.alt)}" src="data:image/svg+xml;base64,{svg}"{build}>'


def headed(claim: str, image: str) -> str:
    """Return a figure below a claim, as HTML. An SVG loses its own title, so that a slide has one headline.

    Args:
        image: an `<img>` whose `src` is a data URL, with the picture in base64.
    """
    heading = f"<h2>{escaped(claim)}</h2>"
    before, svg_type, data_and_after = image.partition("data:image/svg+xml;base64,")
    if not svg_type:  # a PNG
        return f"{heading}\n{image}"
    data, after = re.findall(r"(?s)\A([\w+/=]*)(.*)\Z", data_and_after)[0]
    hide_claim = b"\\g<0><style>#claim { display: none }</style>"  # behind the tag that opens the picture
    svg = re.sub(rb"<svg [^>]*>", hide_claim, base64.b64decode(data), count=1)
    return f"{heading}\n{before}{svg_type}{base64.b64encode(svg).decode()}{after}"


def _with_rows(html: str, chosen: Sequence[int] | None, claim: str) -> str:
    """Return HTML whose tables have the chosen rows alone.

    Args:
        chosen: numbers of the rows, from 0; None chooses all.
        claim: of the slide, for the error.

    Raises:
        ValueError: if more than `MOST_ROWS` rows are chosen, which a hall cannot read.
    """
    page = BeautifulSoup(html, "html.parser")
    for table in page.select("table"):
        rows = table.select("tbody tr")
        numbers = range(len(rows)) if chosen is None else chosen
        if len(numbers) > MOST_ROWS:
            raise ValueError(f"The slide {claim!r} has a table of {len(numbers)} rows; {MOST_ROWS} can be read.")
        for number, row in enumerate(rows):
            if number not in numbers:
                row.extract()
    return html if chosen is None else str(page)


def _is_figure(output: NotebookNode) -> bool:
    return meaning(output).get("kind") == "figure"


def _is_caption(output: NotebookNode) -> bool:
    """Return whether an output says where something was recorded; a source with a file shows code instead."""
    means = meaning(output)
    return means.get("kind") == "source" and "file" not in means


def _spoken(output: NotebookNode) -> list[str]:
    """Return the note that an output makes, as HTML: the answer to a question, or a caption; [] for others."""
    means = meaning(output)
    if means.get("kind") == "reveal":
        return [f"<p><b>{escaped(means['answer'])}.</b> {escaped(means['why'])}</p>"]
    if _is_caption(output):
        return [f"<p>{escaped(means['text'])}.</p>"]
    return []


def _shown(output: NotebookNode) -> str:
    """Return an output as HTML; "" if it is an answer, a result, a style or a caption, which slides do not show."""
    data = output.get("data", {})
    if meaning(output).get("kind") in ("reveal", "result", "style") or _is_caption(output):
        return ""
    if "text/html" in data:
        return data["text/html"]
    if "text/markdown" in data:
        return markdown_to_html(data["text/markdown"])
    printed = output.get("text") or data.get("text/plain", "")
    return f'<pre class="out">{escaped(printed.rstrip())}</pre>'


def _in_decks(address: str) -> str:
    """Return where a link of a notebook leads in a deck: to another notebook's deck, or back among the notebooks."""
    if re.fullmatch(r"\d\d_\w+\.ipynb", address):
        return address.replace(".ipynb", ".html")
    return f"../notebooks/{address}" if address.startswith("solutions/") else address


def deck(slides: Sequence[Slide], speaker: str = "", minutes: int = 0) -> str:
    """Return the page with all slides.

    Args:
        speaker: a line of text below the title: who speaks, where and when.
        minutes: planned length, for the clock of the presenter's view; 0 for no plan.
    """
    words = {"slides": slides, "speaker": speaker, "minutes": minutes}
    fonts = {weight: base64.b64encode((_FONTS / file).read_bytes()).decode() for weight, file in _WEIGHTS.items()}
    return fill_template(_TEMPLATE, **words, fonts=fonts, highlight=HtmlFormatter().get_style_defs(".highlight"))


def main(arguments: Sequence[str]) -> None:
    """Write a deck for each notebook.

    Raises:
        OSError: if the folder cannot be written, or there is no such notebook.
        ValueError: one sentence that names the notebook, if no deck can be made of it.
    """
    parser = argparse.ArgumentParser(prog="python -m packbook.publish.slides", description="Write a deck a notebook.")
    parser.add_argument("folder", type=Path, help="where the decks go")
    parser.add_argument("figures", type=Path, help="where `make figures` left the pictures")
    parser.add_argument("notebooks", type=Path, nargs="*")
    parser.add_argument("--speaker", default="", help="a line below the title: who speaks, where and when")
    options = parser.parse_args(arguments)
    output_path(options.folder, folder=True)
    decks = {path: options.folder / f"{path.stem}.html" for path in options.notebooks}
    for deck_path in decks.values():
        output_path(deck_path, reads=options.notebooks)
    for path, deck_path in decks.items():
        with naming(path, "notebook for a deck"):
            slides = slides_of(nbformat.read(path, as_version=4), pictures_of(path.stem, options.figures))
        write_text(deck_path, deck(slides, options.speaker))
        print(deck_path)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
