"""Sorting rows against Python's own sort.

    python -m tests.benchmarks sorting

prints the table and writes `data/benchmarks/sorting.csv`.
"""

from collections.abc import Iterator

import numpy as np

from packlib.distributed import sort_rows
from tests.benchmarks.bench_packing import row
from tests.benchmarks.table import in_turn, record, show

ROWS = 1_000_000


def local_sort() -> Iterator[dict]:
    rng = np.random.default_rng(0)
    limits = np.iinfo(np.int64)
    cases = {
        "length and sample id": np.stack([rng.integers(1, 513, ROWS), rng.permutation(ROWS)], axis=1),
        "any 64 bits, with ties": rng.choice(rng.integers(limits.min, limits.max, 1000), (ROWS, 2)),
    }
    for name, rows in cases.items():
        lists = rows.tolist()
        if sort_rows(rows).tolist() != sorted(lists):
            raise AssertionError(f"{name}: the order differs from that of Python's lists.")
        seconds = in_turn(
            {"ours": lambda r=rows: sort_rows(r), "lists": lambda s=lists: sorted(s),
             "lexsort": lambda r=rows: r[np.lexsort(r.T[::-1])]}, runs=5
        )  # fmt: skip
        work = f"{ROWS:,} × 2 rows, {name}"
        yield row(work, seconds["ours"], "Python's sorted, lists", seconds["lists"], "10 times", "same order")
        yield row(work, seconds["ours"], "np.lexsort and rows taken", seconds["lexsort"], "faster", "same order")


def main() -> None:
    rows = list(local_sort())
    show(rows)
    print(record("sorting", rows, "python -m tests.benchmarks sorting", packages=("numpy", "torch")))
