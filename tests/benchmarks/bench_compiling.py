"""What torch.compile costs and gains for each way to choose shapes, on one process and on two ranks.

    python -m tests.benchmarks.bench_compiling [shapes ranks]

measures (both if none is named) and writes `data/benchmarks/compiling_*.csv`. Each section runs in processes of
its own that begin with empty caches. Run it on a quiet machine: compiling is timed by the clock, as one waits for it.
"""

import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch._dynamo.utils import get_compilation_metrics

from packlib.batches import PackedBatch
from packlib.checks import one_of
from packlib.distributed import run_ranks
from packlib.lengths import LengthHistogram
from packlib.workbook.chapters.n10_compilation.buckets import choose_buckets, edges_and_counts
from packlib.workbook.chapters.n10_compilation.runs import compile_for_shapes
from tests.benchmarks.bench_compiling_data import LONGEST, bert, empty_caches, glosses, packed, padded
from tests.benchmarks.bench_compiling_ranks import on_ranks
from tests.benchmarks.bench_model import PACKAGES
from tests.benchmarks.table import processor, record, show

MULTIPLE = 2  # lengths are multiples of it, so that "every length" is about 20 shapes
TIMEOUT = 3600.0


def seconds_a_step(model: nn.Module, call: Callable, batches: list[PackedBatch]) -> float:
    """The mean CPU seconds over one epoch of training steps, after one step of each shape to warm up."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def train(some: list[PackedBatch]) -> None:
        for batch in some:
            optimizer.zero_grad()
            call(**batch).loss.backward()
            optimizer.step()

    train(list({batch.max_length: batch for batch in batches}.values()))
    start = time.process_time()
    train(batches)
    return (time.process_time() - start) / len(batches)


def shapes_of_one(rank: int) -> list[dict]:
    store = glosses(4096)
    histogram = LengthHistogram.from_lengths(store.lengths, LONGEST)
    every = len(edges_and_counts(histogram, MULTIPLE)[0])
    buckets = {"every length": every, **{f"{k} buckets": k for k in (16, 8, 4)}, "1 bucket": 1}
    data = {name: padded(store, choose_buckets(histogram, k, MULTIPLE).lengths) for name, k in buckets.items()}
    data["packed"] = packed(store)
    model, rows = bert(), []

    def add(name: str, run: str, graphs: int, compiling: float, step: float) -> None:
        useful = sum(batch.useful_tokens for batch in data[name])
        slots = sum(batch.input_ids.numel() for batch in data[name])
        epoch = step * len(data[name])
        rows.append({
            "batches": name, "run": run, "graphs": graphs, "padding %": round(100 * (1 - useful / slots), 1),
            "steps": len(data[name]), "compile seconds": round(compiling, 1),
            "milliseconds a step": round(1e3 * step, 2), "seconds an epoch": round(epoch, 2),
            "first epoch, compiling included": round(epoch + compiling, 1),
        })  # fmt: skip

    for name, batches in data.items():
        add(name, "eager", 0, 0.0, seconds_a_step(model, model, batches))
    first = next(iter(data))
    with empty_caches():
        before = len(get_compilation_metrics())
        step = seconds_a_step(model, torch.compile(model, dynamic=True), data[first])
        made = get_compilation_metrics()[before:]  # forward and backward graphs; the latter have no name
        compiling = sum(one.duration_us or 0 for one in made) / 1e6
        add(first, "dynamic", sum(one.co_name is not None for one in made), compiling, step)
    examples = list({b.input_ids.shape: b for batches in data.values() for b in batches}.values())
    with empty_caches():
        costs = compile_for_shapes(model, examples)
        for name, batches in data.items():
            mine = {tuple(batch.input_ids.shape) for batch in batches}
            add(name, "static", len(mine), sum(costs[shape] for shape in mine), seconds_a_step(model, model, batches))
    return rows


def shapes() -> list[dict]:
    """Graphs, compile time, step and epoch. One process makes all graphs, each once: a row has its share."""
    return run_ranks(shapes_of_one, 1, timeout=TIMEOUT)[0]


def ranks() -> list[dict]:
    """Two ranks, as rank 0 sees them."""
    return run_ranks(on_ranks, 2, timeout=TIMEOUT)[0]


SECTIONS = {"shapes": shapes, "ranks": ranks}


def main(sections: list[str] | None = None) -> None:
    for name in [one_of("section", name, SECTIONS) for name in sections or SECTIONS]:
        rows = SECTIONS[name]()
        show(rows)
        command = f"python -m tests.benchmarks.bench_compiling {name}"
        print(record(f"compiling_{name}", rows, command, processor(), PACKAGES), "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
