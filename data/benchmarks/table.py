"""One way for all benchmarks to time, to compare with a peer, to show each row as it comes, and to write the table.

Times are compared within one run, since machines are noisy.
"""

import csv
import importlib.metadata
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from packlib.arguments import one_of
from packlib.files import atomic_path
from packlib.lengths import data_path

FOLDER = data_path("benchmarks")


def timed(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    """Return what a call returns, and the seconds it took: of the processor, which a busy machine hardly changes."""
    start = clock()
    returned = call()
    return returned, clock() - start


def in_turn(
    work: dict[Hashable, Callable[[], Any]], runs: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[dict[Hashable, float], dict[Hashable, Any]]:
    """Time each `work[name]()` in turn, so that noise falls on all alike; return median seconds and last results."""
    seconds, returned = {name: [] for name in work}, {}
    for _ in range(runs):
        for name, call in work.items():
            returned[name], took = timed(call, clock)
            seconds[name].append(took)
    return {name: statistics.median(values) for name, values in seconds.items()}, returned


def in_new_process(call: Callable, *arguments: Any) -> Any:
    """Return what a call returns in a process of its own, whose memory and clocks are its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(call, *arguments).result()


def memory_of(call: Callable, *arguments: Any) -> int:
    """Return miB that a call takes at most, above what this process has in use before; counted by the kernel."""

    def kib(name: str) -> int:
        return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1])

    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is in use now
    before = kib("VmRSS")
    call(*arguments)
    return (kib("VmHWM") - before) >> 10


def beside(work: str, seconds: float, peer: str, peer_seconds: float, found: str = "") -> dict:
    """Return a row that compares with a peer."""
    return {
        "work": work,
        "seconds": f"{seconds:.3f}",
        "peer": peer,
        "its seconds": f"{peer_seconds:.3f}",
        "times faster": f"{peer_seconds / seconds:.1f}",
        "found": found,
    }


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def show(row: dict) -> dict:
    print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return row


def record(path: str | Path, rows: Iterable[dict], command: str, packages: Sequence[str], device: str = "") -> None:
    """Show each row, and write them as CSV under lines that say by which command, on what and with what they came.

    Args:
        path: a file, by its name alone in data/benchmarks/.
        packages: whose versions are told, after Python's.
        device: this machine's processor, if not given.
    """
    rows = [show(row) for row in rows]
    write(FOLDER / path, rows, command, packages, device)
    print(FOLDER / path, flush=True)


def write(path: Path, rows: list[dict], command: str, packages: Sequence[str], device: str = "") -> None:
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    with atomic_path(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        file.write(f"# {command}\n# {device or processor()}; Python {platform.python_version()}, {versions}\n")
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def record_parts(
    name: str,
    named: Sequence[str],
    parts: dict[str, Callable[[], Iterable[dict]]],
    packages: Sequence[str],
    device: str = "",
) -> None:
    """Record NAME_PART.csv for the parts that are `named`, or for all if none is."""
    for part in [one_of("part", part, parts) for part in named] or parts:
        command = f"python data/record.py {name} {part}"
        record(f"{name}_{part}.csv", parts[part](), command, packages, device)


class Growing:
    """A record that is written anew with each row, so that hours of work go on where they were stopped.

    Attributes:
        rows: those of the file, if there is one, and those that were added; all values as text.
    """

    def __init__(self, path: str | Path, columns: Sequence[str]):
        self.path, self.columns, self.rows = FOLDER / path, columns, list[dict]()
        if self.path.is_file():
            with open(self.path, newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(line for line in file if not line.startswith("#")))

    def has(self, **values: object) -> bool:
        """Return whether a row has these values, such as `seed=0`."""
        return any(all(row[name] == str(value) for name, value in values.items()) for row in self.rows)

    def add(self, rows: Iterable[dict], command: str, packages: Sequence[str]) -> None:
        for row in rows:
            values = {name: row[name] for name in self.columns}
            self.rows.append({k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in values.items()})
        show(self.rows[-1])
        write(self.path, self.rows, command, packages)
