"""A deck of slides for each notebook: `make slides`, `python -m packlib.workbook.slides slides figures NOTEBOOK …`

A deck is one HTML file that needs no network: 16:9, arrow keys, formulas as MathML. It takes from the notebook
what is told and shown: texts, figures, answers, what cells print, and the library's source where the notebook
shows it. The code of the cells stays in the notebook.
"""

import base64
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from packlib.checks import one_of
from packlib.files import write_text
from packlib.markup import escaped
from packlib.places import output_path
from packlib.workbook.gallery import Picture, pictures_of
from packlib.workbook.pages import fill_template, markdown_to_html
from packlib.workbook.results import meaning, unfold
from packlib.workbook.running import exit_code

_ROOM = 17  # lines of text that fill a slide at the usual size
_CODE_LINES = 30  # of code on a slide
_TABLE_ROWS = 14
_WIDTH, _HEIGHT = 1740, 930  # pixels for code
_LETTER = 0.61  # width of a letter in a font for code, as a share of its height


@dataclass(frozen=True)
class Slide:
    """One slide; `kind` is its class in the style sheet, `heading` names it for those who hear it.

    `notes` are the speaker's: the audience sees them when N is pressed.
    """

    kind: str
    heading: str
    body: str
    notes: str = ""


@dataclass(frozen=True)
class Block:
    """A piece that may share a slide with others of its kind; `lines` says how much room it takes."""

    body: str
    lines: float
    source: str = ""  # where it stands in the library, if it is code


def slides_of(notebook: NotebookNode, pictures: Sequence[Picture] = ()) -> list[Slide]:
    """The slides of a notebook.

    A cell may say in its metadata what becomes of it: `"packlib": {"slide": {"claim": …, "notes": …, "skip": true,
    "figure": name}}`. The claim is the title of its slides, the notes are the speaker's, `skip` leaves it out, and of
    the figures only the one that is named is shown, also where another cell drew it.

    Args:
        pictures: its figures as files; without them the images in the notebook are taken.

    Raises:
        ValueError: if there are pictures, but not those that the notebook shows, or if a slide names no figure.
    """
    return _Deck(notebook, pictures).read()


class _Deck:
    """Walks through the cells; blocks wait until the slide that they share is full."""

    def __init__(self, notebook: NotebookNode, pictures: Sequence[Picture]):
        self.cells, self.pictures = notebook.cells, {picture.name: picture for picture in pictures}
        outputs = [output for cell in self.cells for output in cell.get("outputs", ())]
        self.figures = {meaning(o)["name"]: o for o in outputs if meaning(o).get("kind") == "figure"}
        if pictures and (missing := self.figures.keys() ^ self.pictures.keys()):
            raise ValueError(
                f"The files are not those of the notebook's figures: {sorted(missing)}. Export them again."
            )
        self.section = ""
        self.heading = ""  # of the slide that is being filled
        self.claim = ""  # of the cell that is read, if it makes one
        self.notes = ""  # of the cell that is read, until a slide of it is there
        self.waiting: list[Block] = []
        self.slides: list[Slide] = []

    def read(self) -> list[Slide]:
        for cell in self.cells:
            wishes = meaning(cell).get("slide", {})
            if wishes.get("skip"):
                continue
            if wishes:  # its slides are its own
                self._flush()
            self.claim, self.notes = wishes.get("claim", ""), wishes.get("notes", "")
            self._cell(cell, wishes.get("figure", ""))
            if wishes:
                self._flush()
        self._flush()
        return self.slides

    def _cell(self, cell: NotebookNode, figure: str) -> None:
        if cell.cell_type == "markdown":
            self._markdown(cell.source)
        outputs = [] if re.search(r"^(check|surprises)\(", cell.source, re.M) else cell.get("outputs", [])
        if figure:
            others = [output for output in outputs if meaning(output).get("kind") != "figure"]
            outputs = [*others, self.figures[one_of("figure", figure, self.figures)]]
        for output in sorted(outputs, key=_tells_after):
            self._output(output)

    def _markdown(self, source: str) -> None:
        for part in re.split(r"^(?=#{1,3} )", source, flags=re.M):
            marks, heading, text = re.findall(r"\A(?:(#+) (.*)\n?)?((?s:.*))\Z", part)[0]
            self._flush()
            if marks == "#":
                self._slide("title", heading, markdown_to_html(part, address=_in_decks))
                continue
            if marks == "##":
                self.section = self.heading = heading
            elif marks:
                self.heading = f"{self.section}: {heading}"
            if text.strip():
                self._add(markdown_to_html(text, address=_in_decks), _lines(text))

    def _slide(self, kind: str, heading: str, body: str) -> None:
        self._flush()
        self.slides.append(Slide(kind, heading, body, self.notes))
        self.notes = ""

    def _flush(self) -> None:
        blocks, self.waiting = self.waiting, []
        if blocks and blocks[0].source:
            self._slide("code", *_code(blocks))
        elif blocks:
            heading = self.claim or self.heading
            body = "\n".join(block.body for block in blocks)
            self._slide("text", heading, f"<h2>{escaped(heading)}</h2>\n{body}")

    def _add(self, body: str, lines: float, source: str = "") -> None:
        room = (_CODE_LINES if source else _ROOM) - sum(block.lines for block in self.waiting)
        if self.waiting and (bool(self.waiting[0].source) is not bool(source) or lines > room):
            self._flush()
        self.waiting.append(Block(body, lines, source))

    def _output(self, output: NotebookNode) -> None:
        means, data = meaning(output), output.get("data", {})
        kind = means.get("kind")
        page, words = data.get("text/html", ""), data.get("text/markdown", "")
        if kind == "result":  # for a sweep; the figures say it
            return
        if kind == "figure":
            claim = f"<h2>{escaped(self.claim)}</h2>\n" if self.claim else ""
            self._slide("figure", self.claim or self.section, claim + self._image(means, page))
        elif kind == "reveal":
            self._slide("answer", f"{self.section}: answer", _answer(*unfold(means["folded"])))
        elif page:
            for part in _pieces(page):
                self._add(f'<div class="block">{part}</div>', max(8, part.count("<tr>")))
        elif "file" in means:
            lines = means["text"].rstrip().split("\n")
            parts = _parts(lines, _CODE_LINES - 2)
            if len(parts) > 1:
                self._flush()
            for some in parts:
                self._add("\n".join(some), len(some) + 2, means["file"])
        elif words:
            self._add(markdown_to_html(words, address=_in_decks), _lines(words))
        elif text := (output.get("text") or data.get("text/plain", "")).rstrip():
            lines = text.splitlines()
            size = max(28, min(38, _WIDTH / _LETTER / max(map(len, lines))))
            rows = sum(math.ceil(len(line) * size * _LETTER / _WIDTH) or 1 for line in lines)
            pre = f'<pre class="out" style="font-size: {size:.0f}px">{escaped(text)}</pre>'
            self._add(pre, rows * size / 50)

    def _image(self, figure: Mapping[str, str], page: str) -> str:
        if (picture := self.pictures.get(figure["name"])) is None:
            alt, source = figure["alt"], BeautifulSoup(page, "html.parser").select("img")[0]["src"]
        else:
            svg = base64.b64encode(picture.svg.read_bytes()).decode()
            alt, source = picture.alt, f"data:image/svg+xml;base64,{svg}"
        return f'<img alt="{escaped(alt)}" src="{source}">'


