"""What notebook 11 draws: the memory of devices, the timelines of a pipeline, and a weight that is rounded."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packbook.figures import EMPTY, INK, OKABE_ITO, PADDING, new_figure, percent, show, styled
from packbook.n11_scaling_up.devices import Bill, Model, Split, bill, parameters
from packbook.n11_scaling_up.timeline import Bar, most_held, waiting

FORWARD, BACKWARD = OKABE_ITO[4], OKABE_ITO[5]
PARTS = {  # of a device's memory: color and hatch
    "weights": (OKABE_ITO[0], ""),
    "gradients": (OKABE_ITO[3], "\\\\"),
    "moments": (PADDING, "//"),
    "activations": (OKABE_ITO[2], ".."),
}


@styled()
def draw_bill(name: str, model: Model, split: Split, padding: float = 0.0) -> tuple[Figure, str]:
    """Draw left the memory of a device of each stage, right the run in numbers.

    Args:
        padding: share of the slots.

    Returns:
        The figure and its alt text.
    """
    costs = bill(model, split)
    useful = costs.rows * split.row * (1 - padding) / costs.seconds  # tokens a second
    facts = {
        "parameters": _billions(parameters(model)),
        "devices": f"{split.devices:,}",
        "rows in an update": f"{costs.rows:,}",
        "slots in an update": f"{costs.rows * split.row:,}",
        "a stage waits": percent(costs.bubble),
        "fullest device": _gigabytes(costs.fullest),
        "useful tokens a second": f"{useful:,.0f}",
    }
    fig, (left, right) = new_figure(1, 2, width_ratios=(5, 5))
    _draw_memory(left, costs, model.memory)
    for row, (fact, value) in enumerate(facts.items()):
        right.text(0, row, fact, va="center", fontsize=12)
        right.text(1, row, value, va="center", ha="right", fontsize=12)
    right.set(xlim=(0, 1), ylim=(len(facts) - 0.3, -0.7))
    right.axis("off")
    fits = "fits into" if costs.fullest <= model.memory else "overflows"
    title = f"{name}: {_gigabytes(costs.fullest)} {fits} a device of {_gigabytes(model.memory)}"
    fig.suptitle(title)
    sizes = "; ".join(f"{part} {_gigabytes(size)}" for part, size in max(costs.stages, key=_total).items())
    listed = "; ".join(f"{fact} {value}" for fact, value in facts.items())
    setting = (
        f"replicas {split.replicas}, stages {split.stages}, devices for each matrix {split.tensor}, rows of "
        f"{split.row:,}, micro-batch {split.micro_batch}, accumulation {split.accumulation}, "
        f"{'' if split.sharded else 'not '}sharded, {'' if split.recompute else 'no '}recomputation"
    )
    return fig, f"{title}. {setting}. The fullest device: {sizes}. {listed}."


def show_bill(name: str, model: Model, split: Split, padding: float = 0.0) -> None:
    """Show what `draw_bill` draws as a figure of the notebook."""
    fig, alt = draw_bill(name, model, split, padding)
    show(fig, alt=alt, name="bill")


def _total(sizes: Mapping[str, float]) -> float:
    return sum(sizes.values())


def _gigabytes(size: float) -> str:
    """Write a number of bytes as "2.5 GB" or "1.2 TB"."""
    return f"{size / 1e9:,.3g} GB" if size < 1e12 else f"{size / 1e12:,.3g} TB"


def _billions(number: float) -> str:
    """Write a number of parameters as "8.03 B" or "335 M"."""
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.0f} M"


def _draw_memory(ax: Axes, costs: Bill, memory: float) -> None:
    """Draw a bar for each stage, cut into the parts of a device's memory; a dotted line is the whole `memory`."""
    stages = range(len(costs.stages))
    below = [0.0] * len(stages)  # GB of the parts that are drawn already
    for part, (color, hatch) in PARTS.items():
        sizes = [stage_sizes[part] / 1e9 for stage_sizes in costs.stages]
        ax.bar(stages, sizes, 0.8, below, color=color, edgecolor=INK, linewidth=0.6, hatch=hatch, label=part)
        below = [low + size for low, size in zip(below, sizes, strict=True)]
    ax.axhline(memory / 1e9, color=INK, linestyle=":", linewidth=1.5)
    ax.set(xlabel="stage", ylabel="GB; dotted: a device has", ylim=(0, 1.35 * max(*below, memory / 1e9)))
    ax.set_xlim(-0.9, len(below) - 0.1)
    ax.set_xticks(range(len(below)) if len(below) <= 8 else [0, len(below) - 1])
    ax.legend(fontsize=11, loc="upper center", ncols=2)


