"""Notebook 11: BERT on a pod, its calculator as tables and as an explorer."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from packlib.training.scaling import Bar, Phase, Setup, calculate, gantt, split_layers, value_of
from packlib.training.scaling.calculator import PRECISIONS, Line
from packlib.workbook.chapters.n11_scaling_up.figures import draw_facts, draw_gantt, draw_impossible, draw_memory
from packlib.workbook.chapters.n11_scaling_up.pod import ON_CHIP, PHASES, POD
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import percent
from packlib.workbook.tables import Table

MODELS = {  # layers, width, feed-forward, heads
    "BERT-Base": {"layers": 12, "width": 768, "feed_forward": 3072, "heads": 12},
    "BERT-Large": {"layers": 24, "width": 1024, "feed_forward": 4096, "heads": 16},
}
PREDICTIONS = {128: 20, 384: 56, 512: 76}  # masked tokens of a row
SEQUENCES = 100e6  # that the explorer trains on


def make_pod(devices: int, stages: int, model: str = "BERT-Large", **options) -> Setup:
    """A pod of replicas with as many stages each; 4 stages of BERT-Large in the published layout, else evenly.

    Raises:
        ValueError: for more stages than layers, or devices that do not make up whole pipelines.
    """
    layers = MODELS[model]["layers"]
    layout = tuple(split_layers(layers, stages, POD.layout if (layers, stages) == (24, 4) else None))
    if devices % stages:
        raise ValueError(
            f"{devices} devices do not make up whole pipelines of {stages} stages: {devices % stages} "
            "would be left over."
        )
    shape: dict[str, Any] = {**MODELS[model], "layout": layout, "folded": layout == POD.layout or stages == 1}
    return Setup(**shape, replicas=devices // stages, **options)


def two_phases(micro_batch: int, accumulation: int, factors: Sequence[float] = (1.0, 1.0)) -> list[Phase]:
    """The published phases with another batch and packing factors; the second with half the rows a micro-batch.

    Rows without packing lose no time to it; packed ones lose what was published.
    """
    return [
        replace(
            phase, micro_batch=rows, gradient_accumulation_steps=accumulation, packing_factor=factor,
            overhead=phase.overhead if factor > 1 else 0.0,
        )
        for phase, rows, factor in zip(PHASES, (micro_batch, max(1, micro_batch // 2)), factors, strict=True)
    ]  # fmt: skip


def human(value: float, unit: str) -> str:
    """A value with its unit, to read.

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


def formulas(sheet: Sequence[Line], length: int | None) -> Table:
    """The lines of the model (None) or of a phase, each as it is computed; of stages, the largest value."""
    rows = []
    for line in sheet:
        if line.length == length:
            several = isinstance(line.value, tuple)
            said = human(max(line.value) if several else line.value, line.unit)
            rows.append((line.name, f"{said}{', fullest stage' * several}", line.formula))
    return Table(("line", "value", "formula"), rows)


def chart_of(sheet: Sequence[Line], setup: Setup, phase: Phase) -> list[Bar]:
    """The beginning of an update, in seconds; each stage takes what its work takes."""
    work = value_of(sheet, "WORK", phase.length)
    layer, head = (value_of(sheet, name, phase.length) for name in ("layer_work", "head_work"))
    place = 0 if setup.folded else len(work) - 1
    forward = [layers * layer + head * (stage == place) for stage, layers in enumerate(setup.layout)]
    backward = [whole - first for whole, first in zip(work, forward, strict=True)]
    parts = ([w / setup.peak_flops / setup.utilization for w in values] for values in (forward, backward))
    stages = len(work)
    bars = gantt(stages, min(phase.gradient_accumulation_steps, stages + 10), setup.schedule, *parts)
    until = (stages + 8) * max(work) / setup.peak_flops / setup.utilization
    return [bar for bar in bars if bar.end <= until]


class PodExplorer(Explorer):
    """The calculator, with the bubble as a chart, memory by stage, and what the run takes."""

    title = "What does this pod need, and how long does it take?"

    def controls(self):
        return {
            "model": choice("Model", MODELS, "BERT-Large"),
            "devices": choice("Devices", [4, 16, 64, 256, 1024], 64),
            "stages": choice("Stages", [1, 2, 4, 8, 16, 32], 4),
            "length": choice("Length of a row", list(PREDICTIONS), 128),
            "micro_batch": choice("Micro batch", [1, 2, 4, 8, 16, 32, 64], 8),
            "accumulation": choice("Accumulation", [2**i for i in range(13)], 512),
            "factor": choice("Packing factor", [1.0, 1.17, 1.7, 2.0, 3.0], 1.17),
            "precision": choice("Precision", PRECISIONS, POD.precision),
            "recompute": choice("Recomputation", [("no", False), ("yes", True)], True),
        }

    def draw(
        self, model, devices, stages, length, micro_batch, accumulation, factor, precision, recompute
    ) -> tuple[Figure, str]:
        asked = f"{model} on {devices:,} devices, {stages} stages, length {length}, micro batch {micro_batch}, "
        asked += f"accumulation {accumulation}, packing factor {factor}, {precision}, "
        asked += "recomputation." if recompute else "no recomputation."
        try:
            setup = make_pod(devices, stages, model, precision=precision, recompute=recompute)
            wanted = micro_batch * accumulation * setup.replicas * factor
            if wanted > SEQUENCES:
                raise ValueError(f"One update would take {wanted:,.0f} sequences; there are {SEQUENCES:,.0f} in all.")
        except ValueError as impossible:
            return draw_impossible(str(impossible)), f"{asked} This pod cannot be: {impossible}"
        overhead = 0.043 if factor > 1 else 0.0
        batch = (length, SEQUENCES, micro_batch, accumulation, factor, overhead, PREDICTIONS[length])
        phase = Phase(*batch)
        sheet = calculate(setup, [phase])
        of = {line.name: line.value for line in sheet}
        waits = 1 - (1 - of["bubble"]) * of["balance"]
        facts = {
            "rows/update": f"{of['global_batch']:,}",
            "sequences/update": f"{wanted:,.0f}",
            "bubble": percent(of["bubble"]),
            "all waiting": percent(waits),
            "fullest device": human(max(of["MEMORY"]), "bytes"),
            "without moments": human(max(of["ON_DEVICE"]), "bytes"),
            "an update": human(of["update"], "s"),
            "100 M sequences": f"{of['hours']:,.3g} h",
            "device hours": f"{of['cost']:,.4g}",
        }
        fig = Figure()
        grid = fig.add_gridspec(2, 2, height_ratios=(5, 6), width_ratios=(5, 4))
        chart = fig.add_subplot(grid[0, :])
        bars = chart_of(sheet, setup, phase)
        draw_gantt(chart, bars, numbers=False)
        chart.set_xlabel("seconds", fontsize=11, labelpad=1)
        whole = len(bars) == 2 * stages * accumulation
        chart.set_title("One update" if whole else "The beginning of an update", fontsize=12, pad=4)
        draw_memory(fig.add_subplot(grid[1, 0]), of)
        draw_facts(fig.add_subplot(grid[1, 1]), facts)
        title = f"Waiting {percent(waits)}, {facts['fullest device']}, {facts['100 M sequences']}"
        fig.suptitle(title, x=0.02, ha="left", fontsize=15)
        return fig, f"{asked} {'; '.join(f'{name} {value}' for name, value in facts.items())}."


