"""What torch.compile costs and gains for each way to choose shapes, on one process and on two ranks.

`python data/record.py compiling [shapes ranks]` writes data/benchmarks/compiling_shapes.csv and
compiling_ranks.csv, or the one that is named. Each runs in processes of its own that begin with empty caches. Run it on
a quiet machine: compiling is timed by the clock, as one waits for it.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo.utils import get_compilation_metrics
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import BertConfig

from benchmarks.bench_model import PACKAGES
from benchmarks.table import record_parts
from packbook.n10_compilation.buckets import choose_buckets, edges_and_counts
from packbook.n10_compilation.runs import compile_for_shapes
from packbook.shared.wordnet import wordnet_store
from packlib.batches import (
    MlmMasking,
    PackDataset,
    PackedBatch,
    PackingCollator,
    TokenStore,
    pack_lengths,
    wordnet_tokenizer,
)
from packlib.distributed import run_ranks
from packlib.lengths import LengthHistogram
from packlib.model import PackedBert

MULTIPLE = 2  # lengths are multiples of it, so that "every length" is about 20 shapes
TIMEOUT = 3600.0
LONGEST, ROWS, DEPTH = 48, 32, 8
RUNS = {"eager": None, "one graph": False, "split graphs": True}  # whether torch splits graphs at gradient buckets


class StaticBert(PackedBert):
    """Its MLM head works on a quarter of the slots, so that it too costs by the slot, and shapes are static."""

    def _predicted(self, masked: Tensor) -> Tensor:
        first = (~masked).flatten().int().argsort(stable=True)[: masked.numel() // 4]
        torch._assert_async(masked.sum() <= masked.numel() // 4)
        return torch.where(torch.arange(len(first), device=first.device) < masked.sum(), first, -1)


def bert(layers: int = 1, width: int = 128) -> StaticBert:
    """Return one layer, since compiling takes seconds for each."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
        intermediate_size=4 * width, max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return StaticBert(config).train()


def glosses(count: int) -> TokenStore:
    """Return `count` of WordNet's glosses with at most `LONGEST` tokens."""
    store = wordnet_store(progress=False)
    fits = np.flatnonzero(store.lengths <= LONGEST)
    return store.take(np.random.default_rng(0).permutation(fits)[:count])


def padded(store: TokenStore, edges: tuple[int, ...], rows: int = ROWS) -> list[PackedBatch]:
    """Make batches of `rows` sequences, each padded to a bucket's length; the remainder goes to the next bucket."""
    masking, made, rest = MlmMasking.for_tokenizer(wordnet_tokenizer()), [], np.empty(0, np.int64)
    bucket = np.searchsorted(edges, store.lengths)
    for i, length in enumerate(edges):
        rest = np.concatenate([rest, np.flatnonzero(bucket == i)])
        while len(rest) >= rows:
            made.append(PackingCollator(length, masking)([(0, store.take([j])) for j in rest[:rows]]))
            rest = rest[rows:]
    return shuffled(made)


def packed(store: TokenStore) -> list[PackedBatch]:
    """Make batches of packs with about as many sequences as the padded ones; the last is filled up from the first."""
    packs = pack_lengths(store.lengths, LONGEST, "optimal", DEPTH)
    rows = round(ROWS * len(packs) / len(store))
    collator = PackingCollator(LONGEST, MlmMasking.for_tokenizer(wordnet_tokenizer()), max_sequences_per_pack=DEPTH)
    data, order = PackDataset(store, packs), np.arange(len(packs))
    order = np.append(order, order[: -len(packs) % rows]).reshape(-1, rows)
    return shuffled([collator([data[int(i)] for i in some]) for some in order])


def shuffled(batches: list[PackedBatch]) -> list[PackedBatch]:
    return [batches[i] for i in np.random.default_rng(1).permutation(len(batches))]


@contextmanager
def empty_caches() -> Iterator[None]:
    """Begin with nothing compiled; but what is done once on a machine, such as trying its C++ compiler, is done."""
    from torch._inductor.utils import fresh_cache

    torch.compiler.reset()
    with fresh_cache():
        torch.compile(nn.Linear(4, 4))(torch.ones(2, 4)).sin().sum().backward()
        torch.compiler.reset()
        yield


def seconds_a_step(model: nn.Module, call: Callable, batches: list[PackedBatch]) -> float:
    """Return the mean CPU seconds over one epoch of training steps, after one step of each shape to warm up."""
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
    """Return graphs, compile time, step and epoch. One process makes all graphs, each once: a row has its share."""
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


def on_ranks(rank: int) -> list[dict]:
    """Measure runs of 4 layers, 256 wide, 17 MB of weights in buckets of 2; each rank has 16 rows of its own."""
    rows, eager = [], None
    batch = padded(glosses(2048), (LONGEST,), 16)[rank]
    for run, split in RUNS.items():
        model = DistributedDataParallel(bert(4, 256), bucket_cap_mb=2)
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
    """Return the seconds of one forward and backward pass, which ends when all gradients are summed."""
    model.zero_grad()
    dist.barrier()
    start = time.perf_counter()
    model(**batch).loss.backward()
    return time.perf_counter() - start


def one_step(model: DistributedDataParallel, batch: PackedBatch) -> tuple[tuple, list[tuple], int]:
    """Profile a step: when backward ran, when each all-reduce did, and graphs that went backward.

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


def main(*names: str) -> None:
    parts = {  # each begins in processes of its own; of two ranks, what rank 0 sees
        "shapes": lambda: run_ranks(shapes_of_one, 1, timeout=TIMEOUT)[0],
        "ranks": lambda: run_ranks(on_ranks, 2, timeout=TIMEOUT)[0],
    }
    record_parts("compiling", names, parts, PACKAGES)
