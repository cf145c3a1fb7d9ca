"""BERT scaled up: pipeline, sharding, recomputation, low precision, each against its formula or its plain run.

    python -m tests.benchmarks.bench_scaling [pipeline sharding recomputation underflow]

measures (all sections if none is named) and writes `data/benchmarks/scaling_*.csv`. Run it on a quiet machine: ranks
are timed by the clock.
"""

import statistics
import sys

import torch

from packlib.batches import PackedBatch
from packlib.checks import one_of
from packlib.model import PackedBert
from packlib.training import PretrainingObjective, Recipe, fit
from packlib.workbook.chapters.n11_scaling_up.runs import largest_loss_scale
from packlib.workbook.chapters.shared.timeline import bubble_formula
from tests.benchmarks.activations import SavedActivations, recompute
from tests.benchmarks.bench_model import PACKAGES, batches, in_turns
from tests.benchmarks.bench_scaling_ranks import bert, pipeline, sharding
from tests.benchmarks.table import processor, record, show

MIB = 2**20


def gradient_of(model: PackedBert, batch: PackedBatch) -> torch.Tensor:
    """The gradient of the batch's loss as one flat tensor; it is in the model, too."""
    model.zero_grad()
    sums = PretrainingObjective()(model, batch)
    (sums["mlm_loss"].mean + sums["nsp_loss"].mean).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def recomputation() -> list[dict]:
    """What a layer that is computed twice saves, and what it costs; the gradients are compared bit for bit."""
    layers, batch = 4, batches(None, 1)[0]
    model, work, rows = bert(256, layers), {}, []
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
        difference = (gradient_of(model, batch) - first).abs().max().item()
        rows.append(row | {"largest difference of a gradient": difference})
        work[count] = lambda count=count: step(count)
    seconds = in_turns(work, 5)
    return [row | {"seconds a step": round(statistics.median(seconds[row["computed twice"]]), 4)} for row in rows]


def underflow_share(gradients: torch.Tensor, scale: float) -> float:
    """The share of the gradients other than 0 that become 0 where `scale` times them is cast to FP16."""
    gradients = gradients[gradients != 0]
    return ((gradients.double() * scale).half() == 0).double().mean().item()


def underflow() -> list[dict]:
    """The bubble of 4 stages, and what FP16 loses of a trained BERT's gradients divided by the accumulation.

    The two prices of accumulation: a short one leaves the pipeline idle. A long one underflows: each of m micro-batches
    adds its gradient divided by m, and in FP16 that becomes 0 where it is under half of the smallest number, 2^−24.
    """
    model, data = bert(256, 4), batches(None, 2)
    fit(model, data, Recipe(16, 1e-4, 4_000, optimizer="adamw"), progress=False)
    gradients = gradient_of(model, data[0])
    scales, rows = (1.0, 1024.0, largest_loss_scale(gradients)), []
    for m in (2**i for i in range(15)):
        lost = {f"underflow, loss scale {scale:g}": underflow_share(gradients, scale / m) for scale in scales}
        shares = {"bubble": bubble_formula(4, m), **lost}
        rows.append({"accumulation": m, **{name: round(share, 6) for name, share in shares.items()}})
    return rows


ON_RANKS = {"pipeline": pipeline, "sharding": sharding}
ON_ONE = {"recomputation": recomputation, "underflow": underflow}


def main(sections: list[str] | None = None) -> None:
    torch.set_num_threads(1)
    known = ON_RANKS | ON_ONE
    for name in [one_of("section", name, known) for name in sections or known]:
        rows = known[name]()
        show(rows)
        where = f"{processor()}, {'one used' if name in ON_ONE else 'one a rank'}"
        command = f"python -m tests.benchmarks.bench_scaling {name}"
        print(record(f"scaling_{name}", rows, command, where, PACKAGES), "\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
