"""`optimal` on instances that are hard for bin packing, with its misses.

    python data/record.py hard            # generated ones; goes on where it was stopped
    python data/record.py hard FOLDER     # those of a folder and its subfolders, printed alone

The first records a line for each in data/benchmarks/packing_hard.csv, with ten CPU seconds, and in packing_slack.csv,
where it takes as long as it takes. Nothing of the library BPPLIB (Delorme, Iori,
Martello, Optimization Letters 12, 2018) is shipped, since its license does not allow it; FOLDER may hold its files:
the number of lines that follow, the capacity, and then a size a line, or a size and how many there are of it.

Most of the generated ones are drawn from published recipes: Falkenauer (Journal of Heuristics 2, 1996), Scholl, Klein
and Jürgens (Computers & Operations Research 24, 1997), Schwerin and Wäscher (International Transactions in Operational
Research 4, 1997). The others are made like classes that were selected because they are hard, and are not those:
"tight 1 to 800" has the sizes and counts of Hard28, "tight of 10,000" those of Wäscher's, each with sequences added
until the linear program takes almost a whole number of packs; of these the ones are kept that rounding does not solve.
In "full packs" all packs of the best plan are full, and of three sequences most, as in the class AI.

packing_slack.csv has histograms whose linear program takes little less than a whole number of packs. The slack is how
far below it lies. A plan that meets the bound may waste no more than that in all, so a small slack is hard.
Wikipedia's, SQuAD's and other lengths are drawn, stretched, shifted and mixed, and single sequences are added until the
slack is 0.14 or 0.08. At some depths no sequence moves it there; such histograms are left out.
"""

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.table import Growing, timed
from packlib.arguments import shown
from packlib.lengths import LengthHistogram, load
from packlib.lengths.synthetic import protein_like, two_humped
from packlib.packing import plan
from packlib.packing.greedy import lpfhp
from packlib.packing.search.best import Best
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.exact import ExactProgram
from packlib.packing.search.knapsack import Multiset
from packlib.packing.search.starts import start

SECONDS, EACH, DRAWS, SLACK = 10, 20, 36, 0.006
NEAR, TRIES = 0.02, 8  # of a slack that is wanted
HARD = ("class", "seed", "sequences", "packs", "bound", "listed", "CPU seconds")
SLACKS = ("lengths", "depth", "slack", "sequences", "max_length", "packs", "bound", "CPU seconds")
Case = tuple[dict, Callable[[], LengthHistogram | None], int | None]  # its name, what is packed, and the depth limit


