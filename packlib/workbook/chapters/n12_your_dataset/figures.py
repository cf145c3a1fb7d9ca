"""What notebook 12 draws: your lengths, and what the advice rests on."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from packlib.advice.advice import Advice, said_range
from packlib.advice.risks import many
from packlib.lengths import LengthHistogram
from packlib.workbook.chapters.shared.habits import HABIT_NAMES
from packlib.workbook.figures import INK, label_ends, series

NEAREST = 1e-3  # percent: nearer to the best is drawn as 0
RING = {  # around what was chosen
    "marker": "o", "markersize": 20, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 2,
}  # fmt: skip


def percentiles(histogram: LengthHistogram, shares: tuple[float, ...] = (0.5, 0.9, 0.99)) -> list[int]:
    """The lengths that so many of the sequences do not pass."""
    below = np.cumsum(histogram.counts) / histogram.num_sequences
    return [int(np.searchsorted(below, share - 1e-12)) for share in shares]


def draw_lengths(ax: Axes, histogram: LengthHistogram) -> None:
    """The share of the sequences by length, and the lengths that 50, 90 and 99 % do not pass."""
    bins = min(64, histogram.max_length)
    heights, edges = np.histogram(
        np.arange(1, histogram.max_length + 1),
        bins=bins,
        range=(0.5, histogram.max_length + 0.5),
        weights=histogram.counts[1:],
    )
    ax.stairs(100 * heights / histogram.num_sequences, edges, fill=True, color=series("packed")["color"])
    top = 100 * heights.max() / histogram.num_sequences
    said: dict[int, list[str]] = {}
    for share, length in zip((50, 90, 99), percentiles(histogram), strict=True):
        said.setdefault(length, []).append(str(share))
    for row, (length, shares) in enumerate(said.items()):
        ax.axvline(length, color=INK, linestyle=":", linewidth=1.5)
        side = "right" if 2 * length > histogram.max_length else "left"
        *first, last = shares
        text = f" {', '.join(first)}{' and ' * bool(first)}{last} % up to {length:,} "
        ax.text(length, top * (1.32 - 0.1 * row), text, ha=side, va="center")
    ax.set(xlabel="tokens", ylabel="% of the sequences", xlim=(0, histogram.max_length * 1.01), ylim=(0, 1.38 * top))


def _distance(packs: int, bound: int) -> float:
    """Packs above what is proven to be needed, in percent; at least `NEAREST`, since the axis is logarithmic."""
    return max(NEAREST, 100 * (packs / bound - 1))


def _label_distances(axis: Axis) -> None:
    axis.set_major_formatter(lambda value, _: "0" if value <= NEAREST else f"{value:,g}")


def draw_depths(ax: Axes, advice: Advice) -> None:
    """Packs above the proven fewest by depth limit, of the best found and of LPFHP; a ring marks the choice."""
    at, bound = range(len(advice.depths)), advice.depths[-1].bound
    best = [_distance(trial.packs, bound) for trial in advice.depths]
    greedy = [_distance(trial.greedy, bound) for trial in advice.depths]
    lines = {
        ax.plot(at, best, **series("optimal"))[0]: "best found",
        ax.plot(at, greedy, **series("lpfhp"))[0]: "LPFHP",
    }
    chosen = [trial.depth for trial in advice.depths].index(advice.depth)
    ax.plot(chosen, best[chosen], clip_on=False, **RING)
    ax.set_xticks(at, ["none" if trial.depth is None else f"{trial.depth:,}" for trial in advice.depths])
    if len(at) > 12:
        ax.tick_params(axis="x", rotation=60)
    ax.set_yscale("log")
    ax.set(xlabel="depth limit", ylabel="packs above the proven fewest, %", xlim=(-0.3, len(at) - 0.7))
    ax.set_ylim(0.7 * NEAREST, 2 * max(*best, *greedy, 1))
    _label_distances(ax.yaxis)
    label_ends(lines)


def draw_methods(ax: Axes, advice: Advice) -> None:
    """How far each method is above the proven bound at the recommended depth; or why it gives no answer."""
    bound = advice.plan.num_packs - advice.gap
    widest = max(1, *(_distance(trial.packs, bound) for trial in advice.trials if trial.packs is not None))
    for row, trial in enumerate(advice.trials):
        if trial.packs is None:
            ax.text(NEAREST, row, f" {trial.reason}", va="center", fontsize=11, style="italic")
            continue
        share = _distance(trial.packs, bound)
        ax.barh(row, share, height=0.7, color=series(trial.method)["color"])
        ax.text(share, row, f" {many(trial.packs, 'pack')}, gap {trial.gap:,}", va="center", fontsize=11)
    ax.set_yticks(range(len(advice.trials)), [trial.method for trial in advice.trials])
    ax.set_xscale("log")
    ticks = [tick for tick in (NEAREST, 0.01, 0.1, 1, 10, 100, 1000) if tick <= 2 * widest]
    ax.set(xlim=(NEAREST, 300 * widest), ylim=(len(advice.trials) - 0.5, -0.5), xticks=ticks)
    ax.minorticks_off()
    ax.set_xlabel("packs above the proven fewest at this depth, %")
    _label_distances(ax.xaxis)


def draw_speedups(ax: Axes, advice: Advice) -> None:
    """The expected speed-up over each habit, from low to high; the dotted line is no gain."""
    habits = [habit for habit in HABIT_NAMES if habit in advice.habits]
    widest = max(advice.speedup(habit)[1] for habit in habits)
    for row, habit in enumerate(habits):
        low, high = advice.speedup(habit)
        ax.barh(row, max(high - low, 0.004 * widest), left=low, height=0.6, color=series(habit)["color"])
        ax.text(high + 0.02 * widest, row, said_range(low, high), va="center")
    ax.axvline(1, color=INK, linestyle=":")
    ax.set_yticks(range(len(habits)), [HABIT_NAMES[habit] for habit in habits])
    ax.set(xlim=(0, 1.25 * max(widest, 1)), ylim=(len(habits) - 0.5, -0.5), xlabel="times as fast")


def draw_buckets(ax: Axes, advice: Advice) -> None:
    """Padding with 1, 2, … bucket lengths; a ring marks the choice, the dotted line is what packs leave."""
    waste, chosen = 100 * np.array(advice.bucket_waste), len(advice.buckets.lengths)
    ax.plot(range(1, len(waste) + 1), waste, **series("buckets"))
    ax.plot(chosen, waste[chosen - 1], clip_on=False, **RING)
    packed = 100 * (1 - advice.plan.efficiency)
    ax.axhline(packed, color=INK, linestyle=":")
    ax.annotate("packed, one length", (1, packed), (0, 4), textcoords="offset points", va="bottom")
    ax.set(xlabel="bucket lengths", ylabel="padding, %", xticks=range(1, len(waste) + 1))
    ax.set_ylim(0, max(1.1 * waste.max(), 1))
