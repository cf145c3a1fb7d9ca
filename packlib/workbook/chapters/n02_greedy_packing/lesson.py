"""Notebook 02: greedy packing by hand, on a histogram and on a stream."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.lengths import LengthHistogram, load
from packlib.packing import PackingPlan, plan
from packlib.packing.greedy import OpenPacks
from packlib.workbook.chapters.n01_padding_waste.lesson import shown_name
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, PADDING, new_figure, percent, series
from packlib.workbook.parameters import Dataset, Whole
from packlib.workbook.tables import Table

PARAMETERS = {"dataset": Dataset(), "max_sequences_per_pack": Whole(1, 512, optional=True)}

# which of the packs that have room for a sequence takes it
GREEDY_RULES = {"spfhp": "most space", "lpfhp": "least space"}
EIGHT, SLOTS = (9, 7, 6, 5, 4, 3, 2, 2), 10  # the sequences that are packed by hand

# Krell and others (2021), on the original histograms: {depth limit: packs by SPFHP, packs by LPFHP}
PUBLISHED_TOKENS = {"wikipedia": 4_164_796_173, "squad": 15_249_479}
PUBLISHED_PACKS: dict[str, dict] = {
    "wikipedia": {
        1: (16_279_552, 16_279_552), 2: (10_101_683, 10_099_081), 3: (9_094_695, 9_090_154),
        4: (8_658_996, 8_657_119), 8: (8_224_673, 8_207_569), 12: (8_166_708, 8_149_619),
        16: (8_166_708, 8_140_006), None: (8_166_708, 8_138_483),
    },
    "squad": {2: (45_335, None), 3: (40_711, 40_631), None: (40_711, 40_631)},
}  # fmt: skip

Pack = tuple[int, ...]  # lengths, in the order they were put in


def one_by_one(
    lengths: Sequence[int], max_length: int, rule: str, depth: int | None = None
) -> Iterator[list[Pack]]:
    """The packs after each sequence, from long to short; packs stand in the order they were opened."""
    lengths, packs = sorted(lengths, reverse=True), OpenPacks(depth or float("inf"))
    for i, length in enumerate(lengths):
        if i == 0 or length < lengths[i - 1]:
            scanned = max_length  # SPFHP goes down the spaces once for all sequences of a length
        space = packs.largest(scanned) if rule == "spfhp" else packs.smallest(length)
        fits = space >= length
        scanned = space if fits else 0
        places, space = (packs.take(space)[0], space) if fits else ((), max_length)
        packs.put(space - length, (*places, i), 1)
        yield [tuple(lengths[j] for j in pack) for pack in sorted(pack for pack, _ in packs.equal_packs())]


def told(packs: Sequence[Pack]) -> str:
    """Packs in words: "9 | 7 + 3 | 6 + 4"."""
    return " | ".join(" + ".join(map(str, pack)) for pack in packs)


def newest(packs: Sequence[Pack], before: Sequence[Pack]) -> int:
    """Which pack took the last sequence."""
    return next((i for i, pack in enumerate(before) if packs[i] != pack), len(before))


def draw_packs(ax: Axes, packs: Sequence[Pack], slots: int, rows: int, new: int | None = None) -> None:
    """Packs as rows of bars with their lengths; empty slots are hatched; the last bar of row `new` stands out."""
    for row, pack in enumerate(packs):
        ax.barh(row, slots, height=0.8, color=PADDING, hatch="///", edgecolor="white", linewidth=0)
        start = 0
        for place, length in enumerate(pack):
            fresh = row == new and place == len(pack) - 1
            color = series("spfhp" if fresh else "packed")["color"]
            ax.barh(row, length, left=start, height=0.8, color=color, edgecolor="white", linewidth=1.5)
            if length / slots > 0.03 * len(str(length)):
                weight = "bold" if fresh else "normal"
                text = {"color": "white", "ha": "center", "va": "center", "fontweight": weight}
                ax.text(start + length / 2, row, str(length), fontsize=11, **text)
            start += length
    ax.set(xlim=(0, slots), ylim=(rows - 0.4, -0.6), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def draw_strip(lengths: Sequence[int], slots: int, rule: str) -> Figure:
    """One small picture for each sequence that is placed; takes an even number of lengths."""
    steps = [[], *one_by_one(lengths, slots, rule)]
    fig, axes = new_figure(2, len(lengths) // 2)
    for ax, (before, packs) in zip(axes.flat, itertools.pairwise(steps), strict=True):
        new = newest(packs, before)
        draw_packs(ax, packs, slots, 5, new)
        *there, length = packs[new]
        title = f"{length} joins {' + '.join(map(str, there))}" if there else f"{length}: new pack"
        ax.set_title(title, fontsize=12)
    return fig


def draw_strategies(ax: Axes, best: PackingPlan, number: int = 6) -> None:
    """The most frequent kinds of packs, with how many packs are filled so."""
    chosen = np.argsort(-best.repeats, kind="stable")[:number].tolist()
    draw_packs(ax, [best.strategies[s] for s in chosen], best.histogram.max_length, number)
    ax.set_yticks(range(len(chosen)), [f"{best.repeats[s]:,} ×" for s in chosen])
    ax.tick_params(left=False)


def log_axes(ax: Axes, ticks: Sequence[int]) -> None:
    """Both axes logarithmic with plain numbers; the y axis reaches down to 0."""
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.4)
    ax.set_yticks((shown := [0, 0.01, 0.1, 1, 10, 100]), shown)
    ax.set_ylim(-0.001, 1.5 * ax.dataLim.ymax + 0.01)
    ax.minorticks_off()


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Numbers written as text, as a table."""
    from IPython.display import display

    display(Table(tuple(columns), rows, right=True))


