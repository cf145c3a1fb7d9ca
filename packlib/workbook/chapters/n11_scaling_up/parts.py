"""Notebook 11, the parts of a pod: replicas, the ring between them, stages and their bubble, as pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from packlib.batches import PackedBatch
from packlib.model import PackedBert
from packlib.training import PretrainingObjective
from packlib.training.scaling import Bar, Setup, bubble, bubble_formula, gantt, in_flight, ring_states
from packlib.training.scaling.timeline import SCHEDULES
from packlib.training.updates import join_packs, take_packs
from packlib.workbook.chapters.n11_scaling_up.runs import gradients_of
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, new_figure, percent

Rows = list[dict[str, Any]]


# Packs for replicas and stages


def uneven_batches(loader, packs: int) -> list[PackedBatch]:
    """Two batches of `packs` packs each: those with the fewest sequences, and those with the most."""
    single = [take_packs(batch, i, i + 1) for batch in loader for i in range(batch.num_packs)]
    single.sort(key=lambda pack: pack.num_sequences)
    return [join_packs(single[:packs]), join_packs(single[-packs:])]


def small_batches(loader, number: int, packs: int) -> list[PackedBatch]:
    """The first packs of the first `number` batches."""
    return [take_packs(batch, 0, packs) for batch, _ in zip(loader, range(number), strict=False)]


def whole_gradients(model: PackedBert, batches: Sequence[PackedBatch]) -> dict[str, torch.Tensor]:
    """What one process finds: the gradients of the mean over all sequences and tokens of all batches."""
    objective = PretrainingObjective()
    counts = [objective.counts(batch) for batch in batches]
    sums = [objective(model, batch) for batch in batches]
    model.zero_grad()
    sum(sum(s[name].total for s in sums) / sum(c[name] for c in counts) for name in counts[0]).backward()
    found = gradients_of(model)
    model.zero_grad()
    return found


def furthest(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> float:
    """The largest difference of two gradients, over the parameters in `some`."""
    return max((grad - others[name]).abs().max().item() for name, grad in some.items())


def relative(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> float:
    """The length of the difference of two gradients, as a share of the second's."""
    differences = torch.cat([(some[name] - grad).flatten() for name, grad in others.items()])
    return (differences.norm() / torch.cat([grad.flatten() for grad in others.values()]).norm()).item()


# The pod