@styled()
def show_timelines(orders: Mapping[str, Sequence[Bar]]) -> None:
    """Show the timeline of each order of a pipeline, one below the other; gray is waiting.

    Args:
        orders: by name, the bars as from `gantt`.
    """
    fig, axes = new_figure(len(orders), 1, sharex=True)
    sentences = []
    for ax, (name, bars) in zip(axes, orders.items(), strict=True):
        _draw_timeline(ax, bars)
        num_held = most_held(bars)
        ax.set_title(f"{name}: stage 0 holds {num_held} micro-batch{'es' * (num_held > 1)} at once", fontsize=13)
        sentences.append(f"{name}: a stage waits {percent(waiting(bars))} of the time, stage 0 holds {num_held}")
    axes[-1].set_xlabel("time; a forward pass takes 1, a backward pass 2; gray: a stage waits")
    waits = {percent(waiting(bars), 0) for bars in orders.values()}
    fig.suptitle(f"In both orders a stage waits {waits.pop()} of the time" if len(waits) == 1 else "The orders differ")
    alt = "A row a stage, a box a pass, with the number of its micro-batch"
    show(fig, alt=f"{alt}. {'; '.join(sentences)}.", name="two-orders")


def _draw_timeline(ax: Axes, bars: Sequence[Bar]) -> None:
    """Draw a row for each stage and a box for each pass, with the number of its micro-batch if there is room."""
    last, end = max(bar.stage for bar in bars), max(bar.end for bar in bars)
    numbered = len(bars) <= 80
    for stage in range(last + 1):
        ax.barh(stage, end, 0.9, **EMPTY)
    for bar in bars:
        color = FORWARD if bar.kind == "forward" else BACKWARD
        ax.barh(bar.stage, bar.end - bar.start, 0.9, bar.start, color=color, edgecolor="white", linewidth=0.8)
        if numbered:
            middle = (bar.start + bar.end) / 2
            ax.text(middle, bar.stage, f"{bar.micro_batch}", ha="center", va="center", fontsize=10, color=INK)
    named = range(last + 1) if last < 8 else (0, last)
    ax.set_yticks(named, [f"stage {stage}" for stage in named], fontsize=11)
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(last + 0.5, -0.5), xlim=(0, end))
    ax.spines["left"].set_visible(False)


@styled()
def show_two_weights(
    nearest: Sequence[float], at_random: Sequence[Sequence[float]], step: float, spacing: float
) -> None:
    """Show a weight after each update, rounded in two ways; gray lines are the values that bfloat16 has.

    Args:
        nearest: the weight, rounded to the nearest, after each update.
        at_random: the same weight rounded at random, in several copies: three are drawn, and the mean of all.
        step: by which an update lowers the weight.
        spacing: of the values of bfloat16.
    """
    fig, ax = new_figure()
    updates = len(nearest)
    means = [sum(weights) / len(at_random) for weights in zip(*at_random, strict=True)]
    for number in range(int(updates * step / spacing) + 6):
        ax.axhline(1 - number * spacing, color=PADDING, linewidth=1)
    ax.step(range(updates), nearest, where="post", color=OKABE_ITO[1], linewidth=3, label="to the nearest")
    for number, path in enumerate(at_random[:3]):
        label = "at random, three copies" if number == 0 else None
        ax.step(range(updates), path, where="post", color=OKABE_ITO[4], linewidth=1.5, label=label)
    ax.plot(means, color=OKABE_ITO[0], linewidth=3, label=f"at random, mean of {len(at_random)} copies")
    exact = [1 - step * update for update in range(updates)]
    ax.plot(exact, color=INK, linestyle=":", linewidth=2, label="exact")
    ax.set(xlabel="update", ylabel="weight; gray: what bfloat16 holds")
    ax.yaxis.set_major_formatter("{x:.3f}")
    ax.legend(loc="lower left")
    ax.set_title(f"To the nearest the weight ends at {nearest[-1]:.3f}, at random at {means[-1]:.3f} on average")
    show(
        fig,
        alt=(
            f"A weight over {updates - 1} updates of {step:.6f}. Exactly it ends at {exact[-1]:.4f}, rounded to the "
            f"nearest at {nearest[-1]:.4f}, rounded at random at {means[-1]:.3f} on average."
        ),
        name="two-weights",
    )
