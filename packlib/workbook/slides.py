"""A deck of slides for each notebook: `make slides`, `python -m packlib.workbook.slides slides figures NOTEBOOK …`

A deck is one HTML file that needs no network: 16:9, arrow keys, formulas as MathML. It takes from the notebook
what is told and shown: texts, figures, answers, what cells print, and the library's source where the notebook
shows it. The code of the cells stays in the notebook.
"""

import base64
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import nbformat
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from packlib.files import atomic_path
from packlib.markup import escaped
from packlib.workbook.gallery import Picture, pictures_of, shown_alts
from packlib.workbook.guesses import NO_GUESS
from packlib.workbook.pages import content_policy, markdown_to_html
from packlib.workbook.results import RESULT

_TEMPLATE = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
_POLICY = content_policy(re.findall(r"<script>(.*)</script>", _TEMPLATE.safe_substitute(), re.S)[0])
_ROOM = 17  # lines of text that fill a slide at the usual size
_CODE_LINES = 30  # of code on a slide
_TABLE_ROWS = 14
_WIDTH, _HEIGHT = 1740, 930  # pixels for code
_LETTER = 0.61  # width of a letter in a font for code, as a share of its height


@dataclass(frozen=True)
class Slide:
    """One slide; `kind` is its class in the style sheet, `heading` names it for those who hear it."""

    kind: str
    heading: str
    body: str


@dataclass(frozen=True)
class Block:
    """A piece that may share a slide with others of its kind; `lines` says how much room it takes."""

    body: str
    lines: float
    source: str = ""  # where it stands in the library, if it is code


def slides_of(notebook: NotebookNode, pictures: Sequence[Picture] = ()) -> list[Slide]:
    """The slides of a notebook.

    Args:
        pictures: its figures as files, in order; without them the images in the notebook are taken.

    Raises:
        ValueError: if there are pictures, but not as many as the notebook shows.
    """
    if pictures and len(pictures) != (number := len(shown_alts(notebook))):
        raise ValueError(
            f"The notebook shows {number} figures, but {len(pictures)} files are there: export them again."
        )
    return list(_Deck(iter(pictures)).read(notebook))


class _Deck:
    """Walks through the cells; blocks wait until the slide that they share is full."""

    def __init__(self, pictures: Iterator[Picture]) -> None:
        self.pictures = pictures
        self.chapter = self.section = ""
        self.heading = ""  # of the slide that is being filled
        self.waiting: list[Block] = []

    def read(self, notebook: NotebookNode) -> Iterator[Slide]:
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                yield from self._markdown(cell.source)
            elif cell.cell_type == "code" and not re.search(r"^(check|surprises)\(", cell.source, re.M):
                for output in sorted(cell.outputs, key=_tells_after):
                    yield from self._output(output)
        yield from self._flush()

    def _markdown(self, source: str) -> Iterator[Slide]:
        for part in re.split(r"^(?=#{1,3} )", source, flags=re.M):
            marks, heading, text = re.findall(r"\A(?:(#+) (.*)\n?)?((?s:.*))\Z", part)[0]
            yield from self._flush()
            if marks == "#":
                self.chapter = heading
                yield Slide("title", heading, _linked(markdown_to_html(part)))
                continue
            if marks == "##":
                self.section = self.heading = heading
            elif marks:
                self.heading = f"{self.section}: {heading}"
            if text.strip():
                yield from self._add(_linked(markdown_to_html(text)), _lines(text))

    def _flush(self) -> Iterator[Slide]:
        blocks, self.waiting = self.waiting, []
        if blocks and blocks[0].source:
            yield _code(blocks)
        elif blocks:
            title = f"<h2>{escaped(self.heading)}</h2>\n"
            yield Slide("text", self.heading, title + "\n".join(block.body for block in blocks))

    def _add(self, body: str, lines: float, source: str = "") -> Iterator[Slide]:
        room = _CODE_LINES if source else _ROOM
        if self.waiting and (
            bool(self.waiting[-1].source) is not bool(source)
            or sum(block.lines for block in self.waiting) + lines > room
        ):
            yield from self._flush()
        self.waiting.append(Block(body, lines, source))

    def _output(self, output: NotebookNode) -> Iterator[Slide]:
        if RESULT in output.get("metadata", {}):  # for a sweep; the figures say it
            return
        data = output.get("data", {})
        page, words = data.get("text/html", ""), data.get("text/markdown", "")
        if "<img " in page:
            yield from self._flush()
            yield Slide("figure", self.section, self._image(page))
        elif page.startswith("<details"):
            yield from self._flush()
            yield Slide("answer", f"{self.section}: answer", _answer(page))
        elif page:
            for part in _pieces(page):
                yield from self._add(f'<div class="block">{part}</div>', max(8, part.count("<tr>")))
        elif source := re.fullmatch(r"From `(.*?)`:\n```python\n(.*)```\s*", words, re.S):
            where, lines = source[1], source[2].rstrip().split("\n")
            parts = math.ceil((len(lines) + 2) / _CODE_LINES)
            each = math.ceil(len(lines) / parts)
            if parts > 1:
                yield from self._flush()
            for start in range(0, len(lines), each):
                some = lines[start : start + each]
                yield from self._add("\n".join(some), len(some) + 2, where)
        elif words:
            yield from self._add(_linked(markdown_to_html(words)), _lines(words))
        elif text := (output.get("text") or data.get("text/plain", "")).rstrip():
            lines = text.splitlines()
            size = max(28, min(38, _WIDTH / _LETTER / max(map(len, lines))))
            rows = sum(math.ceil(len(line) * size * _LETTER / _WIDTH) or 1 for line in lines)
            pre = f'<pre class="out" style="font-size: {size:.0f}px">{escaped(text)}</pre>'
            yield from self._add(pre, rows * size / 50)

    def _image(self, page: str) -> str:
        if picture := next(self.pictures, None):
            source = "data:image/svg+xml;base64," + base64.b64encode(picture.svg.read_bytes()).decode()
            return f'<img alt="{escaped(picture.alt)}" src="{source}">'
        alt, source = re.findall(r'<img alt="([^"]*)".*? src="([^"]*)"', page)[0]
        return f'<img alt="{alt}" src="{source}">'


