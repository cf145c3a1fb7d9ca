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
_WEIGHTS = {400: "Inter-Regular.otf", 700: "Inter-Bold.otf"}  # so that text and figures have one typeface
_FOR_LEARNERS = ("Exercises", "Explore", "Play")  # sections that have no slide
MOST_ROWS = 6  # of a table that the last row of a hall can read


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        kind: "title", "figure" or "text", its class in the style sheet.
        heading: its claim; the name of the notebook or the talk on the slide that opens it.
        body: HTML.
        notes: what the speaker says, as HTML; the presenter's view shows them, and N does.
        name: of its figure, or "".
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

    The slide that opens it has the sentence below its title and its first figure. A figure makes a slide, with its
    title as the claim. A cell may say otherwise in its metadata: `"packlib": {"slide":
    {"claim": …, "notes": …, "skip": true, "figure": name, "build": …}}`. With a claim any cell makes a slide, `skip`
    leaves it out, and of the figures only the one that is named is shown, also where another cell drew it. `"rows": [0,
    2]` shows these rows of a table alone. The last
    slide is the summary; its claim is the first sentence below the title, or the `"thesis"` of the cell with the title.

    A picture from a file may grow while its slide is shown. `"build": [1, 3, 6]` shows its first panel, then three of
    them, then six. `"build": 4` shows in four steps, from left to right, what is drawn inside the panels. Print and
    overview show the last step alone.

    Args:
        pictures: its figures as files; without them the images in the notebook are taken.

    Raises:
        ValueError: if there are pictures, but not those that the notebook shows, if a slide names no figure, or if it
            has a table of more than six rows.
    """
    return _Deck(notebook, pictures).read()


@dataclass
class _Deck:
    """Walks through the cells; `notes` wait until the slide that they belong to is there."""

    notebook: NotebookNode
    pictures: Sequence[Picture]
    slides: list[Slide] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    section: str = ""
    thesis: str = ""  # the claim of the summary

    def __post_init__(self) -> None:
        outputs = [output for cell in self.notebook.cells for output in cell.get("outputs", ())]
        self.figures = {meaning(o)["name"]: o for o in outputs if meaning(o).get("kind") == "figure"}
        self.files = {picture.name: picture for picture in self.pictures}
        if self.files and (missing := self.figures.keys() ^ self.files.keys()):
            raise ValueError(f"The files are not those of the notebook's figures: {sorted(missing)}. Export again.")

    def read(self) -> list[Slide]:
        for cell in self.notebook.cells:
            wishes = meaning(cell).get("slide", {})
            if cell.cell_type == "markdown" and not wishes.get("claim"):
                self._prose(cell.source)
                self.thesis = wishes.get("thesis", self.thesis)
            elif not wishes.get("skip") and self.section not in _FOR_LEARNERS:
                self._cell(cell, wishes)
        self._summary()
        return self.slides

    def _prose(self, source: str) -> None:
        for part in re.split(r"^(?=#{1,3} )", source, flags=re.M):
            marks, heading, text = re.findall(r"\A(?:(#+) (.*)\n?)?((?s:.*))\Z", part)[0]
            if marks == "#":
                self.thesis = " ".join(text.strip().partition("\n\n")[0].split())
                self.notes = [markdown_to_html(text, address=_in_decks)]
                self._slide("title", heading, self._opening(heading))
            elif marks == "##":
                self.section, self.notes = heading, []
            if marks != "#" and text.strip() and not text.lstrip().startswith("*Level"):
                self.notes.append(markdown_to_html(text, address=_in_decks))

    def _opening(self, heading: str) -> str:
        """Return the title, the sentence below it, and the first figure."""
        sentence = markdown_to_html(self.thesis, address=_in_decks)
        figure = next(iter(self.figures.values()), None)
        image = "" if figure is None else self._image(figure, {})
        return f"<h1>{escaped(heading)}</h1>\n{sentence}\n{image}"

    def _cell(self, cell: NotebookNode, wishes: Mapping[str, Any]) -> None:
        outputs = cell.get("outputs", [])
        for output in outputs:
            if meaning(output).get("kind") == "reveal":
                answer, reason = (escaped(meaning(output)[part]) for part in ("answer", "why"))
                self.notes.append(f"<p><b>{answer}.</b> {reason}</p>")
            elif _is_caption(output):
                self.notes.append(f"<p>{escaped(meaning(output)['text'])}.</p>")
        drawn = [output for output in outputs if meaning(output).get("kind") == "figure"]
        if wishes.get("figure"):
            drawn = [self.figures[one_of("figure", wishes["figure"], self.figures)]]
        for output in drawn:
            means = meaning(output)
            picture = self.files.get(means["name"])  # of a later run, whose times are others
            title = picture.title if picture else means["title"]
            claim, image = wishes.get("claim") or title or means["alt"], self._image(output, wishes)
            if self.files or claim != title:  # which a picture that is no file shows
                image = headed(claim, image)
            self._claim(claim, image, wishes.get("notes", ""), means["name"])
        if wishes.get("claim") and not drawn:
            prose = re.sub(r"^#+ .*\n?", "", cell.source, flags=re.M)
            is_text = cell.cell_type == "markdown"
            text = markdown_to_html(prose, address=_in_decks) if is_text else "".join(map(_shown, outputs))
            text = _with_rows(text, wishes.get("rows"), wishes["claim"])
            body = f'<h2>{escaped(wishes["claim"])}</h2>\n<div class="block">{text}</div>'
            self._claim(wishes["claim"], body, wishes.get("notes", ""), "")

    def _claim(self, claim: str, body: str, notes: str, name: str) -> None:
        self.notes += [f"<p>{escaped(notes)}</p>"] if notes else []
        self._slide("figure" if name else "text", claim, body, name)

    def _slide(self, kind: str, heading: str, body: str, name: str = "") -> None:
        self.slides.append(Slide(kind, heading, body, "\n".join(self.notes), name, self.section))
        self.notes = []

    def _summary(self) -> None:
        """Turn the end of the notebook into the summary slide; the first sentence below the title is its claim."""
        if self.section == "Summary" and self.notes:
            sentence = BeautifulSoup(markdown_to_html(self.thesis), "html.parser").get_text().strip()
            claim = re.split(r"(?<=[.?!])\s", sentence)[0]
            summary = BeautifulSoup("\n".join(self.notes), "html.parser")
            points = "".join(str(part.extract()) for part in summary.select("ul")[:1])
            self.notes = [str(summary)]
            self._slide("text", claim, f"<h2>{escaped(claim)}</h2>\n{points}")

    def _image(self, output: NotebookNode, wishes: Mapping[str, Any]) -> str:
        means, grows = meaning(output), f' data-build="{wishes["build"]}"' if "build" in wishes else ""
        if picture := self.files.get(means["name"]):
            svg = base64.b64encode(picture.svg.read_bytes()).decode()
            return f'<img alt="{escaped(picture.alt)}" src="data:image/svg+xml;base64,{svg}"{grows}>'
        return f'<img alt="{escaped(means["alt"])}" src="data:image/png;base64,{output["data"]["image/png"]}">'


def headed(claim: str, image: str) -> str:
    """Return a figure below a claim; if it is an SVG it loses its own title, so that a slide has one headline."""
    kind, svg, tail = re.findall(r"(?s)\A(.*?data:image/svg\+xml;base64,|)([\w+/=]*)(.*)\Z", image)[0]
    if kind:
        hidden = b"\\g<0><style>#claim { display: none }</style>"
        svg = base64.b64encode(re.sub(rb"<svg [^>]*>", hidden, base64.b64decode(svg), count=1)).decode()
    return f"<h2>{escaped(claim)}</h2>\n{kind}{svg}{tail}"


def _with_rows(text: str, chosen: Sequence[int] | None, claim: str) -> str:
    """Return HTML whose table has the chosen rows alone, counted from 0.

    Raises:
        ValueError: if so many are left that a hall cannot read them.
    """
    page = BeautifulSoup(text, "html.parser")
    for table in page.select("table"):
        rows = table.select("tbody tr")
        kept_rows = range(len(rows)) if chosen is None else chosen
        if len(kept_rows) > MOST_ROWS:
            raise ValueError(f"The slide {claim!r} has a table of {len(kept_rows)} rows; {MOST_ROWS} can be read.")
        for row_number, row in enumerate(rows):
            if row_number not in kept_rows:
                row.extract()
    return text if chosen is None else str(page)


def _is_caption(output: NotebookNode) -> bool:
    """Return whether an output says where something was recorded: such outputs go to the notes."""
    means = meaning(output)
    return means.get("kind") == "source" and "file" not in means


def _shown(output: NotebookNode) -> str:
    """Return a cell's outputs other than figures and answers, as HTML."""
    data = output.get("data", {})
    if meaning(output).get("kind") in ("reveal", "result", "style") or _is_caption(output):
        return ""
    if "text/html" in data:
        return data["text/html"]
    if "text/markdown" in data:
        return markdown_to_html(data["text/markdown"])
    return f'<pre class="out">{escaped((output.get("text") or data.get("text/plain", "")).rstrip())}</pre>'


def _in_decks(address: str) -> str:
    """Return links to notebooks lead to their decks; other relative links are seen from the folder of decks."""
    if re.fullmatch(r"\d\d_\w+\.ipynb", address):
        return address.replace(".ipynb", ".html")
    return f"../notebooks/{address}" if address.startswith("solutions/") else address


def deck(slides: Sequence[Slide], speaker: str = "", minutes: int = 0) -> str:
    """Return the page with all slides.

    Args:
        speaker: a line of text below the title: who speaks, where and when.
        minutes: that are planned, for the clock of the presenter's view; 0 if nothing is.
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
