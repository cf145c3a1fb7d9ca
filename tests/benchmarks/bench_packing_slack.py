"""`optimal` on histograms made to be hard: the linear program takes little less than a whole number of packs.

`python -m tests.benchmarks packing_slack` adds a line for each histogram to data/benchmarks/packing_slack.csv and goes
on where it was stopped. The slack is how far the linear program's packs lie below the next whole number. A plan that
meets the bound may waste no more than that in all, so a small slack is hard. Wikipedia's, SQuAD's and other lengths are
drawn, stretched, shifted and mixed, and single sequences are added until the slack is 0.14 or 0.08. At some depths no
sequence moves it there; such histograms are left out.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from packlib.lengths import LengthHistogram, load
from packlib.lengths.synthetic import protein_like, two_humped
from packlib.packing import plan
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import Multiset
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.optimal import _Search
from tests.benchmarks.table import Growing, timed

COLUMNS = ("lengths", "depth", "slack", "sequences", "max_length", "packs", "bound", "CPU seconds")
NEAR, TRIES = 0.02, 8


class ToTheEnd(_Search):
    """A search that adds strategies until none helps, even where the bound is met before."""

    pricing = False

    @property
    def lower_bound(self) -> int:
        return -1 if self.pricing else self.known_bound

    @lower_bound.setter
    def lower_bound(self, bound: int) -> None:
        self.known_bound = bound


def linear_program(counts: np.ndarray, depth: int | None, known: Iterable[Multiset]) -> ToTheEnd:
    search = ToTheEnd(LengthHistogram(counts), depth, None, Deadline())
    search.master = MasterProblem(counts)
    search.master.add([*search.start, *known])
    search.pricing = True
    search.generate()
    return search


def with_slack(counts: np.ndarray, depth: int | None, wanted: float) -> tuple[np.ndarray, float]:
    """Add sequences whose price is what the slack has too much; the counts, and the slack that they have then."""
    counts, known = counts.copy(), list[Multiset]()
    for _ in range(TRIES):
        search = linear_program(counts, depth, known)
        packs, known = search.master.objective, list(search.master.strategies)
        slack = math.ceil(packs - 1e-4) - packs
        if abs(slack - wanted) < NEAR / 2:
            break
        at = np.abs(search.master.prices_in_packs - (slack - wanted) % 1).argmin()
        counts[search.lengths[at]] += 1
    return counts, slack


def stretched(shares: np.ndarray, top: int) -> np.ndarray:
    """The shares of the lengths 1 to `top` that go as these do."""
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


def main() -> None:
    record = Growing("packing_slack.csv", COLUMNS)
    for (name, drawn), depth, wanted in itertools.product(shapes(), (3, 4, 6, 8, 16, None), (0.14, 0.08)):
        if record.has(lengths=name, depth=depth or "none", slack=wanted):
            continue
        counts, slack = with_slack(drawn, depth, wanted)
        if abs(slack - wanted) > NEAR:
            continue
        made, seconds = timed(partial(plan, LengthHistogram(counts), max_sequences_per_pack=depth))
        found = (
            name, depth or "none", wanted, made.histogram.num_sequences, made.histogram.max_length, made.num_packs,
            made.lower_bound, f"{seconds:.2f}",
        )  # fmt: skip
        row = dict(zip(COLUMNS, found, strict=True))
        record.add([row], "python -m tests.benchmarks packing_slack", ("numpy", "highspy"))


if __name__ == "__main__":
    main()
