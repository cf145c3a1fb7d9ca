"""Figures of notebook 10: graphs, buckets, the onset, and what the benchmarks of compiling recorded."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from packlib.lengths import LengthHistogram
from packlib.training.scaling import Buckets, choose_buckets, waste_curve
from packlib.workbook.figures import (
    INK,
    OKABE_ITO,
    PADDING,
    label_ends,
    name_rows,
    new_figure,
    percent,
    plain_ticks,
    series,
)

BLUE, VERMILION, GREEN, _, SKY, ORANGE, _ = OKABE_ITO


class Look(NamedTuple):
    name: str
    style: dict


LOOKS = {  # of the ways to choose buckets
    "optimal": Look("optimal", series("optimal")),
    "equal_count": Look("equal counts", series("megabatches")),
    "geometric": Look("geometric", series("random")),
}


def draw_graphs(ran: dict[str, Sequence[int]], lengths: Sequence[int]) -> tuple[Figure, str]:
    """A row for each way to compile, a cell for each batch: which graph it ran, dark where that was made for it."""
    fig, ax = new_figure()
    for y, graphs in enumerate(ran.values()):
        for x, graph in enumerate(graphs):
            new = graph not in graphs[:x]
            ax.add_patch(Rectangle((x + 0.04, y + 0.1), 0.92, 0.8, facecolor=BLUE if new else "#d6e6f2"))
            text = f"graph {graph}" + "\nis made" * new
            ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=13, color="white" if new else INK)
    ax.set(xlim=(0, len(lengths)), ylim=(len(ran), 0))
    ax.set_xticks(np.arange(len(lengths)) + 0.5, [f"length {length}" for length in lengths])
    ax.set_yticks(np.arange(len(ran)) + 0.5, list(ran))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    counts = [max(graphs) for graphs in ran.values()]
    fig.suptitle(f"The same five batches: {counts[0]}, {counts[1]} and {counts[2]} graphs", fontsize=15)
    listed = "; ".join(f"{name}: {', '.join(map(str, graphs))}" for name, graphs in ran.items())
    return fig, f"Which graph runs for the batches of length {', '.join(map(str, lengths))}. {listed}."


def draw_padding(ax: Axes, histogram: LengthHistogram, buckets: Buckets) -> None:
    """Tokens by length, and on top the slots that the bucket's length adds; both in equal bins."""
    used = np.flatnonzero(histogram.counts)
    extra = np.array(buckets.lengths)[buckets.bucket_of(used)] - used
    top = histogram.max_length
    width = max(1, top // 128)
    bins = np.zeros((2, -(-top // width) + 1))
    for row, slots in zip(bins, (used, extra), strict=True):
        np.add.at(row, used // width, histogram.counts[used] * slots)
    x = np.arange(bins.shape[1]) * width
    last = used[-1] // width  # the pile at the maximum would dwarf the rest
    ax.fill_between(x[:last], bins[0, :last], step="post", color=SKY)
    ax.fill_between(x[:last], bins[0, :last], bins[:, :last].sum(axis=0), step="post", color=PADDING)
    for edge in buckets.lengths:
        ax.axvline(edge, color=INK, linestyle=":", linewidth=1)
    ax.set(xlim=(0, top), ylim=(0, 1.05 * bins[:, :last].sum(axis=0).max(initial=1)))


def draw_choices(histogram: LengthHistogram, choices: dict[str, Buckets]) -> tuple[Figure, str]:
    """For each way to choose buckets a bar, cut into the padding of each bucket, in percent of all slots."""
    fig, ax = new_figure()
    used, words = np.flatnonzero(histogram.counts), []
    for row, (method, buckets) in enumerate(choices.items()):
        inside = buckets.bucket_of(used)
        padded = histogram.counts[used] * (np.array(buckets.lengths)[inside] - used)
        shares = 100 * np.bincount(inside, padded, len(buckets.lengths)) / buckets.slots
        for edge, share, end in zip(buckets.lengths, shares, np.cumsum(shares), strict=True):
            ax.barh(row, share, 0.6, left=end - share, color=LOOKS[method].style["color"], edgecolor="white", lw=2)
            if share > 0.06 * 100 * max(choice.padding_fraction for choice in choices.values()):
                look = {"color": INK if method == "equal_count" else "white", "fontweight": "bold", "fontsize": 11}
                ax.text(end - share / 2, row, f"{edge:,}", ha="center", va="center", **look)
        ax.text(sum(shares), row, f" {percent(buckets.padding_fraction)}", va="center")
        listed = ", ".join(f"{edge:,} with {share:.1f} %" for edge, share in zip(buckets.lengths, shares, strict=True))
        words.append(f"{LOOKS[method].name} {listed}")
    name_rows(ax, [LOOKS[method].name for method in choices])
    ax.set_xlabel("padding, % of all slots; in the bars, the length padded to")
    ax.set_xlim(0, 115 * max(choice.padding_fraction for choice in choices.values()))
    best = min(choices, key=lambda method: choices[method].slots)
    ax.set_title(f"Where padding arises: {LOOKS[best].name} has least, {percent(choices[best].padding_fraction)}")
    return fig, f"{histogram.name} ({histogram.kind}), padding of each bucket in all slots: {'; '.join(words)}."


def draw_curve(histogram: LengthHistogram, k: int, most: int = 64) -> tuple[Figure, str]:
    """Padding by the number of lengths, for each way to choose them; the title says it for the best `k`."""
    best = waste_curve(histogram, most)
    numbers = range(1, len(best) + 1)
    fig, ax = new_figure()
    lines = {}
    for way, (name, style) in LOOKS.items():
        waste = (choose_buckets(histogram, number, method=way).padding_fraction for number in numbers)
        marks = [number - 1 for number in (1, 2, 4, 8, 16, 32, 64) if number <= len(best)]
        lines[ax.plot(numbers, [100 * share for share in waste], **style, markevery=marks)[0]] = name
    ax.set(xscale="log", xlabel="number of lengths", ylabel="padding, %", ylim=(0, None))
    plain_ticks(ax.xaxis, [mark + 1 for mark in marks])
    ax.legend(lines, lines.values(), loc="upper right")
    more = f", {2 * k} leave {percent(best[2 * k - 1])}" if 2 * k <= len(best) else ""
    ax.set_title(f"The best {k} lengths leave {percent(best[k - 1])} padding{more}")
    listed = ", ".join(f"{mark + 1}: {percent(best[mark])}" for mark in marks)
    return fig, f"{histogram.name}: padding by the number of lengths; with the best choice {listed}."


def draw_onset(runs: dict[str, np.ndarray]) -> tuple[Figure, str]:
    """A row for each rank, a column for each step: dark where it compiles, gray where it waits for one that does."""
    fig, axes = new_figure(len(runs), 1, sharex=True)
    words = []
    for ax, (name, new) in zip(axes, runs.items(), strict=True):
        stalled = new.any(axis=0)
        picture = np.empty((*new.shape, 3))
        picture[:] = np.array([0xE5, 0xF2, 0xFA]) / 255
        picture[:, stalled] = np.array([0xC4] * 3) / 255
        picture[new] = np.array([0xD5, 0x5E, 0x00]) / 255
        ax.imshow(
            picture, aspect="auto", interpolation="nearest", extent=(0.5, new.shape[1] + 0.5, len(new) - 0.5, -0.5)
        )
        rows, steps = new.nonzero()
        ax.plot(steps + 1, rows, marker="o", linestyle="", color="white", markersize=4)
        ax.hlines(np.arange(1, len(new)) - 0.5, 0.5, new.shape[1] + 0.5, color="white", linewidth=1.5, linestyle="-")
        ax.set_yticks([0, len(new) - 1], ["rank 0", f"rank {len(new) - 1}"])
        ax.set_title(f"{name}: some rank compiles in {stalled.sum()} of {new.shape[1]} steps", fontsize=13)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        words.append(f"{name}: in {stalled.sum()} steps, the last of them step {np.flatnonzero(stalled)[-1] + 1}")
    axes[-1].set_xlabel("step (dot: the rank compiles; gray: it waits for one that does)")
    return fig, (
        f"{len(new)} ranks, {new.shape[1]} steps; when some rank compiles a shape that is new to it, all wait. "
        f"{'; '.join(words)}."
    )


def draw_breaks(operations: Sequence[int], between: str) -> tuple[Figure, str]:
    """The graphs of a function that could not be captured as a whole, and what Python does between them."""
    fig, ax = new_figure()
    for at, number in enumerate(operations):
        ax.add_patch(Rectangle((2 * at, 0.3), 1.2, 0.4, facecolor=BLUE))
        ax.text(2 * at + 0.6, 0.5, f"graph {at + 1}\n{number} operations", ha="center", va="center", color="white")
        if at:
            ax.add_patch(Rectangle((2 * at - 0.75, 0.35), 0.7, 0.3, facecolor=PADDING, hatch="///", ec="white"))
            ax.text(2 * at - 0.4, 0.78, f"Python: {between}", ha="center", fontsize=12)
            ax.annotate("", (2 * at, 0.5), (2 * at - 0.8, 0.5), arrowprops={"arrowstyle": "->", "color": INK})
    ax.set(xlim=(-0.1, 2 * len(operations) - 0.7), ylim=(0.1, 0.95), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(f"A graph break: {len(operations)} graphs of one function")
    listed = " and ".join(f"{number} operations" for number in operations)
    return fig, f"{len(operations)} graphs of one function, of {listed}; between them Python runs: {between}."


def draw_launches(kernels: int = 12, replays: int = 2) -> tuple[Figure, str]:
    """A drawing, not a measurement: kernels that are launched one by one, and all at once by replays."""
    fig, ax = new_figure()
    rows = {"one by one": kernels, "CUDA graphs": replays}
    for y, (name, launches) in enumerate(rows.items()):
        each, x = kernels // launches, 0.0
        for _ in range(launches):
            ax.plot([x, x], [y - 0.32, y + 0.32], color=VERMILION, linewidth=3, linestyle="-")
            for kernel in range(each):
                ax.add_patch(Rectangle((x + 0.5 + 0.55 * kernel, y - 0.2), 0.5, 0.4, facecolor=BLUE))
            x += 0.7 + 0.55 * each
        ax.text(-0.4, y, f"{name}\n{launches} launches", ha="right", va="center")
    ax.set(xlim=(-4.2, 1.25 * kernels + 0.3), ylim=(1.7, -0.7), xticks=[], yticks=[], xlabel="time; a line: a launch")
    ax.spines[:].set_visible(False)
    ax.set_title(f"A drawing, not measured: {kernels} launches become {replays}")
    return fig, f"A drawing: {kernels} kernels with a launch each, and the same kernels after {replays} launches."


# Recorded


def draw_timeline(events: list[dict], rank: int = 0) -> tuple[Figure, str]:
    """One step of each run as bars over time: forward and backward above, the all-reduces below."""
    fig, ax = new_figure()
    runs = list(dict.fromkeys(event["run"] for event in events))
    colors = {"forward": SKY, "backward": BLUE, "all-reduce": VERMILION}
    words = []
    for y, run in enumerate(runs):
        mine = [event for event in events if event["run"] == run and event["rank"] == rank]
        ends: dict = {}
        for event in mine:
            kind, begin, end = event["event"], event["begin ms"], event["end ms"]
            lane = y + (0.45 if kind == "all-reduce" else 0.05)
            edge = {"edgecolor": "white", "linewidth": 0.5}
            ax.add_patch(Rectangle((begin, lane), end - begin, 0.36, facecolor=colors[kind], **edge))
            ends[kind] = max(end, ends.get(kind, 0))
        reduces = [event for event in mine if event["event"] == "all-reduce"]
        words.append(
            f"{run}: backward ends at {ends['backward']:.0f} ms, {len(reduces)} all-reduces from "
            f"{min(event['begin ms'] for event in reduces):.0f} to {ends['all-reduce']:.0f} ms"
        )
    last = max(event["end ms"] for event in events if event["rank"] == rank)
    ax.set(xlim=(0, 1.02 * last), ylim=(len(runs), -0.1), xlabel="ms from the start of the step")
    ax.set_yticks(np.arange(len(runs)) + 0.42, runs)
    ax.tick_params(axis="y", length=0)
    ends = {run: max(e["end ms"] for e in events if e["run"] == run and e["rank"] == rank) for run in runs}
    ax.set_title(f"{min(ends, key=ends.__getitem__).capitalize()} ends first in this step")
    handles = [Rectangle((0, 0), 1, 1, facecolor=color) for color in colors.values()]
    fig.legend(handles, colors, loc="outside lower right", ncols=3)
    return fig, f"One step on rank {rank}, as torch's profiler saw it. {'; '.join(words)}."


def draw_memory(rows: list[dict]) -> tuple[Figure, str]:
    """MiB over the start of the process's first graph, if graphs are kept and if they are released."""
    fig, ax = new_figure()
    shapes = [row["shapes"] for row in rows]
    lines, words = {}, []
    looks = {"kept": series("random"), "released": series("packed"), "reset": series("sorted")}
    for way, look in looks.items():
        more = [row[f"{way}, MiB"] - rows[0][f"{way}, MiB"] for row in rows]
        lines[ax.plot(shapes, more, **look)[0]] = way
        words.append(f"{way} {', '.join(map(str, more))}")
    ax.set(xlabel="shapes compiled so far", ylabel="MiB more than before the first", xticks=shapes, ylim=(0, None))
    label_ends(lines)
    kept, released = (
        (rows[-1][f"{way}, MiB"] - rows[1][f"{way}, MiB"]) / (len(rows) - 2) for way in ("kept", "released")
    )
    ax.set_title(f"After the first, {kept:.0f} MiB a shape if kept, {released:.0f} if released")
    return fig, f"MiB that the process holds more after each shape. {'; '.join(words)}."


def draw_epochs(rows: list[dict], epochs: int = 300) -> tuple[Figure, str]:
    """Seconds that each way saves, compile time included, against eager steps on the least padded batches."""
    of = {(row["batches"], row["run"]): row for row in rows}
    plain = of["every length", "eager"]["seconds an epoch"]
    ways = {
        ("packed", "eager"): ("packed, eager", {**series("packed"), "linestyle": "--"}),
        ("packed", "static"): ("packed, static", series("packed")),
        ("every length", "dynamic"): ("dynamic", series("sorted")),
        ("4 buckets", "static"): ("4 buckets", series("buckets")),
        ("8 buckets", "static"): ("8 buckets", series("megabatches")),
        ("16 buckets", "static"): ("16 buckets", series("random")),
    }
    fig, ax = new_figure()
    x, lines, words = np.array([0, epochs]), {}, []
    for way, (name, style) in ways.items():
        saved = (plain - of[way]["seconds an epoch"]) * x - of[way]["compile seconds"]
        lines[ax.plot(x, saved, **{**style, "marker": ""})[0]] = name
        words.append(f"{name} {saved[0]:.0f} to {saved[1]:.0f}")
    ax.axhline(0, color=INK, linewidth=1, linestyle="-")
    ax.set(xlim=(0, epochs), xlabel="epochs", ylabel="seconds saved")
    label_ends(lines)
    return fig, f"Seconds saved from epoch 0 to {epochs}, compile time included. {'; '.join(words)}."
