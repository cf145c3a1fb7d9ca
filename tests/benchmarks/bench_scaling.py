"""BERT scaled up: pipeline, sharding, ring, recomputation, low precision, each against its formula or its plain run.

    python -m tests.benchmarks.bench_scaling [--device cuda] [pipeline sharding ring recomputation autocast …]

measures (all sections if none is named) and writes `data/benchmarks/scaling_*.csv`. On a GPU: recomputation, autocast
and offloading, which need one to show memory and speed. Run it on a quiet machine: ranks are timed by the clock.
"""

import argparse
import statistics
from collections.abc import Callable

import torch

from packlib.batches import PackedBatch
from packlib.checks import one_of
from packlib.model import PackedBert
from packlib.training import Autocast, PretrainingObjective, Recipe, evaluate, fit, make_optimizer, round_weights
from packlib.training.updates import take_packs
from packlib.workbook.chapters.n11_scaling_up.activations import SavedActivations
from packlib.workbook.chapters.n11_scaling_up.recomputation import recompute
from packlib.workbook.chapters.n11_scaling_up.runs import largest_loss_scale
from packlib.workbook.chapters.n11_scaling_up.sharding import offload_state
from packlib.workbook.chapters.shared.timeline import bubble_formula
from tests.benchmarks.bench_model import PACKAGES, batches, in_turns
from tests.benchmarks.bench_scaling_ranks import bert, pipeline, ring, sharding
from tests.benchmarks.table import in_turn, processor, record, show

MIB = 2**20


def timed(work: dict[str, Callable], device: str, runs: int = 5) -> dict[str, float]:
    """Median seconds, in turn, after one run to warm up: the processor's on a CPU, by the clock on a GPU."""
    if device == "cpu":
        return {name: statistics.median(seconds) for name, seconds in in_turns(work, runs).items()}
    waiting = {name: lambda run=run: (run(), torch.cuda.synchronize()) for name, run in work.items()}
    in_turn(waiting, 1)
    return in_turn(waiting, runs)


def gradient_of(model: PackedBert, batch: PackedBatch, objective=None) -> torch.Tensor:
    """The gradient of the batch's loss as one flat tensor; it is in the model, too."""
    model.zero_grad()
    sums = (objective or PretrainingObjective())(model, batch)
    (sums["mlm_loss"].mean + sums["nsp_loss"].mean).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def recomputation(device: str) -> list[dict]:
    """What a layer that is computed twice saves, and what it costs; the gradients are compared bit for bit."""
    layers, batch = 4, batches(None, 1)[0].to(device)
    model, work, rows = bert(256, layers, device), {}, []
    first = gradient_of(model, batch)

    def step(count: int) -> None:
        recompute(model, count)
        gradient_of(model, batch)

    for count in range(layers + 1):
        recompute(model, count)
        with SavedActivations(model) as saved:
            output = model(**batch)
        row = {"layers": layers, "computed twice": count, "saved, MiB": round(saved.bytes / MIB, 2)}
        del output
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        difference = (gradient_of(model, batch) - first).abs().max().item()
        if device == "cuda":
            row["peak, MiB"] = round(torch.cuda.max_memory_allocated() / MIB, 2)
        rows.append(row | {"largest difference of a gradient": difference})
        work[count] = lambda count=count: step(count)
    seconds = timed(work, device)
    return [row | {"seconds a step": round(seconds[row["computed twice"]], 4)} for row in rows]


def autocast(device: str) -> list[dict]:
    """Forward and backward in FP32 and with a bfloat16 forward pass, by width; 2 layers, 4 packs of 128."""
    batch, rows = take_packs(batches(None, 1)[0], 0, 4).to(device), []
    for width in (128, 256, 512, 1024):
        model = bert(width, 2, device)
        exact, cast = gradient_of(model, batch), gradient_of(model, batch, Autocast())
        runs = {
            "fp32": lambda m=model: gradient_of(m, batch),
            "bf16": lambda m=model: gradient_of(m, batch, Autocast()),
        }
        seconds = timed(runs, device)
        angle = torch.nn.functional.cosine_similarity(exact.double(), cast.double(), dim=0)
        rows.append({
            "width": width, "fp32, seconds": round(seconds["fp32"], 4),
            "bf16 autocast, seconds": round(seconds["bf16"], 4),
            "times faster": round(seconds["fp32"] / seconds["bf16"], 2),
            "cosine of the gradients": round(angle.item(), 6),
        })  # fmt: skip
    return rows


