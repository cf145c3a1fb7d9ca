"""Notebook 04: the best packing, and the proof."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from packbook.exercises import Exercise, Exercises
from packbook.explorers import Explorer, choice
from packbook.figures import new_figure, percent, series
from packbook.n04_optimal_packing.runs import best_pack
from packbook.questions import Questions, compare
from packbook.shared.above import draw_above
from packbook.shared.histograms import choice_of_lengths, sets_to_explore, shown_name
from packbook.shared.pack_drawings import draw_packs, spoken
from packlib.checks import in_html
from packlib.packing import Method, PackingPlan, plan
from packlib.packing.search.progress import Progress

EXPLORED = ("wikipedia", "squad", "docstrings", "wordnet", "wordnet-pairs", "uniform")
METHOD_NAMES: dict[Method, str] = dict(unpacked="unpacked", spfhp="SPFHP", lpfhp="LPFHP", optimal="optimal")
DEPTHS = (1, 2, 3, 4, 6, 8, 16, None)
TOPS = (64, 128, 256, 384, 512)
PATIENCE = 20  # seconds for one plan, far more than any set of the workbook needs


class GapExplorer(Explorer):
    """Data set, maximum length, depth and method, with the gap to the proven bound and the packs most used.

    A plan that takes longer than half a second says how far it is meanwhile.
    """

    title = "How far from the best?"
    shown_controls = ("depth", "method")

    def __init__(
        self, dataset: str = "wikipedia", own: Sequence[int] = (15, 10, 10, 6, 6, 6, 6), slots: int = 30
    ) -> None:
        self.dataset = dataset
        self.histograms = sets_to_explore(dataset, EXPLORED, own, slots)
        self._plans = dict[tuple, PackingPlan]()
        super().__init__()

    def controls(self):
        return {
            "dataset": choice_of_lengths(self.histograms, self.dataset),
            "max_length": choice("Maximum length", [("its own", 0), *((str(n), n) for n in TOPS)], 0),
            "depth": choice("Depth", [(spoken(depth), depth or 0) for depth in DEPTHS], 3),
            "method": choice("Method", [(said, name) for name, said in METHOD_NAMES.items()], "lpfhp"),
        }

    def plan(self, dataset: str, max_length: int, depth: int, method: Method) -> PackingPlan:
        """The plan, from memory if it was made before; a 0 is the data set's own maximum, or no limit."""
        key = dataset, max_length, depth, method
        if key not in self._plans:
            histogram = self.histograms[dataset]
            if max_length:
                histogram = histogram.with_max_length(max_length, overlong="truncate")
            options: dict[str, Any] = {"progress": self._report, "time_limit": PATIENCE} if method == "optimal" else {}
            self._plans[key] = plan(histogram, method=method, max_sequences_per_pack=depth or None, **options)
        return self._plans[key]

    def _report(self, now: Progress) -> None:
        """Show how far the search is, in place of the picture."""
        if now.seconds > 0.3:
            self.picture.value = f'<p role="status">{in_html(str(now))} …</p>'

    def draw(self, dataset: str, max_length: int, depth: int, method: Method) -> tuple[Figure, str]:
        best = self.plan(dataset, max_length, depth, "optimal")
        mine = self.plan(dataset, max_length, depth, method)
        gap, top = mine.num_packs - best.lower_bound, best.histogram.max_length
        fig, (left, right) = new_figure(1, 2)
        packs = {said: self.plan(dataset, max_length, depth, name).num_packs for name, said in METHOD_NAMES.items()}
        above = {said: number - best.lower_bound for said, number in packs.items()}
        draw_above(left, above, [series(name) for name in METHOD_NAMES], "{:,}".format)
        left.get_yticklabels()[list(METHOD_NAMES).index(method)].set_fontweight("bold")
        left.set_title(f"{METHOD_NAMES[method]}: {gap:,} above", x=-0.2)
        used = np.argsort(-mine.repeats, kind="stable")[:8].tolist()
        shares = [percent(mine.repeats[s] / mine.num_packs) for s in used]
        draw_packs(right, [mine.strategies[s] for s in used], top, labels=shares)
        right.set_title(f"Most used, {spoken(depth or None)}")
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


def _sum(pack: Sequence[int]) -> str:
    return " + ".join(map(str, pack))


QUESTIONS = Questions.beside(
    __file__,
    truths={
        "threes": lambda packs: packs,
        "bargain": lambda pack, worth: _sum(pack),
        "four": lambda before, after: compare(after, before, "fall", "stay", "rise"),
        "strategies": lambda known, start, rounds: known - start,
        "spoiled": lambda proven, packs: "yes" if max(proven) > packs else "no",
        "worth": lambda price: round(price, 3),
        "rounding": lambda above, end: above,
        "seven": lambda packs, fractions: packs,
        "depth": lambda enough, packs, fewest: enough or "no limit",
    },
)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark


# Exercises


def simple_bound(lengths, max_length, depth):
    """The better of two bounds: by tokens, and by places."""
    return max(math.ceil(sum(lengths) / max_length), math.ceil(len(lengths) / depth))


def may_use(pack, counts, prices, best, packs):
    """Whether prices leave it open that a packing of so many packs uses `pack`."""
    worth = sum(prices[length] * n for length, n in counts.items())
    others = (packs - 1) * best  # worth no more than that
    return worth - sum(prices[length] for length in pack) <= others


SEVEN = {7: 2, 6: 2, 4: 3}  # length: sequences, for packs of ten slots; five packs are needed


def _unproven(prices):
    """What keeps `prices` from proving that SEVEN needs five packs, or None."""
    if not isinstance(prices, Mapping) or set(prices) != set(SEVEN):
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


def _not_the_round(answer):
    """What is wrong with prices and pack for the known packs 7 + 4, 5 + 5 and 4 + 4 + 4 of twelve slots, or None."""
    prices, pack = answer
    for known in ((7, 4), (5, 5), (4, 4, 4)):
        worth = sum(prices[length] for length in known)
        if abs(worth - 1) > 0.01:
            return f"the solution uses {_sum(known)}, so it is worth exactly 1, not {float(worth):.3g}."
    if sum(pack) > 12:
        return f"{_sum(pack)} does not fit into twelve slots."
    if sum(prices[length] for length in pack) < 1.01:
        return f"{_sum(pack)} is not worth more than a pack at these prices."
    return None


check = Exercises.beside(
    __file__,
    simple_bound,
    Exercise("prices", {7: 1, 6: Fraction(1, 2), 4: Fraction(1, 2)}, fault=_unproven),
    Exercise("one_round", ({7: Fraction(2, 3), 5: Fraction(1, 2), 4: Fraction(1, 3)}, (7, 5)), fault=_not_the_round),
    Exercise(
        "may_use",
        may_use,
        cases=(
            ((3,), {3: 1}, {3: 1}, 1, 1),
            ((3,), {3: 2}, {3: 1}, 2, 1),
            ((3, 3), {3: 2}, {3: 1}, 2, 1),
            ((4,), {4: 6, 3: 13}, {4: 1, 3: 1}, 3, 7),
            ((4, 4), {4: 6, 3: 13}, {4: 1, 3: 1}, 3, 7),
            ((4, 4), {4: 6, 3: 15}, {4: 1, 3: 1}, 3, 7),
            ((4, 3, 3), {4: 6, 3: 15}, {4: 1, 3: 1}, 3, 7),
        ),
    ),
)
