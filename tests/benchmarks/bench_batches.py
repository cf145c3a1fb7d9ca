"""Batches by tokens on Wikipedia's lengths: twice the samples against half of them, and against a plain Python loop.

    python -m tests.benchmarks batches

prints the table and writes `data/benchmarks/batches.csv`. Times are the processor's.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import numpy as np

from packlib.batches import batch_by_tokens
from packlib.batches.token_budget import ORDERS
from packlib.lengths import load
from tests.benchmarks.table import record, show

BUDGET = 16_384
ROUNDS = {"n": 9, "2n": 9, "loop": 3}
MUST_BE = {"ascending": "10 times faster", "descending": "10 times faster"}


def plain_loop(lengths: np.ndarray, order: str, count_padding: bool) -> list[list[int]]:
    """What one writes without thinking of speed; the random order is NumPy's here too."""
    ids = range(len(lengths))
    if order == "random":
        ids = np.random.default_rng(0).permutation(len(lengths)).tolist()
    lengths = lengths.tolist()
    if order in MUST_BE:
        ids = sorted(ids, key=lengths.__getitem__, reverse=order == "descending")
    batches, batch, tokens, longest = [], [], 0, 0
    for i in ids:
        length = lengths[i]
        widest = max(longest, length)
        used = (len(batch) + 1) * widest if count_padding else tokens + length
        if batch and used > BUDGET:
            batches.append(batch)
            batch, tokens, widest = [], 0, length
        batch.append(i)
        tokens += length
        longest = widest
    batches.append(batch)
    return batches


def medians(work: dict[str, Callable]) -> dict[str, float]:
    """Median seconds of the processor for each `work[name]()`, all runs of one after the other.

    In turn, each would pay for fresh memory when a larger one gave its own back: up to twice the work's own time.
    """
    found = {}
    for name, run in work.items():
        seconds = []
        for _ in range(ROUNDS[name]):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
        found[name] = statistics.median(seconds)
    return found


def case(order: str, count_padding: bool) -> dict:
    lengths = np.random.default_rng(0).permutation(load("wikipedia").expand())
    half = lengths[: len(lengths) // 2]
    found = batch_by_tokens(lengths, BUDGET, order=order, count_padding=count_padding)
    alike = [
        batch.tolist() for batch in batch_by_tokens(half[:100_000], BUDGET, order=order, count_padding=count_padding)
    ]
    if alike != plain_loop(half[:100_000], order, count_padding):
        raise AssertionError(f"The plain loop cuts other batches in {order} order.")
    seconds = medians({
        "n": lambda: batch_by_tokens(half, BUDGET, order=order, count_padding=count_padding),
        "2n": lambda: batch_by_tokens(lengths, BUDGET, order=order, count_padding=count_padding),
        "loop": lambda: plain_loop(lengths, order, count_padding),
    })  # fmt: skip
    return {
        "order": order,
        "max_tokens": f"{BUDGET:,} {'slots' if count_padding else 'tokens'}",
        "samples": f"{len(lengths):,}",
        "seconds": f"{seconds['2n']:.3f}",
        "of half of them": f"{seconds['n']:.3f}",
        "ratio": f"{seconds['2n'] / seconds['n']:.2f}",
        "plain loop": f"{seconds['loop']:.2f}",
        "times faster": f"{seconds['loop'] / seconds['2n']:.1f}",
        "must be": f"ratio 2.3 at most, {MUST_BE.get(order, 'no slower')}",
        "found": f"{len(found):,} batches, {found.padding_fraction:.1%} padding",
    }


def main() -> None:
    # a process for each: the loop's lists leave memory in pieces, and shuffling in pieces takes longer
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        rows = list(pool.map(case, *zip(*product(ORDERS, (False, True)), strict=True)))
    show(rows)
    print(record("batches", rows, "python -m tests.benchmarks batches", packages=("numpy", "scipy")))
