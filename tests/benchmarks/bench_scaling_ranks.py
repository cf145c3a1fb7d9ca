"""The part of bench_scaling that runs on ranks of this machine: pipeline, sharding, ring."""

import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig

from packlib.batches import PackedBatch
from packlib.distributed import run_ranks
from packlib.model import PackedBert
from packlib.training import (
    Pipeline,
    Recipe,
    bubble,
    bubble_formula,
    gantt,
    in_flight,
    make_optimizer,
    memory_of,
    offload_state,
    ring_all_reduce,
    shard_model,
    shard_optimizer,
)
from packlib.training.updates import take_packs
from tests.benchmarks.bench_model import batches

PACE = (0.03, 0.06)  # seconds of a forward and a backward pass, where there are more stages than cores


def bert(width: int, layers: int, device: str, dtype: torch.dtype = torch.float32) -> PackedBert:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
        intermediate_size=4 * width, max_position_embeddings=128, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config, mlm_slots=20).to(device, dtype).train()


def run_pipeline(rank: int, schedule: str, data: list[PackedBatch], shape: tuple, pace: tuple) -> list[list]:
    """The bars of three updates, after one to warm up."""
    pipe, bars = Pipeline(bert(*shape, "cpu"), schedule, pace=pace), []
    for _ in range(4):
        dist.barrier()
        pipe.step(data)
        bars.append(pipe.bars)
    return bars[1:]


def pipeline() -> dict[str, list[dict]]:
    """Two stages that compute on two cores; four stages that wait as long as a pass would take."""
    rows, drawn, data = [], [], batches(None, 32)
    cases = [("computes", 1, (256, 4), 8), *(("computes", 2, (256, 4), m) for m in (2, 4, 8, 16))]
    cases += [("paced", 4, (64, 4), m) for m in (4, 8, 16, 32)]
    for work, stages, shape, m in cases:
        for schedule in ("gpipe", "1f1b")[: 1 if stages == 1 else 2]:
            pace = PACE if work == "paced" else (0.0, 0.0)
            some = [take_packs(batch, 0, 2 if work == "paced" else 8) for batch in data[:m]]
            ranks = run_ranks(run_pipeline, stages, schedule, some, shape, pace, timeout=300)
            updates = [[bar for rank in ranks for bar in rank[i]] for i in range(3)]
            spans = [max(b.end for b in bars) - min(b.start for b in bars) for bars in updates]
            rows.append({
                "stages": stages, "micro-batches": m, "schedule": schedule, "a stage": work,
                "bubble": round(statistics.median(map(bubble, updates)), 4),
                "(s - 1) / (m + s - 1)": round(bubble_formula(stages, m), 4),
                "most in flight": in_flight(updates[0])[0], "planned": in_flight(gantt(stages, m, schedule))[0],
                "seconds an update": round(statistics.median(spans), 3),
            })  # fmt: skip
            if (work, m) == ("paced", 8):
                start = min(bar.start for bar in updates[0])
                for bar in sorted(updates[0], key=lambda bar: bar.start):
                    shifted = bar._replace(start=round(bar.start - start, 4), end=round(bar.end - start, 4))
                    drawn.append({"schedule": schedule, **shifted._asdict()})
    return {"pipeline": rows, "pipeline_bars": drawn}


def run_sharded(rank: int, how: str, data: list[PackedBatch], steps: int) -> tuple[dict, float, torch.Tensor]:
    """Bytes that this rank holds, seconds an update, and the weights after all updates."""
    model, plan = bert(256, 4, "cpu"), Recipe(4, 1e-3, 1, optimizer="lamb")
    if how == "weights, gradients, state":
        trained, optimizer = shard_model(model), make_optimizer(model, plan)
    else:
        trained = DistributedDataParallel(model)
        optimizer = (shard_optimizer if "sharded" in how else make_optimizer)(model, plan)
        if "offloaded" in how:
            offload_state(getattr(optimizer, "optim", optimizer))
    seconds = []
    for _ in range(steps):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        trained(**data[rank]).loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    ends = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return (
        memory_of(model, optimizer),
        statistics.median(seconds),
        torch.cat([p.detach().flatten() for p in ends]),
    )


def sharding(steps: int = 10) -> dict[str, list[dict]]:
    """Ten updates with LAMB, FP32; on a CPU an offloaded state stays in the same memory, and is only accounted for."""
    rows, data = [], [take_packs(batch, 0, 4) for batch in batches(None, 4)]
    for world in (2, 4):
        plain = None
        for how in ("nothing", "state sharded", "state sharded and offloaded", "weights, gradients, state"):
            ranks = run_ranks(run_sharded, world, how, data[:world], steps, timeout=300)
            plain = ranks[0][2] if plain is None else plain
            row = {"ranks": world, "sharded": how}
            for name in ("weights", "gradients", "state", "offloaded state"):
                row[f"{name}, MiB, fullest rank"] = round(max(rank[0][name] for rank in ranks) / 2**20, 2)
            row["seconds an update"] = round(max(rank[1] for rank in ranks), 3)
            row["furthest weight"] = max((rank[2] - plain).abs().max().item() for rank in ranks)
            rows.append(row)
    return {"sharding": rows}


def run_ring(rank: int, elements: int, own: bool, rounds: int) -> tuple[int, float, int]:
    """Bytes this rank says it sent, seconds, and bytes that went over the loopback meanwhile; of one all-reduce."""
    reduce = ring_all_reduce if own else dist.all_reduce
    values, sent = torch.ones(elements), 0
    reduce(values)
    dist.barrier()
    before, start = _loopback(), time.perf_counter()
    for _ in range(rounds):
        sent = reduce(values)
        dist.barrier()
    return sent if own else 0, (time.perf_counter() - start) / rounds, (_loopback() - before) // rounds


def ring(rounds: int = 10) -> dict[str, list[dict]]:
    """Bytes a rank sends: the formula, what packlib's ring counts, and what the kernel counts, also for gloo's own."""
    rows = []
    for world in (2, 4):
        for mebibytes in (1, 16):
            size = mebibytes * 2**20
            for own in (True, False):
                ranks = run_ranks(run_ring, world, size // 4, own, rounds, timeout=300)
                rows.append({
                    "ranks": world, "MiB": mebibytes, "all-reduce": "packlib, ring" if own else "gloo",
                    "2 (p - 1) / p, MiB": round(2 * (world - 1) / world * mebibytes, 3),
                    "counted, MiB": round(max(rank[0] for rank in ranks) / 2**20, 3) if own else "",
                    "over the wire a rank, MiB": round(ranks[0][2] / world / 2**20, 3),
                    "seconds": round(max(rank[1] for rank in ranks), 4),
                })  # fmt: skip
    return {"ring": rows}


def _loopback() -> int:
    """Bytes that the loopback has sent, as Linux counts them; 0 elsewhere."""
    table = Path("/proc/net/dev")
    lines = table.read_text().splitlines() if table.exists() else []
    return sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("lo:"))
