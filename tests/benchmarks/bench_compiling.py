"""What torch.compile costs and gains for each way to choose shapes, on one process and on two ranks.

    python -m tests.benchmarks.bench_compiling [shapes memory ranks subgraphs]

measures (all sections if none is named) and writes `data/benchmarks/compiling_*.csv`. Each section runs in processes of
its own that begin with empty caches. Run it on a quiet machine: compiling is timed by the clock, as one waits for it.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from packlib.batches import PackedBatch
from packlib.checks import one_of
from packlib.distributed import run_ranks
from packlib.lengths import LengthHistogram
from packlib.training.scaling import CompileCounter, ShapeGraphs, choose_buckets, compile_for_shapes, waste_curve
from tests.benchmarks.bench_compiling_data import LONGEST, bert, empty_caches, glosses, packed, padded, used_memory
from tests.benchmarks.bench_compiling_ranks import on_ranks, subgraphs_on_ranks
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


def make_graphs(model: nn.Module, examples: list[PackedBatch]) -> tuple[ShapeGraphs, list[float]]:
    """Make the graphs; the MiB that the process holds before the first and after each."""
    held: list[float] = []

    def loss(model: nn.Module, batch: dict) -> Tensor:
        held.append(used_memory())
        return model(**batch).loss

    graphs = compile_for_shapes(model, examples, "default", loss=loss)
    return graphs, [*held[:: len(held) // len(examples)], used_memory()]  # shapes may be warmed several times


def shapes_of_one(rank: int) -> list[dict]:
    store = glosses(4096)
    histogram = LengthHistogram.from_lengths(store.lengths, LONGEST)
    every = len(waste_curve(histogram, LONGEST, MULTIPLE))
    buckets = {"every length": every, **{f"{k} buckets": k for k in (16, 8, 4)}, "1 bucket": 1}
    data = {name: padded(store, choose_buckets(histogram, k, MULTIPLE).lengths) for name, k in buckets.items()}
    data["packed"] = packed(store)
    model, rows = bert(), []

    def add(name: str, run: str, graphs: int, compiling: float, memory: float, step: float) -> None:
        useful = sum(batch.useful_tokens for batch in data[name])
        slots = sum(batch.input_ids.numel() for batch in data[name])
        epoch = step * len(data[name])
        rows.append({
            "batches": name, "run": run, "graphs": graphs, "padding %": round(100 * (1 - useful / slots), 1),
            "steps": len(data[name]), "compile seconds": round(compiling, 1),
            "milliseconds a step": round(1e3 * step, 2), "seconds an epoch": round(epoch, 2),
            "first epoch, compiling included": round(epoch + compiling, 1), "graphs' MiB": round(memory),
        })  # fmt: skip

    for name, batches in data.items():
        add(name, "eager", 0, 0.0, 0.0, seconds_a_step(model, model, batches))
    first = next(iter(data))
    with empty_caches(), CompileCounter() as compiles:
        before = used_memory()
        step = seconds_a_step(model, torch.compile(model, dynamic=True), data[first])
        memory = used_memory() - before
        add(first, "dynamic", compiles.graphs, compiles.seconds, memory, step)
    examples = list({b.input_ids.shape: b for batches in data.values() for b in batches}.values())
    with empty_caches():
        graphs, held = make_graphs(model, examples)
        parts = [compile.seconds for compile in graphs.compiles.compiles], np.diff(held)
        costs = dict(zip(graphs.shapes, zip(*parts, strict=True), strict=True))
        for name, batches in data.items():
            mine = {tuple(batch.input_ids.shape) for batch in batches}
            seconds, memory = np.sum([costs[shape] for shape in mine], 0)
            add(name, "static", len(mine), seconds, memory, seconds_a_step(model, model, batches))
        graphs.release()
    return rows


def memory_of_one(rank: int, after: str) -> list[float]:
    """MiB before the first graph and after each, which is "kept", "released", or gone with all by a "reset"."""
    model, store = bert(), glosses(4096)
    lengths = range(LONGEST, 0, -MULTIPLE)[:6]
    batches = [padded(store.take(np.flatnonzero(store.lengths <= n)), (n,))[0] for n in lengths]
    with empty_caches():
        if after == "kept":
            return make_graphs(model, batches)[1]
        found = [used_memory()]
        for batch in batches:
            if after == "released":
                compile_for_shapes(model, [batch], "default").release()
            else:
                compiled = torch.compile(model, dynamic=False)
                compiled(**batch).loss.backward()
                del compiled
                model.zero_grad()
                torch.compiler.reset()
            found.append(used_memory())
        return found


def shapes() -> list[dict]:
    """Graphs, compile time, step, epoch and memory. One process makes all graphs, each once: a row has its share."""
    return run_ranks(shapes_of_one, 1, timeout=TIMEOUT)[0]


def memory() -> list[dict]:
    """What a process holds after each further shape: graphs kept, released, or dropped by torch's own reset."""
    found = {
        f"{way}, MiB": run_ranks(memory_of_one, 1, way, timeout=TIMEOUT)[0] for way in ("kept", "released", "reset")
    }
    return [
        {"mode": "default", "shapes": i, **{way: round(held[i]) for way, held in found.items()}}
        for i in range(len(found["kept, MiB"]))
    ]


def ranks() -> list[dict]:
    """Two ranks, as rank 0 sees them; the timeline of both is recorded beside."""
    (rows, events), (_, others) = run_ranks(on_ranks, 2, timeout=TIMEOUT)
    write("timeline", [*events, *others], "ranks")
    return rows


def subgraphs() -> list[dict]:
    """Graphs into which torch splits a model for its gradients' buckets."""
    return run_ranks(subgraphs_on_ranks, 2, timeout=TIMEOUT)[0]


SECTIONS = {"shapes": shapes, "memory": memory, "ranks": ranks, "subgraphs": subgraphs}


def write(name: str, rows: list[dict], section: str) -> None:
    show(rows)
    command = f"python -m tests.benchmarks.bench_compiling {section}"
    print(record(f"compiling_{name}", rows, command, processor(), PACKAGES), "\n")


def main(sections: list[str] | None = None) -> None:
    for name in [one_of("section", name, SECTIONS) for name in sections or SECTIONS]:
        write(name, SECTIONS[name](), name)


if __name__ == "__main__":
    main(sys.argv[1:])
