"""Notebook 11, the calculator: pods and phases to put in, its lines as a table, and its explorer."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.training.scaling import Bar, Phase, Setup, calculate, gantt, human, split_layers, value_of
from packlib.training.scaling.calculator import PRECISIONS, Line
from packlib.training.scaling.pod import ON_CHIP, PHASES, POD
from packlib.workbook.chapters.n11_scaling_up.parts import draw_gantt
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, new_figure, percent
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


def formulas(sheet: Sequence[Line], length: int | None) -> Table:
    """The lines of the model (None) or of a phase, each as it is computed; of stages, the largest value."""
    rows = []
    for line in sheet:
        if line.length == length:
            several = isinstance(line.value, tuple)
            said = human(max(line.value) if several else line.value, line.unit)
            rows.append((line.name, f"{said}{', fullest stage' * several}", line.formula))
    return Table(("line", "value", "formula"), rows)


# The explorer


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
        asked = (
            f"{model} on {devices:,} devices, {stages} stages, length {length}, micro batch {micro_batch}, "
        )
        asked += f"accumulation {accumulation}, packing factor {factor}, {precision}, "
        asked += "recomputation." if recompute else "no recomputation."
        try:
            setup = make_pod(devices, stages, model, precision=precision, recompute=recompute)
            wanted = micro_batch * accumulation * setup.replicas * factor
            if wanted > SEQUENCES:
                raise ValueError(
                    f"One update would take {wanted:,.0f} sequences; there are {SEQUENCES:,.0f} in all."
                )
        except ValueError as impossible:
            return _impossible(str(impossible)), f"{asked} This pod cannot be: {impossible}"
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
        _memory(fig.add_subplot(grid[1, 0]), of)
        _facts(fig.add_subplot(grid[1, 1]), facts)
        title = f"Waiting {percent(waits)}, {facts['fullest device']}, {facts['100 M sequences']}"
        fig.suptitle(title, x=0.02, ha="left", fontsize=15)
        return fig, f"{asked} {'; '.join(f'{name} {value}' for name, value in facts.items())}."


def _memory(ax: Axes, of: dict) -> None:
    """Bytes by stage, and a line at what the published chip holds."""
    colors = dict(zip(("WEIGHTS", "GRADIENTS", "ACTIVATIONS", "MOMENTS"), (*OKABE_ITO[4:6], OKABE_ITO[3], PADDING),
                      strict=True))  # fmt: skip
    below = [0.0] * of["stages"]
    for name, color in colors.items():
        sizes = [value / 1e9 for value in of[name]]
        look = {"color": color, "edgecolor": INK, "linewidth": 0.6, "label": name.lower()}
        ax.bar(range(len(sizes)), sizes, 0.8, below, **look)
        below = [a + b for a, b in zip(below, sizes, strict=True)]
    ax.axhline(ON_CHIP / 1e9, color=INK, linestyle=":", linewidth=1.5)
    ax.set(ylim=(0, 1.08 * max(*below, 0.9)), xlabel="stage")
    ax.set_xticks([0] if len(below) == 1 else [0, len(below) - 1])
    ax.set_title("GB of a device; dotted: 0.9", fontsize=12, pad=4)
    ax.tick_params(labelsize=10)
    ax.xaxis.label.set_size(11)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], fontsize=10, loc="center left", bbox_to_anchor=(1, 0.5))


def _facts(ax: Axes, facts: dict[str, str]) -> None:
    for row, (name, value) in enumerate(facts.items()):
        ax.text(0, row, name, va="center", fontsize=11)
        ax.text(1, row, value, va="center", ha="right", fontsize=11)
    ax.set(xlim=(0, 1), ylim=(len(facts) - 0.5, -0.5))
    ax.axis("off")


def _impossible(sentence: str) -> Figure:
    fig, ax = new_figure()
    ax.text(0.5, 0.5, textwrap.fill(sentence, 48), ha="center", va="center", fontsize=16)
    ax.set_title("This pod cannot be")
    ax.axis("off")
    return fig
