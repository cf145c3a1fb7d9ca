"""Packing against its peers: SciPy's NNLS, NumPy's sort, and the C++ packer lightbinpack.

    python -m tests.benchmarks packing

prints the table and writes `data/benchmarks/packing.csv`. Every line compares medians of runs that took turns; the
parts `against_nnls` and `draws` those of CPU seconds, and each of the draws is packed once.
`python -m tests.benchmarks.bench_packing tight_depths` measures one part anew and keeps the other lines.
"""

import csv
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from packlib.checks import one_of
from packlib.lengths import LengthHistogram, load, log_normal
from packlib.packing import assign, plan
from packlib.packing.nnls import nnls_problem
from tests.benchmarks.table import FOLDER, in_turn, record, show

# The peak of resident memory is the kernel's own count; writing 5 sets it back to what is in use now.
MEMORY = """
import re, sys, numpy as np
from packlib.lengths import LengthHistogram
from packlib.packing import assign, plan
def status(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
lengths = np.load(sys.argv[1])
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
assign(plan(LengthHistogram.from_lengths(lengths, 512), sys.argv[2]), lengths, seed=0)
print(status("VmHWM") - before)
"""


def row(work: str, seconds: float, peer: str, peer_seconds: float, must_be: str, found: str = "") -> dict:
    """A line of the table; `must_be` is the target that it is held to."""
    return {
        "work": work,
        "seconds": f"{seconds:.3f}",
        "peer": peer,
        "its seconds": f"{peer_seconds:.3f}",
        "times faster": f"{peer_seconds / seconds:.1f}",
        "must be": must_be,
        "found": found,
    }


def greedy(wikipedia: LengthHistogram) -> Iterator[dict]:
    lengths = np.random.default_rng(0).permutation(wikipedia.expand())
    work = {method: lambda m=method: plan(wikipedia, method=m) for method in ("spfhp", "lpfhp")}
    seconds = in_turn({**work, "sort": lambda: np.sort(lengths)}, runs=15)
    for method in work:
        peer = "np.sort of the lengths, int64"
        yield row(f"{method}, Wikipedia 512", seconds[method], peer, seconds["sort"], "10 times faster")


def lengths_to_packs(wikipedia: LengthHistogram) -> Iterator[dict]:
    import lightbinpack

    lengths = np.random.default_rng(0).permutation(wikipedia.expand())
    as_list = lengths.tolist()
    packs = {"peer": len(lightbinpack.obfdp(lengths, 512))}

    def ours(method: str, seed: int | None = None) -> None:
        made = plan(LengthHistogram.from_lengths(lengths, 512), method=method)
        packs[method] = len(assign(made, lengths, seed))

    peers = {  # each with the input that it takes faster
        "lightbinpack obfd": lambda: lightbinpack.obfd(as_list, 512),
        "lightbinpack obfdp": lambda: lightbinpack.obfdp(lengths, 512),
    }
    work = {method: lambda m=method: ours(m) for method in ("lpfhp", "optimal")}
    seconds = in_turn({**peers, **work, "seed": lambda: ours("lpfhp", 0)}, runs=3)
    peer = min(peers, key=seconds.get)
    work = "16,279,552 lengths to packs, lpfhp, with a seed"
    yield row(work, seconds["seed"], peer, seconds[peer], "12 times", f"{packs['lpfhp']:,} packs")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/lengths.npy", lengths)
        for method, must_be in (("lpfhp", "10 times, no more packs"), ("optimal", "5 times, fewer packs")):
            command = [sys.executable, "-c", MEMORY, f"{folder}/lengths.npy", method]
            kib = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found = f"{packs[method]:,} packs, peer {packs['peer']:,}; {kib / 2**20:.2f} GiB above the input"
            work = f"16,279,552 lengths to packs, {method}"
            yield row(work, seconds[method], peer, seconds[peer], f"{must_be}, under 1 GiB", found)