def _tells_after(output: NotebookNode) -> bool:
    """An answer comes before what its cell prints, which would give it away, and before where that is from."""
    return output.output_type == "stream" or meaning(output).get("kind") == "source"


def _in_decks(address: str) -> str:
    """Links to notebooks lead to their decks; other relative links are seen from the folder of decks."""
    if re.fullmatch(r"\d\d_\w+\.ipynb", address):
        return address.replace(".ipynb", ".html")
    return f"../notebooks/{address}" if address.startswith("solutions/") else address


def _lines(markdown: str) -> float:
    """About how many lines a text takes on a slide."""
    paragraphs, lines = markdown.strip().split("\n\n"), []
    for paragraph in paragraphs:
        is_list = re.match(r"\||- |\d+\. ", paragraph)
        lines += paragraph.split("\n") if is_list else [" ".join(paragraph.split())]
    return sum(math.ceil(len(line) / 68) for line in lines) + 0.6 * (len(paragraphs) - 1)


def _pieces(page: str) -> list[str]:
    """A table with many rows as several with one header; anything else as it is."""
    table = BeautifulSoup(page, "html.parser")
    rows = [row.extract() for row in table.select("tbody tr")]
    if len(rows) <= _TABLE_ROWS:
        return [page]
    (body,), pieces = table.select("tbody"), []
    for part in _parts(rows, _TABLE_ROWS):
        body.clear()
        body.extend(part)
        pieces.append(str(table))
    return pieces


def _parts(items: list, most: int) -> list[list]:
    """The items in as few parts as hold `most` each, all of about the same size."""
    each = math.ceil(len(items) / math.ceil(len(items) / most))
    return [items[start : start + each] for start in range(0, len(items), each)]


def _answer(truth: str, reason: str) -> str:
    kind = ' class="long"' if len(truth) > 20 else ""
    return f"<p><strong{kind}>{escaped(truth)}</strong></p><p>{escaped(reason)}</p>"


def _code(blocks: Sequence[Block]) -> tuple[str, str]:
    """Heading and body for library code, each piece under the name of its file, in the largest letters that fit."""
    longest = max(len(line) for block in blocks for line in block.body.split("\n"))
    size = min(32, _HEIGHT / 1.34 / sum(block.lines for block in blocks), _WIDTH / _LETTER / longest)
    parts = [
        f"<p><code>{escaped(block.source)}</code></p>" * (i == 0 or block.source != blocks[i - 1].source)
        + markdown_to_html(f"```python\n{block.body}\n```")
        for i, block in enumerate(blocks)
    ]
    files = ", ".join(dict.fromkeys(block.source for block in blocks))
    return files, f'<div style="font-size: {size:.1f}px">{"".join(parts)}</div>'


def deck(notebook: NotebookNode, pictures: Sequence[Picture] = ()) -> str:
    """The page with all slides of a notebook; `pictures` as for `slides_of`."""
    highlight = HtmlFormatter().get_style_defs(".highlight")
    return fill_template("slides.html", slides=slides_of(notebook, pictures), highlight=highlight)


def main(folder: Path, figures: Path, paths: Sequence[Path]) -> None:
    """Write a deck for each notebook.

    Raises:
        OSError: if `folder` cannot be written, or there is no such notebook.
    """
    output_path(folder, folder=True)
    for path in paths:
        page = deck(nbformat.read(path, as_version=4), pictures_of(path.stem, figures))
        write_text(folder / f"{path.stem}.html", page)
        print(folder / f"{path.stem}.html")


if __name__ == "__main__":
    folder, figures, *paths = map(Path, sys.argv[1:])
    sys.exit(exit_code(lambda: main(folder, figures, paths)))
