"""Least squares on all of Wikipedia's lengths, in packs of 512 and at depth 3: packs, efficiency and CPU seconds.

`python data/record.py nnls` writes data/benchmarks/packing_nnls.csv; most of its time is for the extended variant.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.table import record, timed
from packlib.lengths import load
from packlib.packing import plan

WAYS = {
    "NNLSHP, rounded to the nearest": {"method": "nnlshp", "rounding": "nearest"},
    "NNLSHP, rounded down": {"method": "nnlshp"},
    "extended NNLSHP, rounded down": {"method": "ennlshp"},
    "optimal": {"method": "optimal"},
}


def measured() -> Iterator[dict]:
    wikipedia = load("wikipedia")
    for way, options in WAYS.items():
        made, seconds = timed(partial(plan, wikipedia, max_sequences_per_pack=3, **options))
        efficiency = f"{100 * made.efficiency:.3f}"
        yield {"way": way, "packs": made.num_packs, "efficiency, %": efficiency, "CPU seconds": f"{seconds:.0f}"}


def main() -> None:
    record("packing_nnls.csv", measured(), "python data/record.py nnls", ("numpy", "scipy"))