def beside_published(name: str) -> tuple[list[str], list[list[str]], dict[str, list[tuple[str, float]]]]:
    """Columns and rows that set our plans beside the published ones, and the differences of each rule in points."""
    histogram, published = load(name), PUBLISHED_PACKS[name]
    columns, rows, points = ["depth"], [], {rule: list[tuple[str, float]]() for rule in GREEDY_RULES}
    for rule in GREEDY_RULES:
        columns += [f"{rule.upper()}, published", f"ours, {histogram.kind}", "points"]
    for depth, packs in published.items():
        limit = "none" if depth is None else str(depth)
        rows.append([limit])
        for rule, known in zip(GREEDY_RULES, packs, strict=True):
            ours = plan(histogram, rule, depth)
            cells = ["–", f"{ours.num_packs:,} · {percent(ours.efficiency, 3)}", "–"]
            if known:
                efficiency = PUBLISHED_TOKENS[name] / (known * histogram.max_length)
                points[rule].append((limit, 100 * (ours.efficiency - efficiency)))
                cells[0], cells[2] = (
                    f"{known:,} · {percent(efficiency, 3)}",
                    f"{round(points[rule][-1][1], 2) + 0.0:+.2f}",
                )
            rows[-1] += cells
    return columns, rows, points


def draw_points(points: dict[str, dict[str, list[tuple[str, float]]]]) -> Figure:
    """Ours less published, in points of efficiency, for each data set, rule and depth limit."""
    fig, axes = new_figure(
        1, len(points), sharey=True, width_ratios=[len(p["spfhp"]) + 1 for p in points.values()]
    )
    for ax, (name, found) in zip(axes, points.items(), strict=True):
        limits = [limit for limit, _ in found["spfhp"]]
        for rule, shift in zip(GREEDY_RULES, (-0.12, 0.12), strict=True):
            at = [limits.index(limit) + shift for limit, _ in found[rule]]
            marks = {**series(rule), "linestyle": "none", "label": rule.upper()}
            ax.plot(at, [difference for _, difference in found[rule]], **marks)
        ax.axhline(0, color=INK, linewidth=1, linestyle="-")
        ax.set(title=name, xlabel="depth limit", ylim=(-0.3, 0.3), xlim=(-0.6, len(limits) - 0.4))
        ax.set_xticks(range(len(limits)), limits)
    axes[0].set_ylabel("ours less published, points")
    axes[0].legend(loc="lower left")
    return fig


class StepByStep(Explorer):
    """SPFHP and LPFHP beside each other, one sequence at a time."""

    title = "Which pack takes the next sequence?"
    play = "step"
    interval = 1500

    def __init__(self, dataset: str = "wikipedia", depth: int | None = None, seed: int = 0) -> None:
        histogram, rng = load(dataset), np.random.default_rng(seed)
        share = histogram.counts / histogram.num_sequences
        self.sets = {"the eight above": (EIGHT, SLOTS)}
        for draw in ("eight", "another eight", "eight more"):
            lengths = rng.choice(len(share), 8, p=share).tolist()
            self.sets[f"{draw} of {shown_name(histogram)}"] = (lengths, histogram.max_length)
        self.depth = depth if depth in range(1, 6) else 0
        super().__init__()

    def controls(self):
        return {
            "lengths": choice("Sequences", self.sets, "the eight above"),
            "depth": choice("Depth limit", [("none", 0), *((str(d), d) for d in range(1, 6))], self.depth),
            "step": slider("Sequences placed", 0, 8, value=5),
        }

    def draw(self, lengths: str, depth: int, step: int) -> tuple[Figure, str]:
        given, slots = self.sets[lengths]
        sequences = sorted(given, reverse=True)
        fig, axes = new_figure(2, 2, height_ratios=(1, 6))
        limit = f"at most {depth} in a pack" if depth else "no depth limit"
        words = [f"{lengths.capitalize()}, packs of {slots}, {limit}, {step} of 8 sequences placed."]
        for (waiting, ax), (rule, space) in zip(axes.T, GREEDY_RULES.items(), strict=True):
            steps = [[], *one_by_one(sequences, slots, rule, depth)]
            packs, rows = steps[step], max(5, len(steps[-1]))
            draw_packs(ax, packs, slots, rows, newest(packs, steps[step - 1]) if step else None)
            full = sum(sequences[:step]) / (slots * len(packs)) if packs else 0.0
            ax.set_title(f"{len(packs)} packs, {percent(full, 0)} full", fontsize=13)
            draw_waiting(waiting, sequences, step)
            waiting.set_title(f"{rule.upper()}: {space}, {limit}", fontsize=13)
            words.append(f"{rule.upper()} ({space}): {told(packs) or 'no pack yet'}; {percent(full)} full.")
        return fig, " ".join(words)


