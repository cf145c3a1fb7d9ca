"""Recorded runs: what a file in data/runs/ holds, and runs that are added to it, so that work goes on another day."""

import argparse
import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.benchmarks import table

ROOT = Path(__file__).resolve().parents[2]


def path_of(name: str) -> Path:
    return ROOT / "data" / "runs" / f"{name}.csv"


def arguments(program: str, about: str) -> argparse.ArgumentParser:
    """The options that all experiments have; `about` is the docstring of the program."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="default: a file in data/runs/")
    return parser


class Runs:
    """The runs that a file holds, and those that are added to it.

    Attributes:
        rows: all values as text; none if there is no file yet.
    """

    def __init__(self, path: Path, columns: Sequence[str]):
        self.path, self.columns, self.rows = path, columns, list[dict]()
        if path.is_file():
            with open(path, newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(line for line in file if not line.startswith("#")))

    def has(self, **run: object) -> bool:
        """Whether a row has these values, such as `arm="padded", seed=0`."""
        return any(all(str(row[name]) == str(value) for name, value in run.items()) for row in self.rows)

    def check(self, column: str, planned: int, near: float = 0.0) -> None:
        """Raise if the runs of the file are not as long; the last update of a run is seldom full, so be `near` it."""
        held = int(self.rows[-1][column]) if self.rows else planned
        if abs(held / planned - 1) > near:
            raise ValueError(f"{self.path} holds runs with {column} {held}, not {planned}: name another --out.")

    def make(self, runs: Iterable[dict], run: Callable[..., list[dict]], program: str, options: str) -> None:
        """Make the runs that are not there, and add each when it is done.

        Args:
            runs: each by the columns that name it.
            run: from these, as its parameters, to the rows of a run.
        """
        for named in runs:
            if not self.has(**named):
                self.add([{**named, **row} for row in run(**named)], program, options)
                print(", ".join(f"{name} {self.rows[-1][name]}" for name in self.columns), flush=True)

    def add(self, rows: list[dict], program: str, options: str) -> None:
        """Write all rows, under the command that makes them: the program, with all their seeds and other options."""
        self.rows += [
            {k: f"{row[k]:.6g}" if isinstance(row[k], float) else row[k] for k in self.columns} for row in rows
        ]
        seeds = " ".join(map(str, sorted({int(row["seed"]) for row in self.rows})))
        command = f"python -m {program} --seeds {seeds} {options}"
        table.record(self.path.stem, self.rows, command, packages=("torch", "transformers"), path=self.path)
