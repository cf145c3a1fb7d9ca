"""Sorting rows against Python's own sort, and how evenly sorts and curricula load the ranks.

    python -m tests.benchmarks sorting

prints two tables and writes `data/benchmarks/sorting.csv` and `data/benchmarks/imbalance.csv`.
"""

from collections.abc import Iterator

import numpy as np

from packlib.distributed import DistributedCurriculumSampler, exact_sort, load_imbalance, run_ranks, sort_rows
from packlib.lengths import load
from tests.benchmarks.bench_packing import row
from tests.benchmarks.table import in_turn, record, show

ROWS = 1_000_000
EACH, BATCH = 16_384, 32  # samples of a rank, and of a batch


def lengths_of(ranks: int) -> np.ndarray:
    """Lengths as in Wikipedia, `EACH` for every rank."""
    counts = load("wikipedia").counts
    return np.random.default_rng(0).choice(len(counts), ranks * EACH, p=counts / counts.sum())


def local_sort() -> Iterator[dict]:
    rng = np.random.default_rng(0)
    limits = np.iinfo(np.int64)
    cases = {
        "length and sample id": np.stack([rng.integers(1, 513, ROWS), rng.permutation(ROWS)], axis=1),
        "any 64 bits, with ties": rng.choice(rng.integers(limits.min, limits.max, 1000), (ROWS, 2)),
    }
    for name, rows in cases.items():
        lists = rows.tolist()
        if sort_rows(rows).tolist() != sorted(lists):
            raise AssertionError(f"{name}: the order differs from that of Python's lists.")
        seconds = in_turn(
            {"ours": lambda r=rows: sort_rows(r), "lists": lambda s=lists: sorted(s),
             "lexsort": lambda r=rows: r[np.lexsort(r.T[::-1])]}, runs=5
        )  # fmt: skip
        work = f"{ROWS:,} × 2 rows, {name}"
        yield row(work, seconds["ours"], "Python's sorted, lists", seconds["lists"], "10 times", "same order")
        yield row(work, seconds["ours"], "np.lexsort and rows taken", seconds["lexsort"], "faster", "same order")


def plain_loads(lengths: np.ndarray, ranks: int, samples: int = 100) -> np.ndarray:
    """What each rank holds after sample sort with splitters from samples, ties on one side."""
    offered = [np.sort(share)[:: EACH // samples] for share in lengths.reshape(ranks, -1)]
    offered = np.sort(np.concatenate(offered))
    splitters = offered[len(offered) * np.arange(1, ranks) // ranks]
    return np.bincount(np.searchsorted(splitters, lengths, "right"), minlength=ranks)


def on_a_rank(rank: int, ranks: int) -> tuple[np.ndarray, int, int, dict[str, np.ndarray]]:
    """The loads after a sort; rows and bytes that this rank sent; the tokens of its batches under each curriculum."""
    lengths = lengths_of(ranks)
    share = slice(rank * EACH, (rank + 1) * EACH)
    result = exact_sort(np.stack([lengths, np.arange(len(lengths))], axis=1)[share])
    tokens = {
        curriculum: lengths[DistributedCurriculumSampler(lengths, lengths, curriculum).order]
        for curriculum in ("local", "global")
    }
    return result.load_after, result.rows_sent, result.bytes_sent, {"none": lengths[rank::ranks], **tokens}


def imbalance() -> Iterator[dict]:
    for ranks in (2, 4, 8):
        loads, rows_sent, bytes_sent, tokens = zip(*run_ranks(on_a_rank, ranks, ranks, timeout=300), strict=True)
        plain = plain_loads(lengths_of(ranks), ranks)
        sent = f"{max(rows_sent):,} rows and {max(bytes_sent):,} bytes sent by a rank"
        for work, loaded, found in (
            ("sample sort, splitters from samples", plain, f"{plain.max():,} of {plain.sum():,} on one rank"),
            ("exact_sort", loads[0], sent),
        ):
            yield {
                "work": work,
                "ranks": ranks,
                "imbalance": f"{load_imbalance(loaded):.4f}",
                "of": "rows",
                "found": found,
            }
        for name in ("none", "local", "global"):
            batches = np.stack([of[name].reshape(-1, BATCH).sum(axis=1) for of in tokens], axis=1)
            yield {
                "work": f"curriculum: {name}", "ranks": ranks, "imbalance": f"{load_imbalance(batches):.4f}",
                "of": f"tokens, batches of {BATCH}",
                "found": f"steps of {batches.min(0).min():,} to {batches.max():,} tokens on a rank",
            }  # fmt: skip


def main() -> None:
    for name, rows in (("sorting", list(local_sort())), ("imbalance", list(imbalance()))):
        show(rows)
        command = "python -m tests.benchmarks sorting"
        print(record(name, rows, command, packages=("numpy", "torch")), "\n")
