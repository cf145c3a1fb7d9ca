"""What notebook 02 draws."""

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

WAYS = {"worst_fit": "most space, one by one", "spfhp": "SPFHP, all copies at once", "lpfhp": "LPFHP, least space"}


@styled()
def show_groups(copies: Mapping[int, int], slots: int) -> None:
    """Draw SPFHP on a histogram, one length a step: groups of equal packs take a length together, and split.

    Args:
        copies: of each length, from long to short.
    """
    fig, axes = new_figure(1, len(copies))
    listed = []
    for step, (ax, length) in enumerate(zip(axes, copies, strict=True), 1):
        counts = np.zeros(slots + 1, np.int64)
        counts[list(copies)[:step]] = list(copies.values())[:step]
        packing = plan(LengthHistogram(counts), method="spfhp")
        groups = sorted(
            zip(packing.strategies, packing.repeats.tolist(), strict=True), key=lambda group: -sum(group[0])
        )
        draw_packs(ax, [pack for pack, _ in groups], slots, 3, labels=[f"{number:,} ×" for _, number in groups])
        ax.set_title(f"{copies[length]:,} of length {length}", fontsize=13)
        listed.append(f"after length {length} " + ", ".join(f"{n:,} × {' + '.join(map(str, p))}" for p, n in groups))
    number = sum(copies.values())
    fig.suptitle(f"{number:,} sequences are placed in {len(copies)} steps")
    show(fig, alt=f"Groups of equal packs under SPFHP: {'; '.join(listed)}.", name="groups")


@styled()
def show_published() -> None:
    """Draw empty slots by depth limit, ours as lines and the published packs as rings."""
    fig, axes = new_figure(1, 2)
    equal = known = 0
    listed = []
    for ax, (name, published) in zip(axes, PUBLISHED_PACKS.items(), strict=True):
        histogram, depths = load(name), range(len(published))
        slots = histogram.num_tokens / histogram.max_length
        for at, rule in enumerate(GREEDY_RULES):
            plans = [plan(histogram, method=rule, max_sequences_per_pack=depth) for depth in published]
            empty = [100 * (1 - packing.efficiency) for packing in plans]
            ax.plot(depths, empty, **series(rule), label=f"{rule.upper()}, ours")
            counts = [packs[at] for packs in published.values()]
            published_shares = [
                (x, 100 * (1 - slots / packs)) for x, packs in zip(depths, counts, strict=True) if packs
            ]
            ax.plot(
                *zip(*published_shares, strict=True),
                "o",
                markersize=15,
                fillstyle="none",
                color=INK,
                label="published",
            )
            known += len(published_shares)
            equal += sum(packing.num_packs == packs for packing, packs in zip(plans, counts, strict=True))
            listed.append(f"{name}, {rule.upper()}: " + ", ".join(f"{share:.2f} %" for share in empty))
        ax.set_yscale("symlog", linthresh=0.1, linscale=0.4)
        plain_ticks(ax.yaxis, (0, 0.1, 1, 10, 50))
        ax.set_xticks(depths, [str(depth or "none") for depth in published])
        ax.set(title=f"{name}, packs of {histogram.max_length}", xlabel="depth limit", ylim=(-0.01, 70))
    axes[0].set_ylabel("empty slots, %")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[1].legend(handles[:3], [labels[0], "published, both rules", labels[2]])
    fig.suptitle(f"Our numbers of packs equal the published ones in {equal} of {known} cases")
    show(
        fig, alt=f"Empty slots by depth limit, with rings for published packs. {'; '.join(listed)}.", name="published"
    )


