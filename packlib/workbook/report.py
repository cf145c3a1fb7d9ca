"""`packlib report`: notebook 12 on your lengths, as a page for those who need the answer and not the lesson."""

import json
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from packlib.advice.layers import about_attention, about_places
from packlib.advice.memory import about_memory, about_positions
from packlib.advice.waits import about_waiting
from packlib.lengths import LengthHistogram
from packlib.lengths.histogram_json import write_histogram
from packlib.packing import PackingPlan
from packlib.places import Read
from packlib.training.recipe import Recipe
from packlib.workbook.execution import run_async, run_notebook
from packlib.workbook.pages import PageExporter, fill_template
from packlib.workbook.running import delivery, notebooks, surroundings
from packlib.workbook.tables import Points, Table

NOTEBOOK = "12_your_dataset"
LESSON = "lesson"  # the tag of cells that teach: guesses, explorers, exercises


def report(
    lengths: LengthHistogram,
    values: Mapping[str, Any],
    out: Path,
    progress: bool = True,
    model: str | None = None,
    command: str = "",
    reads: Sequence[Read] = (),
) -> tuple[dict[str, Any], list[Path]]:
    """Write `report.html`, `advice.json`, `plan.json` and `figures/` to `out`.

    Args:
        lengths: as they are: what is too long is cut or left out by the notebook, which counts what that loses.
        values: the other parameters of the notebook, checked; by default rows are as long as `lengths` says.
        command: what made the report, to be shown on the page.
        model: whose memory, attention, places and waiting are to be estimated, as `packlib.advice.about_memory`
            takes it.
        reads: the files that hold the lengths and the other values, which the report must not replace.

    Returns:
        The advice, as `Advice.to_json` writes it, and the files.

    Raises:
        NotebookFailedError: if a cell raises; then nothing is left behind.
    """
    with delivery(out, reads, ("report.html", "advice.json", "plan.json")) as (work, files):
        values = {"dataset": str(work / "lengths.json"), "max_length": lengths.max_length, **values}
        shown = {name: value for name, value in values.items() if name not in ("dataset", "quick")}
        shown |= {"thorough": not values.get("quick", True), "model": model}
        write_histogram(lengths, work / "lengths.json")
        run = run_notebook(notebooks()[NOTEBOOK], values, surroundings(work), without=LESSON, progress=progress)
        executed = run_async(run)
        (work / "lengths.json").unlink()
        advice = json.loads((work / "advice.json").read_text(encoding="utf-8"))
        if model:
            micro_batch = advice["recipe"]["after"]["micro_batch"]
            plan, recipe = PackingPlan.from_json(work / "plan.json"), Recipe.from_dict(advice["recipe"]["after"])
            own = {about(plan): about(plan, model) for about in (about_attention, about_places)}
            own[about_waiting(plan, recipe)] = about_waiting(plan, recipe, model)
            advice["advice"] = [own.get(sentence, sentence) for sentence in advice["advice"]]
            advice["advice"].append(about_memory(model, advice["data"]["max_length"], micro_batch))
            advice["advice"] += filter(None, [about_positions(model, int(plan.items.max()))])
            (work / "advice.json").write_text(json.dumps(advice, indent=2, ensure_ascii=False), encoding="utf-8")
        (work / "report.html").write_text(page(executed, advice, shown, command), encoding="utf-8")
    return advice, files


def page(
    notebook: NotebookNode, advice: Mapping[str, Any], parameters: Mapping[str, Any] | None = None, command: str = ""
) -> str:
    """An executed notebook as HTML without code, under the advice in sentences and what made it."""
    title = f"Packing report: {advice['data']['name']}"
    made = f"{time.strftime('%Y-%m-%d')}, packlib {version('packlib')}, Python {platform.python_version()}, "
    made += ", ".join(f"{name} {version(name)}" for name in ("numpy", "highspy"))
    rows = [(name, "none" if value is None else str(value)) for name, value in (parameters or {}).items()]
    parts = {"advice": Points(advice["advice"]), "parameters": Table(("parameter", "value"), rows)}
    parts |= {"title": title, "made": made, "command": command, "code": advice["code"]}
    opening = fill_template("report_opening.html", **parts)
    notebook.metadata["title"] = title
    notebook.cells.insert(0, new_code_cell(outputs=[new_output("display_data", {"text/html": opening})]))
    exporter = PageExporter(exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True)
    return exporter.from_notebook_node(notebook)[0]
