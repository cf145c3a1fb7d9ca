"""Notebook 04: the best packing, and the proof."""

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from packlib.lengths import load
from packlib.markup import in_html
from packlib.packing import PackingPlan, plan
from packlib.packing.progress import Progress
from packlib.workbook.chapters.n04_optimal_packing.runs import best_pack
from packlib.workbook.chapters.shared.histograms import shown_name
from packlib.workbook.chapters.shared.packs import draw_packs, spoken
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import INK, new_figure, percent, series

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet", "wordnet-pairs", "uniform")
METHOD_NAMES = dict(
    unpacked="unpacked", spfhp="SPFHP", lpfhp="LPFHP", best_fit_decreasing="best fit", optimal="optimal"
)
DEPTHS = (1, 2, 3, 4, 6, 8, 16, None)
TOPS = (64, 128, 256, 384, 512)
PATIENCE = 20  # seconds for one plan, far more than any set of the workbook needs


class GapExplorer(Explorer):
    """Data set, maximum length, depth and method, with the gap to the proven bound and the packs most used.

    A plan that takes longer than half a second says how far it is meanwhile.
    """

    title = "How far from the best?"
    telling = ("depth", "method")
    _plans: ClassVar[dict[tuple, PackingPlan]] = {}

    def __init__(self, dataset: str = "wikipedia") -> None:
        self.dataset = dataset
        self.histograms = {name: load(name) for name in dict.fromkeys((dataset, *EXPLORED))}
        super().__init__()

    def controls(self):
        names = [(shown_name(histogram), name) for name, histogram in self.histograms.items()]
        return {
            "dataset": choice("Lengths", names, self.dataset),
            "max_length": choice("Maximum length", [("its own", 0), *((str(n), n) for n in TOPS)], 0),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in DEPTHS], 3),
            "method": choice("Method", [(said, name) for name, said in METHOD_NAMES.items()], "lpfhp"),
        }

    def plan(self, dataset: str, max_length: int, depth: int, method: str) -> PackingPlan:
        """The plan, from memory if it was made before; a 0 is the data set's own maximum, or no limit."""
        key = self.histograms[dataset].counts.tobytes(), max_length, depth, method
        if key not in self._plans:
            histogram = self.histograms[dataset]
            if max_length:
                histogram = histogram.with_max_length(max_length, overlong="truncate")
            options = {"progress": self._tell, "time_limit": PATIENCE} if method == "optimal" else {}
            self._plans[key] = plan(histogram, method, depth or None, **options)
        return self._plans[key]

    def _tell(self, now: Progress) -> None:
        """Show how far the search is, in place of the picture."""
        if now.seconds > 0.3:
            self.picture.value = f'<p role="status">{in_html(str(now))} …</p>'

    def draw(self, dataset: str, max_length: int, depth: int, method: str) -> tuple[Figure, str]:
        best = self.plan(dataset, max_length, depth, "optimal")
        mine = self.plan(dataset, max_length, depth, method)
        gap, top = mine.num_packs - best.lower_bound, best.histogram.max_length
        fig, (left, right) = new_figure(1, 2, width_ratios=(2, 3))
        for row, name in enumerate(METHOD_NAMES):
            share = self.plan(dataset, max_length, depth, name).efficiency
            edge = {"edgecolor": INK, "linewidth": 3 if name == method else 0}
            left.barh(row, 100 * share, height=0.7, color=series(name)["color"], **edge)
            left.text(108, row, percent(share, 2), va="center")
        left.axvline(100 * best.histogram.num_tokens / (best.lower_bound * top), color=INK, linestyle=":")
        left.set_yticks(range(len(METHOD_NAMES)), list(METHOD_NAMES.values()))
        left.set(xlim=(0, 170), xticks=(0, 50, 100), ylim=(4.6, -0.6), xlabel="efficiency, %; dotted: bound")
        left.set_title(f"{gap:,} packs above", x=-0.2)
        used = np.argsort(-mine.repeats, kind="stable")[:8].tolist()
        shares = [percent(mine.repeats[s] / mine.num_packs) for s in used]
        draw_packs(right, [mine.strategies[s] for s in used], top, labels=shares)
        right.set_title(f"most used: {METHOD_NAMES[method]}, {spoken(depth or None)}")
        said = (
            "the best possible"
            if gap == 0
            else f"at most {gap:,} above the best, {percent(gap / best.lower_bound, 3)}"
        )
        return fig, (
            f"{shown_name(best.histogram)}, maximum {top}, {spoken(depth or None)}: {METHOD_NAMES[method]} makes "
            f"{mine.num_packs:,} packs, {said}; efficiency {percent(mine.efficiency, 2)}. The pack used most has "
            f"{' + '.join(map(str, mine.strategies[used[0]][:6]))}{' + …' if mine.sizes[used[0]] > 6 else ''}."
        )


