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
    """A figure in a file, under its name in the notebook; its claim, alt text and numbers stand inside."""

    svg: Path
    name: str
    title: str
    alt: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def pictures_of(notebook: str, folder: Path) -> list[Picture]:
    """Return the pictures of a notebook in `folder`, in the order in which the notebook shows them."""
    pictures = []
    for svg in sorted(folder.glob(f"{glob.escape(notebook)}-*.svg")):
        name = svg.stem.removeprefix(f"{notebook}-").partition("-")[2]  # after its place
        title, alt, *metadata = ElementTree.parse(svg).getroot()
        numbers: dict[str, Any] = next(
            (json.loads(part.text or "{}") for part in metadata if part.get("id") == "numbers"), {}
        )
        pictures.append(Picture(svg, name, title.text or "", alt.text or "", numbers))
    return pictures


def is_fresh(path: Path, folder: Path) -> bool:
    """Return whether the pictures of the notebook at `path` exist, made from the code, data and packages of now."""
    names = {figure["name"] for figure in meanings(nbformat.read(path, as_version=4), "figure")}
    digest_file = _digest_of(path, folder)
    return (
        names <= {picture.name for picture in pictures_of(path.stem, folder)}
        and digest_file.exists()
        and digest_file.read_text(encoding="utf-8") == digest_dependencies(path)
    )


def _digest_of(path: Path, folder: Path) -> Path:
    """Return the hidden file that says what the pictures of a notebook were made of; written last."""
    return folder / f".{path.stem}.digest"


async def export(path: Path, folder: Path, work: Path) -> None:
    """Run a notebook and leave its pictures in `folder`, in place of those of an earlier run.

    They are made in `work`, a new folder in `folder`.

    Raises:
        NotebookFailedError: if a cell raises or the kernel dies; the earlier pictures stay.
    """
    work.mkdir()
    digest = digest_dependencies(path)  # before the run: what is changed meanwhile makes another run
    variables = surroundings(work) | {FIGURES_FOLDER: str(work), "OMP_NUM_THREADS": "1"}
    notebook = await run_notebook(path, environment=variables, seconds=600)
    _digest_of(path, folder).unlink(missing_ok=True)
    for old in folder.glob(f"{glob.escape(path.stem)}-[0-9][0-9]-*"):
        if old.suffix in (".svg", ".png"):  # and no notebook whose name begins so
            old.unlink()
    for place, figure in enumerate(meanings(notebook, "figure"), start=1):
        for file in (work / f"{figure['name']}.svg", work / f"{figure['name']}.png"):
            file.replace(folder / f"{path.stem}-{place:02}-{file.name}")
    write_text(_digest_of(path, folder), digest)


def contact_sheet(paths: Iterable[Path], folder: Path) -> str:
    """Return a page with all pictures: HTML that links to the files beside it."""
    titles = {path: nbformat.read(path, as_version=4).cells[0].source.splitlines()[0] for path in paths}
    chapters = [(f"{path.stem[:2]} {titles[path].lstrip('# ')}", pictures_of(path.stem, folder)) for path in titles]
    return fill_template(Path(__file__).with_name("gallery.html"), chapters=chapters)


def main(folder: Path, paths: Sequence[Path]) -> None:
    """Export what is not fresh, and write the contact sheet."""
    folder = folder.resolve()  # kernels run in the folders of their notebooks
    output_path(folder / "index.html", reads=paths)
    with work_folder(folder) as work:

        async def one(path: Path) -> None:
            if not is_fresh(path, folder):
                await export(path, folder, work / path.stem)
            print(f"{path.stem}: {len(pictures_of(path.stem, folder))} figures", flush=True)

        run_async(for_each(paths, one, at_once=os.cpu_count() or 1))
        write_text(folder / "index.html", contact_sheet(paths, folder))
    print(folder / "index.html")


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])))
