"""`optimal` on instances that are hard for bin packing, ten CPU seconds each, with its misses.

    python -m tests.benchmarks hard                  # generated ones; goes on where it was stopped
    python -m tests.benchmarks.bench_hard FOLDER     # those of a folder and its subfolders, printed alone

The first records a line for each in data/benchmarks/packing_hard.csv. Nothing of the library BPPLIB (Delorme, Iori,
Martello, Optimization Letters 12, 2018) is shipped, since its license does not allow it; FOLDER may hold its files:
the number of lines that follow, the capacity, and then a size a line, or a size and how many there are of it.

Most of the generated ones are drawn from published recipes: Falkenauer (Journal of Heuristics 2, 1996), Scholl, Klein
and Jürgens (Computers & Operations Research 24, 1997), Schwerin and Wäscher (International Transactions in Operational
Research 4, 1997). The others are made like classes that were selected because they are hard, and are not those:
"tight 1 to 800" has the sizes and counts of Hard28, "tight of 10,000" those of Wäscher's, each with sequences added
until the linear program takes almost a whole number of packs; of these the ones are kept that rounding does not solve.
In "full packs" all packs of the best plan are full, and of three sequences most, as in the class AI.
"""

import itertools
import math
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.optimal import _Search
from tests.benchmarks.table import Growing, timed

SECONDS, EACH, DRAWS, SLACK = 10, 20, 36, 0.006
COLUMNS = ("class", "seed", "sequences", "packs", "bound", "listed", "CPU seconds")


def triplets(rng: np.random.Generator, packs: int) -> np.ndarray:
    """Falkenauer's: three lengths fill a pack of 1,000."""
    first = rng.integers(380, 491, packs)
    second = rng.integers(250, (1000 - first) // 2 + 1)
    return np.concatenate([first, second, 1000 - first - second])


def recipes(seed: int) -> Iterator[tuple[str, int, np.ndarray]]:
    """The class, the row, and the lengths; each class has several settings, which the seeds take in turn."""
    rng = np.random.default_rng(seed)
    yield "Falkenauer U", 150, rng.integers(20, 101, (120, 250, 500, 1000)[seed % 4])
    yield "Falkenauer T", 1000, triplets(rng, (20, 40, 83, 167)[seed % 4])
    counts = (50, 100, 200, 500)
    n, top, low = list(itertools.product(counts, (100, 120, 150), (1, 20, 30)))[seed * 7 % 36]
    yield "Scholl 1", top, rng.integers(low, 101, n)
    n, share, spread = list(itertools.product(counts, (3, 5, 7, 9), (0.2, 0.5, 0.9)))[seed * 7 % 48]
    low, high = (round(1000 / share * (1 + sign * spread)) for sign in (-1, 1))
    yield "Scholl 2", 1000, rng.integers(low, high + 1, n)
    yield "Scholl 3", 100_000, rng.integers(20_000, 35_001, 200)
    yield "Schwerin", 1000, rng.integers(150, 201, (100, 120)[seed % 2])


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


def full_packs(packs: int, most: int, rng: np.random.Generator) -> LengthHistogram:
    """In nearly every pack one sequence takes half of it or more, and two fill the rest; two packs are cut anywhere."""
    top = int(rng.integers(most * 3 // 5, most + 1))
    lengths = list[int]()
    for _ in range(packs - 2):
        long = int(rng.integers(top * 12 // 25, top * 9 // 10, 2).max())
        short = int(rng.integers(top // 250 + 1, top - long - top // 250))
        lengths += [long, short, top - long - short]
    for cuts in (5, 6):
        lengths += np.diff([0, *np.sort(rng.choice(np.arange(1, top), cuts, replace=False)), top]).tolist()
    return LengthHistogram.from_lengths(lengths, top)


def generated() -> Iterator[tuple[str, int, LengthHistogram | None]]:
    for seed in range(EACH):
        for name, top, lengths in recipes(seed):
            yield name, seed, LengthHistogram.from_lengths(lengths, top)
    for seed in range(DRAWS):
        lengths = np.random.default_rng([seed, 0]).integers(1, 801, (160, 180, 200)[seed % 3])
        yield "tight 1 to 800", seed, tight(lengths.tolist(), 1000)
    for seed in range(DRAWS // 2):
        rng = np.random.default_rng([seed, 1])
        low, high = ((1, 5000), (1, 7500), (2000, 5000), (100, 3500))[seed % 4]
        yield "tight of 10,000", seed, tight(rng.integers(low, high + 1, int(rng.integers(57, 240))).tolist(), 10_000)
    for (packs, most), seed in itertools.product(((67, 2500), (134, 10_000)), range(12)):
        yield f"full packs, {packs}", seed, full_packs(packs, most, np.random.default_rng([seed, packs]))


def read(path: Path) -> LengthHistogram:
    """The sizes in a file of BPPLIB."""
    lines = [[int(word) for word in line.split()] for line in path.read_text().splitlines() if line.strip()]
    (count,), (top,), *items = lines
    if len(items) != count or any(len(item) not in (1, 2) for item in items):
        raise ValueError(f"{path} must hold {count} lines of a size, or of a size and its count, after the first two.")
    return LengthHistogram.from_lengths([item[0] for item in items for _ in range((*item, 1)[1])], top)


def measure(name: str, seed: int, histogram: LengthHistogram) -> dict:
    made, seconds = timed(partial(plan, histogram, time_limit=SECONDS))
    found = (histogram.num_sequences, made.num_packs, made.lower_bound, made.listed, f"{seconds:.2f}")
    return dict(zip(COLUMNS, (name, seed, *found), strict=True))


def main() -> None:
    time.perf_counter = time.process_time  # of time limits; other work on the machine then changes little
    if sys.argv[1:]:
        files = sorted(path for path in Path(sys.argv[1]).rglob("*") if path.is_file())
        rows = [measure(str(path), 0, read(path)) for path in files]
    else:
        record = Growing("packing_hard.csv", COLUMNS)
        for name, seed, histogram in generated():
            if histogram and not record.has(**{"class": name, "seed": seed}):
                measured = [measure(name, seed, histogram)]
                record.add(measured, "python -m tests.benchmarks hard", ("numpy", "scipy", "highspy"))
        rows = record.rows
    missed = [row for row in rows if str(row["packs"]) != str(row["bound"])]
    for row in missed:
        print(*row.values(), "MISSED", sep="  ")
    print(f"{len(rows) - len(missed)} of {len(rows)} proven")


if __name__ == "__main__":
    main()
