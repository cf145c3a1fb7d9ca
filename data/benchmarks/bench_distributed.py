"""Packing across ranks against one process that has all lengths.

`python data/record.py distributed` writes data/benchmarks/distributed.csv.
"""

import statistics
import time
from collections.abc import Iterator

import numpy as np
import torch.distributed as dist

from benchmarks.table import record
from packlib.distributed import pack_distributed, run_ranks
from packlib.lengths import LengthHistogram, load
from packlib.packing import plan

RANKS, EACH, RUNS = 4, 4_000_000, 5


def rank_lengths(rank: int) -> np.ndarray:
    """Return the lengths as in Wikipedia, `EACH` of them."""
    counts = load("wikipedia").counts
    return np.random.default_rng(rank).choice(len(counts), EACH, p=counts / counts.sum()).astype(np.uint16)


def time_packing(rank: int, method: str) -> tuple[float, float, int, int]:
    """Return seconds from when all ranks are ready until all are done; the rank's CPU seconds, packs and bytes sent."""
    lengths = rank_lengths(rank)
    pack_distributed(lengths, 512, method)  # the first call loads what it needs, and gets its memory
    dist.barrier()
    start, busy = time.perf_counter(), time.process_time()
    share = pack_distributed(lengths, 512, method)
    busy = time.process_time() - busy
    dist.barrier()
    return time.perf_counter() - start, busy, len(share), sum(share.bytes_sent.values())


def packing() -> Iterator[dict]:
    lengths = np.concatenate([rank_lengths(rank) for rank in range(RANKS)])
    for method in ("lpfhp", "optimal"):
        runs = []
        for _ in range(RUNS):  # in turn, so that noise falls on both alike
            seconds, busy, shares, sent = zip(*run_ranks(time_packing, RANKS, method, timeout=600), strict=True)
            start, cpu = time.perf_counter(), time.process_time()
            packs = len(plan(LengthHistogram.from_lengths(lengths, 512), method=method).assign(lengths))
            runs.append((max(seconds), max(busy), time.perf_counter() - start, time.process_time() - cpu))
            if packs != sum(shares):
                raise AssertionError(f"{RANKS} ranks make {sum(shares)} packs, and one process {packs}.")
        together, of_a_rank, alone, alone_cpu = map(statistics.median, zip(*runs, strict=True))
        yield {
            "work": f"{method}, {RANKS} ranks × {EACH:,} lengths",
            "seconds": f"{together:.3f}",
            "peer": f"one process, {len(lengths):,} lengths",
            "its seconds": f"{alone:.3f}",
            "times faster": f"{alone / together:.2f}",
            "CPU seconds of a rank": f"{of_a_rank:.3f}",
            "of the peer": f"{alone_cpu:.3f}",
            "peer ÷ rank": f"{alone_cpu / of_a_rank:.2f}",
            "found": f"{packs:,} packs by both; {max(sent) / 1e6:.1f} MB sent by a rank",
        }


def main() -> None:
    record("distributed.csv", packing(), "python data/record.py distributed", ("numpy", "torch"))
