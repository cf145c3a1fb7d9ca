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
from packlib.tools.exits import NotebookFailedError, exit_code, signals_put_off

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = dict(name="python", file_extension=".py", mimetype="text/x-python", pygments_lexer="ipython3")
_OF_ONE_RUN = ("execution", "papermill", "ExecuteTime")  # keys of a cell's metadata that hold times


def settle(notebook: NotebookNode) -> NotebookNode:
    """Change a notebook, in place, so that a second run stores the same bytes, and return it.

    Times, versions and random ids are taken out; the id of a cell follows from its source. A widget becomes its static
    picture, since a stored notebook has no kernel behind it.
    """
    notebook.metadata = NotebookNode(kernelspec=_KERNEL, language_info=_LANGUAGE)
    cells_by_digest: dict[str, int] = {}  # how many cells with this source there were so far
    for cell in notebook.cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        count = cells_by_digest.get(digest, 0) + 1
        cells_by_digest[digest] = count
        cell.id = digest if count == 1 else f"{digest}-{count}"  # ids must differ
        for name in _OF_ONE_RUN:
            cell.metadata.pop(name, None)
        for output in cell.get("outputs", ()):
            has_static_form = {"text/html", "image/png"} & set(output.get("data", ()))
            if has_static_form:
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
        values: parameters, set in an additional cell after the one with the tag "parameters", as papermill does.
        environment: variables that the kernel has besides those of this process.
        progress: whether to show a bar.
        seconds: time limit for a cell; None for no limit.

    Raises:
        NotebookFailedError: if a cell raises or takes too long, or the kernel dies.
    """
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)  # what nbclient logs is said by its exceptions
    notebook = nbformat.read(path, as_version=4)
    if values:
        assignments = [f"{name} = {value!r}" for name, value in values.items()]
        source = "\n".join(["# Parameters", *assignments])
        tagged = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())]
        parameters_cell = new_code_cell(source, metadata={"tags": ["injected-parameters"]})
        notebook.cells.insert(tagged[0] + 1, parameters_cell)
    resources = {"metadata": {"path": str(path.parent)}}  # the kernel's folder
    # else the kernel logs that it is not encrypted, or was interrupted while it ended
    quiet = ["--IPKernelApp.log_level=CRITICAL"]
    options: dict[str, Any] = {"kernel_name": "python3", "store_widget_state": False, "coalesce_streams": True}
    client = NotebookClient(notebook, timeout=seconds, resources=resources, extra_arguments=quiet, **options)
    num_code_cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    with tqdm(total=num_code_cells, unit="cell", disable=not progress) as bar:
        client.on_cell_executed = lambda **_: bar.update()
        try:
            await client.async_execute(env={**os.environ, **(environment or {})})
        except asyncio.CancelledError:
            # nbclient leaves a kernel that is starting to the end of this process, where it would print a traceback
            kernel = client.km and client.km.provisioner
            if kernel and kernel.has_process:
                await kernel.kill()
            raise
        except (CellExecutionError, CellTimeoutError) as error:
            injected_cells = 1 if values else 0  # which the stored notebook does not have
            where = f"cell [{client.code_cells_executed - injected_cells}] of {path.stem}"  # as Jupyter counts
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
        raise RuntimeError("Signals are not handled here.")  # nbclient then goes on without a handler


def run_async(work: Coroutine) -> Any:
    """Run a coroutine and return its result, as `asyncio.run`.

    A signal cancels the coroutine, and is raised once all notebooks and their kernels have ended.
    """
    runner = asyncio.Runner(loop_factory=_Loop)
    loop = runner.get_loop()
    loop.set_exception_handler(lambda *_: None)  # what notebooks raise while they are stopped is of no interest
    task = loop.create_task(work)

    def cancel() -> None:
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)  # a loop that waits for a kernel wakes up

    with signals_put_off(cancel), runner:
        return loop.run_until_complete(task)


async def for_each(items: Iterable, work: Callable[[Any], Awaitable], at_once: int) -> None:
    """Await `work(item)` for every item, for at most `at_once` of them at a time.

    Raises:
        Exception: the first that one of them raised, after all the others were stopped and have cleaned up.
    """
    limit = asyncio.Semaphore(at_once)

    async def work_within_limit(item: Any) -> None:
        async with limit:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(work_within_limit(item))
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__


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
