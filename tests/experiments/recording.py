"""Recorded runs: what a file in data/runs/ holds, and runs that are added to it, so that work goes on another day."""

import csv
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import table

ROOT = Path(__file__).resolve().parents[2]


def path_of(name: str) -> Path:
    return ROOT / "data" / "runs" / f"{name}.csv"


def read(path: Path) -> list[dict]:
    """The rows of a file, all values as text; none if there is no file."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def has_run(found: list[dict], **run: object) -> bool:
    """Whether a row has these values, such as `arm="padded", seed=0`."""
    return any(all(str(row[name]) == str(value) for name, value in run.items()) for row in found)


def check_sequences(path: Path, found: list[dict], planned: int) -> None:
    """Runs in one file train on as many sequences; each ends with an update that is seldom full."""
    if found and abs(int(found[-1]["sequences"]) / planned - 1) > 0.05:
        raise ValueError(
            f"sequences must be about {found[-1]['sequences']}, as in {path}, not {planned}; or name another --out."
        )


def write(path: Path, found: list[dict], columns: Sequence[str], program: str, options: str) -> None:
    """All rows, under the command that makes them: the program, with all their seeds and its other options."""
    rows = [{k: f"{row[k]:.6g}" if isinstance(row[k], float) else row[k] for k in columns} for row in found]
    seeds = " ".join(map(str, sorted({int(row["seed"]) for row in found})))
    command = f"python -m {program} --seeds {seeds} {options}"
    table.record(path.stem, rows, command, packages=("torch", "transformers"), path=path)
