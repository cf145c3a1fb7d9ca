"""`optimal` on instances that are hard for bin packing, ten CPU seconds each, with its misses.

    python -m tests.benchmarks.bench_hard            # generated ones; goes on where it was stopped
    python -m tests.benchmarks.bench_hard FOLDER     # those of a folder and its subfolders, printed alone

The first records a line for each in `data/benchmarks/packing_hard.csv`. Nothing of the library BPPLIB (Delorme, Iori,
Martello, Optimization Letters 12, 2018) is shipped, since its license does not allow it; FOLDER may hold its files:
the number of lines that follow, the capacity, and then a size a line, or a size and how many there are of it.

The generated ones are made like the classes that are hard there, and are not those: "tight 1 to 800" has the sizes and
counts of Hard28, "tight of 10,000" those of Wäscher's, each with sequences added until the linear program takes almost
a whole number of packs; of these the ones are kept that rounding does not solve. In "full triplets" all packs of the
best plan are full, as in the class AI.
"""

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.optimal import _Search
from tests.benchmarks.table import Growing

SECONDS, DRAWS, SLACK = 10, 36, 0.006
PACKAGES = ("numpy", "scipy", "highspy")
COLUMNS = ("class", "seed", "sequences", "packs", "bound", "listed", "CPU seconds")


def tight(lengths: list[int], top: int) -> LengthHistogram | None:
    """Add lengths until the linear program lacks at most `SLACK` of a whole number of packs, or nothing fits."""
    for _ in range(25):
        search = _Search(LengthHistogram.from_lengths(lengths, top), None, None, Deadline())
        search.master = MasterProblem(search.counts)
        search.master.add(search.start)
        search.generate()
        search.settle()
        search.keep_solution()
        packs = search.worth / search.pack_worth
        slack, prices = math.ceil(packs - 1e-7) - packs, search.prices / search.pack_worth
        if slack < SLACK:
            return search.histogram if search.num_packs > search.lower_bound else None
        fits = np.flatnonzero(prices <= slack)
        if not len(fits):
            return None
        lengths = [*lengths, int(search.lengths[fits[prices[fits].argmax()]])]
    return None


def full_triplets(packs: int, top: int, rng: np.random.Generator) -> LengthHistogram:
    """All lengths differ, and are from a fifth to half of a pack."""
    lengths = set[int]()
    while len(lengths) < 3 * packs:
        first, second = rng.integers(top // 5, top // 2, 2).tolist()
        pack = {first, second, top - first - second}
        if len(pack | lengths) == len(lengths) + 3 and top // 5 <= min(pack):
            lengths |= pack
    return LengthHistogram.from_lengths(lengths, top)


def generated() -> Iterator[tuple[str, int, LengthHistogram]]:
    for seed in range(DRAWS):
        rng = np.random.default_rng([seed, 0])
        found = tight(rng.integers(1, 801, (160, 180, 200)[seed % 3]).tolist(), 1000)
        if found:
            yield "tight 1 to 800", seed, found
    for seed in range(DRAWS // 2):
        rng = np.random.default_rng([seed, 1])
        low, high = ((1, 5000), (1, 7500), (2000, 5000), (100, 3500))[seed % 4]
        found = tight(rng.integers(low, high + 1, int(rng.integers(57, 240))).tolist(), 10_000)
        if found:
            yield "tight of 10,000", seed, found
    for packs, top in ((67, 2500), (134, 10_000)):
        for seed in range(6):
            yield f"full triplets, {3 * packs}", seed, full_triplets(packs, top, np.random.default_rng([seed, packs]))


def read(path: Path) -> LengthHistogram:
    """The sizes in a file of BPPLIB."""
    lines = [[int(word) for word in line.split()] for line in path.read_text().splitlines() if line.strip()]
    (count,), (top,), *items = lines
    if len(items) != count or any(len(item) not in (1, 2) for item in items):
        raise ValueError(f"{path} must hold {count} lines of a size, or of a size and its count, after the first two.")
    return LengthHistogram.from_lengths([item[0] for item in items for _ in range((*item, 1)[1])], top)


def measure(name: str, seed: int, histogram: LengthHistogram) -> tuple:
    started = time.process_time()
    made = plan(histogram, time_limit=SECONDS)
    seconds = f"{time.process_time() - started:.2f}"
    return name, seed, histogram.num_sequences, made.num_packs, made.lower_bound, made.listed, seconds


def main(folder: str | None = None) -> None:
    time.perf_counter = time.process_time  # in this process alone: other work on the machine changes little
    if folder:
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        show([measure(str(path), 0, read(path)) for path in files])
        return
    record = Growing("packing_hard", "python -m tests.benchmarks.bench_hard", COLUMNS, PACKAGES)
    for name, seed, histogram in generated():
        if not record.holds(name, seed):
            record.add(*measure(name, seed, histogram))
    show(record.rows)


def show(rows: list[tuple]) -> None:
    for row in rows:
        if row[3] != row[4]:
            print(*row, "MISSED", sep="  ")
    print(f"{sum(row[3] == row[4] for row in rows)} of {len(rows)} proven")


if __name__ == "__main__":
    main(*sys.argv[1:])
