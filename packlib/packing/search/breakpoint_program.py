"""The linear program of packing on a few lengths, the breakpoints of its prices, which are linear between them.

It has a row a breakpoint: a sequence between two of them counts as a part of each, so that sequences and tokens stay
the same. Column generation as in `optimal.py`, with a relaxed knapsack (`relaxed_knapsack.py`); a column holds long
sequences, mostly at breakpoints, and an average of short ones.
"""

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from packlib.packing.search.bound import PRICE_OF_A_PACK, exact_dot
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import Multiset, up_to
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.relaxed_knapsack import ConcaveHull, best_with_another, deepest, splits

_CELLS = 1 << 12  # of the grid on which packs are priced
# All count as long where packs are at most so deep and hold at most so many of the shortest: each counts.
_DEEP, _FEW = 40, 100
_SMOOTH = (8, 5, 2, 0)  # tenths of the best prices so far, mixed with those of the last solution
_GAP = 1e-4  # of the linear program, when it is solved well enough


def choose_breakpoints(counts: np.ndarray, series: int, grid: int, first: int, limit: int) -> np.ndarray:
    """Where prices may bend: ascending lengths, from the shortest to the longest that occurs.

    Two series of so many, one even in the logarithm of the length and one in that of the room beside it, and a step at
    each length above which a pack takes one fewer, or there is room for one fewer of the shortest beside it (if those
    count as long, from `first` on). Long ones lie on the grid. Few lengths are all breakpoints.
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
    breakpoints = np.floor(np.concatenate([up, down, steps, steps + grid]) + 1e-6).astype(np.int64)
    breakpoints = np.append(np.where(breakpoints >= first, breakpoints // grid * grid, breakpoints), first - 1)
    return np.unique(np.concatenate([breakpoints[(breakpoints > low) & (breakpoints < high)], [low, high]]))


def parts_of_breakpoints(lengths: np.ndarray, breakpoints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each length the breakpoint at or below it (its index), and which part of a sequence counts as the next."""
    if len(breakpoints) == 1:
        return np.zeros(len(lengths), np.int64), np.zeros(len(lengths))
    below = np.clip(np.searchsorted(breakpoints, lengths, side="right") - 1, 0, len(breakpoints) - 2)
    return below, (lengths - breakpoints[below]) / (breakpoints[below + 1] - breakpoints[below])


def on_breakpoints(counts: np.ndarray, breakpoints: np.ndarray) -> np.ndarray:
    """How many sequences count as each breakpoint; float64."""
    used = np.flatnonzero(counts)
    below, part = parts_of_breakpoints(used, breakpoints)
    weights = np.bincount(below, counts[used] * (1 - part), len(breakpoints))
    weights[1:] += np.bincount(below, counts[used] * part, len(breakpoints))[:-1]
    return weights


def _best_with_each(
    f: np.ndarray, capacity: int, grid: int, limit: int, weights: np.ndarray, values: np.ndarray, hull: ConcaveHull
) -> np.ndarray:
    """For each item the best pack with it: its value, and the number and the cells of the other items; int64."""
    found, cells = np.zeros((len(weights), 3), np.int64), f.shape[1]
    most = min(len(f) - 1, limit)
    for k in range(most - 1 if len(hull.lengths) == 1 else 0, most):  # without short ones the more the better
        shorts = hull.worth(limit - k - 1, capacity - grid * np.arange(cells))
        for i, (weight, value) in enumerate(zip(weights.tolist(), values.tolist(), strict=True)):
            worth = f[k, : cells - weight] + shorts[weight:]
            c = int(worth.argmax())
            if worth[c] + value > found[i, 0]:
                found[i] = worth[c] + value, k, c
    return found


def _items_behind(f: np.ndarray, weights: np.ndarray, values: np.ndarray, k: int, c: int) -> list[int]:
    """The items of the pack behind f[k, c] of `up_to`."""
    items = []
    while k > 0 and f[k, c] > 0:
        if f[k - 1, c] != f[k, c]:
            fits = weights[: np.searchsorted(weights, c, side="right")]
            items.append(int((f[k - 1, c - fits] + values[: len(fits)] == f[k, c]).argmax()))
            c -= int(weights[items[-1]])
        k -= 1
    return items


