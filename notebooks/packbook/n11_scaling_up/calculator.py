"""From model, data and devices to batch, memory and time: a sheet of formulas, each shown as it is computed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Phase:
    """One phase of pre-training.

    Attributes:
        length: slots of a row, in tokens.
        sequences: to train on.
        micro_batch: rows in one forward pass.
        gradient_accumulation_steps: micro-batches of a replica behind one update.
        packing_factor: sequences in an average row; 1 for padded rows.
        overhead: share of the throughput that the changes for packing cost.
        predictions: masked tokens of a row that the MLM head works on.
    """

    length: int
    sequences: float
    micro_batch: int = 8
    gradient_accumulation_steps: int = 512
    packing_factor: float = 1.0
    overhead: float = 0.0
    predictions: int = 20


@dataclass(frozen=True)
class Setup:
    """A model on devices; by default BERT-Large in the layout of the published pod.

    Weights, gradients and activations have 16 bits, as on that pod, and the two moments of a weight have 32 each.

    Attributes:
        layers, width, feed_forward, heads, vocabulary, positions: of a BERT.
        layout: layers of each stage, (24,) for no pipeline.
        folded: the MLM head works on the first stage, beside the embedding that is its matrix; else on the last
            stage, with a copy of that matrix.
        replicas: pipelines that share an update.
        recompute: keep each layer's input only, and compute the layer twice.
        shards: over how many replicas gradients and moments are dealt out; 1 for not at all.
        offload: the moments live off the device; each update reads and writes them, at `bandwidth`.
        peak_flops, utilization: of one device a second, and the share of it that is reached while computing.
        bandwidth: bytes a second that a device sends.
    """

    layers: int = 24
    width: int = 1024
    feed_forward: int = 4096
    heads: int = 16
    vocabulary: int = 30_522
    positions: int = 512
    layout: Sequence[int] = (3, 7, 7, 7)
    folded: bool = True
    replicas: int = 16
    recompute: bool = True
    shards: int = 1
    offload: bool = False
    peak_flops: float = 1e14
    utilization: float = 0.3
    bandwidth: float = 1e10

    def __post_init__(self) -> None:
        if min(self.layout) < 1 or sum(self.layout) != self.layers:
            given = " + ".join(map(str, self.layout))
            raise ValueError(f"A layout has at least 1 layer a stage and {self.layers} in all, not {given}.")


class Line(NamedTuple):
    """One line of the sheet.

    Attributes:
        value: a number, or one for each stage.
        unit: its unit.
        formula: as it was computed; its names are lines above, attributes of `Setup` and `Phase`, and by stage: its
            LAYERS, its number (STAGE, from 0), and 1 where it is the FIRST, has the HEAD, has a COPY of the embedding.
    """

    value: Any
    unit: str
    formula: str


# The lines of the sheet, in order: name (in capitals where there is a value for each stage), unit, and the formula, in
# Python. Its names are explained at `Line.formula`.
MODEL_FORMULAS = (
    ("stages", "stages", "len(LAYERS)"),
    ("devices", "devices", "stages * replicas"),
    ("attention", "parameters", "4 * width * (width + 1)"),
    ("dense", "parameters", "2 * width * feed_forward + feed_forward + width"),
    ("layer", "parameters", "attention + dense + 4 * width"),
    ("embedding", "parameters", "(vocabulary + positions + 2 + 2) * width"),
    ("head", "parameters", "2 * width * (width + 1) + 2 * width + vocabulary + 2 * (width + 1)"),
    ("parameters", "parameters", "embedding + layers * layer + head"),
    ("PARAMETERS", "parameters", "LAYERS * layer + FIRST * embedding + HEAD * head + COPY * vocabulary * width"),
    ("WEIGHTS", "bytes", "2 * PARAMETERS"),
    ("GRADIENTS", "bytes", "2 * PARAMETERS / shards"),
    ("MOMENTS", "bytes", "(4 + 4) * PARAMETERS / shards"),
    ("all_reduce", "bytes sent, an update", "2 * (1 - 1 / replicas) * 2 * max(PARAMETERS)"),
)
PHASE_FORMULAS = (
    ("global_batch", "rows", "micro_batch * accumulation * replicas"),
    ("tokens", "tokens, a micro-batch", "micro_batch * length"),
    ("bubble", "share of the time", "(stages - 1) / (accumulation + stages - 1)"),
    ("IN_FLIGHT", "micro-batches", "minimum(accumulation, stages - STAGE)"),
    ("scores", "bytes", "tokens * length * heads * (2 * 2 + 1)"),
    ("rows", "bytes", "tokens * ((8 * width + 2 * feed_forward) * 2 + 2 * width)"),
    ("logits", "bytes", "micro_batch * predictions * vocabulary * (2 + 4)"),
    ("kept", "bytes, a layer", "2 * tokens * width if recompute else rows + scores"),
    ("computed_again", "bytes", "rows + scores if recompute else 0"),
    ("ACTIVATIONS", "bytes", "IN_FLIGHT * LAYERS * kept + computed_again + HEAD * logits"),
    ("ON_DEVICE", "bytes, without moments", "WEIGHTS + GRADIENTS + ACTIVATIONS"),
    ("MEMORY", "bytes", "ON_DEVICE + MOMENTS"),
    ("layer_work", "FLOP, forward", "tokens * (8 * width**2 + 4 * width * feed_forward + 4 * length * width)"),
    ("head_work", "FLOP, forward", "micro_batch * predictions * (2 * width**2 + 2 * width * vocabulary)"),
    ("passes", "forward passes; a backward pass counts as two", "4 if recompute else 3"),
    ("WORK", "FLOP, a micro-batch", "passes * LAYERS * layer_work + 3 * HEAD * head_work"),
    ("balance", "share of the time", "sum(WORK) / stages / max(WORK)"),
    ("sent_on", "bytes, a micro-batch", "2 * 2 * tokens * width if stages > 1 else 0"),
    ("stage_seconds", "seconds", "max(WORK) / (peak_flops * utilization) + sent_on / bandwidth"),
    ("computing", "seconds, an update", "(accumulation + stages - 1) * stage_seconds / (1 - overhead)"),
    ("moved", "bytes, an update", "2 * max(MOMENTS) if offload else 0"),
    ("update", "seconds", "computing + (all_reduce + moved) / bandwidth"),
    ("updates", "updates", "sequences / (global_batch * packing_factor)"),
    ("hours", "hours", "updates * update / 3600"),
)
_FUNCTIONS = {"__builtins__": {}, "len": len, "max": max, "minimum": np.minimum, "sum": sum}  # of the formulas


def calculate(setup: Setup, phase: Phase) -> dict[str, Line]:
    """Work the sheet out: its lines by name, those of the model first.

    It takes parameters as `PackedBert` has them; the activations of a layer as in Korthikanti et al. 2022
    (arXiv 2205.05198, section 4.1), with dropout; a backward pass as twice a forward pass. Embedding, norms and the
    optimizer's step take no time, a folded head no hop of its own, and nothing is sent while computing. The order of
    the pipeline is 1f1b.
    """
    stage = np.arange(len(setup.layout))
    first, head = 1 * (stage == 0), 1 * (stage == (0 if setup.folded else stage[-1]))
    # a copy is the head's matrix, where the embedding is elsewhere
    by_stage = dict(LAYERS=np.array(setup.layout), STAGE=stage, FIRST=first, HEAD=head, COPY=head * (1 - first))
    names = vars(setup) | vars(phase) | by_stage | {"accumulation": phase.gradient_accumulation_steps}
    # small integers of NumPy overflow in silence
    names |= {name: value.item() for name, value in names.items() if isinstance(value, np.generic)}
    lines = {}
    for name, unit, formula in (*MODEL_FORMULAS, *PHASE_FORMULAS):
        value = names[name] = eval(formula, _FUNCTIONS, names)
        value = np.broadcast_to(value, len(stage)) if name.isupper() else value
        plain = tuple(value.tolist()) if isinstance(value, np.ndarray) else np.asarray(value).item()
        lines[name] = Line(plain, unit, formula)
    return lines


def values_of(setup: Setup, phase: Phase) -> dict[str, Any]:
    """The values of the sheet by name.

    >>> from packbook.n11_scaling_up.calculator import Phase, Setup, values_of
    >>> of = values_of(Setup(), Phase(128, 1e6))
    >>> of["global_batch"], of["parameters"]
    (65536, 336226108)
    """
    return {name: line.value for name, line in calculate(setup, phase).items()}


def human(value: float, unit: str) -> str:
    """A value with its unit, to read.

    >>> from packbook.n11_scaling_up.calculator import human
    >>> human(1.94e9, "bytes"), human(0.0058, "share of the time"), human(65536, "rows")
    ('1.94 GB', '0.6 % of the time', '65,536 rows')
    """
    if unit.startswith("share"):
        return f"{100 * value:.1f} %{unit[5:]}"
    for word, short in (("bytes", "B"), ("FLOP", "FLOP")):
        if unit.startswith(word):
            power = min(5, int(math.log10(value) // 3)) if value >= 1 else 0
            return f"{value / 1000**power:.3g} {' KMGTP'[power].strip()}{short}{unit[len(word) :]}"
    return f"{value:,.0f} {unit}" if value >= 1000 or value == int(value) else f"{value:,.4g} {unit}"
