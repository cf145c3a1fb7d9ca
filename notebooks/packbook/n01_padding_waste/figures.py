"""What notebook 01 draws: batches, histograms and padding."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from packbook.figures import INK, PADDING, name_rows, new_figure, percent, series, show, styled
from packbook.shared.habits import HABIT_NAMES
from packbook.shared.histograms import shown_name
from packlib.arguments import one_line
from packlib.lengths import LengthHistogram, padding_waste
from packlib.lengths.waste import BatchingHabit


def draw_batches(ax: Axes, batches: Sequence[np.ndarray], widths: Sequence[int], max_length: int) -> None:
    """Draw batches one above the other, with a row for each sequence: its tokens in blue, its padding gray.

    Args:
        batches: lengths of the sequences of each batch, in tokens.
        widths: slots to which the rows of each batch are padded.
        max_length: slots to leave room for.
    """
    first_rows = np.cumsum([0, *map(len, batches)])  # of each batch, and last the number of all rows
    num_rows = first_rows[-1]
    edges = np.append(np.repeat(np.arange(num_rows), 2)[1:], num_rows)  # upper and lower edge of each row: 0 1 1 2 2 3
    lengths = np.concatenate(batches)
    row_widths = np.repeat(widths, [len(batch) for batch in batches])
    ax.fill_betweenx(edges, np.repeat(row_widths, 2), color=PADDING, linewidth=0)
    ax.fill_betweenx(edges, np.repeat(lengths, 2), color=series("packed")["color"], linewidth=0)
    ax.hlines(first_rows[1:-1], 0, max_length, colors="white", linewidth=1.5)  # between batches
    ax.set(xlim=(0, max_length), ylim=(num_rows, 0), yticks=[], xlabel="slots; padding is gray")
    ax.spines["left"].set_visible(False)


@styled()
def show_batch(lengths: Sequence[int], max_length: int) -> None:
    """Show a batch as a rectangle, padded to its longest sequence and padded to the maximum length."""
    widths = {"the longest": max(lengths), str(max_length): max_length}
    shares = [1 - sum(lengths) / (len(lengths) * width) for width in widths.values()]
    fig, axes = new_figure(1, 2)
    for ax, (end, width), share in zip(axes, widths.items(), shares, strict=True):
        draw_batches(ax, [np.array(lengths)], [width], max_length)
        ax.set_title(f"Up to {end}: {percent(share, 0)} padding")
    alt = f"{len(lengths)} sequences of {', '.join(map(str, lengths))} tokens as rows of one rectangle. Padded to "
    alt += f"the longest, {percent(shares[0])} of the slots are padding; padded to {max_length}, {percent(shares[1])}."
    show(fig, alt=alt, name="batch-rectangle")


@styled()
def show_histograms(sets: Sequence[LengthHistogram]) -> None:
    """Show the length histograms of data sets, one above the other, each with its share of padding.

    Lengths are drawn as a share of the maximum length of the data set.
    """
    fig, ax = new_figure()
    for row, histogram in enumerate(sets):
        relative_lengths = np.arange(1, histogram.max_length + 1) / histogram.max_length
        heights, edges = np.histogram(relative_lengths, bins=64, range=(0, 1), weights=histogram.counts[1:])
        look = {"fill": True, "color": series("packed")["color"]}
        ax.stairs(0.85 * heights / heights.max() - row, edges, baseline=-row, **look)
        ax.text(-0.02, 0.25 - row, one_line(histogram.name, 30), ha="right")
        kind = "" if histogram.kind == "measured" else f", {histogram.kind}"
        ax.text(-0.02, -row, f"{histogram.max_length} tokens{kind}", ha="right", fontsize=10)
        ax.text(1.02, 0.2 - row, percent(histogram.padding_fraction))
        relative_mean = histogram.mean_length / histogram.max_length
        ax.plot([relative_mean, relative_mean], [-row, 0.6 - row], color=INK, linestyle="-", linewidth=2, marker="")
    ax.text(1.02, 0.6, "padding", fontsize=11)
    ax.set(xlim=(0, 1), yticks=[], xlabel="length, as a share of the maximum; the bar marks the mean")
    ax.spines["left"].set_visible(False)
    shares = [data.padding_fraction for data in sets]
    ax.set_title(f"Padding to the maximum wastes {100 * min(shares):.0f} to {percent(max(shares), 0)} of the slots")
    listed = "; ".join(f"{shown_name(h)}, {h.max_length}: {percent(h.padding_fraction)}" for h in sets)
    alt = f"Length histograms of {len(sets)} data sets. Maximum length and share of padding: {listed}."
    numbers = {"least": 100 * min(shares), "most": 100 * max(shares)}
    show(fig, alt=alt, name="five-histograms", numbers=numbers)


@styled()
def show_habits(sets: Sequence[LengthHistogram], batch_size: int) -> None:
    """Show each habit's share of padding on each data set: one row per set, one marker per habit."""
    waste: dict[str, dict[BatchingHabit, float]] = {}  # by data set, then by habit
    for histogram in sets:
        shares = {habit: padding_waste(histogram, batch_size, habit).padding_fraction for habit in HABIT_NAMES}
        waste[shown_name(histogram)] = shares
    fig, ax = new_figure()
    for row, shares in enumerate(waste.values()):
        ax.hlines(row, 0, 100, colors="#dddddd", linewidth=1)
        for habit, share in shares.items():
            look = {**series(habit), "linestyle": "", "markersize": 10}
            ax.plot(100 * share, row, **look, label=HABIT_NAMES[habit], zorder=3 if habit == "maximum" else 2)
    name_rows(ax, list(waste))
    ax.set_xlim(-2, 100)
    handles = ax.get_legend_handles_labels()[0][: len(HABIT_NAMES)]
    below = {"loc": "upper right", "bbox_to_anchor": (1, -0.16), "ncols": 3, "frameon": False, "fontsize": 11}
    ax.legend(handles=handles, **below, columnspacing=1, handletextpad=0.2)
    saved = [100 * (shares["maximum"] - shares["random"]) for shares in waste.values()]
    ax.set_title(f"Random batches save {min(saved):.1f} to {max(saved):.1f} points")
    ax.set_xlabel(f"padding, % of all slots; batches of {batch_size}")
    habits = ", ".join(HABIT_NAMES.values())
    listed = "; ".join(
        f"{name} {', '.join(f'{100 * shares[habit]:.1f}' for habit in HABIT_NAMES)} %"
        for name, shares in waste.items()
    )
    alt = f"Padding of {len(sets)} data sets under five habits: {habits}. {listed}."
    show(fig, alt=alt, name="sets-and-habits")


