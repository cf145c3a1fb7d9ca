"""Notebook 11: BERT on a pod, its calculator as tables and as an explorer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from packlib.markup import escaped
from packlib.workbook.chapters.n11_scaling_up.calculator import PRECISIONS, Line, Phase, Setup, calculate, value_of
from packlib.workbook.chapters.n11_scaling_up.figures import draw_facts, draw_gantt, draw_impossible, draw_memory
from packlib.workbook.chapters.n11_scaling_up.pipeline import split_layers
from packlib.workbook.chapters.n11_scaling_up.pod import ON_CHIP, PHASES, POD
from packlib.workbook.chapters.shared.timeline import Bar, gantt
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import StyledFigure, percent
from packlib.workbook.questions import Questions
from packlib.workbook.tables import Table

PREDICTIONS = {128: 20, 384: 56, 512: 76}  # masked tokens of a row


def make_pod(devices: int, stages: int, **options: Any) -> Setup:
    """A pod of replicas with as many stages each; 4 stages in the published layout, else evenly.

    Raises:
        ValueError: for more stages than layers, or devices that do not make up whole pipelines.
    """
    layout = POD.layout if stages == len(POD.layout) else tuple(split_layers(POD.layers, stages))
    if devices % stages:
        raise ValueError(
            f"{devices} devices do not make up whole pipelines of {stages} stages: {devices % stages} "
            "would be left over."
        )
    folded = layout == POD.layout or stages == 1
    return replace(POD, layout=layout, folded=folded, replicas=devices // stages, **options)


def two_phases(micro_batch: int, accumulation: int, factors: Sequence[float] = (1.0, 1.0)) -> list[Phase]:
    """The published phases with another batch and packing factors; a micro-batch of both has as many tokens.

    Rows without packing lose no time to it; packed ones lose what was published.
    """
    return [
        replace(
            phase, micro_batch=rows, gradient_accumulation_steps=accumulation, packing_factor=factor,
            overhead=phase.overhead if factor > 1 else 0.0,
        )
        for phase, rows, factor in zip(PHASES, (micro_batch, max(1, micro_batch // 4)), factors, strict=True)
    ]  # fmt: skip


def human(value: float, unit: str) -> str:
    """A value with its unit, to read.

    >>> from packlib.workbook.chapters.n11_scaling_up.lesson import human
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


@dataclass(frozen=True)
class Sheet:
    """The lines of the model and of one phase, each as it is computed, behind a fold; of stages, the largest value."""

    tables: Mapping[str, Table]

    def __repr__(self) -> str:
        return "\n\n".join(f"{name}\n{table!r}" for name, table in self.tables.items())

    def _repr_html_(self) -> str:
        body = "".join(f"<h4>{escaped(name)}</h4>{table._repr_html_()}" for name, table in self.tables.items())
        return f"<details><summary>The sheet, formula by formula</summary>{body}</details>"


def sheet_of(sheet: Sequence[Line], length: int) -> Sheet:
    """The sheet as the notebook shows it: the model first, then the phase with rows of this length."""
    tables = {}
    for title, wanted in (("The model", None), (f"Rows of {length} tokens", length)):
        rows = []
        for line in sheet:
            if line.length == wanted:
                several = isinstance(line.value, tuple)
                said = human(max(line.value) if several else line.value, line.unit)
                rows.append((line.name, f"{said}{', fullest stage' * several}", line.formula))
        tables[title] = Table(("line", "value", "formula"), rows)
    return Sheet(tables)


