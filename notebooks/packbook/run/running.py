"""From a notebook and other parameters to a folder of files: what `packbook run` and `sweep` share."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packbook.parameters import Dataset, check_values, parameters_of
from packbook.results import FIGURES_FOLDER, RESULTS_FOLDER
from packlib.arguments import one_of
from packlib.files import Read, delivery
from packlib.installed import ROOT, checkout_path
from packlib.lengths import load

NOTEBOOKS = ROOT / "notebooks"


def notebooks() -> dict[str, Path]:
    """Return the workbook's notebooks by name, in order."""
    return {path.stem: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}


def find_notebook(text: str) -> str:
    """Return the name of a notebook given as "01_padding_waste", "padding_waste", "1" or a path that ends so.

    Raises:
        ValueError: naming notebooks with similar names.
        FileNotFoundError: if no notebook is installed, as without a checkout.
    """
    names = list(notebooks())
    stem = Path(text).name.removesuffix(".ipynb")
    name_of_notebook = stem
    for name in names:
        number, title = name[:2], name[3:]
        if stem in (name, title, number, str(int(number))):
            name_of_notebook = name
            break
    if not names:
        return checkout_path("notebooks", f"{name_of_notebook}.ipynb").stem  # raises, and says how to get it
    return one_of("notebook", name_of_notebook, names)


def read_parameters(notebook: str, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Turn `-p name value` pairs into checked values.

    Raises:
        ParameterError, ValueError: one sentence that names what is wrong, in a file of lengths too.
    """
    kinds = parameters_of(notebook)
    values = check_values(notebook, dict(pairs))
    for name, value in values.items():
        if isinstance(kinds[name], Dataset):
            load(value)  # so that a broken line is found now and not in the middle of the notebook
    return values


def run(
    notebook: str, values: Mapping[str, Any], out: Path, progress: bool = True, replace: bool = False
) -> list[Path]:
    """Run a notebook with checked parameters, and put the notebook, a report and the figures into the folder `out`.

    Args:
        values: parameters by name, as `read_parameters` returns them.
        progress: whether to show a bar.
        replace: whether to replace files that are in `out` already.

    Returns:
        The files that the run put into `out`.

    Raises:
        FileExistsError: naming a file that is there already, without `replace`.
        NotebookFailedError: if a cell raises; then nothing is left behind.
    """
    from packbook.run.execution import run_async  # here, since it loads Jupyter

    return run_async(run_into(notebook, values, out, progress=progress, replace=replace))


async def run_into(
    notebook: str,
    values: Mapping[str, Any],
    out: Path,
    threads: int | None = None,
    progress: bool = False,
    replace: bool = False,
) -> list[Path]:
    """Run as `run` does, while other notebooks run.

    Args:
        threads: that the kernel computes with; None for one on each core.
    """
    from packbook.pages import PageExporter
    from packbook.run.execution import run_notebook, write

    path = notebooks()[notebook]
    limit = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    texts = [value for value in values.values() if isinstance(value, str)]  # some are paths of data sets
    reads: list[Read] = [path, *texts]
    with delivery(out, reads, [f"{notebook}.ipynb", f"{notebook}.html"], replace) as (work, files):
        environment = surroundings(work) | limit
        executed = await run_notebook(path, values, environment, progress=progress)
        write(executed, work / f"{notebook}.ipynb")
        title = {"metadata": {"name": notebook}}
        page, _ = await asyncio.to_thread(PageExporter().from_notebook_node, executed, title)  # others run meanwhile
        (work / f"{notebook}.html").write_text(page, encoding="utf-8")
    return files


def surroundings(folder: Path) -> dict[str, str]:
    """Return the environment variables of a kernel whose figures and files go to `folder`."""
    return {FIGURES_FOLDER: str(folder / "figures"), RESULTS_FOLDER: str(folder)}
