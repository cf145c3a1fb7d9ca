"""Run notebooks, and store them so that a second run gives the same bytes.

`python -m packlib.workbook.execution NOTEBOOK …` runs notebooks in place: `make notebooks`.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from packlib.files import atomic_path
from packlib.workbook.running import exit_code, failures

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL_OPTIONS: dict[str, Any] = {  # of nbclient, and so of papermill
    "kernel_name": "python3",
    "store_widget_state": False,
    "coalesce_streams": True,
    # its log is not for readers: that it is not encrypted, or was interrupted while it ended
    "extra_arguments": ["--IPKernelApp.log_level=CRITICAL"],
}
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = {
    "name": "python",
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "pygments_lexer": "ipython3",
}


def settle(notebook: NotebookNode) -> NotebookNode:
    """Take out what changes from run to run (times, versions, random ids) and what dies with the kernel.

    A live widget becomes its static picture: a stored notebook has no kernel behind it.
    """
    notebook.metadata = NotebookNode(kernelspec=_KERNEL, language_info=_LANGUAGE)
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        code = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[code] = seen.get(code, 0) + 1
        cell.id = code if seen[code] == 1 else f"{code}-{seen[code]}"
        cell.metadata = NotebookNode({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", ()):
                output.data.pop(WIDGET_VIEW, None)
    return notebook


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a settled notebook, whole or not at all."""
    with atomic_path(path) as beside:
        beside.write_text(nbformat.writes(settle(notebook)) + "\n", encoding="utf-8")


async def run_notebook(path: Path, **environment: str) -> NotebookNode:
    """Run a notebook in its own folder, its kernel with more variables; return it with its outputs.

    Raises:
        NotebookFailedError: if a cell raises, or the kernel dies.
    """
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    with failures(path.stem):
        client = NotebookClient(notebook, timeout=600, resources=resources, **KERNEL_OPTIONS)
        await client.async_execute(env={**os.environ, **environment})
    return notebook


class _Loop(asyncio.SelectorEventLoop):
    """Leaves signals to Python: nbclient would end one kernel at a signal, and go on with the others."""

    def add_signal_handler(self, *_: object) -> None:
        raise RuntimeError("Signals are not handled here.")  # nbclient takes this for an answer


def run_async(work: Coroutine) -> Any:
    """As `asyncio.run`; an interrupt ends all notebooks that `work` runs, and their kernels."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        # what they raise while they are stopped is of no interest
        runner.get_loop().set_exception_handler(lambda *_: None)
        return runner.run(work)


def run_in_place(path: Path) -> None:
    """Run a notebook in its own folder and store its outputs; if a cell raises, the file stays as it was.

    Raises:
        NotebookFailedError: as `run_notebook`.
    """
    write(run_async(run_notebook(path)), path)


def main(paths: Sequence[str]) -> None:
    """Run notebooks in place, one after the other."""
    for path in paths:
        print(path, flush=True)
        run_in_place(Path(path).resolve())


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