def rounding(device: str, updates: int = 150) -> list[dict]:
    """AdamW at a small rate on WordNet: FP32, and bfloat16 weights that are rounded in three ways."""
    rows, data = [], [take_packs(batch, 0, 8) for batch in batches(None, 6)]
    data, judged = data[:4], data[4:]
    sequences = sum(batch.num_sequences for batch in data) * updates // len(data)
    plan = Recipe(8, 5e-5, sequences, optimizer="adamw")
    shown, held = {1, *range(15, updates + 1, 15)}, {"fp32": 4, "master": 6, "stochastic": 2, "nearest": 2}
    for how, size in held.items():
        model = bert(128, 2, device, torch.float32 if how == "fp32" else torch.bfloat16)
        optimizer = make_optimizer(model, plan)
        if how != "fp32":
            round_weights(optimizer, how)

        def judge(done: dict, model=model) -> dict | None:
            return evaluate(model, judged) if done["update"] in shown else None

        records = fit(model, data, plan, optimizer=optimizer, on_update=judge, progress=False)
        rows += [
            {
                "weights": how, "bytes a weight": size, "update": record["update"],
                "held-out MLM loss": round(record["mlm_loss"], 5),
            }
            for record in records if record["update"] in shown
        ]  # fmt: skip
    return rows


def underflow_share(gradients: torch.Tensor, scale: float) -> float:
    """The share of the gradients other than 0 that become 0 where `scale` times them is cast to FP16."""
    gradients = gradients[gradients != 0]
    return ((gradients.double() * scale).half() == 0).double().mean().item()


def underflow(device: str) -> list[dict]:
    """The bubble of 4 stages, and what FP16 loses of a trained BERT's gradients divided by the accumulation.

    The two prices of accumulation: a short one leaves the pipeline idle. A long one underflows: each of m micro-batches
    adds its gradient divided by m, and in FP16 that becomes 0 where it is under half of the smallest number, 2^−24.
    """
    model, data = bert(256, 4, device), batches(None, 2)
    fit(model, data, Recipe(16, 1e-4, 4_000, optimizer="adamw"), progress=False)
    gradients = gradient_of(model, data[0].to(device))
    scales, rows = (1.0, 1024.0, largest_loss_scale(gradients)), []
    for m in (2**i for i in range(15)):
        lost = {f"underflow, loss scale {scale:g}": underflow_share(gradients, scale / m) for scale in scales}
        shares = {"bubble": bubble_formula(4, m), **lost}
        rows.append({"accumulation": m, **{name: round(share, 6) for name, share in shares.items()}})
    return rows


def offloading(device: str) -> list[dict]:
    """GPU memory between updates and at its peak, with the state of AdamW there or on the host."""
    batch, plan, rows = batches(None, 1)[0].to(device), Recipe(16, 1e-4, 1, optimizer="adamw"), []
    for where in ("device", "host"):
        model = bert(1024, 8, device)
        optimizer = make_optimizer(model, plan)
        if where == "host":
            offload_state(optimizer)
        for _ in range(2):
            gradient_of(model, batch)
            optimizer.step()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        gradient_of(model, batch)
        peak = torch.cuda.max_memory_allocated()
        seconds = timed({"update": optimizer.step}, device)["update"]
        rows.append({
            "state on": where, "between updates, MiB": round(held / MIB),
            "forward and backward, MiB": round(peak / MIB), "seconds an update": round(seconds, 4),
        })  # fmt: skip
        del model, optimizer
    return rows


ON_RANKS = {"pipeline": pipeline, "sharding": sharding, "ring": ring}
ON_ONE = {"recomputation": recomputation, "autocast": autocast, "rounding": rounding, "underflow": underflow}
ON_GPU = {"recomputation": recomputation, "autocast": autocast, "offloading": offloading}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("scaling: this machine has no GPU that torch can use, so nothing was measured.")
        return
    torch.set_num_threads(1)
    sections = ON_GPU if options.device == "cuda" else ON_RANKS | ON_ONE
    for name in [one_of("section", name, sections) for name in options.sections] or sections:
        tables = sections[name]() if name in ON_RANKS else {name: sections[name](options.device)}
        for table, rows in tables.items():
            show(rows)
            where = f"{processor()}, {'one used' if name in ON_ONE else 'one a rank'}"
            suffix, command = "", f"python -m tests.benchmarks.bench_scaling {name}"
            if options.device == "cuda":
                where, suffix, command = torch.cuda.get_device_name(), "_gpu", f"{command} --device cuda"
            print(record(f"scaling_{table}{suffix}", rows, command, where, PACKAGES), "\n", flush=True)


if __name__ == "__main__":
    main()
