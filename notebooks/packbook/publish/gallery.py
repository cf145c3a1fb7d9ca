"""Every figure of every notebook as a file: `make figures`, `python -m packbook.publish.gallery figures NOTEBOOK …`

A figure is `<notebook>-<place>-<content>.svg` and `.png`, so that it says where it is from wherever it goes.
"""

import glob
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat

from packbook.pages import fill_template
from packbook.results import FIGURES_FOLDER, meanings
from packbook.run.dependencies import digest_dependencies
from packbook.run.execution import for_each, run_async, run_notebook
from packbook.run.running import surroundings
from packlib.files import output_path, work_folder, write_text
from packlib.tools.exits import exit_code


@dataclass(frozen=True)
class Picture:
    """A figure of a notebook that was exported to a file.

    Attributes:
        svg: the file; a PNG of the same name is next to it.
        name: of the figure in its notebook.
        title: its claim.
        alt: its alt text.
        numbers: those that a slide's headline may say, by name.
    """

    svg: Path
    name: str
    title: str
    alt: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def pictures_of(notebook: str, folder: Path) -> list[Picture]:
    """Return the pictures of a notebook in `folder`, in the order in which the notebook shows them."""
    pictures = []
    for svg in sorted(folder.glob(f"{glob.escape(notebook)}-*.svg")):
        place_and_name = svg.stem.removeprefix(f"{notebook}-")  # such as 03-packed
        name = place_and_name.partition("-")[2]
        title, alt, *other_elements = ElementTree.parse(svg).getroot()  # as `packbook.figures.svg` orders them
        numbers: dict[str, Any] = {}
        for element in other_elements:
            if element.get("id") == "numbers":
                numbers = json.loads(element.text or "{}")
        pictures.append(Picture(svg, name, title.text or "", alt.text or "", numbers))
    return pictures


def is_fresh(path: Path, folder: Path) -> bool:
    """Return whether `folder` has all pictures of the notebook at `path`, made from today's code, data and packages."""
    figure_names = {figure["name"] for figure in meanings(nbformat.read(path, as_version=4), "figure")}
    picture_names = {picture.name for picture in pictures_of(path.stem, folder)}
    digest_file = _digest_file(path, folder)
    if not figure_names <= picture_names or not digest_file.exists():
        return False
    return digest_file.read_text(encoding="utf-8") == digest_dependencies(path)


def _digest_file(path: Path, folder: Path) -> Path:
    """Return the hidden file with the digest of what a notebook's pictures were made of; it is written last."""
    return folder / f".{path.stem}.digest"


async def export(path: Path, folder: Path, work: Path) -> None:
    """Run a notebook and leave its pictures in `folder`, in place of those of an earlier run.

    Args:
        work: a folder that is not there yet, on the same disk as `folder`; the run draws there.

    Raises:
        NotebookFailedError: if a cell raises or the kernel dies; the earlier pictures stay.
    """
    work.mkdir()
    digest = digest_dependencies(path)  # before the run: what is changed meanwhile makes another run
    variables = surroundings(work) | {FIGURES_FOLDER: str(work), "OMP_NUM_THREADS": "1"}
    notebook = await run_notebook(path, environment=variables, seconds=600)
    _digest_file(path, folder).unlink(missing_ok=True)
    for old in folder.glob(f"{glob.escape(path.stem)}-[0-9][0-9]-*"):
        if old.suffix in (".svg", ".png"):  # not another file that begins so, such as a notebook
            old.unlink()
    for place, figure in enumerate(meanings(notebook, "figure"), start=1):
        for file in (work / f"{figure['name']}.svg", work / f"{figure['name']}.png"):
            file.replace(folder / f"{path.stem}-{place:02}-{file.name}")
    write_text(_digest_file(path, folder), digest)


def contact_sheet(paths: Iterable[Path], folder: Path) -> str:
    """Return the HTML of a page with the pictures of all notebooks; it links to the files in `folder`."""
    chapters = []
    for path in paths:
        first_line = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
        number, title = path.stem[:2], first_line.lstrip("# ")
        chapters.append((f"{number} {title}", pictures_of(path.stem, folder)))
    return fill_template(Path(__file__).with_name("gallery.html"), chapters=chapters)


def main(folder: Path, paths: Sequence[Path]) -> None:
    """Export the pictures of each notebook where they are not fresh, and write the contact sheet."""
    folder = folder.resolve()  # kernels run in other folders, those of their notebooks
    output_path(folder / "index.html", reads=paths)
    with work_folder(folder) as work:

        async def export_if_stale(path: Path) -> None:
            if not is_fresh(path, folder):
                await export(path, folder, work / path.stem)
            print(f"{path.stem}: {len(pictures_of(path.stem, folder))} figures", flush=True)

        run_async(for_each(paths, export_if_stale, at_once=os.cpu_count() or 1))
        write_text(folder / "index.html", contact_sheet(paths, folder))
    print(folder / "index.html")


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])))
