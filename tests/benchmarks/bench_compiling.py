"""What torch.compile costs and gains for each way to choose shapes, on one process and on two ranks.

    python -m tests.benchmarks.bench_compiling [--device cuda] [--tiny] [shapes memory ranks subgraphs]

measures (all sections if none is named) and writes `data/benchmarks/compiling_*.csv`; `--tiny` only tries it,
without a real compiler, and writes nothing. Each section runs in processes of its own that begin with empty caches.
Run it on a quiet machine: compiling is timed by the clock, as one waits for it. On a GPU: shapes and memory, with
CUDA graphs on and off.
"""

import argparse
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
from tests.benchmarks.bench_compiling_data import (
    LONGEST,
    backend_for,
    bert,
    empty_caches,
    glosses,
    packed,
    padded,
    used_memory,
)
from tests.benchmarks.bench_compiling_ranks import on_ranks, subgraphs_on_ranks
from tests.benchmarks.bench_model import PACKAGES
from tests.benchmarks.table import processor, record, show

MULTIPLE = 2  # lengths are multiples of it, so that "every length" is about 20 shapes
TIMEOUT = 3600.0


def seconds_a_step(model: nn.Module, call: Callable, batches: list[PackedBatch], device: str) -> float:
    """The mean over one epoch of training steps, after one step of each shape to warm up."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    clock = time.perf_counter if device == "cuda" else time.process_time

    def train(some: list[PackedBatch]) -> None:
        for batch in some:
            optimizer.zero_grad()
            call(**batch).loss.backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    train(list({batch.max_length: batch for batch in batches}.values()))
    start = clock()
    train(batches)
    return (clock() - start) / len(batches)


def make_graphs(
    model: nn.Module, examples: list[PackedBatch], mode: str, device: str, tiny: bool
) -> tuple[ShapeGraphs, list[float]]:
    """Make the graphs; the MiB that the process holds before the first and after each."""
    held: list[float] = []

    def loss(model: nn.Module, batch: dict) -> Tensor:
        held.append(used_memory(device))
        return model(**batch).loss

    graphs = compile_for_shapes(model, examples, mode, loss=loss, backend=backend_for(tiny))
    return graphs, [*held[:: len(held) // len(examples)], used_memory(device)]  # shapes may be warmed several times


def shapes_of_one(rank: int, device: str, tiny: bool) -> list[dict]:
    store = glosses(512 if tiny else 4096)
    histogram = LengthHistogram.from_lengths(store.lengths, LONGEST)
    every = len(waste_curve(histogram, LONGEST, MULTIPLE))
    buckets = {f"{k} buckets": k for k in ((2,) if tiny else (16, 8, 4))} | {"1 bucket": 1}
    buckets = buckets if tiny else {"every length": every} | buckets
    data = {name: padded(store, choose_buckets(histogram, k, MULTIPLE).lengths) for name, k in buckets.items()}
    data["packed"] = packed(store)
    data = {name: [batch.to(device) for batch in batches] for name, batches in data.items()}
    model, rows = bert(device), []

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
        add(name, "eager", 0, 0.0, 0.0, seconds_a_step(model, model, batches, device))
    first = next(iter(data))
    with empty_caches(tiny), CompileCounter() as compiles:
        before = used_memory(device)
        step = seconds_a_step(
            model, torch.compile(model, backend=backend_for(tiny), dynamic=True), data[first], device
        )
        memory = used_memory(device) - before
        add(first, "dynamic", compiles.graphs, compiles.seconds, memory, step)
    examples = list({b.input_ids.shape: b for batches in data.values() for b in batches}.values())
    for mode in ("default", "reduce-overhead") if device == "cuda" else ("default",):
        with empty_caches(tiny):
            graphs, held = make_graphs(model, examples, mode, device, tiny)
            parts = [compile.seconds for compile in graphs.compiles.compiles], np.diff(held)
            costs = dict(zip(graphs.shapes, zip(*parts, strict=True), strict=True))
            for name, batches in data.items():
                mine = {tuple(batch.input_ids.shape) for batch in batches}
                seconds, memory = np.sum([costs[shape] for shape in mine], 0)
                run = "static" if mode == "default" else "static, CUDA graphs"
                add(name, run, len(mine), seconds, memory, seconds_a_step(model, model, batches, device))
            graphs.release()
    return rows


def memory_of_one(rank: int, device: str, tiny: bool, mode: str, after: str) -> list[float]:
    """MiB before the first graph and after each, which is "kept", "released", or gone with all by a "reset"."""
    model, store = bert(device), glosses(4096)
    lengths = range(LONGEST, 0, -MULTIPLE)[: 2 if tiny else 6]
    batches = [padded(store.take(np.flatnonzero(store.lengths <= n)), (n,))[0].to(device) for n in lengths]
    with empty_caches(tiny):
        if after == "kept":
            return make_graphs(model, batches, mode, device, tiny)[1]
        found = [used_memory(device)]
        for batch in batches:
            if after == "released":
                compile_for_shapes(model, [batch], mode, backend=backend_for(tiny)).release()
            else:
                options = {} if tiny else {"mode": mode}
                compiled = torch.compile(model, backend=backend_for(tiny), dynamic=False, **options)
                compiled(**batch).loss.backward()
                del compiled
                model.zero_grad()
                torch.compiler.reset()
            found.append(used_memory(device))
        return found


def shapes(device: str, tiny: bool) -> list[dict]:
    """Graphs, compile time, step, epoch and memory. One process makes all graphs, each once: a row has its share."""
    return run_ranks(shapes_of_one, 1, device, tiny, timeout=TIMEOUT)[0]


def memory(device: str, tiny: bool) -> list[dict]:
    """What a process holds after each further shape: graphs kept, released, or dropped by torch's own reset."""
    rows: list[dict] = []
    for mode in ("default", "reduce-overhead") if device == "cuda" else ("default",):
        ways = ("kept", "released", "reset")
        found = [run_ranks(memory_of_one, 1, device, tiny, mode, way, timeout=TIMEOUT)[0] for way in ways]
        rows += [
            {"mode": mode, "shapes": i, **{f"{way}, MiB": round(x) for way, x in zip(ways, held, strict=True)}}
            for i, held in enumerate(zip(*found, strict=True))
        ]
    return rows