@styled()
def show_completion(lengths: Sequence[int], slots: int, completed: Sequence[Pack], least: Sequence[Pack]) -> None:
    """Draw which two sequences complete a row that the longest begins, and the packs of two rules.

    Args:
        completed, least: the packs of exact filling, and of the least space.
    """
    first, *others = sorted(lengths, reverse=True)
    space = slots - first
    mirrored = [space - length for length in others]
    completing = sorted(set(others) & set(mirrored))
    fig, (left, right) = new_figure(1, 2)
    for length in completing:
        left.axvline(length, color="#dddddd", linewidth=14, linestyle="-", zorder=0)
    looks = {"color": series("packed")["color"], "marker": "o"}, {"color": INK, "marker": "<"}
    rows = "lengths left", f"{space} − length"
    for row, (marks, look) in enumerate(zip((others, mirrored), looks, strict=True)):
        shown = [length for length in marks if 0 < length <= space]
        left.plot(shown, [row] * len(shown), linestyle="", markersize=11, **look)
    left.set_yticks([0, 1], rows)
    left.set(
        title=f"{first} begins the row: {space} are left", xlabel="slots", xlim=(0, space + 0.5), ylim=(1.6, -0.8)
    )
    left.set_xticks(range(1, space + 1))
    pairs = [f"{length} + {space - length}" for length in reversed(completing) if 2 * length >= space]
    left.text(space / 2, -0.5, f"both: {' or '.join(pairs)}", ha="center", va="center")
    draw_packs(
        right, [*completed, *least], slots, labels=["completed"] * len(completed) + ["least space"] * len(least)
    )
    right.axhline(len(completed) - 0.5, color=INK, linestyle=":", linewidth=2)
    right.set_title(f"{len(completed)} packs, or {len(least)}")
    fig.suptitle("Where both lines have a mark, two sequences complete the row")
    alt = f"After {first}, {space} of {slots} slots are left. Two that complete the row: {', '.join(pairs)}. "
    alt += f"Completing rows: {in_words(completed)}. Least space: {in_words(least)}."
    show(fig, alt=alt, name="completed-rows")


@styled()
def show_empty(empty: Mapping[str, float], depth: int) -> None:
    """Draw the share of the slots that each way leaves empty at a depth limit, each method in its color."""
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
    """Draw one rule step by step, a small picture for each of an even number of sequences."""
    steps, space = [[], *one_by_one(lengths, slots, rule)], "most" if rule == "worst_fit" else "least"
    fig, axes = new_figure(2, len(lengths) // 2)
    for ax, (before, packs) in zip(axes.flat, itertools.pairwise(steps), strict=True):
        new = newest(packs, before)
        draw_packs(ax, packs, slots, 5, new)
        *there, length = packs[new]
        ax.set_title(f"{length} joins {' + '.join(map(str, there))}" if there else f"{length}: new pack", fontsize=12)
        ax.set(xticks=[], xlabel="")
        ax.spines["bottom"].set_visible(False)
    fig.suptitle(title := f"The pack with the {space} space takes the next sequence: {len(packs)} packs in the end")
    alt = f"{title}. {len(lengths)} steps. In the end {len(packs)} packs of {slots}: {in_words(packs)}."
    show(fig, alt=alt, name=f"{space}-space-by-hand")


@styled()
def draw_ways(
    steps: Mapping[str, Sequence[Sequence[Pack]]], lengths: Sequence[int], slots: int, step: int
) -> tuple[Figure, list[str]]:
    """Return the packs of three ways beside each other after `step` sequences, and the same in words, a sentence a way.

    Args:
        steps: for each of `WAYS`, the packs before the first sequence and after each.
        lengths: from long to short.
    """
    fig, axes = new_figure(1, len(WAYS))
    rows = max(5, *(len(packs_after[-1]) for packs_after in steps.values()))
    sentences = []
    for ax, (rule, way) in zip(axes, WAYS.items(), strict=True):
        packs = steps[rule][step]
        draw_packs(ax, packs, slots, rows, newest(packs, steps[rule][step - 1]) if step else None)
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        full = sum(lengths[:step]) / (slots * len(packs)) if packs else 0.0
        number = f"{len(packs)} pack{'s' * (len(packs) != 1)}"
        ax.set_title(f"{way}\n{number}, {percent(full, 0)} full", fontsize=12)
        sentences.append(f"{way[0].upper()}{way[1:]}: {in_words(packs) or 'no pack yet'}; {percent(full)} full.")
    waiting = ", ".join(map(str, lengths[step:])) or "none"
    fig.suptitle(f"Waiting: {waiting}")
    return fig, sentences
