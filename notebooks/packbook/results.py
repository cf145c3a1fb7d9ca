"""The outputs, named results and files of a notebook's run that slides, gallery, reports and sweeps read.

The meaning of an output is a dict in its metadata under "packlib": its `kind` ("figure", "reveal", "source", "result"
or "style") and further fields. So no text of an output has to be parsed.
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

RESULTS_FOLDER = "PACKLIB_RESULTS"  # environment variable: the folder that `keep` writes to
FIGURES_FOLDER = "PACKLIB_FIGURES"  # environment variable: the folder in which figures are saved as SVG and PNG
MEANING = "packlib"  # key in the metadata of an output or a cell


def display_as(kind: str, data: Mapping[str, str], **fields: Any) -> None:
    """Show an output with a meaning.

    Args:
        kind: of the output.
        data: a text for each media type.
        fields: of the meaning, as JSON knows them.
    """
    from IPython.display import display

    display(dict(data), raw=True, metadata={MEANING: {"kind": kind, **fields}})


def meaning(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meaning of an output or a cell, from its metadata; {} if it has none."""
    return node.get("metadata", {}).get(MEANING, {})


def meanings(notebook: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the meanings of all outputs of one kind, in the order of the notebook."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    all_meanings = map(meaning, outputs)
    return [means for means in all_meanings if means.get("kind") == kind]


def questions_of(notebook: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the words of each question, which stand in bold above its cell for the guess, with that cell.

    The words are "" if a cell for a guess has no question above it.
    """
    questions, words = [], ""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            in_bold = re.findall(r"\*\*([^*]+\?)\*\*", cell["source"])
            if in_bold:
                words = " ".join(in_bold[-1].replace("`", "").split())
        elif cell["source"].startswith("guess = ..."):
            questions.append((words, cell))
            words = ""
    return questions


def result(name: str, value: Any) -> None:
    """Show a named result in a notebook, and record it in the output for `packbook sweep`.

    Raises:
        TypeError: if the value is not a number, a text or None.
        ValueError: if it is not finite.
    """
    value = value.item() if hasattr(value, "item") else value
    if value is not None and not isinstance(value, int | float | str):
        raise TypeError(f"The result {name!r} must be a number, a text or None, not {type(value).__name__}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"The result {name!r} must be finite, not {value}.")
    text = value
    if isinstance(value, float):
        text = f"{value:,.6g}"
    elif isinstance(value, int):
        text = f"{value:,}"
    display_as("result", {"text/plain": f"{name}: {text}"}, name=name, value=value)


def results_of(path: str | os.PathLike) -> dict[str, Any]:
    """Return the results that an executed notebook recorded, by name; of two with one name, the later."""
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    return {means["name"]: means["value"] for means in meanings(notebook, "result")}


def show_recorded(name: str, folder: str = "benchmarks") -> list[dict[str, str | int | float]]:
    """Show with which command and on which device a table was recorded, and return its rows; see `recorded`."""
    table = recorded(name, folder)
    display_as("source", {"text/plain": table.source}, text=table.source)
    return table.rows


def keep(name: str, text: str) -> None:
    """Write a text file next to the report of `packbook run`; in JupyterLab this does nothing.

    Raises:
        ValueError: if `name` has a folder.
    """
    if Path(name).name != name or name in ("", ".."):
        raise ValueError(f"name must be a file name without folders, not {shown(name)}.")
    if folder := os.environ.get(RESULTS_FOLDER):
        write_text(Path(folder) / name, text)
