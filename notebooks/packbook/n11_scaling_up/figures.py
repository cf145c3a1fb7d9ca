"""What notebook 11 draws: the stages of a run, their memory and their waiting, in one picture."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packbook.figures import INK, OKABE_ITO, PADDING, StyledFigure, percent
from packbook.n11_scaling_up.calculator import Phase, Setup, human, values_of
from packbook.n11_scaling_up.pod import ON_CHIP
from packbook.n11_scaling_up.timeline import Bar, gantt

FORWARD, BACKWARD = OKABE_ITO[4], OKABE_ITO[5]
PARTS = {  # of a device's memory: color and hatch; moments that live off the device are hollow
    "weights": (OKABE_ITO[0], ""),
    "gradients": (OKABE_ITO[3], "\\\\"),
    "activations": (OKABE_ITO[2], ".."),
    "moments": (PADDING, "//"),
}


def draw_run(setup: Setup, phase: Phase) -> tuple[Figure, str]:
    """The beginning of an update on top; below it the memory of each stage, and the run in numbers."""
    of = values_of(setup, phase)
    idle = [1 - (1 - of["bubble"]) * work / max(of["WORK"]) for work in of["WORK"]]
    fullest = max(of["ON_DEVICE" if setup.offload else "MEMORY"])
    facts = {
        "rows behind an update": f"{of['global_batch']:,}",
        "bubble by the formula": percent(of["bubble"]),
        "stages wait, on average": percent(sum(idle) / len(idle)),
        "fullest chip": human(fullest, "bytes"),
        "an update": human(of["update"], "s"),
        "of it, moving moments": percent(of["moved"] / setup.bandwidth / of["update"]),
        f"{phase.sequences / 1e6:,.0f} M sequences": f"{of['hours']:,.1f} h",
    }
    fig = StyledFigure()
    grid = fig.add_gridspec(2, 2, height_ratios=(5, 6), width_ratios=(5, 4))
    bars = chart_of(of, setup, phase)
    chart = fig.add_subplot(grid[0, :])
    draw_gantt(chart, bars)
    whole = len(bars) == 2 * of["stages"] * phase.gradient_accumulation_steps
    chart.set_title("One update" if whole else "The beginning of an update", fontsize=12, pad=4)
    draw_memory(fig.add_subplot(grid[1, 0]), of, setup.offload)
    draw_facts(fig.add_subplot(grid[1, 1]), facts)
    longest = max(idle)
    waits = f"Stage {idle.index(longest)} waits {percent(longest, 0)} of the time" if longest else "No stage waits"
    fits = f"the fullest chip {'has room' if fullest <= ON_CHIP else 'overflows'}"
    fig.suptitle(f"{waits}; {fits}", fontsize=15)
    listed = "; ".join(f"{name} {value}" for name, value in facts.items())
    return fig, (
        f"BERT-Large in {setup.replicas:,} × {of['stages']} devices, stages of {' + '.join(map(str, setup.layout))} "
        f"layers, rows of {phase.length}, micro batch {phase.micro_batch}, accumulation "
        f"{phase.gradient_accumulation_steps:,}, {'' if setup.recompute else 'no '}recomputation, moments "
        f"{'off' if setup.offload else 'on'} the chip. {waits}, and {fits}: {listed}."
    )


def chart_of(of: dict, setup: Setup, phase: Phase) -> list[Bar]:
    """The beginning of an update, in seconds; each stage takes what its work takes. `of` is the sheet by name."""
    second = setup.peak_flops * setup.utilization
    place = 0 if setup.folded else of["stages"] - 1
    forward = [
        (layers * of["layer_work"] + of["head_work"] * (stage == place)) / second
        for stage, layers in enumerate(setup.layout)
    ]
    backward = [work / second - first for work, first in zip(of["WORK"], forward, strict=True)]
    bars = gantt(min(phase.gradient_accumulation_steps, of["stages"] + 10), forward, backward)
    until = (of["stages"] + 8) * max(of["WORK"]) / second
    return [bar for bar in bars if bar.end <= until]


def draw_gantt(ax: Axes, bars: Sequence[Bar]) -> None:
    """A row for each stage: forward passes high and blue, backward passes low and orange; white is waiting."""
    last = max(bar.stage for bar in bars)
    for kind, color, height in (("forward", FORWARD, 0.84), ("backward", BACKWARD, 0.56)):
        for stage in range(last + 1):
            spans = [(b.start, b.end - b.start) for b in bars if (b.stage, b.kind) == (stage, kind)]
            look = {"facecolor": color, "edgecolor": "white", "linewidth": 0.8}
            ax.broken_barh(spans, (stage - height / 2, height), **look, label=kind if stage == 0 else None)
    ax.set(ylim=(last + 0.5, -0.5), xlim=(0, max(bar.end for bar in bars)))
    named = range(last + 1) if last < 8 else (0, last)
    ax.set_yticks(named, [f"stage {stage}" for stage in named], fontsize=11)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("seconds", fontsize=11, labelpad=1)
    ax.xaxis.get_major_locator().set_params(nbins=4)
    ax.legend(fontsize=10, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)


def draw_memory(ax: Axes, of: dict, offload: bool) -> None:
    """Bytes by stage, and a line at what the published chip holds."""
    below = [0.0] * of["stages"]
    for name, (color, hatch) in PARTS.items():
        sizes = [value / 1e9 for value in of[name.upper()]]
        away = offload and name == "moments"
        look = {"color": "white" if away else color, "edgecolor": INK, "linewidth": 0.6, "hatch": hatch}
        ax.bar(range(len(sizes)), sizes, 0.8, below, **look, label="moments,\noff chip" if away else name)
        below = [a + b for a, b in zip(below, sizes, strict=True)]
    ax.axhline(ON_CHIP / 1e9, color=INK, linestyle=":", linewidth=1.5)
    ax.set(ylim=(0, 1.08 * max(*below, 0.9)), xlabel="stage")
    ax.set_xticks(range(len(below)) if len(below) <= 8 else [0, len(below) - 1])
    ax.yaxis.get_major_locator().set_params(nbins=4)
    ax.set_title("GB of a device; dotted: 0.9", fontsize=12, pad=4)
    ax.tick_params(labelsize=10)
    ax.xaxis.label.set_size(11)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], fontsize=10, loc="center left", bbox_to_anchor=(1, 0.5))


def draw_facts(ax: Axes, facts: dict[str, str]) -> None:
    for row, (name, value) in enumerate(facts.items()):
        ax.text(0, row, name, va="center", fontsize=11)
        ax.text(1, row, value, va="center", ha="right", fontsize=11)
    ax.set(xlim=(0, 1), ylim=(len(facts) - 0.5, -0.5))
    ax.axis("off")
