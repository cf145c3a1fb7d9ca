"""Deliberate faults: does any test see it when the library does the wrong thing?

`python -m tests.faults [WORD …]` breaks a copy of the project in one place after the other, and runs the tests that
should catch it. With words, it tries only the faults whose file holds one of them. Each fault is one of behavior: the
code still runs, and answers wrongly. This is no part of `make test`; it takes some minutes on two cores.
"""

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_JOBS = 2  # copies that are broken at the same time
_LIMIT = 300  # seconds that the tests of one fault may take
_PYTEST = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", "--no-header", "-W", "ignore"]
_SAID = {0: "MISSED", 1: "caught"}  # by the exit status of pytest


class Fault(NamedTuple):
    """`old`, which is in the file `path` once, becomes `new`; one of the `tests` must fail."""

    path: str
    old: str
    new: str
    tests: str  # names of pytest, separated by spaces, without the "tests/" before each

    @property
    def room(self) -> str:
        return Path(self.path).parent.name


class StaleError(ValueError):
    """A fault that cannot be made: its text is gone, or there more than once."""


def broken(text: str, fault: Fault) -> str:
    """The source of a file with the fault in it.

    Raises:
        StaleError: unless the old text is there exactly once.
    """
    if (found := text.count(fault.old)) != 1:
        raise StaleError(f"{fault.path} has the text {fault.old!r} {found} times: bring the fault up to date.")
    return text.replace(fault.old, fault.new)


def copy_tree(target: Path) -> None:
    """Copy what git knows, or would know, of the project; the project itself is never changed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def run_tests(tree: Path, tests: Iterable[str], limit: float = _LIMIT) -> int:
    """The exit status of pytest: 0 if all passed, 1 if one failed; other numbers mean that it could not run them."""
    command = [sys.executable, *_PYTEST, *(f"tests/{test}" for test in tests)]
    # Compiled files are told apart by their second and size only, which a fault may leave as they are.
    settings = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.run(command, cwd=tree, env=settings, capture_output=True, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return 124


def try_fault(tree: Path, fault: Fault) -> str:
    """Make the fault in `tree`, run its tests, and take it back; "caught", "MISSED" or what else went wrong."""
    path = tree / fault.path
    whole = path.read_text(encoding="utf-8")
    try:
        path.write_text(broken(whole, fault), encoding="utf-8")
        status = run_tests(tree, fault.tests.split())
        return _SAID.get(status, f"ERROR: pytest ended with {status}")
    except StaleError as error:
        return f"STALE: {error}"
    finally:
        path.write_text(whole, encoding="utf-8")


def table() -> list[Fault]:
    """All faults of `tests/fault_tables/`."""
    files = sorted((ROOT / "tests/fault_tables").glob("*.py"))
    by_file = [entry for file in files for entry in runpy.run_path(str(file))["FAULTS"].items()]
    return [Fault(path, *fault) for path, faults in by_file for fault in faults]


def main(words: Sequence[str] = ()) -> int:
    """Try the faults; 0 if all are caught."""
    chosen = [fault for fault in table() if not words or any(word in fault.path for word in words)]
    if not chosen:
        print(f"No fault's file holds any of these words: {' '.join(words)}.")
        return 1
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="packlib-faults-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(_JOBS):
            copy_tree(Path(folder, str(number)))
            trees.put(Path(folder, str(number)))

        def tried(fault: Fault) -> str:
            tree = trees.get()
            try:
                return try_fault(tree, fault)
            finally:
                trees.put(tree)

        healthy = sorted({test for fault in chosen for test in fault.tests.split()})
        if status := run_tests(Path(folder, "0"), healthy, 4 * _LIMIT):
            print(f"The tests do not pass without a fault (pytest ended with {status}): {' '.join(healthy)}")
            return 1
        with ThreadPoolExecutor(_JOBS) as pool:
            answers = []
            for fault, answer in zip(chosen, pool.map(tried, chosen), strict=True):
                answers.append(answer)
                print(f"{answer:8} {fault.path}: {fault.old!r} -> {fault.new!r}", flush=True)
    missed = len(answers) - answers.count("caught")
    print(f"{len(answers)} faults, {missed} not caught, {time.perf_counter() - begin:.0f} seconds")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
