"""`optimal` on the classes of the bin-packing literature, a minute each, and on draws that its dives leave open.

    python -m tests.benchmarks classes

appends a line for each instance to `data/benchmarks/packing_classes.csv`, goes on where it was stopped, and prints how
many of each class are proven. `python -m tests.benchmarks.bench_classes Schwerin` takes one class alone. The instances
are drawn from the published recipes: Falkenauer (Journal of Heuristics 2, 1996), Scholl, Klein and Jürgens (Computers &
Operations Research 24, 1997), Schwerin and Wäscher (International Transactions in Operational Research 4, 1997). Hard28
was selected and has no recipe. "Uniform 1 to 800" has as many sequences in packs of 1,000, but is easy: it says nothing
of Hard28, of which `optimal` proves far fewer.
"""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.packing.plans import PackingPlan
from tests.benchmarks.table import Growing

SECONDS, EACH, DRAWS = 60, 20, 400
COLUMNS = ("class", "kind", "seed", "sequences", "packs", "bound", "seconds")


def uniform(top: int, low: int, high: int, sizes: tuple[int, ...]) -> Callable:
    return lambda rng, kind: (top, rng.integers(low, high + 1, sizes[kind % len(sizes)]))


def triplets(rng: np.random.Generator, kind: int) -> tuple[int, np.ndarray]:
    packs = (60, 120, 249, 501)[kind % 4] // 3
    first = rng.integers(380, 491, packs)
    second = rng.integers(250, (1000 - first) // 2 + 1)
    return 1000, np.concatenate([first, second, 1000 - first - second])


def scholl_1(rng: np.random.Generator, kind: int) -> tuple[int, np.ndarray]:
    n, top, low = list(itertools.product((50, 100, 200, 500), (100, 120, 150), (1, 20, 30)))[kind * 7 % 36]
    return top, rng.integers(low, 101, n)


def scholl_2(rng: np.random.Generator, kind: int) -> tuple[int, np.ndarray]:
    n, share, spread = list(itertools.product((50, 100, 200, 500), (3, 5, 7, 9), (0.2, 0.5, 0.9)))[kind * 7 % 48]
    return 1000, rng.integers(round(1000 / share * (1 - spread)), round(1000 / share * (1 + spread)) + 1, n)


CLASSES = {
    "Falkenauer U": uniform(150, 20, 100, (120, 250, 500, 1000)),
    "Falkenauer T": triplets,
    "Scholl 1": scholl_1,
    "Scholl 2": scholl_2,
    "Scholl 3": uniform(100_000, 20_000, 35_000, (200,)),
    "Schwerin": uniform(1000, 150, 200, (100, 120)),
    "Uniform 1 to 800": uniform(1000, 1, 800, (160, 180, 200)),
}
DRAWN_AS = {"Uniform 1 to 800": "Hard28's size"}  # its recorded instances come from the seed of this name


def draw(name: str, kind: int, seed: int) -> LengthHistogram:
    drawn_as = DRAWN_AS.get(name, name)
    top, lengths = CLASSES[name](np.random.default_rng([seed, kind, *drawn_as.encode()]), kind)
    return LengthHistogram(np.bincount(np.maximum(lengths, 1), minlength=top + 1))


def by_dives_alone(histogram: LengthHistogram) -> PackingPlan:
    with mock.patch("packlib.packing.search.optimal.swap_search", lambda *_: None):
        return plan(histogram, method="optimal", time_limit=SECONDS)


def instances(names: list[str], done: Counter) -> Iterator[tuple[str, int, int, LengthHistogram]]:
    """Each class as it comes, and then as many draws of it as the dives alone leave with a gap.

    Args:
        names: of the classes.
        done: how many instances of each class are recorded; those that the dives leave are not looked for again
            if there are enough of them.
    """
    for name in names:
        for kind in range(EACH):
            yield name, kind, 0, draw(name, kind, 0)
        if done[f"{name}, left open by dives"] >= EACH:
            continue
        hard = (
            h for s in range(1, DRAWS // EACH + 1) for k in range(EACH) if by_dives_alone(h := draw(name, k, s)).gap
        )
        for n, histogram in enumerate(itertools.islice(hard, EACH)):
            yield f"{name}, left open by dives", n, 1, histogram


def main(names: list[str] | None = None) -> None:
    packages = ("numpy", "scipy", "highspy")
    record = Growing("packing_classes", "python -m tests.benchmarks classes", COLUMNS, packages)
    done = Counter(row[0] for row in record.rows)
    for name, kind, seed, histogram in instances(names or list(CLASSES), done):
        if not record.holds(name, kind):
            start = time.perf_counter()
            made = plan(histogram, method="optimal", time_limit=SECONDS)
            seconds = f"{time.perf_counter() - start:.2f}"
            record.add(name, kind, seed, histogram.num_sequences, made.num_packs, made.lower_bound, seconds)
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in record.rows]
    proven = Counter(row["class"] for row in rows if row["packs"] == row["bound"])
    for name, total in Counter(row["class"] for row in rows).items():
        slowest = max(float(row["seconds"]) for row in rows if row["class"] == name)
        print(f"{name:32} {proven[name]:3} of {total:3} proven, the slowest in {slowest:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