def ranks(device: str, tiny: bool) -> list[dict]:
    """Two ranks, as rank 0 sees them; the timeline of both is recorded beside."""
    (rows, events), (_, others) = run_ranks(on_ranks, 2, tiny, timeout=TIMEOUT)
    write("timeline", [*events, *others], device, tiny)
    return rows


def subgraphs(device: str, tiny: bool) -> list[dict]:
    """Graphs into which torch splits a model for its gradients' buckets."""
    return run_ranks(subgraphs_on_ranks, 2, tiny, timeout=TIMEOUT)[0]


SECTIONS = {"shapes": shapes, "memory": memory, "ranks": ranks, "subgraphs": subgraphs}


def write(name: str, rows: list[dict], device: str, tiny: bool) -> None:
    show(rows)
    if not tiny:
        what = torch.cuda.get_device_name() if device == "cuda" else processor()
        option = " --device cuda" if device == "cuda" else ""
        section = "ranks" if name == "timeline" else name
        command = f"python -m tests.benchmarks.bench_compiling{option} {section}"
        print(record(f"compiling_{name}{'_cuda' * bool(option)}", rows, command, what, PACKAGES), "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--tiny", action="store_true", help="try all sections in little time, write nothing")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("This machine has no GPU that torch can use, so CUDA graphs were not measured.")
        return
    cuda = options.device == "cuda"
    for name in options.sections or (["shapes", "memory"] if cuda else list(SECTIONS)):
        one_of("section", name, SECTIONS)
        write(name, SECTIONS[name](options.device, options.tiny), options.device, options.tiny)


if __name__ == "__main__":
    main()