def chart_of(sheet: Sequence[Line], setup: Setup, phase: Phase) -> list[Bar]:
    """The beginning of an update, in seconds; each stage takes what its work takes."""
    work = value_of(sheet, "WORK", phase.length)
    layer, head = (value_of(sheet, name, phase.length) for name in ("layer_work", "head_work"))
    place = 0 if setup.folded else len(work) - 1
    forward = [layers * layer + head * (stage == place) for stage, layers in enumerate(setup.layout)]
    backward = [whole - first for whole, first in zip(work, forward, strict=True)]
    parts = ([w / setup.peak_flops / setup.utilization for w in values] for values in (forward, backward))
    stages = len(work)
    bars = gantt(stages, min(phase.gradient_accumulation_steps, stages + 10), "1f1b", *parts)
    until = (stages + 8) * max(work) / setup.peak_flops / setup.utilization
    return [bar for bar in bars if bar.end <= until]


class PodExplorer(Explorer):
    """The calculator on the published pod: who waits, what fits, and how long the first phase takes."""

    title = "What holds this pod up, and what does not fit?"
    telling = ("accumulation", "stages")
    columns = 2

    def controls(self):
        return {
            "devices": choice("Devices", [4, 16, 64, 256, 1024], 64),
            "stages": choice("Stages", [1, 2, 4, 8, 16, 32], 4),
            "micro_batch": choice("Micro batch", [1, 2, 4, 8, 16, 32, 64], 8),
            "accumulation": choice("Accumulation", [2**i for i in range(13)], 512),
            "length": choice("Length of a row", list(PREDICTIONS), 128),
            "precision": choice("Precision", PRECISIONS, POD.precision),
            "recompute": widgets.Checkbox(True, description="Recomputation"),
            "offload": widgets.Checkbox(True, description="Moments off chip"),
        }

    def draw(
        self, devices, stages, micro_batch, accumulation, length, precision, recompute, offload
    ) -> tuple[Figure, str]:
        asked = f"BERT-Large on {devices:,} devices, {stages} stages, length {length}, micro batch {micro_batch}, "
        asked += f"accumulation {accumulation:,}, {precision}, "
        asked += f"{'' if recompute else 'no '}recomputation, moments {'off' if offload else 'on'} the chip."
        try:
            setup = make_pod(devices, stages, precision=precision, recompute=recompute, offload=offload)
        except ValueError as impossible:
            return draw_impossible(str(impossible)), f"{asked} This pod cannot be: {impossible}"
        rows = PHASES[0].sequences
        phase = Phase(length, rows, micro_batch, accumulation, predictions=PREDICTIONS[length])
        sheet = calculate(setup, [phase])
        of = {line.name: line.value for line in sheet}
        idle = [1 - (1 - of["bubble"]) * work / max(of["WORK"]) for work in of["WORK"]]
        fullest = max(of["ON_DEVICE" if offload else "MEMORY"])
        facts = {
            "stages wait, on average": percent(sum(idle) / len(idle)),
            "fullest chip": human(fullest, "bytes"),
            "an update": human(of["update"], "s"),
            "of it, moving moments": percent(of["moved"] / setup.bandwidth / of["update"]),
            f"{rows / 1e6:,.0f} M rows": f"{of['hours']:,.3g} h",
        }
        fig = StyledFigure()
        grid = fig.add_gridspec(2, 2, height_ratios=(5, 6), width_ratios=(5, 4))
        chart = fig.add_subplot(grid[0, :])
        bars = chart_of(sheet, setup, phase)
        draw_gantt(chart, bars, numbers=False)
        chart.set_xlabel("seconds", fontsize=11, labelpad=1)
        chart.xaxis.get_major_locator().set_params(nbins=4)
        whole = len(bars) == 2 * stages * accumulation
        chart.set_title("One update" if whole else "The beginning of an update", fontsize=12, pad=4)
        draw_memory(fig.add_subplot(grid[1, 0]), of, offload)
        draw_facts(fig.add_subplot(grid[1, 1]), facts)
        waits = f"Stage {idle.index(max(idle))} waits {percent(max(idle), 0)} of the time"
        fits = f"the fullest chip {'has room' if fullest <= ON_CHIP else 'overflows'}"
        fig.suptitle(f"{waits}; {fits}", fontsize=15)
        listed = f"{of['global_batch']:,} rows an update, bubble {percent(of['bubble'])}"
        listed = "; ".join([listed, *(f"{name} {value}" for name, value in facts.items())])
        return fig, f"{asked} {waits}, and {fits}: {listed}."


