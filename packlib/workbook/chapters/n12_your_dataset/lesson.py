"""Notebook 12: your own lengths, and the advice."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from packlib.advisor.advising import uncut
from packlib.advisor.findings import Advice, many
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.workbook.chapters.n01_padding_waste.lesson import HABIT_NAMES, shown_name
from packlib.workbook.chapters.n04_optimal_packing.lesson import spoken
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import INK, label_ends, new_figure, percent, series
from packlib.workbook.parameters import Choice, Dataset, RecipeFile, Whole

PARAMETERS = {
    "dataset": Dataset(),
    "max_length": Whole(1, 1 << 20, optional=True),
    "overlong": Choice(("truncate", "drop")),
    "max_sequences_per_pack": Whole(1, 1 << 20, optional=True),
    "batch_size": Whole(1, 1 << 20),
    "recipe": RecipeFile(),
}
EXPLORED_DEPTHS = (2, 4, 8, None)


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
    ax.set(
        xlabel="tokens",
        ylabel="% of the sequences",
        xlim=(0, histogram.max_length * 1.01),
        ylim=(0, 1.38 * top),
    )


def draw_depths(ax: Axes, advice: Advice) -> None:
    """Efficiency by depth limit, of the best packing found and of LPFHP; a ring marks the recommended depth."""
    tokens, top = advice.histogram.num_tokens, advice.histogram.max_length
    at = range(len(advice.depths))
    best = [100 * tokens / (trial.packs * top) for trial in advice.depths]
    greedy = [100 * tokens / (trial.greedy * top) for trial in advice.depths]
    lines = {
        ax.plot(at, best, **series("optimal"))[0]: "best found",
        ax.plot(at, greedy, **series("lpfhp"))[0]: "LPFHP",
    }
    chosen = [trial.depth for trial in advice.depths].index(advice.depth)
    ax.plot(
        chosen,
        best[chosen],
        "o",
        markersize=20,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=2,
    )
    ax.set_xticks(at, ["none" if trial.depth is None else str(trial.depth) for trial in advice.depths])
    if len(at) > 12:
        ax.tick_params(axis="x", rotation=60)
    ax.set(xlabel="depth limit", ylabel="efficiency, %", ylim=(0, 105), xlim=(-0.3, len(at) - 0.7))
    label_ends(lines)


def draw_methods(ax: Axes, advice: Advice) -> None:
    """Efficiency of each method at the recommended depth, with its packs; or why it gives no answer."""
    tokens, top = advice.histogram.num_tokens, advice.histogram.max_length
    for row, trial in enumerate(advice.trials):
        if trial.packs is None:
            ax.text(1, row, trial.reason, va="center", fontsize=11, style="italic")
            continue
        full = 100 * tokens / (trial.packs * top)
        ax.barh(row, full, height=0.7, color=series(trial.method)["color"])
        ax.text(102, row, f"{many(trial.packs, 'pack')}, gap {trial.gap:,}", va="center", fontsize=11)
    ax.set_yticks(range(len(advice.trials)), [trial.method for trial in advice.trials])
    ax.set(
        xlim=(0, 185), xticks=range(0, 101, 20), ylim=(len(advice.trials) - 0.5, -0.5), xlabel="efficiency, %"
    )


def draw_speedups(ax: Axes, advice: Advice) -> None:
    """The expected speed-up over each habit, from low to high; the dotted line is no gain."""
    habits = [habit for habit in HABIT_NAMES if habit in advice.habits]
    widest = max(advice.speedup(habit)[1] for habit in habits)
    for row, habit in enumerate(habits):
        low, high = advice.speedup(habit)
        ax.barh(row, high - low, left=low, height=0.6, color=series(habit)["color"])
        ax.text(high + 0.02 * widest, row, f"{low:.2f} to {high:.2f}", va="center")
    ax.axvline(1, color=INK, linestyle=":")
    ax.set_yticks(range(len(habits)), [HABIT_NAMES[habit] for habit in habits])
    ax.set(xlim=(0, 1.25 * max(widest, 1)), ylim=(len(habits) - 0.5, -0.5), xlabel="times as fast")


def draw_buckets(ax: Axes, advice: Advice) -> None:
    """Padding with 1, 2, … bucket lengths; a ring marks the choice, the dotted line is what packs leave."""
    waste, chosen = 100 * np.array(advice.bucket_waste), len(advice.buckets.lengths)
    ax.plot(range(1, len(waste) + 1), waste, **series("buckets"))
    ring = {"markersize": 20, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 2}
    ax.plot(chosen, waste[chosen - 1], "o", clip_on=False, **ring)
    packed = 100 * (1 - advice.plan.efficiency)
    ax.axhline(packed, color=INK, linestyle=":")
    ax.annotate("packed, one length", (1, packed), (0, 4), textcoords="offset points", va="bottom")
    ax.set(xlabel="bucket lengths", ylabel="padding, %", xticks=range(1, len(waste) + 1))
    ax.set_ylim(0, max(1.1 * waste.max(), 1))


class MaximumExplorer(Explorer):
    """Maximum length, depth and what is done with longer sequences, against the slots computed and the tokens lost.

    The maximum lengths go up to the data set's own, or to `max_length` if that is longer.
    """

    title = "What does a longer row cost?"

    def __init__(self, dataset: str = "docstrings", max_length: int = 0) -> None:
        self.whole, own = uncut(dataset)
        longest, shortest = max(own, max_length), int(np.flatnonzero(self.whole.counts)[0])
        self.tops = sorted({max(shortest, longest * eighths // 8) for eighths in range(1, 9)})
        self._found: dict[tuple, list[tuple[float, float, float]]] = {}
        super().__init__()

    def controls(self):
        return {
            "max_length": choice("Maximum length", self.tops, self.tops[len(self.tops) // 2 - 1]),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in EXPLORED_DEPTHS], 0),
            "overlong": choice(
                "Longer sequences", [("cut them", "truncate"), ("leave them out", "drop")], "truncate"
            ),
        }

    def costs(self, depth: int, overlong: str) -> list[tuple[float, float, float]]:
        """Padded and packed slots a token, and the share of the tokens that is lost, for each maximum length."""
        if (depth, overlong) not in self._found:
            cut = [self.whole.with_max_length(top, overlong) for top in self.tops]
            self._found[depth, overlong] = [
                (
                    h.max_length / h.mean_length,
                    plan(h, "lpfhp", depth or None).num_packs * h.max_length / h.num_tokens,
                    1 - h.num_tokens / self.whole.num_tokens,
                )
                for h in cut
            ]
        return self._found[depth, overlong]

    def draw(self, max_length: int, depth: int, overlong: str) -> tuple[Figure, str]:
        padded, packed, lost = (np.array(column) for column in zip(*self.costs(depth, overlong), strict=True))
        at = self.tops.index(max_length)
        fig, (left, right) = new_figure(1, 2)
        lines = {
            left.plot(self.tops, padded, **series("maximum"))[0]: "padded",
            left.plot(self.tops, packed, **series("packed"))[0]: "packed",
        }
        left.set(ylim=(0, None), xlabel="maximum length", ylabel="slots for each token")
        left.set_title(f"{packed[at]:.2f} slots packed, {padded[at]:.2f} padded")
        label_ends(lines)
        right.plot(self.tops, 100 * lost, **series("next_fit"))
        right.set(ylim=(0, 100), xlabel="maximum length", ylabel="tokens lost, %")
        right.set_title(f"{percent(lost[at])} of the tokens lost")
        for ax in (left, right):
            ax.axvline(max_length, color=INK, linestyle=":")
        how = "cut" if overlong == "truncate" else "left out"
        return fig, (
            f"{shown_name(self.whole)}, rows of {max_length}, {spoken(depth or None)}, longer sequences {how}: "
            f"{packed[at]:.2f} slots for each token packed by LPFHP, {padded[at]:.2f} padded, and {percent(lost[at])} "
            f"of the tokens are lost. In rows of {self.tops[-1]} it is {packed[-1]:.2f} and {padded[-1]:.2f}."
        )


# Exercises


def expected_speedup(slots_now, slots_packed, overhead):
    """How many times as fast; `overhead` is the share of the speed that packing costs the model."""
    return slots_now / slots_packed * (1 - overhead)


def smallest_depth(packs, within):
    """The smallest depth whose packs are at most a share `within` above the fewest."""
    most = min(packs.values()) * (1 + within)
    return min(depth for depth, number in packs.items() if number <= most)


def _packable(lengths):
    """What is wrong with ten lengths that should resist packing, or None."""
    lengths = list(lengths)
    if len(lengths) != 10 or any(int(n) != n or not 1 <= n <= 100 for n in lengths):
        return "give ten whole numbers from 1 to 100."
    if (mean := sum(lengths) / 10) > 60:
        return f"their mean is {mean:g}, and should be at most 60."
    packs = plan(LengthHistogram.from_lengths([int(n) for n in lengths], 100))
    if packs.num_packs < 10:
        shared = next(pack for pack in packs.strategies if len(pack) > 1)
        return f"{' + '.join(map(str, shared))} tokens fit into one pack of 100."
    return None


EXERCISES = Exercises(
    [
        Exercise(
            "expected_speedup",
            expected_speedup,
            cases=((100, 100, 0.0), (200, 100, 0.0), (200, 100, 0.1), (512_000, 257_000, 0.045)),
            wrong={
                "forgets the overhead": lambda slots_now, slots_packed, overhead: slots_now / slots_packed,
                "upside down": lambda slots_now, slots_packed, overhead: (
                    slots_packed / slots_now * (1 - overhead)
                ),
                "as extra time": lambda slots_now, slots_packed, overhead: (
                    slots_now / slots_packed / (1 + overhead)
                ),
            },
            hint="overhead is lost speed: at 0.1, nine tenths of the speed are left.",
        ),
        Exercise(
            "smallest_depth",
            smallest_depth,
            cases=(
                ({1: 5}, 0.0),
                ({1: 9, 2: 5}, 0.0),
                ({1: 100, 2: 51, 3: 50}, 0.05),
                ({4: 80, 2: 100, 8: 80}, 0.1),
            ),
            wrong={
                "the very best": lambda packs, within: min(
                    d for d in packs if packs[d] == min(packs.values())
                ),
                "within of the first": lambda packs, within: min(
                    d for d in packs if packs[d] <= packs[min(packs)] * (1 + within)
                ),
                "the deepest": lambda packs, within: max(packs),
            },
            hint="first find the fewest packs at any depth, then the smallest depth near it.",
        ),
        Exercise(
            "stubborn",
            [51] * 10,
            wrong={
                "halves": [50] * 10,
                "full rows": [100] * 10,
                "one short": [60] * 9 + [40],
                "too few": [55] * 9,
            },
            hint="what is the shortest length of which no two fit into a pack?",
            fault=_packable,
        ),
    ]
)
check = EXERCISES.check
