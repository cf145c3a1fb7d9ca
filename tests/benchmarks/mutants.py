"""What `make mutants` found, for each file and the functions in which no test sees a change.

mutmut changes one thing in a function, runs the tests that reach it, and keeps what it has tried: a run that is cut off
goes on. `mutmut show NAME` shows a change. This writes data/benchmarks/mutants.csv.
"""

import re
import subprocess
from collections import Counter, defaultdict

from tests.benchmarks.table import record


def by_file(results: str) -> list[dict]:
    """Rows for the record, from the lines "packlib.room.file.x_function__mutmut_3: survived" of `mutmut results`."""
    states: dict[str, Counter] = defaultdict(Counter)
    seen: dict[str, Counter] = defaultdict(Counter)
    for module, function, state in re.findall(r"^\s*([\w.]+)\.(x\S*)__mutmut_\d+: (.+)$", results, re.M):
        file = f"{module.replace('.', '/')}.py"
        states[file][state] += 1
        if state in ("survived", "no tests"):
            seen[file][re.sub("^x_|^xǁ", "", function).replace("ǁ", ".")] += 1
    return [
        {
            "file": file,
            "changes tried": found.total() - found["not checked"],
            "seen by a test": found["killed"] + found["timeout"],
            "not seen": found["survived"] + found["no tests"],
            "not tried": found["not checked"],
            "functions with changes that no test sees": "; ".join(f"{name} {n}" for name, n in seen[file].items()),
        }
        for file, found in states.items()
        if found.total() > found["not checked"]
    ]


def main() -> None:
    done = subprocess.run(["mutmut", "results", "--all", "true"], capture_output=True, text=True, check=True)
    record("mutants.csv", by_file(done.stdout), "python -m tests.benchmarks.mutants", ("mutmut", "pytest", "numpy"))


if __name__ == "__main__":
    main()
