"""Run notebooks, and store them so that a second run gives the same bytes.

`python -m packlib.workbook.execution NOTEBOOK …` runs notebooks in place: `make notebooks`.
"""

import hashlib
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from packlib.files import atomic_path

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL_OPTIONS = {  # of nbclient, and so of papermill
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


def run_in_place(path: Path) -> None:
    """Run a notebook in its own folder and store its outputs; if a cell raises, the file stays as it was."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=600, resources=resources, **KERNEL_OPTIONS).execute()
    write(notebook, path)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument, flush=True)
        run_in_place(Path(argument).resolve())
