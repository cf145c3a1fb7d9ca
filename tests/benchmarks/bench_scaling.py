"""What recomputation costs a BERT and saves it, and what FP16 loses of its gradients.

    python -m tests.benchmarks.bench_scaling [recomputation underflow]

measures (both if none is named) and writes `data/benchmarks/scaling_*.csv`. Run it on a quiet machine.
"""

import math
import sys
import time

import torch
from transformers import BertConfig

from packlib.batches import PackedBatch
from packlib.checks import one_of
from packlib.model import PackedBert
from packlib.training import PretrainingObjective, Recipe, fit
from tests.benchmarks.activations import SavedActivations, recompute
from tests.benchmarks.bench_model import PACKAGES, batches
from tests.benchmarks.table import in_turn, processor, record, show

MIB = 2**20


def bert(width: int, layers: int) -> PackedBert:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
        intermediate_size=4 * width, max_position_embeddings=128, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config, max_predictions_per_pack=20).train()


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
    seconds = in_turn(work, 5, time.process_time)
    return [row | {"seconds a step": round(seconds[row["computed twice"]], 4)} for row in rows]


def underflow_share(gradients: torch.Tensor, scale: float) -> float:
    """The share of the gradients other than 0 that become 0 where `scale` times them is cast to FP16."""
    gradients = gradients[gradients != 0]
    return ((gradients.double() * scale).half() == 0).double().mean().item()


def largest_loss_scale(gradients: torch.Tensor) -> float:
    """The largest power of 2 that no gradient overflows FP16 with: what `GradScaler` searches for by trial."""
    return 2.0 ** math.floor(math.log2(torch.finfo(torch.float16).max / float(gradients.abs().max())))


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
        shares = {"bubble": 3 / (m + 3), **lost}
        rows.append({"accumulation": m, **{name: round(share, 6) for name, share in shares.items()}})
    return rows


SECTIONS = {"recomputation": recomputation, "underflow": underflow}


def main(sections: list[str] | None = None) -> None:
    torch.set_num_threads(1)
    for name in [one_of("section", name, SECTIONS) for name in sections or SECTIONS]:
        rows = SECTIONS[name]()
        show(rows)
        command = f"python -m tests.benchmarks.bench_scaling {name}"
        print(record(f"scaling_{name}", rows, command, f"{processor()}, one used", PACKAGES), "\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