def _tells_after(output: NotebookNode) -> bool:
    """An answer comes before what its cell prints, which would give it away."""
    return output.output_type == "stream"


def _linked(page: str) -> str:
    """Links to notebooks lead to their decks; other relative links are seen from the folder of decks."""
    page = re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.html"', page)
    return re.sub(r'href="(?=solutions/)', 'href="../notebooks/', page)


def _lines(markdown: str) -> float:
    """About how many lines a text takes on a slide."""
    lines = [line for paragraph in markdown.strip().split("\n\n") for line in _unwrapped(paragraph)]
    return sum(math.ceil(len(line) / 68) for line in lines) + 0.6 * markdown.strip().count("\n\n")


def _unwrapped(paragraph: str) -> list[str]:
    if re.match(r"\||- |\d+\. ", paragraph):
        return paragraph.split("\n")
    return [" ".join(paragraph.split())]


def _pieces(page: str) -> list[str]:
    """A table with many rows as several with one header; anything else as it is."""
    found = re.fullmatch(r"(<table>.*<tbody>)(.*)(</tbody></table>)", page, re.S)
    rows = re.findall(r"<tr>.*?</tr>", found[2], re.S) if found else []
    if found is None or len(rows) <= _TABLE_ROWS:
        return [page]
    each = math.ceil(len(rows) / math.ceil(len(rows) / _TABLE_ROWS))
    return [found[1] + "".join(rows[i : i + each]) + found[3] for i in range(0, len(rows), each)]


def _answer(page: str) -> str:
    said, why = re.findall(r"<b>(.*?)</b>(.*?)</p>", page, re.S)[0]
    kind = ' class="long"' if len(said) > 20 else ""
    why = why.replace(escaped(NO_GUESS), "").strip()
    return f"<p><strong{kind}>{said.removesuffix('.')}</strong></p><p>{why}</p>"


def _code(blocks: Sequence[Block]) -> Slide:
    """Library code, each piece under the name of its file, in the largest letters that fit."""
    longest = max(len(line) for block in blocks for line in block.body.split("\n"))
    size = min(32, _HEIGHT / 1.34 / sum(block.lines for block in blocks), _WIDTH / _LETTER / longest)
    parts = [
        f"<p><code>{escaped(block.source)}</code></p>" * (i == 0 or block.source != blocks[i - 1].source)
        + markdown_to_html(f"```python\n{block.body}\n```")
        for i, block in enumerate(blocks)
    ]
    files = ", ".join(dict.fromkeys(block.source for block in blocks))
    return Slide("code", files, f'<div style="font-size: {size:.1f}px">{"".join(parts)}</div>')


def deck(notebook: NotebookNode, pictures: Sequence[Picture] = ()) -> str:
    """The page with all slides of a notebook; `pictures` as for `slides_of`."""
    slides = slides_of(notebook, pictures)
    chapter, sections = escaped(slides[0].heading), []
    for number, slide in enumerate(slides, start=1):
        heading = escaped(slide.heading)
        where = f"{chapter}: {heading}" if number > 1 else chapter
        sections.append(
            f'<section class="{slide.kind}" aria-roledescription="slide" '
            f'aria-label="{number} of {len(slides)}: {heading}">\n'
            f"<header><span>{where}</span><span>{number}</span></header>\n"
            f'<div class="body">{slide.body}</div>\n</section>'
        )
    highlight = HtmlFormatter().get_style_defs(".highlight")
    parts = {"title": chapter, "slides": "\n".join(sections), "highlight": highlight}
    return _TEMPLATE.substitute(parts, policy=_POLICY)


def main(folder: Path, figures: Path, paths: Sequence[Path]) -> None:
    """Write a deck for each notebook."""
    for path in paths:
        page = deck(nbformat.read(path, as_version=4), pictures_of(path.stem, figures))
        with atomic_path(folder / f"{path.stem}.html") as beside:
            beside.write_text(page, encoding="utf-8")
        print(folder / f"{path.stem}.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(argument) for argument in sys.argv[3:]])
