"""Packing long rows: a linear program over a few lengths, and real packs after its solution.

With a hundred thousand lengths the knapsack of `packlib.packing.optimal` takes minutes. Here prices are linear between
some hundred lengths, the knots. The linear program restricted to such prices has a row a knot: a sequence between two
knots counts as a part of each, so that sequences and tokens stay the same.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from numba import njit

from packlib.packing.certificate import PRICE_OF_A_PACK
from packlib.packing.knapsack import Multiset
from packlib.packing.master import MasterProblem
from packlib.packing.relaxed_knapsack import LAYERS, Fluid, best_with_another, fill_layers

_CELLS = 1 << 12  # of the grid on which packs are priced
_KNOTS = 60  # lengths in each series of knots


def choose_knots(counts: np.ndarray, grid: int, series: int = _KNOTS) -> np.ndarray:
    """Where prices may bend: ascending lengths, from the shortest to the longest that occurs.

    Two series, one even in the logarithm of the length and one in that of the room beside it, and a step at each
    length of which one pack more takes one fewer. Long ones lie on the grid.
    """
    used = np.flatnonzero(counts)
    if len(used) <= 2 * series:
        return used
    capacity, low, high = len(counts) - 1, int(used[0]), int(used[-1])
    first = capacity // (LAYERS + 1) + 1
    up = np.geomspace(low, high, series)
    down = capacity - np.geomspace(low, capacity, series)
    parts = capacity // np.arange(2, 9) // grid * grid
    knots = np.concatenate([up, down, parts, parts + grid]).astype(np.int64)
    knots = np.where(knots >= first, knots // grid * grid, knots)
    knots = np.append(knots, first - 1)
    knots = np.concatenate([knots[(knots > low) & (knots < high)], [low, high]])
    return np.unique(knots)


def hat_weights(lengths: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each length the knot at or below it (index), and the part of a sequence that counts as the next knot."""
    below = np.clip(np.searchsorted(knots, lengths, side="right") - 1, 0, max(len(knots) - 2, 0))
    if len(knots) == 1:
        return below, np.zeros(len(lengths))
    return below, (lengths - knots[below]) / (knots[below + 1] - knots[below])