def draw_waiting(ax: Axes, lengths: Sequence[int], step: int) -> None:
    """The lengths in the order they are placed: done in gray, the last one bold, the next ones in ink."""
    for i, length in enumerate(lengths):
        last = i == step - 1
        color = series("spfhp")["color"] if last else INK if i >= step else "#8a8a8a"
        style = {"color": color, "fontweight": "bold" if last else "normal", "ha": "center", "va": "center"}
        ax.text((i + 0.5) / len(lengths), 0.5, str(length), fontsize=13, **style)
    ax.set_axis_off()


# Exercises


def tightest_space(spaces, length):
    """The space of the pack that takes `length` under LPFHP; 0 if a new pack must be opened."""
    return min((space for space in spaces if space >= length), default=0)


def lpfhp_packs(lengths, max_length, depth):
    """How many packs LPFHP fills when a pack holds at most `depth` sequences."""
    *_, packs = one_by_one(lengths, max_length, "lpfhp", depth)
    return len(packs)


def _loop(lengths, max_length, depth, choose=min):
    """A learner's loop: in the order given, `choose` picks the pack by its space."""
    packs = []
    for length in lengths:
        able = [p for p in packs if sum(p) + length <= max_length and len(p) < depth]
        choose(able, key=lambda p: -sum(p), default=packs).append(length if able else [length])
    return len(packs)


def not_fooled(lengths):
    """Why `lengths` do not make LPFHP take a pack too many, or None if they do."""
    lengths = list(lengths)
    if not 1 <= len(lengths) <= 8 or not set(lengths) <= set(range(1, SLOTS + 1)):
        return f"give one to eight whole lengths from 1 to {SLOTS}."
    histogram = LengthHistogram.from_lengths(lengths, SLOTS)
    greedy, best = plan(histogram, "lpfhp").num_packs, plan(histogram, "optimal").num_packs
    return None if greedy > best else f"packs by LPFHP: {greedy}; packs of the best packing: {best}."


EXERCISES = Exercises(
    [
        Exercise(
            "tightest_space",
            tightest_space,
            cases=(([], 3), ([4], 3), ([2], 3), ([3], 3), ([5, 4, 7], 3), ([1, 2, 6, 3, 6], 4)),
            wrong={
                "the most space": lambda spaces, length: max([s for s in spaces if s >= length], default=0),
                "wants a slot to spare": lambda spaces, length: min([s for s in spaces if s > length], default=0),
                "forgets that it must fit": lambda spaces, length: min(spaces, default=0),
                "the first that takes it": lambda spaces, length: next((s for s in spaces if s >= length), 0),
            },
            hint="first keep the spaces that are large enough, then take the smallest of them.",
        ),
        Exercise(
            "lpfhp_packs",
            lpfhp_packs,
            cases=(
                ([3], 4, 1), ([1, 3], 4, 2), ([1, 1], 4, 1), ([2, 1, 3, 2], 4, 4), ([2, 1, 1, 3, 1], 4, 2),
                (list(EIGHT), SLOTS, 8), (list(EIGHT), SLOTS, 2), ([8, 5, 5, 4, 4, 3, 3, 2, 1, 1], 12, 3),
            ),
            wrong={
                "shortest pack first": lambda x, top, depth: _loop(sorted(x, reverse=True), top, depth, max),
                "takes them as they come": _loop,
                "from short to long": lambda x, top, depth: _loop(sorted(x), top, depth),
                "forgets the depth limit": lambda x, top, depth: lpfhp_packs(x, top, None),
                "the area bound": lambda x, top, depth: -(-sum(x) // top),
            },
            hint="from long to short, into the pack with the least space that has room and is below the depth limit.",
        ),
        Exercise(
            "fools_lpfhp",
            [4, 4, 3, 3, 3, 3],
            fault=not_fooled,
            wrong={
                "fools SPFHP alone": list(EIGHT),
                "full packs": [5, 5, 5, 5],
                "too many": [4, 4, 3, 3, 3, 3] * 2,
                "too long": [11, 4, 4, 3, 3, 3],
            },
            hint="two packs that are exactly full are a good start: which of their lengths would LPFHP join instead?",
        ),
    ]
)  # fmt: skip
check = EXERCISES.check
