"""Run a notebook with other parameters: what `packlib run`, `report` and `sweep` share."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import packlib
from packlib.checks import one_of
from packlib.lengths import load
from packlib.workbook.parameters import Dataset, check_values, parameters_of
from packlib.workbook.results import RESULTS_FOLDER

NOTEBOOKS = Path(packlib.__file__).resolve().parents[1] / "notebooks"


class NotebookFailedError(RuntimeError):
    """A cell of a notebook raised; the message says which, and what."""


def notebooks() -> dict[str, Path]:
    """The workbook's notebooks by name, in order."""
    return {path.stem: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}


def find_notebook(text: str) -> str:
    """The name of a notebook given as "01_padding_waste", "padding_waste", "1" or a path that ends so.

    Raises:
        ValueError: naming the near ones.
        FileNotFoundError: if the notebooks are not beside the library.
    """
    names = list(notebooks())
    if not names:
        raise FileNotFoundError(
            f"There are no notebooks in {NOTEBOOKS}: install packlib from a clone, with pip -e."
        )
    stem = Path(text).name.removesuffix(".ipynb")
    by_key = {name.partition("_")[2]: name for name in names} | {str(int(name[:2])): name for name in names}
    if stem.isdigit():
        stem = str(int(stem))
    return by_key.get(stem) or one_of("notebook", stem, names)


def read_parameters(notebook: str, pairs: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Turn `-p name value` pairs into checked values.

    Raises:
        ParameterError, ValueError: one sentence that names what is wrong, in a file of lengths too.
    """
    kinds = parameters_of(notebook)
    values = check_values(notebook, dict(pairs))
    for name, value in values.items():
        if isinstance(kinds[name], Dataset):
            load(value)  # a broken line is found now and not after half of the notebook
    return values


def new_folder(path: Path) -> Path:
    """Return the absolute path of a folder to write into.

    Raises:
        NotADirectoryError: if a file is there.
    """
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"--out {path} is a file; name a folder.")
    return path


def run(notebook: str, values: Mapping[str, Any], out: Path, progress: bool = True) -> list[Path]:
    """Run a notebook with checked parameters; return the files in `out`: the notebook, a report, the figures.

    Raises:
        NotebookFailedError: if a cell raises; then nothing is left behind.
    """
    import nbformat

    from packlib.workbook.execution import write
    from packlib.workbook.pages import PageExporter

    def fill(work: Path) -> None:
        target = work / f"{notebook}.ipynb"
        execute(notebooks()[notebook], target, values, progress)
        write(nbformat.read(target, as_version=4), target)
        page, _ = PageExporter().from_filename(str(target))
        target.with_suffix(".html").write_text(page, encoding="utf-8")

    return deliver(out, fill)


def deliver(out: Path, fill: Callable[[Path], None]) -> list[Path]:
    """Let `fill` write files into a folder beside `out`, then move them to `out`; return where they are.

    If it raises, nothing is left behind, and `out` stays as it was.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        fill(work)
        made = [path.relative_to(work) for path in sorted(work.rglob("*")) if path.is_file()]
        for path in made:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).replace(out / path)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [out / path for path in made]


def execute(source: Path, target: Path, values: Mapping[str, Any], progress: bool = True) -> None:
    """Run the notebook at `source` into `target`; its figures and files go beside `target`.

    Raises:
        NotebookFailedError: if a cell raises.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from packlib.workbook.execution import KERNEL_OPTIONS
    from packlib.workbook.figures import FIGURES_FOLDER
    from packlib.workbook.memory import SWITCH

    # It does not see parameters typed `int | None` and would call them unknown; their names are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    folders = {FIGURES_FOLDER: target.parent / "figures", RESULTS_FOLDER: target.parent}
    with environment({SWITCH: "off", **{name: str(folder) for name, folder in folders.items()}}):
        try:
            papermill.execute_notebook(
                _unformatted(source), _unformatted(target), dict(values), progress_bar=progress,
                request_save_on_cell_execute=False, **KERNEL_OPTIONS,
            )  # fmt: skip
        except PapermillExecutionError as error:
            what = f"{error.ename}: {error.evalue}"
            raise NotebookFailedError(f"cell {error.cell_index} of {source.stem} failed: {what}") from error


def _unformatted(path: Path) -> str:
    """The path for papermill, which fills in what stands between braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while, so that kernels inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
