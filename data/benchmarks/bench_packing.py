"""Packing against its peers: SciPy's NNLS, NumPy's sort, and the C++ packer lightbinpack.

    python data/record.py packing                 # all parts
    python data/record.py packing tight_depths    # one part anew, beside the other lines

write data/benchmarks/packing.csv. Every line compares medians of runs that took turns; the parts `against_nnls` and
`draws` those of CPU seconds, and each of the draws is packed once.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.table import Growing, beside, in_new_process, in_turn, memory_of, record, timed
from packlib.arguments import one_of
from packlib.lengths import LengthHistogram, load, log_normal
from packlib.packing import plan
from packlib.packing.nnls import nnls_problem

NNLS = "SciPy's NNLS, 22,102 columns"


def packed(lengths: np.ndarray, top: int, method: str, seed: int | None = None) -> int:
    return len(plan(LengthHistogram.from_lengths(lengths, top), method=method).assign(lengths, seed))


def light(lengths: np.ndarray, top: int) -> dict[str, Callable[[], list]]:
    """Return both packers of lightbinpack, each with the input that it takes faster."""
    import lightbinpack

    return {
        "lightbinpack obfd": partial(lightbinpack.obfd, lengths.tolist(), top),
        "lightbinpack obfdp": partial(lightbinpack.obfdp, lengths, top),
    }


def greedy(wikipedia: LengthHistogram) -> Iterator[dict]:
    lengths = np.random.default_rng(0).permutation(wikipedia.expand())
    work = {method: partial(plan, wikipedia, method=method) for method in ("spfhp", "lpfhp")}
    seconds, _ = in_turn({**work, "sort": partial(np.sort, lengths)}, runs=15)
    for method in work:
        yield beside(f"{method}, Wikipedia 512", seconds[method], "np.sort of the lengths, int64", seconds["sort"])


def lengths_to_packs(wikipedia: LengthHistogram) -> Iterator[dict]:
    lengths = np.random.default_rng(0).permutation(wikipedia.expand())
    peers = light(lengths, 512)
    ways = {"lpfhp, with a seed": ("lpfhp", 0), "lpfhp": ("lpfhp",), "optimal": ("optimal",)}
    seconds, found = in_turn({**peers, **{name: partial(packed, lengths, 512, *way) for name, way in ways.items()}}, 3)
    peer = min(peers, key=seconds.get)
    for name, way in ways.items():
        memory = in_new_process(memory_of, packed, lengths, 512, *way) / 1024
        said = f"{found[name]:,} packs, peer {len(found[peer]):,}; {memory:.2f} GiB above the input"
        yield beside(f"16,279,552 lengths to packs, {name}", seconds[name], peer, seconds[peer], said)


def drawn(family: str, top: int, seed: int = 0, n: int = 1_000_000) -> np.ndarray:
    """Draw lengths like those of documents: log-normal (median 600, sigma 1.2) or Pareto (alpha 1.1, from 100)."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(600), 1.2, n) if family == "log-normal" else 100 * (1 + rng.pareto(1.1, n))
    return np.clip(np.rint(lengths), 1, top).astype(np.int64)


def long_rows(family: str, seed: int = 0) -> Iterator[tuple[int, LengthHistogram, list[int]]]:
    """Yield the row lengths, the lengths, and depth limits: 4, 16, 64, and about as many as fill a row."""
    for top in (4096, 16384, 32768, 131072):
        histogram = LengthHistogram.from_lengths(drawn(family, top, seed), top)
        most = top / histogram.mean_length
        yield top, histogram, sorted({64, 16, 4, *(round(most * times) for times in (0.8, 1, 1.2))})


def tight_depths(wikipedia: LengthHistogram) -> Iterator[dict]:
    cases = [("Wikipedia 512", wikipedia, (2, 3, 4, 8, 16)), ("SQuAD 384", load("squad"), (2, 3, 4, 8, 16))]
    for family in ("log-normal", "Pareto"):
        cases += [(f"{family} {top:,}", histogram, depths) for top, histogram, depths in long_rows(family)]
    for name, histogram, depths in cases:
        for depth in depths:
            work = {m: partial(plan, histogram, method=m, max_sequences_per_pack=depth) for m in ("lpt", "lpfhp")}
            seconds, plans = in_turn(work, runs=3)
            above = {method: f"{100 * made.gap / made.lower_bound:.3f} %" for method, made in plans.items()}
            found = f"{above['lpt']} above the bound of sums, lpfhp {above['lpfhp']}"
            yield beside(f"lpt, {name}, depth {depth}", seconds["lpt"], "lpfhp", seconds["lpfhp"], found)


