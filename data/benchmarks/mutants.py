"""What `make mutants` found, for each file, with the numbers of the changes in a function that no test sees.

mutmut changes one thing in a function, runs the tests that reach it, and keeps what it has tried: a run that is cut off
goes on. `mutmut show NAME` shows a change. `python data/record.py mutants` writes data/benchmarks/mutants.csv.
"""

import re
import subprocess
from collections import Counter, defaultdict

from benchmarks.table import record


def by_file(results: str) -> list[dict]:
    """Make the record's rows from lines "packlib.room.file.x_function__mutmut_3: survived" of `mutmut results`."""
    states: dict[str, Counter] = defaultdict(Counter)
    unseen: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, function, number, state in re.findall(r"^\s*([\w.]+)\.(x\S*)__mutmut_(\d+): (.+)$", results, re.M):
        file = f"{module.replace('.', '/')}.py"
        states[file][state] += 1
        if state not in ("killed", "timeout", "not checked"):
            unseen[file][re.sub("^x_|^xǁ", "", function).replace("ǁ", ".")].append(number)
    return [
        {
            "file": file,
            "changes tried": found.total() - found["not checked"],
            "seen by a test": found["killed"] + found["timeout"],
            "not seen": found.total() - found["killed"] - found["timeout"] - found["not checked"],
            "not tried": found["not checked"],
            "changes that no test sees": "; ".join(
                f"{name} {' '.join(which)}" for name, which in unseen[file].items()
            ),
        }
        for file, found in states.items()
        if found.total() > found["not checked"]
    ]


def main() -> None:
    done = subprocess.run(["mutmut", "results", "--all", "true"], capture_output=True, text=True, check=True)
    record("mutants.csv", by_file(done.stdout), "python data/record.py mutants", ("mutmut", "pytest", "numpy"))
