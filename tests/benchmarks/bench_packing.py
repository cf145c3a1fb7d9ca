"""Packing against its peers: SciPy's NNLS, NumPy's sort, and the C++ packer lightbinpack."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from packlib.lengths import LengthHistogram, load, log_normal
from packlib.packing import assign, plan
from packlib.packing.nnls import nnls_problem
from tests.benchmarks.timing import Row, in_turn, median_of, seconds_of

MEMORY = """
import resource, sys, numpy as np
from packlib.lengths import LengthHistogram
from packlib.packing import assign, plan
lengths = np.load(sys.argv[1])
lengths.max()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assign(plan(LengthHistogram.from_lengths(lengths, 512), sys.argv[2]), lengths, seed=0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def rows() -> Iterator[Row]:
    wikipedia = load("wikipedia")
    yield from greedy(wikipedia)
    yield from lengths_to_packs(wikipedia)
    yield from against_nnls(wikipedia)
    yield importing()


def greedy(wikipedia: LengthHistogram) -> Iterator[Row]:
    lengths = np.random.default_rng(0).permutation(wikipedia.expand())
    for method in ("spfhp", "lpfhp"):
        ours, peer = in_turn(lambda m=method: plan(wikipedia, m), lambda: np.sort(lengths), runs=9)
        yield Row(f"{method}, Wikipedia 512", ours, "np.sort of the lengths, int64", peer, "10 times faster")


def lengths_to_packs(wikipedia: LengthHistogram) -> Iterator[Row]:
    import lightbinpack

    lengths = np.random.default_rng(0).permutation(wikipedia.expand())
    as_list = lengths.tolist()
    peers = {}
    for name, run in (
        ("lightbinpack obfd", lambda: lightbinpack.obfd(as_list, 512)),
        ("lightbinpack obfdp", lambda: lightbinpack.obfdp(lengths, 512)),  # it takes arrays faster than lists
    ):
        peers[name] = median_of(run, runs=3)
    peer = min(peers, key=peers.get)
    peer_packs = len(lightbinpack.obfdp(lengths, 512))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/lengths.npy", lengths)
        for method, must in (
            ("lpfhp", "10 times faster, no more packs, under 1 GiB"),
            ("optimal", "5 times faster, fewer packs, under 1 GiB"),
        ):

            def ours(method: str = method) -> None:
                made = plan(LengthHistogram.from_lengths(lengths, 512), method)
                assign(made, lengths, seed=0)

            seconds = median_of(ours, runs=5)
            command = [sys.executable, "-c", MEMORY, f"{folder}/lengths.npy", method]
            memory = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 2**20
            packs = plan(wikipedia, method).num_packs
            note = f"{packs:,} packs against {peer_packs:,}; {memory:.2f} GiB above the input"
            yield Row(f"16,279,552 lengths to packs, {method}", seconds, peer, peers[peer], must, note)


def against_nnls(wikipedia: LengthHistogram) -> Iterator[Row]:
    from scipy.optimize import nnls

    matrix, target = nnls_problem(wikipedia)
    peer = median_of(lambda: nnls(matrix, target, maxiter=10 * matrix.shape[1]), runs=3)
    nnls_packs = plan(wikipedia, "nnlshp", 3).num_packs
    cases = [
        (wikipedia, 3, "Wikipedia 512", "10 times faster, fewer packs"),
        *((wikipedia, depth, "Wikipedia 512", "4 times faster, gap at most 2") for depth in (2, 4, 5, 6, 8, 16, None)),
        (log_normal(10_000_000, 2048, 5.0, 1.0), None, "log-normal 2,048", "in 0.4 of its time, gap at most 0.001 %"),
        (log_normal(10_000_000, 8192, 6.0, 1.2), None, "log-normal 8,192", "in 1.5 of its time, gap at most 0.001 %"),
    ]
    for histogram, depth, name, must in cases:
        made = plan(histogram, "optimal", depth)
        seconds = median_of(lambda h=histogram, d=depth: plan(h, "optimal", d), runs=3)
        note = f"{made.num_packs:,} packs, gap {made.gap}"
        if depth == 3:
            note += f"; NNLSHP {nnls_packs:,} packs"
        yield Row(
            f"optimal, {name}, depth {depth or 'unlimited'}", seconds, "SciPy's NNLS, 22,102 columns", peer, must, note
        )


def importing() -> Row:
    def run(module: str) -> float:
        return seconds_of(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True))

    pairs = [(run("packlib"), run("numpy")) for _ in range(9)]
    ours, numpy = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Row("import packlib", ours, "import numpy", numpy, "at most 0.2 s more", f"{ours - numpy:+.2f} s")


def main() -> None:
    table = []
    print("| work | time | peer | its time | times faster | must be | |\n|---|---|---|---|---|---|---|")
    for row in rows():
        table.append(row)
        print(
            f"| {row.work} | {row.seconds:.3f} s | {row.peer} | {row.peer_seconds:.3f} s | {row.times_faster:.1f} "
            f"| {row.must} | {row.note} |",
            flush=True,
        )
