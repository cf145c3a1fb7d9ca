"""Times as ratios within one run, since these machines are noisy; rows shown, and recorded as CSV."""

import csv
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from packlib.files import atomic_path
from packlib.lengths import data_path

FOLDER = data_path("benchmarks")


def in_turn(
    work: dict[Hashable, Callable], runs: int, clock: Callable[[], float] = time.perf_counter
) -> dict[Hashable, float]:
    """Median seconds of each `work[name]()`; all run in turn, so that noise falls on all alike.

    With `time.process_time` as the clock they are CPU seconds, which a busy machine hardly changes.
    """
    seconds = {name: [] for name in work}
    for _ in range(runs):
        for name, run in work.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def versions(packages: tuple[str, ...]) -> str:
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


def machine(packages: tuple[str, ...], device: str = "") -> str:
    return f"{device or processor()}; Python {platform.python_version()}, {versions(packages)}"


def record(
    name: str,
    rows: list[dict],
    command: str,
    device: str = "",
    packages: tuple[str, ...] = ("numpy", "scipy", "highspy"),
    path: Path | None = None,
) -> Path:
    """Write rows as CSV, under comment lines that say on what, with what and by which command they came.

    Without a `path` it is data/benchmarks/NAME.csv.
    """
    path = path or FOLDER / f"{name}.csv"
    with atomic_path(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        file.write(f"# {command}\n# {machine(packages, device)}\n")
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


class Growing:
    """A record to which a line is added as soon as it is measured, so that hours of work go on where they were stopped.

    Attributes:
        rows: the lines of before and those that were added, each a tuple of text.
    """

    def __init__(self, name: str, command: str, columns: Sequence[str], packages: tuple[str, ...]):
        self.path = FOLDER / f"{name}.csv"
        if not self.path.exists():
            self.path.write_text(f"# {command}\n# {machine(packages)}\n{','.join(columns)}\n", encoding="utf-8")
        self.rows = [tuple(row) for row in csv.reader(self.path.read_text(encoding="utf-8").splitlines()[3:])]

    def holds(self, *first: object) -> bool:
        """Whether a line begins with these values."""
        return any(row[: len(first)] == tuple(map(str, first)) for row in self.rows)

    def add(self, *row: object) -> None:
        self.rows.append(tuple(map(str, row)))
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(row)


def show(rows: list[dict]) -> None:
    cells = [list(rows[0]), *[[str(value) for value in row.values()] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), flush=True)
