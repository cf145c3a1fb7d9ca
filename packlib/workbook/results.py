"""What a run of a notebook leaves for others: named numbers that a sweep compares, and files beside its report."""

import math
import os
from pathlib import Path
from typing import Any

from packlib.checks import shown
from packlib.files import atomic_path

RESULTS_FOLDER = "PACKLIB_RESULTS"  # environment variable: `keep` writes there
RESULT = "packlib_result"  # in the metadata of an output


def result(name: str, value: Any) -> None:
    """Show a named result in a notebook, and record it in the output, where `packlib sweep` finds it.

    Raises:
        TypeError, ValueError: if it is no number, text or None, or not finite.
    """
    from IPython.display import display

    value = value.item() if hasattr(value, "item") else value
    if value is not None and not isinstance(value, int | float | str):
        raise TypeError(f"The result {name!r} must be a number, a text or None, not {type(value).__name__}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"The result {name!r} must be finite, not {value}.")
    shown = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
    display({"text/plain": f"{name}: {shown}"}, raw=True, metadata={RESULT: {"name": name, "value": value}})


def results_of(path: str | os.PathLike) -> dict[str, Any]:
    """The results that an executed notebook recorded, by name; the last one holds."""
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    found = [output.get("metadata", {}).get(RESULT) for cell in cells for output in cell.get("outputs", ())]
    return {one["name"]: one["value"] for one in found if one}


def keep(name: str, text: str) -> None:
    """Write a text file beside the report of `packlib run`; in JupyterLab this does nothing.

    Raises:
        ValueError: if `name` is a path.
    """
    if Path(name).name != name or name in ("", ".."):
        raise ValueError(f"name must be a file name without folders, not {shown(name)}.")
    if folder := os.environ.get(RESULTS_FOLDER):
        with atomic_path(Path(folder) / name) as beside:
            beside.write_text(text, encoding="utf-8")