def drawn(family: str, top: int, seed: int = 0, n: int = 1_000_000) -> np.ndarray:
    """Lengths like those of documents: log-normal (median 600, sigma 1.2) or Pareto (alpha 1.1, from 100)."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(600), 1.2, n) if family == "log-normal" else 100 * (1 + rng.pareto(1.1, n))
    return np.clip(np.rint(lengths), 1, top).astype(np.int64)


def tight_depths(wikipedia: LengthHistogram) -> Iterator[dict]:
    shipped = {"Wikipedia 512": wikipedia, "SQuAD 384": load("squad")}
    depths = itertools.product(shipped, (2, 3, 4, 8, 16))
    cases = {f"{name}, depth {depth}": (shipped[name], depth) for name, depth in depths}
    for family, top in itertools.product(("log-normal", "Pareto"), (4096, 16384, 32768, 131072)):
        lengths = drawn(family, top)
        histogram, most = LengthHistogram.from_lengths(lengths, top), top / lengths.mean()
        for depth in sorted({64, 16, 4, *(round(most * times) for times in (0.8, 1, 1.2))}):
            cases[f"{family} {top:,}, depth {depth}"] = histogram, depth
    for name, (histogram, depth) in cases.items():
        packs = {}

        def ours(method: str, histogram: LengthHistogram = histogram, depth: int = depth, packs: dict = packs) -> None:
            packs[method] = plan(histogram, method=method, max_sequences_per_pack=depth)

        seconds = in_turn({method: lambda m=method: ours(m) for method in ("lpt", "lpfhp")}, runs=3)
        above = {method: f"{100 * made.gap / made.lower_bound:.3f} %" for method, made in packs.items()}
        found = f"{above['lpt']} above the bound of sums, lpfhp {above['lpfhp']}"
        yield row(
            f"lpt, {name}", seconds["lpt"], "lpfhp", seconds["lpfhp"], "0.33 times, within 2 % of optimal", found
        )


def long_rows() -> Iterator[dict]:
    import lightbinpack

    for top, n in itertools.product((32768, 131072), (200_000, 1_000_000)):
        lengths = drawn("log-normal", top, n=n)
        as_list, packs = lengths.tolist(), []

        def ours(lengths: np.ndarray = lengths, top: int = top, packs: list = packs) -> None:
            packs.append(assign(plan(LengthHistogram.from_lengths(lengths, top), method="lpfhp"), lengths))

        work = {
            "ours": ours,
            "lightbinpack obfd": lambda lengths=as_list, top=top: lightbinpack.obfd(lengths, top),
            "lightbinpack obfdp": lambda lengths=lengths, top=top: lightbinpack.obfdp(lengths, top),
        }
        seconds = in_turn(work, runs=7)
        peer = min(list(work)[1:], key=seconds.get)
        name = f"{n:,} log-normal lengths to packs of {top:,}, lpfhp"
        yield row(name, seconds["ours"], peer, seconds[peer], "2 times", f"{len(packs[-1]):,} packs")


def optimal_on_long_rows(wikipedia: LengthHistogram) -> Iterator[dict]:
    """Seven depths of two families for each row length: the slowest, and the largest gap."""
    limit = in_turn({"nnls": nnls_on(wikipedia)}, runs=3)["nnls"]
    for top in (4096, 16384, 32768, 131072):
        families = {name: LengthHistogram.from_lengths(drawn(name, top), top) for name in ("log-normal", "Pareto")}
        cases = [
            (name, depth)
            for name, histogram in families.items()
            for depth in (None, 64, 16, 4, *(round(top / histogram.mean_length * x) for x in (0.8, 1, 1.2)))
        ]
        for seconds, must_be in ((None, "T, gap at most 0.1 %"), (limit / 10, "T / 10, gap at most 1 %")):
            plans = {}

            def ours(case: tuple, seconds: float | None, plans: dict, families: dict = families) -> None:
                plans[case] = plan(
                    families[case[0]], method="optimal", max_sequences_per_pack=case[1], time_limit=seconds
                )

            work = {case: lambda c=case, s=seconds, p=plans, run=ours: run(c, s, p) for case in dict.fromkeys(cases)}
            took = in_turn(work, runs=1 if seconds else 3)
            slowest, worst = max(took, key=took.get), max(plans, key=lambda c: plans[c].gap / plans[c].lower_bound)
            found = f"gap at most {plans[worst].gap / plans[worst].lower_bound:.3%} ({worst[0]}, depth {worst[1]})"
            name = f"optimal, slowest of {len(plans)} cases of 1 M sequences, rows of {top:,}"
            name += f", time_limit={seconds:.1f}" if seconds else ""
            yield row(name, took[slowest], "SciPy's NNLS (T)", limit, must_be, found)


def nnls_on(wikipedia: LengthHistogram) -> Callable[[], object]:
    """SciPy's NNLS, whose time is T."""
    from scipy.optimize import nnls

    matrix, target = nnls_problem(wikipedia)
    dense = matrix.toarray()
    return lambda: nnls(dense, target, maxiter=10 * dense.shape[1])