# Exercises


def loss_weights(counts):
    """What each rank multiplies its own mean loss with, so that the mean over ranks is the mean over sequences."""
    return [len(counts) * count / sum(counts) for count in counts]


def fewest_micro_batches(stages, most):
    """The smallest accumulation whose bubble is at most `most` percent."""
    m = 1
    while 100 * (stages - 1) > most * (m + stages - 1):
        m += 1
    return m


FASTER = {
    "layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 4, "gradient_accumulation_steps": 1024, "recompute": False,
}  # fmt: skip


def _pod_fault(got):
    """Whether it is 20 % faster than the published pod, on as many devices and with the same batch."""
    if set(got) != set(FASTER):
        return f"it needs the keys {', '.join(FASTER)}, no other."
    setup = replace(POD, **{name: got[name] for name in ("layout", "replicas", "recompute")})
    phase = replace(PHASES[0], **{name: got[name] for name in ("micro_batch", "gradient_accumulation_steps")})
    of, published = (
        {line.name: line.value for line in calculate(pod, [part])} for pod, part in ((setup, phase), (POD, PHASES[0]))
    )
    if of["devices"] != published["devices"]:
        return f"that is {of['devices']} devices; there are {published['devices']}."
    if of["global_batch"] != published["global_batch"]:
        return f"the global batch is {of['global_batch']:,}, not {published['global_batch']:,}."
    if phase.gradient_accumulation_steps > 1024:
        return f"an accumulation of {phase.gradient_accumulation_steps:,} is more than 1,024."
    if max(of["ON_DEVICE"]) > ON_CHIP:
        return f"the fullest device holds {max(of['ON_DEVICE']) / 1e6:,.0f} MB, more than 900."
    if of["hours"] > 0.8 * published["hours"]:
        return f"it takes {of['hours']:.1f} hours; at most {0.8 * published['hours']:.1f} are asked for."
    return None


EXERCISES = Exercises([
    Exercise(
        "loss_weights", loss_weights,
        cases=(([5],), ([1, 3],), ([8, 32],), ([4, 4, 4],), ([7, 0, 2, 3],)),
        wrong={
            "all the same": lambda counts: [1.0 for _ in counts],
            "forgets that ranks are averaged": lambda counts: [count / sum(counts) for count in counts],
            "only the number of ranks": lambda counts: [float(len(counts)) for _ in counts],
        },
        hint="first give each rank its share of all sequences; then undo the division by the number of ranks.",
    ),
    Exercise(
        "fewest_micro_batches", fewest_micro_batches,
        cases=((1, 5), (2, 50), (2, 10), (4, 10), (4, 1), (8, 3)),
        wrong={
            "one too few": lambda stages, most: max(1, fewest_micro_batches(stages, most) - 1),
            "(s - 1) / m": lambda stages, most: max(1, -(-100 * (stages - 1) // most)),
            "forgets the minus one": lambda stages, most: max(1, -(-100 * stages // most) - stages),
        },
        hint="solve (s - 1) / (m + s - 1) ≤ most / 100 for m, round up, and take at least 1.",
    ),
    Exercise(
        "faster_pod", FASTER, fault=_pod_fault,
        wrong={
            "the published pod": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 8,
                                  "gradient_accumulation_steps": 512, "recompute": True},
            "even stages alone": {"layout": (6, 6, 6, 6), "replicas": 16, "micro_batch": 8,
                                  "gradient_accumulation_steps": 512, "recompute": True},
            "does not fit": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 8,
                             "gradient_accumulation_steps": 512, "recompute": False},
            "accumulates too long": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 2,
                                     "gradient_accumulation_steps": 2048, "recompute": False},
            "a smaller batch": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 2,
                                "gradient_accumulation_steps": 1024, "recompute": False},
        },
        hint="what takes most of the time, and what would have to shrink to do without it?",
    ),
])  # fmt: skip
check = EXERCISES
