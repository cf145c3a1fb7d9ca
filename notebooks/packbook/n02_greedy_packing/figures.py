"""What notebook 02 draws: packs step by step, and the empty slots of methods."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from packbook.figures import INK, name_rows, new_figure, percent, plain_ticks, series, show, styled
from packbook.n02_greedy_packing.runs import (
    GREEDY_RULES,
    PUBLISHED_PACKS,
    Pack,
    in_words,
    newest,
    one_by_one,
)
from packbook.shared.pack_drawings import draw_packs
from packlib.lengths import LengthHistogram, load
from packlib.packing import plan

# the explorer's greedy rules by the names of `one_by_one`, and how it names them
WAYS = {"worst_fit": "most space, one by one", "spfhp": "SPFHP, all copies at once", "lpfhp": "LPFHP, least space"}


@styled()
def show_groups(copies: Mapping[int, int], slots: int) -> None:
    """Show SPFHP on a histogram, with a panel for each length: groups of equal packs take copies of it, and split.

    Args:
        copies: by length, from long to short, how many sequences have it.
        slots: of a pack.
    """
    fig, axes = new_figure(1, len(copies))
    listed = []
    for step, (ax, length) in enumerate(zip(axes, copies, strict=True), 1):
        counts = np.zeros(slots + 1, np.int64)
        counts[list(copies)[:step]] = list(copies.values())[:step]  # up to this length, the others are not placed yet
        packing = plan(LengthHistogram(counts), method="spfhp")
        groups = list(zip(packing.strategies, packing.repeats.tolist(), strict=True))  # a pack, and how many are equal
        groups.sort(key=lambda group: -sum(group[0]))  # the fullest first
        draw_packs(ax, [pack for pack, _ in groups], slots, 3, labels=[f"{repeats:,} ×" for _, repeats in groups])
        ax.set_title(f"{copies[length]:,} of length {length}", fontsize=13)
        groups_in_words = [f"{repeats:,} × {' + '.join(map(str, pack))}" for pack, repeats in groups]
        listed.append(f"after length {length} {', '.join(groups_in_words)}")
    num_sequences = sum(copies.values())
    fig.suptitle(f"{num_sequences:,} sequences are placed in {len(copies)} steps")
    show(fig, alt=f"Groups of equal packs under SPFHP: {'; '.join(listed)}.", name="groups")


@styled()
def show_published() -> None:
    """Show the share of empty slots by depth limit: of our packs as lines, of the published packs as rings."""
    fig, axes = new_figure(1, 2)
    num_equal = num_published = 0
    listed = []
    for ax, (name, published) in zip(axes, PUBLISHED_PACKS.items(), strict=True):
        histogram = load(name)
        positions = range(len(published))  # of the depth limits on the x axis
        full_packs = histogram.num_tokens / histogram.max_length  # that the tokens would fill
        for rule_index, rule in enumerate(GREEDY_RULES):
            plans = [plan(histogram, method=rule, max_sequences_per_pack=depth) for depth in published]
            empty = [100 * (1 - packing.efficiency) for packing in plans]  # percent
            ax.plot(positions, empty, **series(rule), label=f"{rule.upper()}, ours")

            published_packs = [packs_by_rule[rule_index] for packs_by_rule in published.values()]
            known = [(x, packs) for x, packs in zip(positions, published_packs, strict=True) if packs is not None]
            published_empty = [100 * (1 - full_packs / packs) for _, packs in known]
            ring = {"markersize": 15, "fillstyle": "none", "color": INK, "label": "published"}
            ax.plot([x for x, _ in known], published_empty, "o", **ring)
            num_published += len(known)
            num_equal += sum(plans[x].num_packs == packs for x, packs in known)
            listed.append(f"{name}, {rule.upper()}: " + ", ".join(f"{share:.2f} %" for share in empty))
        ax.set_yscale("symlog", linthresh=0.1, linscale=0.4)
        plain_ticks(ax.yaxis, (0, 0.1, 1, 10, 50))
        ax.set_xticks(positions, [str(depth or "none") for depth in published])
        ax.set(title=f"{name}, packs of {histogram.max_length}", xlabel="depth limit", ylim=(-0.01, 70))
    axes[0].set_ylabel("empty slots, %")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[1].legend(handles[:3], [labels[0], "published, both rules", labels[2]])
    fig.suptitle(f"Our numbers of packs equal the published ones in {num_equal} of {num_published} cases")
    show(
        fig, alt=f"Empty slots by depth limit, with rings for published packs. {'; '.join(listed)}.", name="published"
    )


@styled()
def show_completion(lengths: Sequence[int], slots: int, completed: Sequence[Pack], least: Sequence[Pack]) -> None:
    """Show which two sequences complete a row that the longest begins, and the packs of two rules.

    Args:
        completed: the packs of exact filling.
        least: the packs of least space.
    """
    longest, *others = sorted(lengths, reverse=True)
    space = slots - longest
    complements = [space - length for length in others]  # what must join each length to fill the space
    completing = sorted(set(others) & set(complements))
    fig, (left, right) = new_figure(1, 2)
    for length in completing:
        left.axvline(length, color="#dddddd", linewidth=14, linestyle="-", zorder=0)
    looks = {"color": series("packed")["color"], "marker": "o"}, {"color": INK, "marker": "<"}
    for row, (marks, look) in enumerate(zip((others, complements), looks, strict=True)):
        marks_in_space = [length for length in marks if 0 < length <= space]
        left.plot(marks_in_space, [row] * len(marks_in_space), linestyle="", markersize=11, **look)
    left.set_yticks([0, 1], ["lengths left", f"{space} − length"])
    left.set(
        title=f"{longest} begins the row: {space} are left", xlabel="slots", xlim=(0, space + 0.5), ylim=(1.6, -0.8)
    )
    left.set_xticks(range(1, space + 1))
    pairs = [
        f"{length} + {space - length}" for length in reversed(completing) if 2 * length >= space
    ]  # each pair once
    left.text(space / 2, -0.5, f"both: {' or '.join(pairs)}", ha="center", va="center")
    draw_packs(
        right, [*completed, *least], slots, labels=["completed"] * len(completed) + ["least space"] * len(least)
    )
    right.axhline(len(completed) - 0.5, color=INK, linestyle=":", linewidth=2)
    right.set_title(f"{len(completed)} packs, or {len(least)}")
    fig.suptitle("Where both lines have a mark, two sequences complete the row")
    alt = f"After {longest}, {space} of {slots} slots are left. Two that complete the row: {', '.join(pairs)}. "
    alt += f"Completing rows: {in_words(completed)}. Least space: {in_words(least)}."
    show(fig, alt=alt, name="completed-rows")


@styled()
def show_empty(empty: Mapping[str, float], depth: int) -> None:
    """Show the share of the slots that each way of packing leaves empty at a depth limit."""
    fig, ax = new_figure()
    least, most = min(empty, key=empty.__getitem__), max(empty, key=empty.__getitem__)
    for row, (way, share) in enumerate(empty.items()):
        color = series(way.lower())["color"] if way in ("SPFHP", "LPFHP") else "#8c8c8c"
        ax.barh(row, 100 * share, 0.6, color=color)
        ax.text(100 * share, row, f" {percent(share)}", va="center")
    name_rows(ax, list(empty), above=0.6, below=0.6)
    ax.set(xlabel="empty slots, %", xlim=(0, 115 * max(empty.values())))
    ax.tick_params(axis="y", length=0)
    ax.set_title(
        f"At most {depth} in a pack: {least} leaves {percent(empty[least])} empty, {most} {percent(empty[most])}"
    )
    listed = "; ".join(f"{way} {percent(share)}" for way, share in empty.items())
    show(fig, alt=f"Empty slots if a pack holds at most {depth} sequences: {listed}.", name="empty-at-depth")


@styled()
def show_steps(lengths: Sequence[int], slots: int, rule: str) -> None:
    """Show one rule step by step, with a panel for each sequence; their number is even.

    Args:
        rule: as for `one_by_one`.
    """
    steps = [[], *one_by_one(lengths, slots, rule)]  # the packs before the first sequence and after each
    space = "most" if rule == "worst_fit" else "least"
    fig, axes = new_figure(2, len(lengths) // 2)
    for ax, (before, packs) in zip(axes.flat, itertools.pairwise(steps), strict=True):
        new = newest(packs, before)
        draw_packs(ax, packs, slots, 5, new)
        *earlier, length = packs[new]
        ax.set_title(
            f"{length} joins {' + '.join(map(str, earlier))}" if earlier else f"{length}: new pack", fontsize=12
        )
        ax.set(xticks=[], xlabel="")
        ax.spines["bottom"].set_visible(False)
    fig.suptitle(title := f"The pack with the {space} space takes the next sequence: {len(packs)} packs in the end")
    alt = f"{title}. {len(lengths)} steps. In the end {len(packs)} packs of {slots}: {in_words(packs)}."
    show(fig, alt=alt, name=f"{space}-space-by-hand")


@styled()
def draw_ways(
    steps: Mapping[str, Sequence[Sequence[Pack]]], lengths: Sequence[int], slots: int, step: int
) -> tuple[Figure, list[str]]:
    """Draw the packs of three rules next to each other after `step` sequences.

    Args:
        steps: for each of `WAYS`, the packs before the first sequence and after each.
        lengths: from long to short.

    Returns:
        The figure, and a sentence for each rule with its packs.
    """
    fig, axes = new_figure(1, len(WAYS))
    rows = max(5, *(len(packs_after[-1]) for packs_after in steps.values()))
    sentences = []
    for ax, (rule, way) in zip(axes, WAYS.items(), strict=True):
        packs = steps[rule][step]
        new = newest(packs, before=steps[rule][step - 1]) if step else None
        draw_packs(ax, packs, slots, rows, new)
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        full = sum(lengths[:step]) / (slots * len(packs)) if packs else 0.0
        number = f"{len(packs)} pack{'s' * (len(packs) != 1)}"
        ax.set_title(f"{way}\n{number}, {percent(full, 0)} full", fontsize=12)
        sentences.append(f"{way[0].upper()}{way[1:]}: {in_words(packs) or 'no pack yet'}; {percent(full)} full.")
    waiting = ", ".join(map(str, lengths[step:])) or "none"
    fig.suptitle(f"Waiting: {waiting}")
    return fig, sentences
