"""What two ranks do in the benchmark of compiling: DistributedDataParallel eager, as one graph, and split."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

from packlib.batches import PackedBatch
from packlib.workbook.chapters.n10_compilation.runs import compile_for_shapes
from tests.benchmarks.bench_compiling_data import LONGEST, bert, empty_caches, glosses, padded

RUNS = {"eager": None, "one graph": False, "split graphs": True}  # whether torch splits graphs at gradient buckets
BUCKET_MB = 2


def model_and_batch(rank: int) -> tuple[DistributedDataParallel, PackedBatch]:
    """4 layers, 256 wide, 17 MB of weights in buckets of 2; each rank has its own batch of 16 rows."""
    return DistributedDataParallel(bert(4, 256), bucket_cap_mb=BUCKET_MB), padded(glosses(2048), (LONGEST,), 16)[rank]


def on_ranks(rank: int) -> list[dict]:
    """A row for each run."""
    rows, eager = [], None
    for run, split in RUNS.items():
        model, batch = model_and_batch(rank)
        seconds = 0.0
        with empty_caches():
            if split is not None:
                with torch._dynamo.config.patch(optimize_ddp=split):
                    seconds = sum(compile_for_shapes(model, [batch]).values())
            times = [step(model, batch) for _ in range(13)][2:]
            gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
            (start, end), reduces, graphs = one_step(model, batch)
        eager = gradient if eager is None else eager
        rows.append({
            "run": run, "graphs": graphs, "compile seconds": round(seconds, 1), "all-reduces": len(reduces),
            "milliseconds a step": round(1e3 * statistics.median(times), 1),
            "first all-reduce, ms into backward": round((reduces[0][0] - start) / 1e3, 1),
            "last all-reduce, ms after backward": round((reduces[-1][1] - end) / 1e3, 1),
            "gradients differ by": f"{float((gradient - eager).abs().max() / eager.abs().max()):.1e}",
        })  # fmt: skip
    return rows


def step(model: DistributedDataParallel, batch: PackedBatch) -> float:
    """Seconds of one forward and backward pass, which ends when all gradients are summed."""
    model.zero_grad()
    dist.barrier()
    start = time.perf_counter()
    model(**batch).loss.backward()
    return time.perf_counter() - start


def one_step(model: DistributedDataParallel, batch: PackedBatch) -> tuple[tuple, list[tuple], int]:
    """One step as torch's profiler saw it: when backward ran, when each all-reduce did, and graphs that went backward.

    Times are in microseconds, and backward ends with its last piece of work, not with the last all-reduce.
    """
    model.zero_grad()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        loss = model(**batch).loss
        with record_function("a backward pass"):
            loss.backward()
    seen = profiler.events()

    def spans(match) -> list[tuple[float, float]]:
        return sorted((event.time_range.start, event.time_range.end) for event in seen if match(event.name))

    ((start, _),) = spans(lambda n: n == "a backward pass")
    end = max(end for _, end in spans(lambda n: n.startswith("autograd::engine::evaluate_function")))
    reduces = spans(lambda n: n == "gloo:all_reduce")
    return (start, end), reduces, len(spans(lambda n: n == "CompiledFunctionBackward"))