class BreakpointProgram:
    """The linear program on the breakpoints.

    Args:
        series: about half as many breakpoints as there will be.

    Attributes:
        breakpoints: the lengths that are its rows, ascending.
        prices: of the breakpoints, those of the best bound so far; int64.
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
        breakpoints = choose_breakpoints(counts, series, self.grid, self.first, self.depth)
        self.breakpoints = breakpoints[on_breakpoints(counts, breakpoints) > 0]
        # by the token, or the same for all if packs are rather full of sequences
        by_token = self.breakpoints * (PRICE_OF_A_PACK // self.capacity)
        alike = np.full(len(self.breakpoints), PRICE_OF_A_PACK // self.depth)
        area = counts @ np.arange(self.capacity + 1) / self.capacity
        self.prices = by_token if area > counts.sum() / self.depth else alike
        # what a column stands for: its long sequences, and how many short ones
        self.solved = False
        self._plan_of: dict[Multiset, tuple[tuple[int, ...], float]] = {}
        self.set_counts(counts)
        self.master = MasterProblem(np.maximum(self.counts, np.isin(np.arange(len(counts)), self.breakpoints)))
        for breakpoint in self.breakpoints.tolist():
            copies = min(self.depth, self.capacity // breakpoint)
            column = ((breakpoint, copies),)
            self._plan_of[column] = ((breakpoint,) * copies, 0.0) if breakpoint >= self.first else ((), float(copies))
            self.master.add([column])

    def set_counts(self, counts: np.ndarray) -> None:
        """Pack these sequences from now on: of lengths between the breakpoints."""
        self.counts = np.zeros_like(counts)
        self.counts[self.breakpoints] = np.rint(on_breakpoints(counts, self.breakpoints)).astype(np.int64)

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
        counts, best, center = self.counts[self.breakpoints], 0.0, self.prices
        while deadline.solve(self.master, self.counts, kept):
            prices, objective = self.master.prices, self.master.objective
            price_of = dict(zip(self.breakpoints.tolist(), prices.tolist(), strict=True))
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
        """Packs worth much at these prices of the breakpoints, and the value of the best."""
        is_long = self.breakpoints >= self.first
        breakpoints, values = self.breakpoints[is_long], prices[is_long]
        weights = breakpoints // self.grid
        hull = ConcaveHull.of(self.breakpoints[~is_long], prices[~is_long])
        f = up_to(self.layers, weights, values, self.capacity // self.grid)
        size = (self.capacity, self.grid, self.depth)
        # the last item is none at all
        each = _best_with_each(f, *size, np.append(weights, 0), np.append(values, 0), hull)
        table = np.floor(np.interp(np.arange(self.capacity + 1), self.breakpoints, prices)).astype(np.int64)
        another = best_with_another(f, *size, hull, self.first, table)
        packs = [(k, c, breakpoints[i : i + 1].tolist()) for i, (value, k, c) in enumerate(each.tolist()) if value]
        packs += [(k - 1, c, [length]) for k, (value, length, c) in enumerate(another.tolist()) if value]
        columns = [
            self._column(breakpoints[_items_behind(f, weights, values, k, c)].tolist() + extra, hull)
            for k, c, extra in packs
        ]
        return columns, max(int(each[:, 0].max()), int(another[:, 0].max()))

    def _column(self, items: list[int], hull: ConcaveHull) -> Multiset:
        """A pack with these long sequences, and as many short ones as are worth most beside them."""
        places, room = self.depth - len(items), max(self.capacity - sum(items), 0)
        parts: dict[int, float] = {}
        if places > 0 and room:
            j = int(np.searchsorted(hull.lengths * places, room, side="right")) - 1
            after = 0.0
            if j + 1 < len(hull.lengths):
                step = int(hull.lengths[j + 1] - hull.lengths[j])
                after = (room - places * int(hull.lengths[j])) / step
                parts[int(hull.lengths[j + 1])] = after
            if j:
                parts[int(hull.lengths[j])] = places - after
        shorts = sum(parts.values())
        for b, part in zip(
            *(x.tolist() for x in parts_of_breakpoints(np.array(items), self.breakpoints)), strict=True
        ):
            for breakpoint, copies in zip(self.breakpoints[b : b + 2].tolist(), (1 - part, part), strict=False):
                parts[breakpoint] = parts.get(breakpoint, 0.0) + copies
        # parts of copies, where a strategy has whole ones
        parts_used = tuple(
            sorted(((breakpoint, copies) for breakpoint, copies in parts.items() if copies > 0), reverse=True)
        )
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
        """The prices of all lengths, exactly linear between the breakpoints; int64."""
        breakpoints, prices = self.breakpoints.tolist(), self.prices.tolist()
        table = np.full(self.capacity + 1, prices[0])
        table[: breakpoints[0]] = 0
        for a, b, price in zip(breakpoints, breakpoints[1:], prices[1:], strict=False):
            slope = max(0, (price - int(table[a])) // (b - a))
            table[a : b + 1] = table[a] + slope * np.arange(b - a + 1)
            table[b:] = table[b]
        return np.minimum(table, PRICE_OF_A_PACK)
