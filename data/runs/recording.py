"""Recorded runs: what a file in data/runs/ holds, and runs that are added to it, so that work goes on another day."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.table import Growing

ROOT = Path(__file__).resolve().parents[2]


def path_of(name: str) -> Path:
    return ROOT / "data" / "runs" / f"{name}.csv"


def _absolute(path: str) -> Path:
    return Path(path).absolute()  # `Growing` would look for it from data/benchmarks/


def arguments(program: str, about: str) -> argparse.ArgumentParser:
    """Return the options that all experiments have; `about` is the docstring of the program."""
    parser = argparse.ArgumentParser(prog=f"python data/record.py {program}", description=about.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=_absolute, help="default: a file in data/runs/")
    return parser


class Runs(Growing):
    """The runs that a file holds, and those that are added to it."""

    def check(self, column: str, planned: int, near: float = 0.0) -> None:
        """Raise if the runs of the file are not as long; the last update of a run is seldom full, so be `near` it."""
        held = int(self.rows[-1][column]) if self.rows else planned
        if abs(held / planned - 1) > near:
            raise ValueError(f"{self.path} holds runs with {column} {held}, not {planned}: name another --out.")

    def make(self, runs: Iterable[dict], run: Callable[..., list[dict]], program: str, options: str) -> None:
        """Make the runs that are not there, and add each when it is done, under the command that makes them all.

        Args:
            runs: each by the columns that name it.
            run: from these, as its parameters, to the rows of a run.
        """
        for named in runs:
            if not self.has(**named):
                rows = [{**named, **row} for row in run(**named)]
                seeds = sorted({int(row["seed"]) for row in [*self.rows, *rows]})
                command = f"python data/record.py {program} --seeds {' '.join(map(str, seeds))} {options}"
                self.add(rows, command, ("torch", "transformers"))
