"""Every figure of every notebook as a file: `make figures`, `python -m packlib.workbook.gallery figures NOTEBOOK …`

A figure is `<notebook>-<place>-<content>.svg` and `.png`, so that it says where it is from wherever it goes.
"""

import asyncio
import glob
import html
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbformat import NotebookNode

import packlib
from packlib.files import atomic_path
from packlib.markup import escaped
from packlib.places import work_folder
from packlib.workbook.execution import run_async, run_notebook
from packlib.workbook.figures import FIGURES_FOLDER
from packlib.workbook.memory import SWITCH
from packlib.workbook.pages import content_policy
from packlib.workbook.running import exit_code

_IMAGE_ALT = re.compile(r'<img alt="([^"]*)"')


@dataclass(frozen=True)
class Picture:
    """A figure in a file: its claim and its alt text stand inside."""

    svg: Path
    title: str
    alt: str


def read_picture(svg: Path) -> Picture:
    """A picture that `figures.save` wrote."""
    ((title, alt),) = re.findall(
        r"<title>(.*?)</title>\s*<desc>(.*?)</desc>", svg.read_text(encoding="utf-8"), re.S
    )
    return Picture(svg, html.unescape(title), html.unescape(alt))


def pictures_of(notebook: str, folder: Path) -> list[Picture]:
    """The pictures of a notebook in `folder`, in the order in which the notebook shows them."""
    return [read_picture(path) for path in sorted(folder.glob(f"{glob.escape(notebook)}-*.svg"))]


def shown_alts(notebook: NotebookNode) -> list[str]:
    """The alt texts of all images in a notebook's outputs, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", ())]
    return [html.unescape(alt) for page in pages for alt in _IMAGE_ALT.findall(page)]


def is_fresh(path: Path, folder: Path) -> bool:
    """Whether the pictures of the notebook at `path` are newer than it and than the library."""
    made = [picture.svg.stat().st_mtime for picture in pictures_of(path.stem, folder)]
    sources = [path, *Path(packlib.__file__).parent.rglob("*.py")]
    return bool(made) and min(made) > max(source.stat().st_mtime for source in sources)


async def export(path: Path, folder: Path, work: Path) -> None:
    """Run a notebook and leave its pictures in `folder`, in place of those of an earlier run.

    They are made in `work`, a new folder in `folder`.

    Raises:
        NotebookFailedError: if a cell raises or the kernel dies; the earlier pictures stay.
    """
    work.mkdir()
    variables = {FIGURES_FOLDER: str(work), SWITCH: "off", "OMP_NUM_THREADS": "1"}
    notebook = await run_notebook(path, **variables)
    by_alt = {picture.alt: picture.svg for picture in map(read_picture, work.glob("*.svg"))}
    ordered = [by_alt[alt] for alt in shown_alts(notebook)]
    for old in folder.glob(f"{glob.escape(path.stem)}-*"):
        old.unlink()
    placed = []
    for place, made in enumerate(ordered, start=1):
        for file in (made, made.with_suffix(".png")):
            os.utime(file, (0, 0))  # until all are in place, those that are do not count as fresh
            placed.append(file.replace(folder / f"{path.stem}-{place:02}-{file.name}"))
    for file in placed:
        os.utime(file)


async def export_all(paths: Sequence[Path], folder: Path, work: Path, at_once: int | None = None) -> None:
    """Export each notebook whose pictures are not fresh, `at_once` of them at the same time (default: the cores)."""
    places = asyncio.Semaphore(at_once or os.cpu_count() or 1)

    async def one(path: Path) -> None:
        async with places:
            if not is_fresh(path, folder):
                await export(path, folder, work / path.stem)
            print(f"{path.stem}: {len(pictures_of(path.stem, folder))} figures", flush=True)

    await asyncio.gather(*map(one, paths))


def contact_sheet(paths: Iterable[Path], folder: Path) -> str:
    """A page with all pictures: HTML that links to the files beside it."""
    parts = []
    for path in paths:
        title = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0].lstrip("# ")
        parts.append(f"<h2>{escaped(path.stem[:2])} {escaped(title)}</h2>\n<div>")
        for picture in pictures_of(path.stem, folder):
            svg, png = (quote(picture.svg.with_suffix(suffix).name) for suffix in (".svg", ".png"))
            parts.append(
                f'<figure><a href="{svg}"><img loading="lazy" width="640" height="360" src="{png}" '
                f'alt="{escaped(picture.alt)}"></a><figcaption>{escaped(picture.title)}<br>'
                f'<a href="{svg}">SVG</a> <a href="{png}">PNG</a> {escaped(picture.svg.stem)}</figcaption></figure>'
            )
        parts.append("</div>")
    return _PAGE.format(content_policy(images="'self' file:"), "\n".join(parts))


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{}<title>Figures of the packing workbook</title>
<style>
body {{ font: 16px/1.4 sans-serif; margin: 2rem; color: #222 }}
div {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1.5rem }}
figure {{ margin: 0 }} img {{ width: 100%; height: auto; border: 1px solid #ccc }}
figcaption {{ overflow-wrap: anywhere }}
</style></head><body>
<h1>Figures of the packing workbook</h1>
{}
</body></html>
"""


def main(folder: Path, paths: Sequence[Path]) -> None:
    """Export what is not fresh, and write the contact sheet."""
    folder = folder.resolve()  # kernels run in the folders of their notebooks
    with work_folder(folder) as work:
        run_async(export_all(paths, folder, work))
        with atomic_path(folder / "index.html") as beside:
            beside.write_text(contact_sheet(paths, folder), encoding="utf-8")
    print(folder / "index.html")


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])))
