"""`packlib report`: notebook 12 on your lengths, as a page for those who need the answer and not the lesson."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_output

from packlib.lengths import LengthHistogram
from packlib.markup import in_html
from packlib.workbook.running import deliver, execute, notebooks
from packlib.workbook.tables import Points

NOTEBOOK = "12_your_dataset"
LESSON = "lesson"  # the tag of cells that teach: guesses, explorers, exercises


def report(
    lengths: LengthHistogram | str, values: Mapping[str, Any], out: Path, progress: bool = True
) -> list[Path]:
    """Write `report.html`, `advice.json`, `plan.json` and `figures/` to `out`; return the files.

    Args:
        lengths: the counted lengths of a file, or the name of a data set.
        values: the other parameters of the notebook, checked.

    Raises:
        NotebookFailedError: if a cell raises; then nothing is left behind.
    """

    def fill(work: Path) -> None:
        source, target = work / f"{NOTEBOOK}.ipynb", work / "report.ipynb"
        notebook = nbformat.read(notebooks()[NOTEBOOK], as_version=4)
        notebook.cells = [cell for cell in notebook.cells if LESSON not in cell.metadata.get("tags", ())]
        nbformat.write(notebook, source)
        dataset, counted = lengths, None
        if isinstance(lengths, LengthHistogram):  # counted once, however large the file is
            counted = work / f"{_file_name(lengths.name)}.csv"
            lengths.to_csv(counted)
            dataset = str(counted)
        execute(source, target, {"dataset": dataset, **values}, progress)
        (work / "report.html").write_text(page(target, work / "advice.json"), encoding="utf-8")
        for used in filter(None, (source, target, counted)):
            used.unlink()

    return deliver(out, fill)


def _file_name(name: str) -> str:
    """The name of a data set as that of a file, from which the notebook reads it back: no path, and not too long."""
    return re.sub(r"[/\0]", "-", name).encode()[:200].decode(errors="ignore") or "lengths"


def page(notebook: Path, advice: Path) -> str:
    """The executed notebook as HTML without code, under the advice in sentences."""
    from packlib.workbook.pages import PageExporter

    found = json.loads(advice.read_text(encoding="utf-8"))
    title = f"Packing report: {found['data']['name']}"
    opening = f"<h1>{in_html(title)}</h1>{Points(found['advice'])._repr_html_()}"
    shown = nbformat.read(notebook, as_version=4)
    shown.metadata["title"] = title
    shown.cells.insert(0, new_code_cell(outputs=[new_output("display_data", {"text/html": opening})]))
    hidden = {"exclude_input": True, "exclude_input_prompt": True, "exclude_output_prompt": True}
    return PageExporter(**hidden).from_notebook_node(shown)[0]
