"""The part of bench_scaling that runs on ranks of this machine: pipeline, sharding."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from transformers import BertConfig

from packlib.batches import PackedBatch
from packlib.distributed import run_ranks
from packlib.model import PackedBert
from packlib.training import Recipe, make_optimizer
from packlib.training.updates import take_packs
from packlib.workbook.chapters.n11_scaling_up.pipeline import Pipeline
from packlib.workbook.chapters.shared.timeline import bubble, bubble_formula, gantt, in_flight
from tests.benchmarks.activations import transformer_layers
from tests.benchmarks.bench_model import batches

PACE = (0.03, 0.06)  # seconds of a forward and a backward pass, where there are more stages than cores


def bert(width: int, layers: int) -> PackedBert:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
        intermediate_size=4 * width, max_position_embeddings=128, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config, max_predictions_per_pack=20).train()


def run_pipeline(rank: int, data: list[PackedBatch], shape: tuple, cases: list, pace: tuple) -> dict[tuple, list]:
    """By (schedule, micro-batches): the bars of three updates, after one to warm up."""
    bars = {}
    for schedule, m in cases:
        pipe = Pipeline(bert(*shape), schedule, pace=pace)
        for _ in range(4):
            dist.barrier()
            pipe.step(data[:m])
            bars.setdefault((schedule, m), []).append(pipe.bars)
    return {case: updates[1:] for case, updates in bars.items()}


def pipeline() -> list[dict]:
    """Two stages that compute on two cores; four stages that wait as long as a pass would take."""
    rows, data = [], batches(None, 32)
    for work, stages, shape, packs, counts in (
        ("computes", 1, (256, 4), 8, (8,)),
        ("computes", 2, (256, 4), 8, (2, 4, 8, 16)),
        ("paced", 4, (64, 4), 2, (4, 8, 16, 32)),
    ):
        pace = PACE if work == "paced" else (0.0, 0.0)
        cases = [(schedule, m) for m in counts for schedule in ("gpipe", "1f1b")]
        small = [take_packs(batch, 0, packs) for batch in data[: max(counts)]]
        ranks = run_ranks(run_pipeline, stages, small, shape, cases, pace, timeout=300)
        for schedule, m in cases:
            updates = [[bar for rank in ranks for bar in rank[schedule, m][i]] for i in range(3)]
            spans = [max(b.end for b in bars) - min(b.start for b in bars) for bars in updates]
            rows.append({
                "stages": stages, "micro-batches": m, "schedule": schedule, "a stage": work,
                "bubble": round(statistics.median(map(bubble, updates)), 4),
                "(s - 1) / (m + s - 1)": round(bubble_formula(stages, m), 4),
                "most in flight": in_flight(updates[0])[0], "planned": in_flight(gantt(stages, m, schedule))[0],
                "seconds an update": round(statistics.median(spans), 3),
            })  # fmt: skip
    return rows


HOWS = ("nothing", "state sharded", "weights, gradients, state")


def shard_optimizer(whole: Optimizer, rate: float) -> ZeroRedundancyOptimizer:
    """The same optimizer, its state dealt out over the ranks, whole parameters each (ZeRO, stage 1)."""
    return ZeroRedundancyOptimizer(whole.param_groups, type(whole), lr=rate)


def shard_model(model: nn.Module) -> nn.Module:
    """Deal out weights, gradients and, with any optimizer made afterwards, its state, a layer at a time (ZeRO 3)."""
    for layer in transformer_layers(model):
        fully_shard(layer)
    return fully_shard(model)


def memory_of(model: nn.Module, optimizer: Optimizer) -> dict[str, int]:
    """Bytes that this rank holds between two updates."""
    own = getattr(optimizer, "optim", optimizer)  # a ZeroRedundancyOptimizer holds this rank's inside
    held = {
        "weights": list(model.parameters()),
        "gradients": [p.grad for p in model.parameters()],
        "state": [value for one in own.state.values() for value in one.values() if torch.is_tensor(value)],
    }
    here = {name: [t.to_local() if isinstance(t, DTensor) else t for t in of] for name, of in held.items()}
    return {name: sum(tensor.nbytes for tensor in tensors) for name, tensors in here.items()}


def run_sharded(rank: int, data: list[PackedBatch], steps: int) -> dict[str, tuple[dict, float, torch.Tensor]]:
    """By what is sharded: bytes that this rank holds, seconds an update, and the weights after all updates."""
    out = {}
    for how in HOWS:
        model, plan, seconds = bert(256, 4), Recipe(4, 1e-3, 1, optimizer="lamb"), []
        if how == "weights, gradients, state":
            trained, optimizer = shard_model(model), make_optimizer(model, plan)
        else:
            trained = DistributedDataParallel(model)
            optimizer = make_optimizer(model, plan)
            if how == "state sharded":
                optimizer = shard_optimizer(optimizer, plan.learning_rate)
        for _ in range(steps):
            dist.barrier()
            start = time.perf_counter()
            optimizer.zero_grad()
            trained(**data[rank]).loss.backward()
            optimizer.step()
            seconds.append(time.perf_counter() - start)
        ends = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
        flat = torch.cat([p.detach().flatten() for p in ends])
        out[how] = memory_of(model, optimizer), statistics.median(seconds), flat
    return out


def sharding(steps: int = 10) -> list[dict]:
    """Ten updates with LAMB, FP32."""
    rows, data = [], [take_packs(batch, 0, 4) for batch in batches(None, 4)]
    for world in (2, 4):
        ranks = run_ranks(run_sharded, world, data[:world], steps, timeout=300)
        for how in HOWS:
            row = {"ranks": world, "sharded": how}
            for name in ("weights", "gradients", "state"):
                row[f"{name}, MiB, fullest rank"] = round(max(rank[how][0][name] for rank in ranks) / 2**20, 2)
            row["seconds an update"] = round(max(rank[how][1] for rank in ranks), 3)
            far = max((rank[how][2] - ranks[0]["nothing"][2]).abs().max().item() for rank in ranks)
            rows.append(row | {"furthest weight": f"{far:.1e}"})
    return rows
