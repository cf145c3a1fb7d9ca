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

_DONE = "cell.json"  # written last: a folder that has it is whole
SUMMARY, PICTURE = "summary.csv", "comparison"  # what compares the runs: a table, and a figure's two files


@dataclass(frozen=True)
class Cell:
    """One combination: its parameters as typed, and a digest of all that its results depend on."""

    notebook: str
    parameters: dict[str, str]
    digest: str

    @property
    def folder(self) -> str:
        """A readable name, with the digest: no two are the same, and what was found by other code is not taken."""
        words = ",".join(f"{name}={Path(text).stem}" for name, text in self.parameters.items())
        return f"{re.sub(r'[^A-Za-z0-9_.,=+-]+', '_', words)[:80]}-{self.digest[:16]}"


@dataclass(frozen=True)
class Outcome:
    """Hold the result of running a cell; `error` is "" if it ran."""

    parameters: dict[str, str]
    seconds: float
    results: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def grid(notebook: str, pairs: Sequence[Sequence[str]]) -> list[Cell]:
    """Return the cells of `-p name value,value` pairs: every combination, each value checked.

    Raises:
        ParameterError, ValueError: one sentence that names what is wrong, before anything runs.
    """
    choices: dict[str, list[str]] = {}
    state = hashlib.sha256(digest_dependencies(notebooks()[notebook]).encode())
    for name, text in pairs:
        for value in [text] if os.path.isfile(text) else text.split(","):
            checked = read_parameters(notebook, [(name, value.strip())])[name]
            if isinstance(checked, str) and os.path.isfile(checked):
                with open(checked, "rb") as file:  # other lengths under the same name are another sweep
                    state.update(hashlib.file_digest(file, "sha256").digest())
            if value.strip() in choices.setdefault(name, []):
                raise ValueError(f"The sweep has {name} {value.strip()} twice.")
            choices[name].append(value.strip())
    cells = []
    for combination in itertools.product(*choices.values()):
        parameters = dict(zip(choices, combination, strict=True))
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
    outcomes = {cell.folder: outcome for cell in cells if (outcome := _stored(cell, out))}
    cells_to_run = [cell for cell in cells if cell.folder not in outcomes]
    with tqdm(total=len(cells), initial=len(outcomes), unit="run", disable=not progress) as bar:

        async def one(cell: Cell) -> None:
            outcomes[cell.folder] = await _run(cell, out / cell.folder, 1 if jobs > 1 else None)
            bar.update()

        run_async(for_each(cells_to_run, one, jobs))
    return [outcomes[cell.folder] for cell in cells]


def _stored(cell: Cell, out: Path) -> Outcome | None:
    """Return the cell's outcome in an earlier sweep; None if it has to run.

    Raises:
        ValueError: if the file that says it is damaged.
    """
    path = out / cell.folder / _DONE
    if not path.exists():
        return None
    with naming(path, "record of a run"):
        record = json.loads(path.read_text(encoding="utf-8"))
        return Outcome(cell.parameters, record["seconds"], record["results"])


async def _run(cell: Cell, folder: Path, threads: int | None) -> Outcome:
    started = time.monotonic()
    try:
        values = check_values(cell.notebook, cell.parameters)
        await run_into(cell.notebook, values, folder, threads, replace=True)  # what a killed sweep left
    except (NotebookFailedError, ValueError, OSError) as error:
        return Outcome(cell.parameters, round(time.monotonic() - started, 1), error=str(error))
    seconds = round(time.monotonic() - started, 1)
    results = results_of(folder / f"{cell.notebook}.ipynb")
    write_text(folder / _DONE, json.dumps({"seconds": seconds, "results": results}, indent=2) + "\n")
    return Outcome(cell.parameters, seconds, results)
