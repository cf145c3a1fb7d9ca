"""What two ranks do in the benchmark of compiling: DistributedDataParallel eager, as one graph, and split."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

from packlib.batches import PackedBatch
from packlib.training.scaling import compile_for_shapes
from tests.benchmarks.bench_compiling_data import LONGEST, bert, empty_caches, glosses, padded

RUNS = {"eager": None, "one graph": False, "split graphs": True}  # whether torch splits graphs at gradient buckets
BUCKET_MB = 2


def model_and_batch(rank: int) -> tuple[DistributedDataParallel, PackedBatch]:
    """4 layers, 256 wide, 17 MB of weights in buckets of 2; each rank has its own batch of 16 rows."""
    return DistributedDataParallel(bert(4, 256), bucket_cap_mb=BUCKET_MB), padded(glosses(2048), (LONGEST,), 16)[rank]


def on_ranks(rank: int) -> tuple[list[dict], list[dict]]:
    """A row for each run, and the timeline of one step of each: when forward, backward and all-reduces ran."""
    rows, timeline, eager = [], [], None
    for run, split in RUNS.items():
        model, batch = model_and_batch(rank)
        seconds = 0.0
        with empty_caches():
            if split is not None:
                with torch._dynamo.config.patch(optimize_ddp=split):
                    seconds = compile_for_shapes(model, [batch]).compiles.seconds
            times = [step(model, batch) for _ in range(13)][2:]
            gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
            events, graphs = one_step(model, batch)
        eager = gradient if eager is None else eager
        timeline += [{"run": run, "rank": rank, **event} for event in events]
        reduces = [event for event in events if event["event"] == "all-reduce"]
        backward = next(event for event in events if event["event"] == "backward")
        rows.append({
            "run": run, "graphs": graphs, "compile seconds": round(seconds, 1), "all-reduces": len(reduces),
            "milliseconds a step": round(1e3 * statistics.median(times), 1),
            "first all-reduce, ms into backward": round(reduces[0]["begin ms"] - backward["begin ms"], 1),
            "last all-reduce, ms after backward": round(reduces[-1]["end ms"] - backward["end ms"], 1),
            "gradients differ by": f"{float((gradient - eager).abs().max() / eager.abs().max()):.1e}",
        })  # fmt: skip
    return rows, timeline


def step(model: DistributedDataParallel, batch: PackedBatch) -> float:
    """Seconds of one forward and backward pass, which ends when all gradients are summed."""
    model.zero_grad()
    dist.barrier()
    start = time.perf_counter()
    model(**batch).loss.backward()
    return time.perf_counter() - start


def one_step(model: DistributedDataParallel, batch: PackedBatch) -> tuple[list[dict], int]:
    """One step as torch's profiler saw it, in milliseconds from its start; and how many graphs went backward."""
    model.zero_grad()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with record_function("a forward pass"):
            loss = model(**batch).loss
        with record_function("a backward pass"):
            loss.backward()
    seen = profiler.events()

    def spans(match) -> list[tuple[float, float]]:
        return sorted((event.time_range.start, event.time_range.end) for event in seen if match(event.name))

    (forward,), (backward,) = (spans(lambda n, w=w: n == f"a {w} pass") for w in ("forward", "backward"))
    work = max(end for _, end in spans(lambda n: n.startswith("autograd::engine::evaluate_function")))
    reduces = spans(lambda n: n == "gloo:all_reduce")
    found = [("forward", forward), ("backward", (backward[0], work)), *(("all-reduce", span) for span in reduces)]
    zero = forward[0]
    events = [
        {"event": name, "begin ms": round((begin - zero) / 1e3, 2), "end ms": round((end - zero) / 1e3, 2)}
        for name, (begin, end) in found
    ]
    return events, len(spans(lambda n: n == "CompiledFunctionBackward"))


def subgraphs_on_ranks(rank: int) -> list[dict]:
    """Into how many graphs torch splits the model, by the length of the batch and the size of the buckets."""
    rows, lengths = [], (8, 16, 32, LONGEST)
    for megabytes in (1, 2, 4, 25):
        model = DistributedDataParallel(bert(4, 256), bucket_cap_mb=megabytes)
        for length in lengths:
            nodes = []

            def backend(graph: torch.fx.GraphModule, inputs: list):
                nodes.append(len(graph.graph.nodes))  # noqa: B023
                return graph.forward

            store = glosses(4096)
            batch = padded(store.take((store.lengths <= length).nonzero()[0][:16]), (length,), 16)[0]
            compile_for_shapes(model, [batch], backend=backend).release()
            rows.append({
                "bucket, MB": megabytes, "length": length, "graphs": len(nodes),
                "nodes of each": " ".join(map(str, nodes)),
            })  # fmt: skip
    return rows
