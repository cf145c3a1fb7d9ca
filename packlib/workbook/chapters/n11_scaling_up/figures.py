"""What notebook 11 draws: the pod, its stages, and what 16 bits do."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from packlib.workbook.chapters.n11_scaling_up.calculator import Setup
from packlib.workbook.chapters.n11_scaling_up.pod import ON_CHIP
from packlib.workbook.chapters.shared.timeline import SCHEDULES, Bar, bubble, bubble_formula, gantt, in_flight
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, percent, plain_ticks


def draw_pod(setup: Setup, micro_batch: int, accumulation: int, most: int = 16) -> tuple[Figure, str]:
    """Replicas as rows, stages as columns, as wide as they have layers; at most `most` replicas are drawn."""
    fig, ax = new_figure()
    rows, stages, layers = min(setup.replicas, most), len(setup.layout), sum(setup.layout)
    left = [sum(setup.layout[:stage]) for stage in range(stages)]
    for row in range(rows):
        for start, width in zip(left, setup.layout, strict=True):
            color = OKABE_ITO[4] if row == 0 else PADDING
            box = (start + 0.1, row + 0.1), width - 0.2, 0.8
            ax.add_patch(Rectangle(*box, facecolor=color, edgecolor=INK, linewidth=0.8))
    for stage, (start, width) in enumerate(zip(left, setup.layout, strict=True)):
        if stages <= 8:
            said = f"stage {stage}\n{width} layer{'s' * (width > 1)}"
            ax.text(start + width / 2, -0.3, said, ha="center", va="bottom", fontsize=12)
    same = left[-1], setup.layout[-1]
    ax.add_patch(Rectangle((same[0], -0.05), same[1], rows + 0.1, fill=False, edgecolor=OKABE_ITO[1], linewidth=2.5))
    beside = 1.02 * layers
    ax.text(beside, 0.5, "one replica", va="center", fontsize=12)
    ax.text(beside, 0.6 * rows + 0.4, "the same layers:\ngradients are\nadded up", va="center", fontsize=12)
    ax.set(xlim=(0, 1.3 * layers), ylim=(rows + 0.2, -0.13 * rows - 0.4), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    drawn = f", {rows} drawn" if rows < setup.replicas else ""
    ax.set_ylabel(f"{setup.replicas:,} replicas{drawn}")
    devices = setup.replicas * stages
    ax.set_title(f"{devices:,} devices hold {setup.replicas:,} copies of the model")
    batch = micro_batch * accumulation * setup.replicas
    layout = " + ".join(map(str, setup.layout))
    return fig, (
        f"A pod of {setup.replicas:,} replicas, each a pipeline of {stages} stages with {layout} layers: "
        f"{devices:,} devices. {micro_batch} rows times {accumulation:,} micro-batches times {setup.replicas:,} "
        f"replicas are {batch:,} rows behind an update."
    )


def draw_gantt(ax: Axes, bars: Sequence[Bar], numbers: bool = True) -> None:
    """A row for each stage: forward passes high and blue, backward passes low and orange; white is waiting.

    With `numbers`, forward passes say their micro-batch; the backward passes come in the same order.
    """
    for kind, color, height in (("forward", OKABE_ITO[4], 0.84), ("backward", OKABE_ITO[5], 0.56)):
        for stage in sorted({bar.stage for bar in bars}):
            spans = [(b.start, b.end - b.start) for b in bars if (b.stage, b.kind) == (stage, kind)]
            row = stage - height / 2, height
            ax.broken_barh(spans, row, facecolor=color, edgecolor="white", linewidth=0.8)
    if numbers:
        for bar in (bar for bar in bars if bar.kind == "forward"):
            middle = (bar.start + bar.end) / 2
            ax.text(middle, bar.stage, bar.micro_batch + 1, ha="center", va="center", fontsize=10, clip_on=True)
    last = max(bar.stage for bar in bars)
    ax.set(ylim=(last + 0.5, -0.5), xlim=(0, max(bar.end for bar in bars)))
    named = range(last + 1) if last < 8 else (0, last)
    ax.set_yticks(named, [f"stage {stage}" for stage in named], fontsize=11)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def draw_schedules(stages: int = 4, micro_batches: int = 6) -> tuple[Figure, str]:
    """Both schedules on paper; a backward pass takes twice a forward pass."""
    fig, axes = new_figure(2, 1, sharex=True)
    charts = {schedule: gantt(stages, micro_batches, schedule) for schedule in SCHEDULES}
    for ax, (schedule, bars) in zip(axes, charts.items(), strict=True):
        draw_gantt(ax, bars)
        held = ", ".join(map(str, in_flight(bars)))
        title = f"{schedule}: at most {held} micro-batches in flight on stages 0 to {stages - 1}"
        ax.set_title(title, fontsize=12, pad=5)
    axes[1].set_xlabel("time, in forward passes")
    same = percent(bubble(charts["gpipe"]))
    fig.suptitle(f"The same bubble, {same}; 1f1b holds fewer micro-batches", fontsize=15)
    listed = "; ".join(
        f"{schedule} bubble {percent(bubble(bars))}, in flight {', '.join(map(str, in_flight(bars)))}"
        for schedule, bars in charts.items()
    )
    return fig, f"{stages} stages and {micro_batches} micro-batches on paper: {listed}."


def draw_measured(rows: list[dict]) -> tuple[Figure, str]:
    """The bubbles of all recorded pipelines, and their formula."""
    fig, ax = new_figure()
    words, above = [], True
    for stages, work, marker, color in ((2, "computing", "s", OKABE_ITO[1]), (4, "paced", "o", OKABE_ITO[0])):
        some = [row for row in rows if row["stages"] == stages]
        counts = sorted({row["micro-batches"] for row in some})
        formula = [100 * bubble_formula(stages, m) for m in counts]
        ax.plot(counts, formula, color=color, linestyle="-", marker="")
        found = {}
        for schedule, filled in (("gpipe", "none"), ("1f1b", color)):
            found[schedule] = [100 * row["bubble"] for row in some if row["schedule"] == schedule]
            ax.plot(counts, found[schedule], marker, color=color, markerfacecolor=filled, linestyle="")
            above &= all(m >= f for m, f in zip(found[schedule], formula, strict=True))
        offset = (12, 4) if stages == 4 else (-40, -34)
        said = f"{stages} stages,\n{work}"
        ax.annotate(said, (counts[0], formula[0]), offset, textcoords="offset points", va="center")
        pairs = ", ".join(
            f"{m}: {f:.1f} by formula, {a:.1f} and {b:.1f}"
            for m, f, a, b in zip(counts, formula, *found.values(), strict=True)
        )
        words.append(f"{stages} stages, {work}, by micro-batches, gpipe and 1f1b: {pairs}")
    ax.text(0.98, 0.95, "lines: formula\nhollow: gpipe\nfilled: 1f1b", transform=ax.transAxes, ha="right", va="top")
    ax.set(xscale="log", xlabel="micro-batches", ylabel="bubble, %", ylim=(0, 50), xlim=(1.4, 36), yticks=(0, 20, 40))
    plain_ticks(ax.xaxis, [2, 4, 8, 16, 32])
    ax.set_title("Measured bubbles lie above the formula" if above else "Bubbles by formula, and measured")
    return fig, f"Measured bubbles in percent. {'; '.join(words)}."


ROUNDED = {  # how weights are held, and how their line looks
    "fp32": {"color": INK, "linestyle": ":"},
    "master": {"color": OKABE_ITO[3], "linestyle": "-."},
    "stochastic": {"color": OKABE_ITO[0], "linestyle": "-"},
    "nearest": {"color": OKABE_ITO[1], "linestyle": "--"},
}


def draw_rounding(
    walks: dict[str, np.ndarray], step: float, losses: dict[str, np.ndarray], baseline: float
) -> tuple[Figure, str]:
    """One weight that is lowered by `step` at each update; and a network that learns. A look means the same in both."""
    fig, (left, right) = new_figure(1, 2)
    updates = np.arange(len(walks["nearest"]))
    exact = 1 - step * updates
    left.plot(updates, exact, **ROUNDED["fp32"], linewidth=4)
    for name, paths in walks.items():
        left.plot(updates, paths.mean(1), **ROUNDED[name])
    listed = ", ".join(f"{name} {paths[-1].mean():.3f}" for name, paths in walks.items())
    for name, look in ROUNDED.items():
        exactly = {"linewidth": 4, "label": "exact, fp32"} if name == "fp32" else {"linewidth": 2, "label": name}
        right.plot(losses[name], **look, **exactly)
    right.axhline(baseline, color=PADDING, linewidth=3, zorder=0)
    right.annotate("always the mean", (1, baseline), (0, 4), ("axes fraction", "data"), "offset points", ha="right")
    left.set(xlabel="updates", ylabel="the weight")
    right.set(xlabel="updates", ylabel="loss", ylim=(0, 1.15 * max(baseline, losses["fp32"][0])))
    for axis in (left.xaxis, left.yaxis, right.xaxis, right.yaxis):
        axis.get_major_locator().set_params(nbins=4)
    left.set_title("One weight, mean of many", fontsize=13)
    right.set_title("A small network, one seed", fontsize=13)
    right.legend(loc="lower left")
    ends = {name: curve[-1] for name, curve in losses.items()}
    stalls = ends["nearest"] > 2 * max(ends["fp32"], ends["stochastic"], ends["master"])
    title = "Rounding to nearest stalls; the other ways stay together" if stalls else "Ways to keep 16-bit weights"
    fig.suptitle(title, fontsize=15)
    words = ", ".join(f"{name} {loss:.2f}" for name, loss in ends.items())
    return fig, (
        f"A bfloat16 weight of 1, lowered by {step:.5f} at each of {updates[-1]} updates; at the end the mean of "
        f"{walks['stochastic'].shape[1]} copies is: {listed}; exact {exact[-1]:.3f}. Losses of the network at the end: "
        f"{words}; always answering with the mean: {baseline:.2f}."
    )


def draw_trade(rows: list[dict]) -> tuple[Figure, str]:
    """The bubble of 4 stages and the underflow of FP16 gradients against accumulation, with and without scaling."""
    fig, ax = new_figure()
    at = {row["accumulation"]: row for row in rows}
    m = [2, 8, 32, 128, 512, 2048]
    rows = [at[k] for k in m]
    scales = {float(key.split()[-1]): key for key in rows[0] if key.startswith("underflow")}
    bubbles, plain, scaled = ([100 * row[key] for row in rows] for key in ("bubble", scales[1.0], scales[max(scales)]))
    (first,) = ax.loglog(m, bubbles, color=INK, marker="o", linestyle="-")
    (second,) = ax.loglog(m, plain, color=OKABE_ITO[1], marker="s", linestyle="--")
    (third,) = ax.loglog(m, scaled, color=OKABE_ITO[2], marker="P", linestyle="-.")
    ax.set(xlabel="accumulation, micro-batches", ylabel="% of the time, % of the gradients", ylim=(1e-3, 100))
    plain_ticks(ax.xaxis, m)
    plain_ticks(ax.yaxis, [0.01, 1, 100])
    against = bubbles == sorted(bubbles, reverse=True) and plain == sorted(plain)
    ax.set_title("More accumulation: less waiting, more underflow" if against else "Bubble and underflow")
    label_ends({first: "bubble", second: "underflow", third: f"underflow,\nloss × 2^{np.log2(max(scales)):.0f}"})
    listed = "; ".join(
        f"{k:,}: bubble {percent(at[k]['bubble'], 2)}, underflow {percent(at[k][scales[1.0]], 2)}, scaled "
        f"{percent(at[k][scales[max(scales)]], 3)}"
        for k in (8, 128, 512, 2048)
    )
    return fig, f"By accumulation, {listed}."


PARTS = {  # of a device's memory: color and hatch; moments that live off the device are hollow
    "weights": (OKABE_ITO[0], ""),
    "gradients": (OKABE_ITO[3], "\\\\"),
    "activations": (OKABE_ITO[2], ".."),
    "moments": (PADDING, "//"),
}


def draw_memory(ax: Axes, of: dict, offload: bool = False) -> None:
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


def draw_layouts(layouts: dict[tuple[int, ...], dict]) -> tuple[Figure, str]:
    """Memory by stage of several layouts beside each other; the values are lines of a sheet by name."""
    fig, axes = new_figure(1, len(layouts), sharey=True)
    words, lean, full = [], [], []
    for ax, (layout, of) in zip(axes, layouts.items(), strict=True):
        draw_memory(ax, of)
        name = " + ".join(map(str, layout))
        ax.set_title(name, fontsize=13, pad=6)
        ax.get_legend().remove()
        lean += of["ON_DEVICE"]
        full += of["MEMORY"]
        sizes = ", ".join(f"{size / 1e6:,.0f}" for size in of["ON_DEVICE"])
        words.append(f"{name} layers {sizes}, with moments {', '.join(f'{size / 1e6:,.0f}' for size in of['MEMORY'])}")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[-1].legend(handles[::-1], labels[::-1], fontsize=12, loc="center left", bbox_to_anchor=(1, 0.5))
    axes[0].set(ylabel="GB of a device; dotted: 0.9", ylim=(0, 1.05 * max(full) / 1e9))
    sharp = max(lean) <= ON_CHIP < min(full)
    title = "Without its moments every stage fits; with them, none does" if sharp else "Memory of each stage"
    fig.suptitle(title, fontsize=15)
    return fig, f"MB of stages 0 to 3 without moments, {'; '.join(words)}. The chip holds {ON_CHIP / 1e6:,.0f} MB."


def draw_facts(ax: Axes, facts: dict[str, str]) -> None:
    for row, (name, value) in enumerate(facts.items()):
        ax.text(0, row, name, va="center", fontsize=11)
        ax.text(1, row, value, va="center", ha="right", fontsize=11)
    ax.set(xlim=(0, 1), ylim=(len(facts) - 0.5, -0.5))
    ax.axis("off")


def draw_impossible(sentence: str) -> Figure:
    fig, ax = new_figure()
    ax.text(0.5, 0.5, textwrap.fill(sentence, 48), ha="center", va="center", fontsize=16)
    ax.set_title("This pod cannot be")
    ax.axis("off")
    return fig