def many_lengths(_: LengthHistogram) -> Iterator[dict]:
    for top, n in itertools.product((32768, 131072), (200_000, 1_000_000)):
        lengths = drawn("log-normal", top, n=n)
        peers = light(lengths, top)
        seconds, found = in_turn({"ours": partial(packed, lengths, top, "lpfhp"), **peers}, runs=7)
        peer = min(peers, key=seconds.get)
        name = f"{n:,} log-normal lengths to packs of {top:,}, lpfhp"
        yield beside(name, seconds["ours"], peer, seconds[peer], f"{found['ours']:,} packs")


def nnls_on(wikipedia: LengthHistogram) -> Callable[[], object]:
    """Set up SciPy's NNLS at depth 3."""
    from scipy.optimize import nnls

    matrix, target = nnls_problem(wikipedia)
    dense = matrix.toarray()
    return partial(nnls, dense, target, maxiter=10 * dense.shape[1])


def against_nnls(wikipedia: LengthHistogram) -> Iterator[dict]:
    cases = {
        **{("Wikipedia 512", depth): wikipedia for depth in (3, 2, 4, 5, 6, 8, 16, None)},
        ("log-normal 2,048", None): log_normal(10_000_000, 2048, 5.0, 1.0),
        ("log-normal 8,192", None): log_normal(10_000_000, 8192, 6.0, 1.2),
    }
    work = {
        case: partial(plan, histogram, method="optimal", max_sequences_per_pack=case[1])
        for case, histogram in cases.items()
    }
    seconds, plans = in_turn({**work, "nnls": nnls_on(wikipedia)}, runs=3, clock=time.process_time)
    nnls_packs = plan(wikipedia, method="nnlshp", max_sequences_per_pack=3).num_packs
    for name, depth in cases:
        made = plans[name, depth]
        found = f"{made.num_packs:,} packs, gap {made.gap}{f'; NNLSHP {nnls_packs:,} packs' if depth == 3 else ''}"
        work = f"optimal, {name}, depth {depth or 'unlimited'}"
        yield beside(work, seconds[name, depth], NNLS, seconds["nnls"], found)


def draws(wikipedia: LengthHistogram) -> Iterator[dict]:
    """Pack shipped lengths, and fresh samples of the same size: no gap should come and go with the sample."""
    _, nnls_seconds = timed(nnls_on(wikipedia))
    taken, gaps = [], []
    for histogram, seed in itertools.product((wikipedia, load("squad")), (None, *range(20))):
        counts = histogram.counts
        if seed is not None:
            counts = np.random.default_rng(seed).multinomial(counts.sum(), counts / counts.sum())
        for depth in (2, 3, 4, 6, 8, 16, None):
            drawn = LengthHistogram(counts, max_length=histogram.max_length)
            made, seconds = timed(partial(plan, drawn, method="optimal", max_sequences_per_pack=depth))
            taken.append(seconds)
            gaps.append(made.gap)
    found = f"{len(taken)} plans: gap 0 in {gaps.count(0) / len(gaps):.1%}, at most {max(gaps)}"
    for which, seconds in (("median", np.median(taken)), ("slowest", max(taken))):
        work = f"optimal, Wikipedia and SQuAD, shipped and 20 draws each, 7 depths: the {which}"
        yield beside(work, seconds, NNLS, nnls_seconds, found)


PARTS = {part.__name__: part for part in (greedy, tight_depths, lengths_to_packs, many_lengths, against_nnls, draws)}


def main(*names: str) -> None:
    wikipedia = load("wikipedia")
    parts = [PARTS[one_of("part", name, PARTS)] for name in names]
    rows = {row["work"]: row for row in Growing("packing.csv", ()).rows} if parts else {}
    rows |= {row["work"]: row for part in parts or PARTS.values() for row in part(wikipedia)}
    record("packing.csv", rows.values(), "python data/record.py packing", ("numpy", "scipy", "highspy"))