@styled()
def show_tradeoff(waste: Mapping[BatchingHabit, float], times: Mapping[BatchingHabit, float]) -> None:
    """Show each habit's share of padding, and the ratio between the slots of its large and its small batches.

    Args:
        waste: share of padding.
        times: slots of a batch at the 95th percentile, divided by those of a batch at the 5th percentile.
    """
    fig, ax = new_figure()
    top = max(1.5, *times.values())
    groups: list[list[BatchingHabit]] = []  # habits whose marks are so near that one label names them
    for habit, share in sorted(waste.items(), key=lambda item: item[1]):
        ax.plot(100 * share, times[habit], **{**series(habit), "linestyle": "", "markersize": 12})
        neighbor = groups[-1][-1] if groups else None
        if neighbor and abs(share - waste[neighbor]) < 0.06 and abs(times[habit] - times[neighbor]) < 0.15 * top:
            groups[-1].append(habit)
        else:
            groups.append([habit])
    ax.plot(0, 1, **{**series("packed"), "linestyle": "", "markersize": 12})

    point_by_label = {}
    for group in groups:
        label = " and\n".join(HABIT_NAMES[habit] for habit in group)
        rightmost = group[-1]
        point_by_label[label] = (100 * waste[rightmost], times[rightmost])
    point_by_label["full packs"] = (0.0, 1.0)
    for label, point in point_by_label.items():
        ax.annotate(label, point, xytext=(12, 6), textcoords="offset points", va="bottom")
    ax.set(xlim=(-2, 135 * max(waste.values()) + 8), ylim=(0, 1.25 * top), xlabel="padding, % of all slots")
    ax.set_ylabel("large batch ÷ small batch, slots")
    sorted_times, shuffled_times = times["megabatches"], times["random"]
    if max(sorted_times, shuffled_times) < 1.1:
        title = "Sorted or not, batches are alike"
    elif 1.1 * sorted_times < shuffled_times:
        title = f"Shuffled batches differ {shuffled_times:.1f} times in size, sorted windows {sorted_times:.1f}"
    elif sorted_times < 1.1 * shuffled_times:
        title = f"Sorted or not, batches differ {sorted_times:.1f} times in size"
    else:
        title = f"Sorted windows avoid padding; their batches differ {sorted_times:.1f} times in size"
    ax.set_title(title)
    listed = "; ".join(f"{HABIT_NAMES[h]} {percent(share)}, {times[h]:.1f} times" for h, share in waste.items())
    alt = "Padding, and how many times as large a batch of the 95th percentile is as one of the 5th: "
    show(fig, alt=f"{alt}{listed}.", name="trade-off")


@styled()
def show_factors(histograms: Sequence[LengthHistogram]) -> None:
    """Show the best possible packing factor of each data set, the largest on top."""
    factors = {shown_name(h): h.max_packing_factor for h in histograms}
    fig, ax = new_figure()
    for row, factor in enumerate(sorted(factors.values())):
        ax.plot([1, factor], [row, row], color="#999999", linestyle="-", linewidth=1.5)
        ax.plot(factor, row, marker="o", color=series("packed")["color"])
        ax.text(factor + 0.15, row, f"{factor:.2f}", va="center")
    ax.set_yticks(range(len(factors)), sorted(factors, key=factors.__getitem__))
    ax.set(xlabel="best packing factor", xlim=(1, 1.1 * max(factors.values()) + 0.5))
    ax.set(title=f"At best, a row holds {min(factors.values()):.1f} to {max(factors.values()):.1f} sequences")
    listed = ", ".join(f"{name} {factor:.2f}" for name, factor in factors.items())
    alt = f"The best possible packing factor of each data set: {listed}."
    show(fig, alt=alt, name="best-factors", numbers=factors)
