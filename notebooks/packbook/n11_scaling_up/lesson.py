"""Notebook 11: BERT on a pod: its sheet behind a fold, its explorer, its questions and exercises."""

import math
from collections.abc import Mapping
from dataclasses import replace

import ipywidgets as widgets
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice
from packbook.figures import percent
from packbook.n11_scaling_up.calculator import (
    MODEL_FORMULAS,
    PHASE_FORMULAS,
    Line,
    Phase,
    human,
    values_of,
)
from packbook.n11_scaling_up.figures import draw_run
from packbook.n11_scaling_up.pod import ON_CHIP, PHASES, POD, PREDICTIONS, make_pod
from packbook.questions import Questions, compare
from packbook.tables import Table
from packlib.checks import escaped


def show_sheet(sheet: Mapping[str, Line], length: int) -> None:
    """The sheet behind a fold: the model, then the phase with rows of this length; of stages, the largest value."""
    from IPython.display import display

    tables = {}
    for title, formulas in (("The model", MODEL_FORMULAS), (f"Rows of {length} tokens", PHASE_FORMULAS)):
        rows = []
        for name, unit, formula in formulas:
            value = sheet[name].value
            several = isinstance(value, tuple)
            said = human(max(value) if several else value, unit)
            rows.append((name, f"{said}{', fullest stage' * several}", formula))
        tables[title] = Table(("line", "value", "formula"), rows)
    body = "".join(f"<h4>{escaped(name)}</h4>{table._repr_html_()}" for name, table in tables.items())
    page = f"<details><summary>The sheet, formula by formula</summary>{body}</details>"
    plain = "\n\n".join(f"{name}\n{table!r}" for name, table in tables.items())
    display({"text/html": page, "text/plain": plain}, raw=True)


class PodExplorer(Explorer):
    """The published pod and others: who waits, what fits, and how long the first phase takes."""

    title = "What holds this pod up, and what does not fit?"
    shown_controls = ("accumulation", "stages")
    columns = 2

    def controls(self):
        return {
            "replicas": choice("Replicas", [1, 4, 16, 64, 256], 16),
            "stages": choice("Stages", [1, 2, 4, 8, 12, 24], 4),
            "micro_batch": choice("Micro batch", [1, 2, 4, 8, 16, 32, 64], 8),
            "accumulation": choice("Accumulation", [2**i for i in range(13)], 512),
            "length": choice("Length of a row", list(PREDICTIONS), 128),
            "recompute": widgets.Checkbox(True, description="Recomputation"),
            "offload": widgets.Checkbox(True, description="Moments off chip"),
        }

    def draw(self, replicas, stages, micro_batch, accumulation, length, recompute, offload) -> tuple[Figure, str]:
        setup = make_pod(replicas, stages, recompute=recompute, offload=offload)
        rows = PHASES[0].sequences
        return draw_run(setup, Phase(length, rows, micro_batch, accumulation, predictions=PREDICTIONS[length]))


def _seconds(waits: Mapping[str, float]) -> str:
    return ", ".join(f"{taken:.3f} s ({name})" for name, taken in waits.items())


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "heavier": lambda few, many: "neither" if few == many else "replica 0",
        "layout": lambda published, even: compare(published, even, "slower", "equally fast", "faster"),
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
            f"They take {_seconds(seconds)}. All three come once an update, however long the accumulation is. On "
            f"plain replicas it would be {_seconds(plain)}."
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
    if sum(got["layout"]) != POD.layers:
        return f"its stages have {sum(got['layout'])} layers, not {POD.layers}."
    setup = replace(POD, **{name: got[name] for name in ("layout", "replicas", "recompute")})
    phase = replace(PHASES[0], **{name: got[name] for name in ("micro_batch", "gradient_accumulation_steps")})
    of, published = values_of(setup, phase), values_of(POD, PHASES[0])
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


check = Exercises.beside(
    __file__,
    loss_weights,
    round_at_random,
    Exercise("faster_pod", FASTER, fault=_pod_fault),
)
