"""The one way in which packlib runs a notebook, and how it is stored so that a second run gives the same bytes.

`python -m packbook.run.execution NOTEBOOK …` runs notebooks in place: `make notebooks`.
"""

import asyncio
import hashlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from tqdm import tqdm

from packlib.files import write_text
from packlib.tools.exits import NotebookFailedError, exit_code

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = dict(name="python", file_extension=".py", mimetype="text/x-python", pygments_lexer="ipython3")
_OF_ONE_RUN = ("execution", "papermill", "ExecuteTime")  # times in the metadata of a cell


def settle(notebook: NotebookNode) -> NotebookNode:
    """Take out what changes from run to run (times, versions, random ids) and what dies with the kernel.

    A live widget becomes its static picture: a stored notebook has no kernel behind it.
    """
    notebook.metadata = NotebookNode(kernelspec=_KERNEL, language_info=_LANGUAGE)
    times_by_code: dict[str, int] = {}
    for cell in notebook.cells:
        code = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        times_by_code[code] = times_by_code.get(code, 0) + 1
        cell.id = code if times_by_code[code] == 1 else f"{code}-{times_by_code[code]}"
        for name in _OF_ONE_RUN:
            cell.metadata.pop(name, None)
        for output in cell.get("outputs", ()):
            if {"text/html", "image/png"} & set(output.get("data", ())):
                output.data.pop(WIDGET_VIEW, None)
    return notebook


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a settled notebook, whole or not at all."""
    write_text(path, nbformat.writes(settle(notebook)) + "\n")


async def run_notebook(
    path: Path,
    values: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    progress: bool = False,
    seconds: float | None = None,
) -> NotebookNode:
    """Run a notebook in its own folder; return it with its outputs.

    Args:
        values: parameters, set in a cell of their own after the one that is tagged "parameters", as papermill does.
        environment: variables that the kernel has besides those of this process.
        progress: whether to show a bar.
        seconds: that a cell may take; None is no limit.

    Raises:
        NotebookFailedError: if a cell raises or takes too long, or the kernel dies.
    """
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)  # what nbclient logs is said by its exceptions
    notebook = nbformat.read(path, as_version=4)
    if values:
        set_them = "\n".join(["# Parameters", *(f"{name} = {value!r}" for name, value in values.items())])
        tagged = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())]
        cell = new_code_cell(set_them, metadata={"tags": ["injected-parameters"]})
        notebook.cells.insert(tagged[0] + 1, cell)
    resources = {"metadata": {"path": str(path.parent)}}
    quiet = ["--IPKernelApp.log_level=CRITICAL"]  # that it is not encrypted, or was interrupted while it ended
    options: dict[str, Any] = {"kernel_name": "python3", "store_widget_state": False, "coalesce_streams": True}
    client = NotebookClient(notebook, timeout=seconds, resources=resources, extra_arguments=quiet, **options)
    number = sum(cell.cell_type == "code" for cell in notebook.cells)
    with tqdm(total=number, unit="cell", disable=not progress) as bar:
        client.on_cell_executed = lambda **_: bar.update()
        try:
            await client.async_execute(env={**os.environ, **(environment or {})})
        except (CellExecutionError, CellTimeoutError) as error:
            where = f"cell [{client.code_cells_executed - bool(values)}] of {path.stem}"  # as Jupyter counts
            if isinstance(error, CellTimeoutError):
                raise NotebookFailedError(f"{where} took longer than {seconds:g} seconds.") from error
            raise NotebookFailedError(f"{where} failed: {error.ename}: {error.evalue}") from error
        except RuntimeError as error:
            if "Kernel died" not in str(error):
                raise
            why = "most likely because memory ran out: take less data or close other programs."
            raise NotebookFailedError(f"the kernel of {path.stem} died, {why}") from error
    return notebook


class _Loop(asyncio.SelectorEventLoop):
    """Leaves signals to Python: nbclient would end one kernel at a signal, and go on with the others."""

    def add_signal_handler(self, *_: object) -> None:
        raise RuntimeError("Signals are not handled here.")  # nbclient takes this for an answer


def run_async(work: Coroutine) -> Any:
    """Run as `asyncio.run` does; an interrupt ends all notebooks that `work` runs, and their kernels."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        # what they raise while they are stopped is of no interest
        runner.get_loop().set_exception_handler(lambda *_: None)
        return runner.run(work)


async def for_each(items: Iterable, work: Callable[[Any], Awaitable], at_once: int) -> None:
    """Await `work` for every item, for so many `at_once`."""
    slots = asyncio.Semaphore(at_once)

    async def one(item: Any) -> None:
        async with slots:
            await work(item)

    await asyncio.gather(*map(one, items))


def run_in_place(path: Path) -> None:
    """Run a notebook and store its outputs; if a cell raises, the file stays as it was.

    Raises:
        NotebookFailedError: as `run_notebook`.
    """
    write(run_async(run_notebook(path, seconds=600)), path)


def main(paths: Sequence[str]) -> None:
    """Run notebooks in place, one after the other."""
    for path in paths:
        print(path, flush=True)
        run_in_place(Path(path).resolve())


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