# Exercises


def simple_bound(lengths, max_length, depth):
    """The better of two bounds: by tokens, and by places."""
    return max(math.ceil(sum(lengths) / max_length), math.ceil(len(lengths) / depth))


def dearest_pack(prices, max_length):
    """The worth of the best pack; `prices[l]` is a whole number, the price of length l; `prices[0]` is 0."""
    best = [0] * (max_length + 1)
    for slots in range(1, max_length + 1):
        best[slots] = max(best[slots - length] + prices[length] for length in range(1, slots + 1))
        best[slots] = max(best[slots], best[slots - 1])
    return best[max_length]


SEVEN = {7: 2, 6: 2, 4: 3}  # length: sequences, for packs of ten slots; five packs are needed


def _unproven(prices):
    """What keeps `prices` from proving that SEVEN needs five packs, or None."""
    if set(prices) != set(SEVEN):
        return "give a price to each of the lengths 7, 6 and 4, and to no other."
    exact = {length: Fraction(price).limit_denominator(1000) for length, price in prices.items()}
    if min(exact.values()) < 0 or not any(exact.values()):
        return "prices are not negative, and not all 0."
    pack = best_pack(exact, 10)
    best = sum(exact[length] for length in pack)
    worth = sum(exact[length] * n for length, n in SEVEN.items())
    if (bound := math.ceil(worth / best)) >= 5:
        return None
    return (
        f"all sequences are worth {worth}, and the pack {' + '.join(map(str, pack))} is worth {best}, so these "
        f"prices prove {bound} packs only."
    )


def _once_each(prices, max_length):
    best = [0] * (max_length + 1)
    for length in range(1, max_length + 1):
        for slots in range(max_length, length - 1, -1):
            best[slots] = max(best[slots], best[slots - length] + prices[length])
    return best[max_length]


def _greedily(prices, max_length):
    worth, left = 0, max_length
    for length in sorted(range(1, max_length + 1), key=lambda n: -prices[n] / n):
        worth, left = worth + left // length * prices[length], left % length
    return worth


EXERCISES = Exercises([
    Exercise(
        "simple_bound", simple_bound,
        cases=(([3], 8, 1), ([8, 8], 8, 2), ([1, 1, 1], 8, 2), ([5, 5, 5], 8, 3), ([7, 1, 1, 1, 1, 1], 8, 2)),
        wrong={
            "by tokens only": lambda lengths, max_length, depth: math.ceil(sum(lengths) / max_length),
            "by places only": lambda lengths, max_length, depth: math.ceil(len(lengths) / depth),
            "rounds down": lambda lengths, max_length, depth: max(sum(lengths) // max_length, len(lengths) // depth),
        },
        hint="both bounds are true, so the larger is; and there is no half a pack.",
    ),
    Exercise(
        "prices", {7: 1, 6: Fraction(1, 2), 4: Fraction(1, 2)},
        wrong={
            "by the token": {7: 0.7, 6: 0.6, 4: 0.4},
            "a pack for each": {7: 1, 6: 1, 4: 1},
            "only long ones count": {7: 1, 6: 1, 4: 0},
            "forgets a length": {7: 1, 6: 0.5},
        },
        hint="nothing fits beside 7. What is it worth then?",
        fault=_unproven,
    ),
    Exercise(
        "dearest_pack", dearest_pack,
        cases=(([0, 5], 1), ([0, 1, 3], 2), ([0, 3, 4], 2), ([0, 0, 0, 4, 5, 5], 5), ([0, 0, 0, 3, 5] + [5] * 6, 10)),
        wrong={
            "each length once": _once_each,
            "one sequence only": lambda prices, max_length: max(prices),
            "dearest token first": _greedily,
        },
        hint="the best for s slots leaves one slot empty, or ends with some length and is best for the rest.",
    ),
])  # fmt: skip
check = EXERCISES