def _seconds(waits: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {taken:.3f} s" for name, taken in waits.items())


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "heavier": lambda few, many: "neither" if few == many else "replica 0",
        "bubble": lambda waits: 100 * waits,
        "layout": lambda published, even: (
            "slower" if published < even else "faster" if published > even else "equally fast"
        ),
        "recomputation": lambda longer: round(100 * longer),
        "underflow": lambda lost: round(100 * lost[2048]),
        "each_update": lambda seconds, plain: max(seconds, key=seconds.get),
    },
    reasons={
        "heavier": lambda few, many: (
            f"A sequence of replica 0 weighs 1/{few}, halved, and one of replica 1 weighs 1/{many}, halved: "
            f"{many / few:.3g} times less. One process would give each sequence the same weight."
        ),
        "layout": lambda published, even: (
            "The slowest stage sets the pace, and 7 layers take longer than 6 and the head. The stages work "
            f"{percent(published)} of the time on average; in the even layout they would work {percent(even)}."
        ),
        "underflow": lambda lost: (
            f"At an accumulation of 512, {percent(lost[512])} are lost, and at 1 only {percent(lost[1], 2)}."
        ),
        "each_update": lambda seconds, plain: (
            f"{_seconds(seconds)}. All three come once an update, however long the accumulation is. On plain "
            f"replicas it would be {_seconds(plain)}."
        ),
    },
)
reveal = QUESTIONS.reveal


# Exercises


def loss_weights(counts):
    """What each rank multiplies its own mean loss with, so that the mean over ranks is the mean over sequences."""
    return [len(counts) * count / sum(counts) for count in counts]


def round_at_random(value, spacing, draw):
    """`value` rounded to a multiple of `spacing`: up if `draw`, uniform from 0 to 1, says so."""
    steps = value / spacing
    below = math.floor(steps)
    return (below + (draw < steps - below)) * spacing


PUBLISHED = {
    "layout": (3, 7, 7, 7),
    "replicas": 16,
    "micro_batch": 8,
    "gradient_accumulation_steps": 512,
    "recompute": True,
}
FASTER = PUBLISHED | {"micro_batch": 4, "gradient_accumulation_steps": 1024, "recompute": False}


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


EXERCISES = Exercises.beside(
    __file__,
    Exercise(
        "loss_weights",
        loss_weights,
        wrong={
            "all the same": lambda counts: [1.0 for _ in counts],
            "forgets that ranks are averaged": lambda counts: [count / sum(counts) for count in counts],
            "only the number of ranks": lambda counts: [float(len(counts)) for _ in counts],
        },
    ),
    Exercise(
        "round_at_random",
        round_at_random,
        wrong={
            "to the nearest": lambda value, spacing, draw: round(value / spacing) * spacing,
            "up when it should go down": lambda value, spacing, draw: round_at_random(value, spacing, 1 - draw),
            "a coin": lambda value, spacing, draw: (math.floor(value / spacing) + (draw < 0.5)) * spacing,
            "cuts digits off": lambda value, spacing, draw: (
                (int(value / spacing) + (draw < value / spacing - int(value / spacing))) * spacing
            ),
        },
    ),
    Exercise(
        "faster_pod",
        FASTER,
        wrong={
            "the published pod": PUBLISHED,
            "even stages alone": PUBLISHED | {"layout": (6, 6, 6, 6)},
            "does not fit": PUBLISHED | {"recompute": False},
            "accumulates too long": FASTER | {"micro_batch": 2, "gradient_accumulation_steps": 2048},
            "a smaller batch": FASTER | {"micro_batch": 2},
        },
        fault=_pod_fault,
    ),
)
check = EXERCISES