def against_nnls(wikipedia: LengthHistogram) -> Iterator[dict]:
    log_normals = [log_normal(10_000_000, 2048, 5.0, 1.0), log_normal(10_000_000, 8192, 6.0, 1.2)]
    cases = {
        ("Wikipedia 512", 3): (wikipedia, "10 times, fewer packs"),
        **{("Wikipedia 512", d): (wikipedia, "4 times, gap at most 2") for d in (2, 4, 5, 6, 8, 16, None)},
        ("log-normal 2,048", None): (log_normals[0], "2.5 times, gap at most 0.001 %"),
        ("log-normal 8,192", None): (log_normals[1], "0.67 times, gap at most 0.001 %"),
    }
    plans = {}

    def ours(case: tuple) -> None:
        plans[case] = plan(cases[case][0], method="optimal", max_sequences_per_pack=case[1])

    work = {case: lambda c=case: ours(c) for case in cases}
    work["nnls"] = nnls_on(wikipedia)
    seconds = in_turn(work, runs=3, clock=time.process_time)
    nnls_packs = plan(wikipedia, method="nnlshp", max_sequences_per_pack=3).num_packs
    for case, (_, must_be) in cases.items():
        found = f"{plans[case].num_packs:,} packs, gap {plans[case].gap}"
        if case[1] == 3:
            found += f"; NNLSHP {nnls_packs:,} packs"
        name = f"optimal, {case[0]}, depth {case[1] or 'unlimited'}"
        yield row(name, seconds[case], "SciPy's NNLS, 22,102 columns", seconds["nnls"], must_be, found)


def draws(wikipedia: LengthHistogram) -> Iterator[dict]:
    """The shipped lengths, and fresh samples of the same size from them: no gap should come and go with the sample."""
    nnls_seconds = in_turn({"": nnls_on(wikipedia)}, runs=1, clock=time.process_time)[""]
    taken, gaps = [], []
    for name in ("wikipedia", "squad"):
        counts = load(name).counts
        for seed in (None, *range(20)):
            rng = np.random.default_rng(seed)
            drawn = counts if seed is None else rng.multinomial(counts.sum(), counts / counts.sum())
            histogram = LengthHistogram(drawn, max_length=len(counts) - 1)
            for depth in (2, 3, 4, 6, 8, 16, None):
                started = time.process_time()
                gaps.append(plan(histogram, method="optimal", max_sequences_per_pack=depth).gap)
                taken.append(time.process_time() - started)
    found = f"{len(taken)} plans: gap 0 in {gaps.count(0) / len(gaps):.1%}, at most {max(gaps)}"
    for which, seconds, must_be in (("median", np.median(taken), 12), ("slowest", max(taken), 6)):
        work = f"optimal, Wikipedia and SQuAD, shipped and 20 draws each, 7 depths: the {which}"
        peer = "SciPy's NNLS, 22,102 columns"
        yield row(work, seconds, peer, nnls_seconds, f"{must_be} times, gap 0 in 99 %, at most 1", found)


def main(names: list[str] | None = None) -> None:
    wikipedia = load("wikipedia")
    parts = {
        "greedy": partial(greedy, wikipedia), "tight_depths": partial(tight_depths, wikipedia),
        "lengths_to_packs": partial(lengths_to_packs, wikipedia), "long_rows": long_rows,
        "against_nnls": partial(against_nnls, wikipedia), "draws": partial(draws, wikipedia),
        "optimal_on_long_rows": partial(optimal_on_long_rows, wikipedia),
    }  # fmt: skip
    recorded_rows = csv.DictReader((FOLDER / "packing.csv").read_text(encoding="utf-8").splitlines()[2:])
    rows = {row["work"]: row for row in recorded_rows} if names else {}
    for name in names or parts:
        new = list(parts[one_of("part", name, parts)]())
        show(new)
        rows |= {row["work"]: row for row in new}
    print(record("packing", list(rows.values()), "python -m tests.benchmarks packing"))


if __name__ == "__main__":
    main(sys.argv[1:])
