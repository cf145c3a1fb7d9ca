"""The linear program of packing on a few lengths, the knots, between which prices are linear.

It has a row a knot: a sequence between two knots counts as a part of each, so that sequences and tokens stay the same.
Column generation as in `optimal.py`, with a relaxed knapsack (`relaxed_knapsack.py`); a column holds long sequences,
mostly knots, and a fluid of short ones.
"""

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from packlib.packing.compiled import compiled
from packlib.packing.search.bound import PRICE_OF_A_PACK, exact_dot
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import Multiset
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.relaxed_knapsack import Fluid, best_with_another, deepest, fill_layers, splits

_CELLS = 1 << 12  # of the grid on which packs are priced
# All count as long where packs are at most so deep and hold at most so many of the shortest: each counts.
_DEEP, _FEW = 40, 100
_SMOOTH = (8, 5, 2, 0)  # tenths of the best prices so far, mixed with those of the last solution
_GAP = 1e-4  # of the linear program, when it is solved well enough


def choose_knots(counts: np.ndarray, series: int, grid: int, first: int, limit: int) -> np.ndarray:
    """Where prices may bend: ascending lengths, from the shortest to the longest that occurs.

    Two series of so many, one even in the logarithm of the length and one in that of the room beside it, and a step at
    each length above which a pack takes one fewer, or there is room for one fewer of the shortest beside it (if those
    count as long, from `first` on). Long ones lie on the grid. Few lengths are all knots.
    """
    used = np.flatnonzero(counts)
    if len(used) <= 2 * series:
        return used
    capacity, low, high = len(counts) - 1, int(used[0]), int(used[-1])
    up = np.geomspace(low, high, series)
    down = capacity - np.geomspace(low, capacity, series)
    steps = capacity // np.arange(2, 9) // grid * grid
    if first <= low:
        steps = np.concatenate([steps, capacity - low * np.arange(1, limit)])
    # powers differ in their last digits from one processor to another, and may be just below a whole number
    knots = np.floor(np.concatenate([up, down, steps, steps + grid]) + 1e-6).astype(np.int64)
    knots = np.append(np.where(knots >= first, knots // grid * grid, knots), first - 1)
    return np.unique(np.concatenate([knots[(knots > low) & (knots < high)], [low, high]]))


def parts_of_knots(lengths: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each length the knot at or below it (its index), and which part of a sequence counts as the next knot."""
    if len(knots) == 1:
        return np.zeros(len(lengths), np.int64), np.zeros(len(lengths))
    below = np.clip(np.searchsorted(knots, lengths, side="right") - 1, 0, len(knots) - 2)
    return below, (lengths - knots[below]) / (knots[below + 1] - knots[below])


def on_knots(counts: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """How many sequences count as each knot; float64."""
    used = np.flatnonzero(counts)
    below, part = parts_of_knots(used, knots)
    weights = np.bincount(below, counts[used] * (1 - part), len(knots))
    weights[1:] += np.bincount(below, counts[used] * part, len(knots))[:-1]
    return weights


@compiled
def _best_with_each(f, capacity, grid, limit, weights, values, fluid):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each item the best pack with it: its value, and the number and the cells of the other items; int64."""
    (lengths, prices, slopes), found = fluid, np.zeros((len(weights), 3), np.int64)
    most = min(len(f) - 1, limit)
    for i in range(len(weights)):
        for k in range(most - 1 if len(lengths) == 1 else 0, most):  # without fluid the more the better
            places = limit - k - 1
            j = len(lengths) - 1
            for c in range(capacity // grid - weights[i] + 1):
                room = capacity - (c + weights[i]) * grid
                while places * lengths[j] > room:
                    j -= 1
                value = values[i] + f[k, c] + places * prices[j] + slopes[j] * (room - places * lengths[j])
                if value > found[i, 0]:
                    found[i, 0], found[i, 1], found[i, 2] = value, k, c
    return found


@compiled
def _items_behind(
    f: np.ndarray, weights: np.ndarray, values: np.ndarray, k: int, c: int
) -> np.ndarray:  # pragma: no cover
    """The items of the pack behind f[k, c] of `fill_layers`."""
    items = np.empty(k, np.int64)
    found = 0
    while k > 0 and f[k, c] > 0:
        if f[k - 1, c] != f[k, c]:
            i = 0
            while weights[i] > c or f[k - 1, c - weights[i]] + values[i] != f[k, c]:
                i += 1
            items[found] = i
            found += 1
            c -= weights[i]
        k -= 1
    return items[:found]


class KnotProgram:
    """The linear program on the knots.

    Args:
        series: about half as many knots as there will be.

    Attributes:
        knots: the lengths that are its rows, ascending.
        prices: of the knots, those of the best bound so far; int64.
        depth: the most sequences a pack can hold.
        solved: whether `generate` ended since no more columns help.
    """

    def __init__(self, counts: np.ndarray, max_sequences_per_pack: int | None, series: int = 60) -> None:
        self.capacity = len(counts) - 1
        self.depth = deepest(counts > 0, max_sequences_per_pack)
        least = int(np.flatnonzero(counts)[0])
        each_counts = self.depth <= _DEEP and least * _FEW > self.capacity
        self.first, self.layers = (least, self.depth) if each_counts else splits(self.capacity, self.depth)[0]
        self.first = max(self.first, least)
        self.grid = -(-self.capacity // (2 * _CELLS if each_counts else _CELLS))
        knots = choose_knots(counts, series, self.grid, self.first, self.depth)
        self.knots = knots[on_knots(counts, knots) > 0]
        # by the token, or the same for all if packs are rather full of sequences
        by_token = self.knots * (PRICE_OF_A_PACK // self.capacity)
        alike = np.full(len(self.knots), PRICE_OF_A_PACK // self.depth)
        area = counts @ np.arange(self.capacity + 1) / self.capacity
        self.prices = by_token if area > counts.sum() / self.depth else alike
        # what a column stands for: its long sequences, and how many short ones
        self.solved = False
        self._plan_of: dict[Multiset, tuple[tuple[int, ...], float]] = {}
        self.set_counts(counts)
        self.master = MasterProblem(np.maximum(self.counts, np.isin(np.arange(len(counts)), self.knots)))
        for knot in self.knots.tolist():
            copies = min(self.depth, self.capacity // knot)
            column = ((knot, copies),)
            self._plan_of[column] = ((knot,) * copies, 0.0) if knot >= self.first else ((), float(copies))
            self.master.add([column])

    def set_counts(self, counts: np.ndarray) -> None:
        """Pack these sequences from now on: of lengths between the knots."""
        self.counts = np.zeros_like(counts)
        self.counts[self.knots] = np.rint(on_knots(counts, self.knots)).astype(np.int64)

    def generate(
        self, deadline: Deadline, kept: float = 0.0, rounds: float = math.inf, report: Callable[[], None] | None = None
    ) -> bool:
        """Add columns until the program meets its bound, none helps, or so many rounds are over.

        See `optimal`, which finds prices in the same way.

        Args:
            deadline, kept: as in `Deadline.solve`.

        Returns:
            Whether it came so far; False if the deadline was first.
        """
        counts, best, center = self.counts[self.knots], 0.0, self.prices
        while deadline.solve(self.master, self.counts, kept):
            prices, objective = self.master.prices, self.master.objective
            price_of = dict(zip(self.knots.tolist(), prices.tolist(), strict=True))
            for tenths in _SMOOTH:
                mixed = (center * tenths + prices * (10 - tenths)) // 10
                columns, value = self._price(mixed)
                bound = exact_dot(counts, mixed) / value
                if bound > best:
                    best, center = bound, mixed
                self.solved = objective <= best * (1 + _GAP)
                if self.solved:
                    break
                cheap = [p for p in columns if sum(price_of[x] * y for x, y in p) > PRICE_OF_A_PACK * (1 + 1e-7)]
                if self.master.add(cheap):
                    break
            else:
                self.solved = True
            self.prices = center
            if report:
                report()
            rounds -= 1
            if self.solved or rounds <= 0:
                return True
        return False

    def _price(self, prices: np.ndarray) -> tuple[list[Multiset], int]:
        """Packs worth much at these prices of the knots, and the value of the best."""
        is_long = self.knots >= self.first
        knots, values = self.knots[is_long], prices[is_long]
        weights = knots // self.grid
        fluid = Fluid.of(self.knots[~is_long], prices[~is_long])
        f = fill_layers(weights, values, self.capacity // self.grid, self.layers)
        size = (self.capacity, self.grid, self.depth)
        # the last item is none at all
        each = _best_with_each(f, *size, np.append(weights, 0), np.append(values, 0), fluid)
        table = np.floor(np.interp(np.arange(self.capacity + 1), self.knots, prices)).astype(np.int64)
        another = best_with_another(f, *size, fluid, self.first, table)
        packs = [(k, c, knots[i : i + 1].tolist()) for i, (value, k, c) in enumerate(each.tolist()) if value]
        packs += [(k - 1, c, [length]) for k, (value, length, c) in enumerate(another.tolist()) if value]
        columns = [
            self._column(knots[_items_behind(f, weights, values, k, c)].tolist() + extra, fluid)
            for k, c, extra in packs
        ]
        return columns, max(int(each[:, 0].max()), int(another[:, 0].max()))

    def _column(self, items: list[int], fluid: Fluid) -> Multiset:
        """A pack with these long sequences, and as much of the fluid as fits."""
        places, room = self.depth - len(items), max(self.capacity - sum(items), 0)
        parts: dict[int, float] = {}
        if places > 0 and room:
            j = int(np.searchsorted(fluid.lengths * places, room, side="right")) - 1
            after = 0.0
            if j + 1 < len(fluid.lengths):
                step = int(fluid.lengths[j + 1] - fluid.lengths[j])
                after = (room - places * int(fluid.lengths[j])) / step
                parts[int(fluid.lengths[j + 1])] = after
            if j:
                parts[int(fluid.lengths[j])] = places - after
        shorts = sum(parts.values())
        for b, part in zip(*(x.tolist() for x in parts_of_knots(np.array(items), self.knots)), strict=True):
            for knot, copies in zip(self.knots[b : b + 2].tolist(), (1 - part, part), strict=False):
                parts[knot] = parts.get(knot, 0.0) + copies
        # parts of copies, where a strategy has whole ones
        parts_used = tuple(sorted(((knot, copies) for knot, copies in parts.items() if copies > 0), reverse=True))
        column = cast(Multiset, parts_used)
        self._plan_of[column] = (tuple(sorted(items, reverse=True)), shorts)
        return column

    def whole_packs(self) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
        """The last solution in whole packs: their long sequences, how many short ones, how many packs."""
        merged: dict[tuple[int, ...], list[float]] = {}
        for column, packs in zip(self.master.strategies, self.master.usage.tolist(), strict=True):
            if packs > 1e-9:
                items, shorts = self._plan_of[column]
                both = merged.setdefault(items, [0.0, 0.0])
                both[0] += packs
                both[1] += packs * shorts
        plans = sorted(merged, reverse=True)
        usage, shorts = np.array([merged[items] for items in plans]).T
        total = usage.sum()
        # rounded where they end on a line: similar plans make up for each other
        ends = np.cumsum(usage) * (math.ceil(total - 1e-6) / total)
        return plans, shorts / usage, np.diff(np.floor(ends + 0.5), prepend=0.0).astype(np.int64)

    def table(self) -> np.ndarray:
        """The prices of all lengths, exactly linear between the knots; int64."""
        knots, prices = self.knots.tolist(), self.prices.tolist()
        table = np.full(self.capacity + 1, prices[0])
        table[: knots[0]] = 0
        for a, b, price in zip(knots, knots[1:], prices[1:], strict=False):
            slope = max(0, (price - int(table[a])) // (b - a))
            table[a : b + 1] = table[a] + slope * np.arange(b - a + 1)
            table[b:] = table[b]
        return np.minimum(table, PRICE_OF_A_PACK)