def draw_pod(setup: Setup, micro_batch: int, accumulation: int, most: int = 6) -> tuple[Figure, str]:
    """Replicas as rows, stages as columns; at most `most` replicas are drawn."""
    fig, ax = new_figure()
    rows, stages = min(setup.replicas, most), len(setup.layout)
    for column, layers in enumerate(setup.layout):
        for row in range(rows):
            box = (column + 0.04, row + 0.08), 0.92, 0.84
            color = OKABE_ITO[4] if row == 0 else PADDING
            ax.add_patch(Rectangle(*box, facecolor=color, edgecolor=INK, linewidth=0.8))
        ax.text(column + 0.5, 0.5, layers, ha="center", va="center", fontsize=10)
    right, above = 1.03 * stages, -0.06 * rows
    ax.annotate("", (right, rows), (right, 0), arrowprops={"arrowstyle": "<->", "color": INK})
    ax.annotate("", (stages, above), (0, above), arrowprops={"arrowstyle": "->", "color": INK})
    ax.text(1.05 * stages, rows / 2, "gradients are added up,\nonce an update", rotation=270, va="center")
    ax.text(0, 1.3 * above, "micro-batches flow from stage to stage", va="bottom")
    ax.set(xlim=(0, 1.15 * stages), ylim=(rows, 3 * above), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_xlabel(f"{stages} stages; the numbers are layers", loc="left")
    drawn = f", {rows} drawn" if rows < setup.replicas else ""
    ax.set_ylabel(f"{setup.replicas} replicas{drawn}")
    batch = micro_batch * accumulation * setup.replicas
    title = f"{micro_batch} rows × {accumulation} micro-batches × {setup.replicas} replicas = {batch:,} rows"
    ax.set_title(title)
    layout = " + ".join(map(str, setup.layout))
    return fig, (
        f"A pod of {setup.replicas} replicas, each a pipeline of {stages} stages with {layout} layers: "
        f"{setup.replicas * stages} devices. Micro batch {micro_batch} times accumulation {accumulation} times "
        f"replicas is a global batch of {batch:,} rows."
    )


# The ring


def draw_ring(ranks: int = 4) -> tuple[Figure, str]:
    """Before and after each step, how many ranks each chunk adds up; what has just come is framed."""
    states = ring_states(ranks)
    fig, axes = new_figure(2, (len(states) + 1) // 2)
    for step, (ax, state) in enumerate(zip(axes.flat, states, strict=False)):
        ax.imshow(state, vmin=1, vmax=ranks)
        for (row, column), value in np.ndenumerate(state):
            color = "white" if value <= (ranks + 1) / 2 else INK
            ax.text(column, row, value, ha="center", va="center", color=color)
            if step and value != states[step - 1][row, column]:
                corner = column - 0.42, row - 0.42
                ax.add_patch(Rectangle(corner, 0.84, 0.84, fill=False, edgecolor=OKABE_ITO[1], linewidth=2.5))
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.set_title("before" if not step else f"step {step}", fontsize=12, pad=4)
    for ax in axes.flat[len(states) :]:
        ax.axis("off")
    axes[1, 0].set_ylabel("rank")
    axes[1, 0].set_xlabel("chunk")
    title = f"After {len(states) - 1} steps every chunk adds up all {ranks} ranks"
    fig.suptitle(title, x=0.02, ha="left", fontsize=15)
    halfway = (states[ranks - 1] == ranks).sum()
    return fig, (
        f"A ring all-reduce of {ranks} ranks and {ranks} chunks: how many ranks each chunk adds up, before and after "
        f"each of {len(states) - 1} steps. After step {ranks - 1} each rank has one chunk whole, {halfway} in all; "
        f"after step {len(states) - 1} all {(states[-1] == ranks).sum()}."
    )


# Stages


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
            ax.text(middle, bar.stage, bar.micro_batch + 1, ha="center", va="center", fontsize=10)
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
        ax.set_title(f"{schedule}: the stages hold {held} micro-batches", fontsize=12, pad=5)
    axes[1].set_xlabel("time, in forward passes")
    same = percent(bubble(charts["gpipe"]))
    fig.suptitle(f"The same bubble, {same}; 1f1b holds less at once", x=0.02, ha="left", fontsize=15)
    told = "; ".join(
        f"{schedule} bubble {percent(bubble(bars))}, in flight {', '.join(map(str, in_flight(bars)))}"
        for schedule, bars in charts.items()
    )
    return fig, f"{stages} stages and {micro_batches} micro-batches on paper: {told}."


def draw_measured(rows: Rows, bars: Rows) -> tuple[Figure, str]:
    """A recorded update of 4 stages as a chart, and the bubbles of all recorded pipelines over their formula."""
    fig, (left, right) = new_figure(1, 2, width_ratios=(3, 2))
    draw_gantt(left, [Bar(**{k: b[k] for k in Bar._fields}) for b in bars if b["schedule"] == "1f1b"], False)
    left.set(xlabel="seconds", title="1f1b, as it ran: 8 micro-batches")
    left.title.set_fontsize(13)
    words, above = [], True
    for stages, work, marker, color in ((2, "computes", "s", OKABE_ITO[1]), (4, "paced", "o", OKABE_ITO[0])):
        some = [row for row in rows if (row["stages"], row["a stage"]) == (stages, work)]
        counts = sorted({row["micro-batches"] for row in some})
        formula = [100 * bubble_formula(stages, m) for m in counts]
        right.plot(counts, formula, color=color, linestyle="-", marker="")
        found = {}
        for schedule, filled in (("gpipe", "none"), ("1f1b", color)):
            found[schedule] = [100 * row["bubble"] for row in some if row["schedule"] == schedule]
            right.plot(counts, found[schedule], marker, color=color, markerfacecolor=filled, linestyle="")
            above &= all(m >= f - 0.5 for m, f in zip(found[schedule], formula, strict=True))
        at, offset, side = (0, (8, 8), "left") if stages == 4 else (-1, (0, -18), "right")
        place = counts[at], formula[at]
        right.annotate(f"{stages} stages", place, offset, textcoords="offset points", ha=side, fontsize=12)
        pairs = ", ".join(
            f"{m}: {f:.1f} by formula, {a:.1f} and {b:.1f}"
            for m, f, a, b in zip(counts, formula, *found.values(), strict=True)
        )
        words.append(f"{stages} stages, {work}, by micro-batches, gpipe and 1f1b: {pairs}")
    right.set(xscale="log", xlabel="micro-batches", ylabel="bubble, %", ylim=(0, 50))
    right.set_xticks([2, 4, 8, 16, 32], [2, 4, 8, 16, 32])
    right.minorticks_off()
    right.set_title("Lines: formula. Hollow:\ngpipe, filled: 1f1b", fontsize=12)
    title = "Measured bubbles lie on the formula or above it" if above else "Bubbles by formula, and measured"
    fig.suptitle(title, x=0.02, ha="left", fontsize=15)
    return fig, f"Measured bubbles in percent. {'; '.join(words)}."
