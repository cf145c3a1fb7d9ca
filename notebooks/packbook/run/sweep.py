"""`packbook sweep`: a notebook over a grid of parameters, in parallel, resumable."""

import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from packbook.parameters import check_values
from packbook.results import results_of
from packbook.run.dependencies import digest_dependencies
from packbook.run.running import notebooks, read_parameters, run_into
from packlib.files import naming, output_path, write_text
from packlib.tools.exits import NotebookFailedError

_DONE = "cell.json"  # the record of a run; it is written last, so that a folder that has it is complete
SUMMARY, PICTURE = "summary.csv", "comparison"  # what compares the runs: a table, and a figure's two files


@dataclass(frozen=True)
class Cell:
    """One combination of parameters in a sweep.

    Attributes:
        notebook: its name.
        parameters: values as typed, by name.
        digest: SHA-256 of all that the results depend on.
    """

    notebook: str
    parameters: dict[str, str]
    digest: str

    @property
    def folder(self) -> str:
        """Return a readable name for the cell's folder; with the digest in it, results of other code are not reused."""
        words = ",".join(f"{name}={Path(text).stem}" for name, text in self.parameters.items())
        return f"{re.sub(r'[^A-Za-z0-9_.,=+-]+', '_', words)[:80]}-{self.digest[:16]}"


@dataclass(frozen=True)
class Outcome:
    """What the run of a cell gave.

    Attributes:
        parameters: of the cell.
        seconds: that the run took.
        results: those that the notebook recorded, by name; empty if it failed.
        error: why it failed; "" if it did not.
    """

    parameters: dict[str, str]
    seconds: float
    results: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def grid(notebook: str, pairs: Sequence[Sequence[str]]) -> list[Cell]:
    """Return a cell for every combination of the values, after each value was checked.

    Args:
        pairs: of `-p name value,value`: the name of a parameter, and values between commas or the path of a file.

    Raises:
        ParameterError, ValueError: one sentence that names what is wrong, before anything runs.
    """
    values_by_name: dict[str, list[str]] = {}
    state = hashlib.sha256(digest_dependencies(notebooks()[notebook]).encode())
    for name, text in pairs:
        values = [text] if os.path.isfile(text) else text.split(",")  # a file's name may have a comma
        for value in map(str.strip, values):
            checked = read_parameters(notebook, [(name, value)])[name]
            if isinstance(checked, str) and os.path.isfile(checked):
                with open(checked, "rb") as file:  # other lengths under the same name are another sweep
                    state.update(hashlib.file_digest(file, "sha256").digest())
            if value in values_by_name.setdefault(name, []):
                raise ValueError(f"The sweep has {name} {value} twice.")
            values_by_name[name].append(value)
    cells = []
    for combination in itertools.product(*values_by_name.values()):
        parameters = dict(zip(values_by_name, combination, strict=True))
        digest = hashlib.sha256(state.digest() + json.dumps(parameters, sort_keys=True).encode()).hexdigest()
        cells.append(Cell(notebook, parameters, digest))
    return cells


def sweep(cells: Sequence[Cell], out: Path, jobs: int, progress: bool = True) -> list[Outcome]:
    """Run every cell that has not run yet, `jobs` at a time; return all outcomes in the order of `cells`.

    A cell that failed is tried again by the next sweep into the same folder; one that ran is not. The caller keeps
    other sweeps out of `out`, with `packlib.files.work_folder`.

    Raises:
        OSError: if the comparison could not be written there, or would replace a file that the runs read.
    """
    from packbook.run.execution import for_each, run_async

    reads = {text for cell in cells for text in cell.parameters.values()}
    for name in (SUMMARY, f"{PICTURE}.svg", f"{PICTURE}.png"):
        output_path(out / name, reads=reads)
    outcomes = {cell.folder: outcome for cell in cells if (outcome := _stored(cell, out))}  # of earlier sweeps
    cells_to_run = [cell for cell in cells if cell.folder not in outcomes]
    with tqdm(total=len(cells), initial=len(outcomes), unit="run", disable=not progress) as bar:

        async def run_and_store(cell: Cell) -> None:
            threads = 1 if jobs > 1 else None  # runs at the same time share the cores
            outcomes[cell.folder] = await _run(cell, out / cell.folder, threads)
            bar.update()

        run_async(for_each(cells_to_run, run_and_store, jobs))
    return [outcomes[cell.folder] for cell in cells]


def _stored(cell: Cell, out: Path) -> Outcome | None:
    """Return the cell's outcome in an earlier sweep; None if it has to run.

    Raises:
        ValueError: if the record of the earlier run is damaged.
    """
    path = out / cell.folder / _DONE
    if not path.exists():
        return None
    with naming(path, "record of a run"):
        record = json.loads(path.read_text(encoding="utf-8"))
        return Outcome(cell.parameters, record["seconds"], record["results"])


async def _run(cell: Cell, folder: Path, threads: int | None) -> Outcome:
    """Run a cell into `folder`, with a record if it does not fail, and return its outcome."""
    started = time.monotonic()
    try:
        values = check_values(cell.notebook, cell.parameters)
        await run_into(cell.notebook, values, folder, threads, replace=True)  # a killed sweep may have left files
    except (NotebookFailedError, ValueError, OSError) as error:
        return Outcome(cell.parameters, round(time.monotonic() - started, 1), error=str(error))
    seconds = round(time.monotonic() - started, 1)
    results = results_of(folder / f"{cell.notebook}.ipynb")
    write_text(folder / _DONE, json.dumps({"seconds": seconds, "results": results}, indent=2) + "\n")
    return Outcome(cell.parameters, seconds, results)