def triplets(rng: np.random.Generator, packs: int) -> np.ndarray:
    """Draw Falkenauer's lengths, three of which fill a pack of 1,000."""
    first = rng.integers(380, 491, packs)
    second = rng.integers(250, (1000 - first) // 2 + 1)
    return np.concatenate([first, second, 1000 - first - second])


def recipes(seed: int) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the class, the row, and the lengths; each class has several settings, which the seeds take in turn."""
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
        best = Best(LengthHistogram.from_lengths(lengths, top), None, Deadline())
        best.offer(lpfhp(best.histogram))
        exact = ExactProgram(best, [best.strategies])
        exact.generate()
        exact.center_prices()
        exact.offer_rounded_down()
        packs = exact.total_value / exact.best_pack_value
        slack, prices = math.ceil(packs - 1e-7) - packs, exact.prices / exact.best_pack_value
        if slack < SLACK:
            return best.histogram if best.num_packs > best.lower_bound else None
        fits = np.flatnonzero(prices <= slack)
        if not len(fits):
            return None
        lengths = [*lengths, int(exact.lengths[fits[prices[fits].argmax()]])]
    return None


def full_packs(packs: int, most: int, rng: np.random.Generator) -> LengthHistogram:
    """Draw packs in which one sequence takes half or more, and two fill the rest; two packs are cut anywhere."""
    top = int(rng.integers(most * 3 // 5, most + 1))
    lengths = list[int]()
    for _ in range(packs - 2):
        long = int(rng.integers(top * 12 // 25, top * 9 // 10, 2).max())
        short = int(rng.integers(top // 250 + 1, top - long - top // 250))
        lengths += [long, short, top - long - short]
    for cuts in (5, 6):
        lengths += np.diff([0, *np.sort(rng.choice(np.arange(1, top), cuts, replace=False)), top]).tolist()
    return LengthHistogram.from_lengths(lengths, top)


def generated() -> Iterator[Case]:
    def case(name: str, seed: int, make: Callable[[], LengthHistogram | None]) -> Case:
        return {"class": name, "seed": seed}, make, None

    for seed in range(EACH):
        for name, top, lengths in recipes(seed):
            yield case(name, seed, partial(LengthHistogram.from_lengths, lengths, top))
    for seed in range(DRAWS):
        lengths = np.random.default_rng([seed, 0]).integers(1, 801, (160, 180, 200)[seed % 3])
        yield case("tight 1 to 800", seed, partial(tight, lengths.tolist(), 1000))
    for seed in range(DRAWS // 2):
        rng = np.random.default_rng([seed, 1])
        low, high = ((1, 5000), (1, 7500), (2000, 5000), (100, 3500))[seed % 4]
        lengths = rng.integers(low, high + 1, int(rng.integers(57, 240)))
        yield case("tight of 10,000", seed, partial(tight, lengths.tolist(), 10_000))
    for (packs, most), seed in itertools.product(((67, 2500), (134, 10_000)), range(12)):
        rng = np.random.default_rng([seed, packs])
        yield case(f"full packs, {packs}", seed, partial(full_packs, packs, most, rng))


def linear_program(counts: np.ndarray, depth: int | None, known: Iterable[Multiset]) -> ExactProgram:
    """Return the linear program with strategies until none helps, even where the bound is met before."""
    best = Best(LengthHistogram(counts), depth, Deadline())
    exact = ExactProgram(best, start(best, True))
    exact.program.add(known)
    exact.generate(to_the_end=True)
    return exact


def with_slack(counts: np.ndarray, depth: int | None, wanted: float) -> LengthHistogram | None:
    """Add sequences whose price is what the slack has too much, until it is near what is wanted; None if it is not."""
    counts, known = counts.copy(), list[Multiset]()
    for _ in range(TRIES):
        exact = linear_program(counts, depth, known)
        packs, known = exact.program.objective, list(exact.program.strategies)
        slack = math.ceil(packs - 1e-4) - packs
        if abs(slack - wanted) < NEAR / 2:
            break
        at = np.abs(exact.program.prices_in_packs - (slack - wanted) % 1).argmin()
        counts[exact.lengths[at]] += 1
    return LengthHistogram(counts) if abs(slack - wanted) <= NEAR else None


def stretched(shares: np.ndarray, top: int) -> np.ndarray:
    """Return the shares of the lengths 1 to `top` that go as these do."""
    at = np.arange(1, top + 1) * len(shares) / top
    return np.interp(at, np.arange(1, len(shares) + 1), shares)


def shapes() -> Iterator[tuple[str, np.ndarray]]:
    lengths = (load(name).counts[1:] for name in ("wikipedia", "squad", "docstrings"))
    wikipedia, squad, docstrings = (counts / counts.sum() for counts in lengths)
    longer = np.concatenate([squad, np.zeros(512 - len(squad))])
    docs = np.append(docstrings[:511], docstrings[511:].sum())
    far_apart = two_humped(1_000_000, 1024, (90.0, 700.0), (40.0, 120.0), 0.8)
    many, few = 16_279_552, 88_641
    for seed, (name, n, shares) in enumerate(
        [
            ("wikipedia", many, wikipedia),
            ("squad", few, squad),
            ("wikipedia 0.3, squad 0.7", many, 0.3 * wikipedia + 0.7 * longer),
            ("wikipedia 0.7, squad 0.3", few, 0.7 * wikipedia + 0.3 * longer),
            ("wikipedia on 384", 1_000_000, stretched(wikipedia[:-1], 384)),
            ("wikipedia on 1,024", many, stretched(wikipedia[:-1], 1024)),
            ("wikipedia on 256", many, stretched(wikipedia[:-1], 256)),
            ("squad, 40 longer", few, np.roll(squad, 40)),
            ("squad, squared", few, squad**2),
            ("wikipedia, square root", many, wikipedia**0.5),
            ("two humps", many, two_humped(1_000_000, 512).counts[1:]),
            ("two humps on 1,024", 500_000, far_apart.counts[1:]),
            ("docstrings", 2_000_000, docs),
            ("docstrings and wikipedia", many, docs + wikipedia),
            ("proteins", 3_000_000, protein_like(1_000_000, 512, 200.0).counts[1:]),
            ("squad on 768", few, stretched(squad, 768)),
            ("wikipedia without the longest", many, wikipedia[:-1]),
            ("squad and squad, 150 longer", few, 0.6 * squad + 0.4 * np.roll(squad, 150)),
        ]
    ):
        drawn = np.random.default_rng(100 + seed).multinomial(n, shares / shares.sum())
        yield name, np.concatenate([[0], drawn])


def slacks() -> Iterator[Case]:
    for (name, drawn), depth, wanted in itertools.product(shapes(), (3, 4, 6, 8, 16, None), (0.14, 0.08)):
        named = {"lengths": name, "depth": depth or "none", "slack": wanted}
        yield named, partial(with_slack, drawn, depth, wanted), depth


def read(path: Path) -> LengthHistogram:
    """Return the sizes in a file of BPPLIB."""
    lines = [[int(word) for word in line.split()] for line in path.read_text().splitlines() if line.strip()]
    (count,), (top,), *items = lines
    if len(items) != count or any(len(item) not in (1, 2) for item in items):
        raise ValueError(f"{path} must hold {count} lines of a size, or of a size and its count, after the first two.")
    return LengthHistogram.from_lengths([item[0] for item in items for _ in range((*item, 1)[1])], top)


def measure(histogram: LengthHistogram, depth: int | None = None, limit: float | None = SECONDS) -> dict:
    made, seconds = timed(partial(plan, histogram, method="optimal", max_sequences_per_pack=depth, time_limit=limit))
    return {
        "sequences": histogram.num_sequences, "max_length": histogram.max_length, "packs": made.num_packs,
        "bound": made.lower_bound, "listed": made.listed, "CPU seconds": f"{seconds:.2f}",
    }  # fmt: skip


def grown(file: str, columns: tuple[str, ...], cases: Iterable[Case], limit: float | None) -> list[dict]:
    """Return the rows of a record after those that it lacked were measured."""
    record = Growing(file, columns)
    for named, make, depth in cases:
        if not record.has(**named) and (histogram := make()):
            row = named | measure(histogram, depth, limit)
            record.add([row], "python data/record.py hard", ("numpy", "scipy", "highspy"))
    return record.rows


def main(*given: str) -> None:
    parser = argparse.ArgumentParser(prog="python data/record.py hard", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="of files of BPPLIB; without it, the generated instances")
    folder = parser.parse_args(given).folder
    if folder and not folder.is_dir():
        raise ValueError(f"FOLDER must be a folder, not {shown(str(folder))}.")
    time.perf_counter = time.process_time  # of time limits; other work on the machine then changes little
    if folder:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        rows = [{"class": str(path), **measure(read(path))} for path in files]
    else:
        rows = grown("packing_hard.csv", HARD, generated(), SECONDS)
        rows += grown("packing_slack.csv", SLACKS, slacks(), None)
    missed = [row for row in rows if str(row["packs"]) != str(row["bound"])]
    for row in missed:
        print(*row.values(), "MISSED", sep="  ")
    print(f"{len(rows) - len(missed)} of {len(rows)} proven")
