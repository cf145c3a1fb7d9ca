"""What a run of a notebook leaves for others: outputs that say what they mean, named numbers, and files.

What an output means is in its metadata under "packlib": its `kind` ("figure", "reveal", "source", "result" or "style")
and its fields. Slides, the gallery, reports and sweeps read it there, and parse no text.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packbook.records import recorded
from packlib.arguments import shown
from packlib.files import write_text

# environment variables: `keep` writes to the one, and figures are saved as SVG and PNG in the other
RESULTS_FOLDER, FIGURES_FOLDER = "PACKLIB_RESULTS", "PACKLIB_FIGURES"
MEANING = "packlib"  # in the metadata of an output or a cell


def display_as(kind: str, data: Mapping[str, str], **fields: Any) -> None:
    """Show `data`, a text for each media type, as an output of this kind; its fields are what JSON knows."""
    from IPython.display import display

    display(dict(data), raw=True, metadata={MEANING: {"kind": kind, **fields}})


def meaning(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text that an output or a cell says about itself; "" if it has none."""
    return node.get("metadata", {}).get(MEANING, {})


def meanings(notebook: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the texts of the outputs of one kind, in the order of the notebook."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return [meaning(output) for output in outputs if meaning(output).get("kind") == kind]


def questions_of(notebook: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return each question's words, which stand in bold above its cell for the guess, with that cell."""
    found, words = [], ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            in_bold = re.findall(r"\*\*([^*]+\?)\*\*", cell["source"])
            words = " ".join(in_bold[-1].replace("`", "").split()) if in_bold else words
        elif cell["source"].startswith("guess = ..."):
            found.append((words, cell))
            words = ""
    return found


def result(name: str, value: Any) -> None:
    """Show a named result in a notebook, and record it in the output, where `packbook sweep` finds it.

    Raises:
        TypeError, ValueError: if it is no number, text or None, or not finite.
    """
    value = value.item() if hasattr(value, "item") else value
    if value is not None and not isinstance(value, int | float | str):
        raise TypeError(f"The result {name!r} must be a number, a text or None, not {type(value).__name__}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"The result {name!r} must be finite, not {value}.")
    text = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
    display_as("result", {"text/plain": f"{name}: {text}"}, name=name, value=value)


def results_of(path: str | os.PathLike) -> dict[str, Any]:
    """Return the results that an executed notebook recorded, by name; the last one holds."""
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    return {one["name"]: one["value"] for one in meanings(notebook, "result")}


def show_recorded(name: str, folder: str = "benchmarks") -> list[dict[str, str | int | float]]:
    """Show with which command and on which device a table was recorded, and return its rows; see `recorded`."""
    table = recorded(name, folder)
    display_as("source", {"text/plain": table.source}, text=table.source)
    return table.rows


def keep(name: str, text: str) -> None:
    """Write a text file beside the report of `packbook run`; in JupyterLab this does nothing.

    Raises:
        ValueError: if `name` is a path.
    """
    if Path(name).name != name or name in ("", ".."):
        raise ValueError(f"name must be a file name without folders, not {shown(name)}.")
    if folder := os.environ.get(RESULTS_FOLDER):
        write_text(Path(folder) / name, text)
