"""What notebook 11 draws: the pod, its ring, its stages, and what 16 bits do."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from packlib.training.scaling import Bar, Setup, bubble, bubble_formula, gantt, in_flight, ring_steps
from packlib.training.scaling.timeline import SCHEDULES
from packlib.workbook.chapters.n11_scaling_up.pod import ON_CHIP
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, percent, series


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


def ring_states(world_size: int) -> list[np.ndarray]:
    """Before and after each step, how many ranks each chunk adds up; shape (ranks, chunks)."""
    states = [np.ones((world_size, world_size), np.int64)]
    for transfers in ring_steps(world_size):
        before, after = states[-1], states[-1].copy()
        for phase, _, sender, receiver, chunk in transfers:
            own = before[receiver, chunk] if phase == "reduce-scatter" else 0
            after[receiver, chunk] = own + before[sender, chunk]
        states.append(after)
    return states


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


def draw_measured(rows: list[dict], bars: list[dict]) -> tuple[Figure, str]:
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


ROUNDED = {  # how weights are held, and how their line looks
    "fp32": series("unpacked"),
    "master": series("buckets"),
    "stochastic": series("packed"),
    "nearest": series("random"),
}


def draw_rounding(
    walks: dict[str, np.ndarray], step: float, live: dict[str, np.ndarray], rows: list[dict]
) -> tuple[Figure, str]:
    """One weight that is lowered by `step` at each update; the small network just trained; BERT as recorded."""
    fig, (first, left, right) = new_figure(1, 3)
    updates = np.arange(len(walks["nearest"]))
    exact = 1 - step * updates
    first.plot(updates, exact, **{**series("unpacked"), "marker": "", "linewidth": 4}, label="exact")
    for name, paths in walks.items():
        first.plot(updates, paths.mean(1), **{**ROUNDED[name], "marker": ""}, label=name)
    told = ", ".join(f"{name} {paths[-1].mean():.3f}" for name, paths in walks.items())
    words = []
    for name, look in ROUNDED.items():
        plain = {**look, "marker": "", "linewidth": 2 if name != "fp32" else 4}
        left.plot(live[name], **plain)
        found = [(r["update"], r["held-out MLM loss"]) for r in rows if r["weights"] == name]
        right.plot(*zip(*found, strict=True), **plain, label=name)
        words.append(f"{name} {live[name][-1]:.2f} and {found[-1][1]:.3f}")
    for ax, title in ((first, "One weight"), (left, "Live: a small net"), (right, "Recorded: BERT")):
        ax.set_title(title, fontsize=13)
        ax.set_xlabel("updates")
        ax.tick_params(labelsize=10)
    first.legend(loc="lower left", fontsize=10)
    right.legend(loc="upper right", fontsize=10)
    left.set_ylim(0, None)
    fig.suptitle("Nearest falls behind, the other ways agree", x=0.02, ha="left", fontsize=15)
    return fig, (
        f"A bfloat16 weight of 1, lowered by {step:.5f} at each of {updates[-1]} updates; at the end the mean of "
        f"{walks['stochastic'].shape[1]} copies is: {told}; exact {exact[-1]:.3f}. Losses at the end, of the small "
        f"network and of BERT: {'; '.join(words)}."
    )


def draw_trade(rows: list[dict]) -> tuple[Figure, str]:
    """The bubble of 4 stages and the underflow of FP16 gradients against accumulation, with and without scaling."""
    fig, ax = new_figure()
    rows = [row for row in rows if row["accumulation"] <= 4096]
    m = [row["accumulation"] for row in rows]
    scales = {float(key.split()[-1]): key for key in rows[0] if key.startswith("underflow")}
    bubbles, plain = ([100 * row[key] for row in rows] for key in ("bubble", scales[1.0]))
    (first,) = ax.loglog(m, bubbles, **series("packed"))
    (second,) = ax.loglog(m, plain, **series("random"))
    (third,) = ax.loglog(m, [100 * row[scales[max(scales)]] for row in rows], **series("sorted"))
    best = min(range(len(m)), key=lambda i: bubbles[i] + plain[i])
    ax.axvline(m[best], color="#999999", linestyle=":", zorder=0)
    ax.set(xlabel="accumulation, micro-batches", ylabel="%", ylim=(1e-3, 100))
    ax.set_xticks([1, 16, 256, 4096], [1, 16, 256, 4096])
    ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    ax.minorticks_off()
    scale = f"2^{np.log2(max(scales)):.0f}"
    ax.set_title(f"Unscaled, the two meet near {m[best]}; scaled, longer is better")
    label_ends({first: "bubble", second: "underflow", third: f"loss × {scale}"})
    at = {row["accumulation"]: row for row in rows}
    told = "; ".join(
        f"{k}: bubble {percent(at[k]['bubble'], 2)}, underflow {percent(at[k][scales[1.0]], 2)}, scaled "
        f"{percent(at[k][scales[max(scales)]], 3)}" for k in (8, 128, 512, 2048)
    )  # fmt: skip
    return (fig, f"By accumulation, {told}. Bubble and underflow add up to the least at {m[best]}, without scaling.")


def draw_memory(ax: Axes, of: dict) -> None:
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
