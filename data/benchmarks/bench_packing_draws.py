"""How far `lpfhp`, `lpt` and `optimal` stay above the best proven bound: long rows, two families, three draws of each.

`python data/record.py packing_draws` adds a line for each draw and depth to data/benchmarks/packing_draws.csv and
goes on where it was stopped. `optimal` gets T seconds, as long as SciPy's NNLS takes on Wikipedia 512, measured anew
for each family and draw. All times, and the limits too, are CPU seconds of the process, inside HiGHS as well, so that
other work on the machine changes little. The recorded lines were measured beside other work.
"""

import itertools
import time
from functools import partial

from benchmarks.bench_packing import drawn, long_rows, nnls_on
from benchmarks.table import Growing, in_new_process, timed
from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.packing.search.sums import direct_bound

COLUMNS = (
    "family", "seed", "rows", "depth", "T", "direct bound", "best bound", "lpfhp", "lpt", "optimal in T", "seconds",
)  # fmt: skip


def measure(family: str, seed: int, top: int, depth: int | None, limit: float) -> dict:
    """Return one line of the table: plans of one draw at one depth, `optimal` with `limit` seconds."""
    time.perf_counter = time.process_time  # of time limits
    histogram = LengthHistogram.from_lengths(drawn(family, top, seed), top)
    made = {
        method: partial(plan, histogram, method=method, max_sequences_per_pack=depth)
        for method in ("lpfhp", "lpt", "optimal")
    }
    best, seconds = timed(partial(made["optimal"], time_limit=limit))
    found = (
        family, seed, top, depth or "none", f"{limit:.1f}", direct_bound(histogram.counts, depth), best.lower_bound,
        made["lpfhp"]().num_packs, made["lpt"]().num_packs, best.num_packs, f"{seconds:.2f}",
    )  # fmt: skip
    return dict(zip(COLUMNS, found, strict=True))


def main() -> None:
    record = Growing("packing_draws.csv", COLUMNS)
    for seed, family in itertools.product((1, 2, 3), ("log-normal", "Pareto")):
        cases = [(top, depth) for top, _, depths in long_rows(family, seed) for depth in (None, *depths)]
        left = [
            (top, depth)
            for top, depth in cases
            if not record.has(family=family, seed=seed, rows=top, depth=depth or "none")
        ]
        limit = timed(nnls_on(load("wikipedia")))[1] if left else 0.0
        for top, depth in left:
            row = in_new_process(measure, family, seed, top, depth, limit)
            record.add([row], "python data/record.py packing_draws", ("numpy", "scipy", "highspy"))
