"""How far `lpfhp`, `lpt` and `optimal` stay above the best proven bound: long rows, two families, three draws of each.

    python -m tests.benchmarks packing_draws

appends a line for each draw and depth to `data/benchmarks/packing_draws.csv` and goes on where it was stopped. T is how
long SciPy's NNLS takes on Wikipedia 512, measured anew for each family and draw; `optimal` gets T / 10, and then T. All
times, and the limits too, are CPU seconds of the process, so that other work on the machine changes little. In most of
the recorded lines the limits and the times of `optimal` are of the clock on the wall of a busy machine, which is
harder; the 21 lines with the largest gaps were measured again in CPU seconds.
"""

import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.packing.search.bound import direct_bound
from tests.benchmarks.bench_packing import drawn, nnls_on
from tests.benchmarks.table import Growing, in_turn

COLUMNS = (
    "family", "seed", "rows", "depth", "T", "direct bound", "best bound", "lpfhp", "lpt", "optimal in T / 10",
    "its bound", "its seconds", "optimal in T", "seconds", "peak MiB of the process",
)  # fmt: skip


def cases(family: str, seed: int) -> Iterator[tuple[int, int | None]]:
    """The row lengths, and the depth limits of each: 4, 16, 64, none, and about as many as fill a row."""
    for top in (4096, 16384, 32768, 131072):
        most = top / drawn(family, top, seed).mean()
        for depth in dict.fromkeys((None, 64, 16, 4, *(round(most * times) for times in (0.8, 1, 1.2)))):
            yield top, depth


def nnls_seconds() -> float:
    return in_turn({"": nnls_on(load("wikipedia"))}, runs=1, clock=time.process_time)[""]


def measure(family: str, seed: int, top: int, depth: int | None, limit: float) -> tuple:
    """One line of the table: plans of one draw at one depth, `optimal` with a tenth of `limit` seconds and with all."""
    histogram = LengthHistogram.from_lengths(drawn(family, top, seed), top)
    packs = {
        method: plan(histogram, method=method, max_sequences_per_pack=depth).num_packs for method in ("lpfhp", "lpt")
    }
    start = time.perf_counter()
    soon = plan(histogram, method="optimal", max_sequences_per_pack=depth, time_limit=limit / 10)
    then = time.perf_counter()
    late = plan(histogram, method="optimal", max_sequences_per_pack=depth, time_limit=limit)
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return (
        family, seed, top, depth or "none", f"{limit:.1f}", direct_bound(histogram.counts, depth),
        max(soon.lower_bound, late.lower_bound), *packs.values(), soon.num_packs, soon.lower_bound,
        f"{then - start:.2f}", late.num_packs, f"{end - then:.2f}", peak,
    )  # fmt: skip


def main() -> None:
    packages = ("numpy", "scipy", "highspy")
    record = Growing("packing_draws", "python -m tests.benchmarks packing_draws", COLUMNS, packages)
    for seed, family in itertools.product((1, 2, 3), ("log-normal", "Pareto")):
        left = [case for case in cases(family, seed) if not record.holds(family, seed, case[0], case[1] or "none")]
        limit = nnls_seconds() if left else 0.0
        for top, depth in left:  # each in a process of its own, whose memory is its own
            command = [sys.executable, "-c", ONE, family, *map(str, (seed, top, depth or 0, limit))]
            made = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(";")
            record.add(*(value.strip() for value in made))
            print(*made, flush=True)


ONE = """
import sys, time
time.perf_counter = time.process_time
from tests.benchmarks.bench_packing_draws import measure
family, seed, top, depth, limit = sys.argv[1:]
print(*measure(family, int(seed), int(top), int(depth) or None, float(limit)), sep=";")
"""

if __name__ == "__main__":
    main()
