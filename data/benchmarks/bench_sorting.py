"""Sorting rows against Python's own sort.

`python data/record.py sorting` writes data/benchmarks/sorting.csv.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.table import beside, in_turn, record
from packlib.distributed import sort_rows

ROWS = 1_000_000


def measured() -> Iterator[dict]:
    rng = np.random.default_rng(0)
    limits = np.iinfo(np.int64)
    cases = {
        "length and sample id": np.stack([rng.integers(1, 513, ROWS), rng.permutation(ROWS)], axis=1),
        "any 64 bits, with ties": rng.choice(rng.integers(limits.min, limits.max, 1000), (ROWS, 2)),
    }
    for name, rows in cases.items():
        work = {
            "ours": partial(sort_rows, rows),
            "Python's sorted, lists": partial(sorted, rows.tolist()),
            "np.lexsort and rows taken": lambda rows=rows: rows[np.lexsort(rows.T[::-1])],
        }
        seconds, found = in_turn(work, runs=5)
        for peer in list(work)[1:]:
            if not np.array_equal(found["ours"], found[peer]):
                raise AssertionError(f"{name}: the order differs from that of {peer}.")
            yield beside(f"{ROWS:,} × 2 rows, {name}", seconds["ours"], peer, seconds[peer], "same order")


def main() -> None:
    record("sorting.csv", measured(), "python data/record.py sorting", ("numpy", "torch"))
