"""Least squares on all of Wikipedia's lengths, in packs of 512 and at depth 3: packs, efficiency and CPU seconds.

    python -m tests.benchmarks nnls

writes `data/benchmarks/packing_nnls.csv`. It takes two minutes, most of them for the extended variant.
"""

import time
from collections.abc import Iterator

from packlib.lengths import load
from packlib.packing import plan
from tests.benchmarks.table import record, show

WAYS = {
    "NNLSHP, rounded to the nearest": ("nnlshp", {"rounding": "nearest"}),
    "NNLSHP, rounded down": ("nnlshp", {}),
    "extended NNLSHP, rounded down": ("ennlshp", {}),
    "optimal": ("optimal", {}),
}


def measured() -> Iterator[dict]:
    wikipedia = load("wikipedia")
    for way, (method, options) in WAYS.items():
        begin = time.process_time()
        made = plan(wikipedia, method=method, max_sequences_per_pack=3, **options)
        seconds = time.process_time() - begin
        efficiency = f"{100 * made.efficiency:.3f}"
        row = {"way": way, "packs": made.num_packs, "efficiency, %": efficiency, "CPU seconds": f"{seconds:.0f}"}
        show([row])
        yield row


def main() -> None:
    record("packing_nnls", list(measured()), "python -m tests.benchmarks nnls", packages=("numpy", "scipy"))