def on_knots(counts: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """How many sequences count as each knot; float64."""
    used = np.flatnonzero(counts)
    below, part = hat_weights(used, knots)
    n = counts[used].astype(float)
    weights = np.bincount(below, n * (1 - part), len(knots))
    weights[1:] += np.bincount(below, n * part, len(knots))[:-1]
    return weights


@njit(cache=True)
def _best_with_each(f, capacity, grid, depth, weights, values, lengths, prices, slopes):  # pragma: no cover (compiled)
    """For each item (one long knot) the best pack with it: its value, and the number and cells of the other items."""
    n = len(weights)
    found = np.zeros((n, 3), np.int64)
    for i in range(n):
        for k in range(len(f) - 1):
            places = depth - k - 1
            if places < 0:
                break
            j = len(lengths) - 1
            for c in range((capacity // grid) - weights[i] + 1):
                room = capacity - (c + weights[i]) * grid
                while places * lengths[j] > room:
                    j -= 1
                value = values[i] + f[k, c] + places * prices[j] + slopes[j] * (room - places * lengths[j])
                if value > found[i, 0]:
                    found[i, 0], found[i, 1], found[i, 2] = value, k, c
    return found


class LongRows:
    """The linear program on the knots."""

    def __init__(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> None:
        self.counts = counts
        self.capacity = len(counts) - 1
        self.used = np.flatnonzero(counts)
        depth = self.capacity // int(self.used[0])
        self.depth = min(depth, max_sequences_per_pack or depth)
        self.grid = -(-self.capacity // _CELLS)
        self.layers = min(self.depth, LAYERS)
        self.first = self.capacity // (LAYERS + 1) + 1
        knots = choose_knots(counts, self.grid)
        self.knots = knots[on_knots(counts, knots) > 0]
        self.weights = on_knots(counts, self.knots)
        self.columns: dict = {}
        whole = np.zeros_like(counts)
        whole[self.knots] = np.maximum(np.rint(self.weights), 1).astype(np.int64)
        self.whole = whole
        self.master = MasterProblem(whole)
        self.master.add(((knot, min(self.depth, self.capacity // knot)),) for knot in self.knots.tolist())

    def backtrack(self, f, weights, values, k, c) -> list[int]:
        """The items (indices) of the pack behind f[k, c]."""
        items = []
        while k and f[k, c]:
            if f[k - 1, c] == f[k, c]:
                k -= 1
                continue
            fits = np.flatnonzero((weights <= c) & (weights * k <= self.capacity // self.grid))
            i = int(fits[np.flatnonzero(f[k - 1, c - weights[fits]] + values[fits] == f[k, c])[0]])
            items.append(i)
            k, c = k - 1, c - int(weights[i])
        return items

    def price(self, prices: np.ndarray):
        """Find packs worth much at these prices of the knots (int64).

        Returns the packs as (length, copies) with parts of copies, and the value of the best.
        """
        is_long = self.knots >= self.first
        short = ~is_long
        fluid = Fluid.of(self.knots[short], prices[short])
        weights, values = self.knots[is_long] // self.grid, prices[is_long]
        knots = self.knots[is_long]
        cells = self.capacity // self.grid
        f = fill_layers(weights, values, cells, self.layers)
        hull = (fluid.lengths, fluid.prices, fluid.slopes)
        # a weight of 0 stands for no item at all
        each = _best_with_each(
            f, self.capacity, self.grid, self.depth, np.append(weights, 0), np.append(values, 0), *hull
        )
        table = np.floor(np.interp(np.arange(self.capacity + 1), self.knots, prices)).astype(np.int64)
        other = best_with_another(f, self.capacity, self.grid, self.depth, *hull[:2], self.first, table)
        packs = []
        for i, (value, k, c) in enumerate(each.tolist()):
            if value:
                items = [int(knots[j]) for j in self.backtrack(f, weights, values, k, c)]
                if i < len(knots):
                    items.append(int(knots[i]))
                packs.append(self.poured(items, fluid))
        for k, (value, length, c) in enumerate(other.tolist()):
            if value:
                items = [int(knots[j]) for j in self.backtrack(f, weights, values, k - 1, c)]
                packs.append(self.poured([*items, length], fluid))
        return packs, max(int(each[:, 0].max()), int(other[:, 0].max()))

    def poured(self, items: list[int], fluid: Fluid) -> Multiset:
        """A pack with these long sequences, and as much of the fluid as fits."""
        places, room = self.depth - len(items), max(self.capacity - sum(items), 0)
        pack: dict[int, float] = {}
        if places > 0 and room:
            j = int(np.searchsorted(fluid.lengths * places, room, side="right")) - 1
            if j == len(fluid.lengths) - 1:
                share = [(j, float(places))]
            else:
                part = (room - places * int(fluid.lengths[j])) / int(fluid.lengths[j + 1] - fluid.lengths[j])
                share = [(j, places - part), (j + 1, part)]
            for j, copies in share:
                if fluid.lengths[j] and copies > 0:
                    pack[int(fluid.lengths[j])] = copies
        lengths = np.array(items, np.int64)
        for b, part in zip(*(x.tolist() for x in hat_weights(lengths, self.knots)), strict=True):
            for j, copies in ((b, 1 - part), (b + 1, part)):
                if copies > 0:
                    knot = int(self.knots[j])
                    pack[knot] = pack.get(knot, 0) + copies
        return tuple(sorted(pack.items(), reverse=True))

    def generate(self, seconds: float = math.inf, gap: float = 2e-4, trace=None) -> None:
        started = time.perf_counter()
        n = self.whole[self.knots].astype(float)
        best, center = 0.0, self.knots * (PRICE_OF_A_PACK // self.capacity)
        rounds = 0
        while self.master.solve(self.whole, seconds - (time.perf_counter() - started)):
            prices, objective = self.master.prices, self.master.objective
            price_of = dict(zip(self.knots.tolist(), prices.tolist(), strict=True))
            added = 0
            for tenths in (8, 5, 2, 0):
                mixed = (center * tenths + prices * (10 - tenths)) // 10
                packs, value = self.price(mixed)
                rounds += 1
                bound = float(n @ mixed) / value
                if bound > best:
                    best, center = bound, mixed
                added = self.master.add(
                    p for p in packs if sum(price_of[x] * y for x, y in p) > PRICE_OF_A_PACK * (1 + 1e-7)
                )
                if added:
                    break
            if trace:
                trace(rounds, objective, best, added, time.perf_counter() - started)
            if not added or objective <= best * (1 + gap):
                break
            if time.perf_counter() - started > seconds:
                break
        self.prices = center

    def table(self) -> np.ndarray:
        """The prices of all lengths, linear between the knots in whole numbers."""
        table = np.zeros(self.capacity + 1, np.int64)
        price = int(self.prices[0])
        table[: self.knots[0] + 1] = 0
        table[self.knots[0] :] = price
        for a, b, x in zip(self.knots.tolist(), self.knots[1:].tolist(), self.prices[1:].tolist(), strict=False):
            slope = max(0, (x - price) // (b - a))
            table[a : b + 1] = price + slope * np.arange(b - a + 1)
            price += slope * (b - a)
            table[b:] = price
        return table
