"""The bound for long rows under a depth limit, its linear program: packing on a few lengths.

These lengths are the breakpoints of its prices, which are linear between them. The program has a row for each
breakpoint. A sequence between two breakpoints counts as a part of each, so that the sums of sequences and of tokens
stay the same. Columns are generated as for `exact.py`, by the same knapsack, but on a grid: a slot is some tokens, and
each breakpoint takes whole slots. A pack holds sequences at breakpoints, and at most one between two of them.
"""

import math
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import cast

import numpy as np

from packlib.lengths.counting import exact_dot
from packlib.packing.search.bound import PRICE_OF_A_PACK
from packlib.packing.search.columns import generate_columns
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import NOT_FOR_SALE, Multiset, solve_knapsack
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.relaxed_knapsack import ALL_LONG, deepest

_SLOTS = 1 << 12  # of a pack
_STEPS_AN_ADDITION = 5  # of the knapsack, with what is made of its table
_GAP = 1e-5  # of the linear program, when it is solved well enough


def choose_breakpoints(counts: np.ndarray, slots: int, series: int, each: bool) -> np.ndarray:
    """Choose where prices may bend, in slots of a pack, ascending; int64.

    Lengths with as many sequences and tokens between them; lengths even in the logarithm; those that leave room for so
    many of the shortest; and a step at each length above which a pack takes one fewer. Few lengths are all breakpoints,
    or between two.

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (capacity + 1,).
        series: about so many of the first kind.
        each: whether there is a step, too, at each length above which there is room for one fewer of the shortest.
    """
    lengths = np.flatnonzero(counts)
    used = lengths * slots / (len(counts) - 1)
    low, high = max(1, round(used[0])), min(math.ceil(used[-1]), slots)
    if len(used) <= 2 * series:
        breakpoints = np.concatenate([used, np.ceil(used)])
    else:
        sequences, tokens = np.cumsum(counts[lengths]), np.cumsum(counts[lengths] * lengths)
        upto = sequences / sequences[-1] + tokens / tokens[-1]
        alike = used[np.searchsorted(upto, 2 * np.arange(1, series) / series)]
        even = np.geomspace(low, high, series // 2)
        # powers differ in their last digits from one processor to another, and may be just below a whole number
        beside = slots - low * np.floor(np.geomspace(1, slots // low, series) + 1e-6)
        steps = slots // np.arange(2, 9)
        breakpoints = np.concatenate([[low, high], alike, even + 1e-6, beside, beside + each, steps, steps + 1])
    return np.unique(np.clip(breakpoints.astype(np.int64), low, high))


class BreakpointProgram:
    """The linear program on the breakpoints.

    Args:
        series: see `choose_breakpoints`.

    Attributes:
        unit: the tokens of a slot.
        breakpoints: the lengths that are its rows, in slots, ascending; int64.
        prices: of the breakpoints, those of the best bound so far; int64.
        depth: the most sequences that a pack can hold.
        pack_of: the pack that each column stands for, in slots.
    """

    def __init__(self, counts: np.ndarray, max_sequences_per_pack: int | None, series: int) -> None:
        self.capacity, self.limit = len(counts) - 1, max_sequences_per_pack
        self.depth = deepest(counts > 0, max_sequences_per_pack)
        self.shortest = int(np.flatnonzero(counts)[0])
        # a number of slots of which the shortest length takes nearly a whole number
        most, part = min(self.capacity, _SLOTS), self.shortest / self.capacity
        self.slots = min(range(most, most // 2, -1), key=lambda slots: abs(slots * part - max(1, round(slots * part))))
        self.unit = self.capacity / self.slots
        self.breakpoints = choose_breakpoints(counts, self.slots, series, self.depth <= ALL_LONG)
        self.prices = self.breakpoints * (PRICE_OF_A_PACK // self.slots)
        self.set_counts(counts)
        self.master = MasterProblem(np.ones_like(self.prices))
        self.pack_of: dict[Multiset, Multiset] = {}
        copies = np.minimum(self.slots // self.breakpoints, self.depth)
        self._add([((point, n),) for point, n in zip(self.breakpoints.tolist(), copies.tolist(), strict=True)])

    def set_counts(self, counts: np.ndarray) -> None:
        """Pack these sequences from now on."""
        lengths = np.flatnonzero(counts)
        self.counts = np.maximum(np.rint(self._parts(lengths / self.unit, counts[lengths])), 0).astype(np.int64)

    def _parts(self, lengths: np.ndarray, copies: np.ndarray) -> np.ndarray:
        """Count the sequences that each breakpoint stands for; float64.

        A length below the first breakpoint or above the last, by less than a slot, is extrapolated from the two nearest
        breakpoints.
        """
        size = len(self.breakpoints)
        below = np.clip(np.searchsorted(self.breakpoints, lengths, side="right") - 1, 0, max(size - 2, 0))
        after = np.minimum(below + 1, size - 1)
        part = (lengths - self.breakpoints[below]) / np.maximum(self.breakpoints[after] - self.breakpoints[below], 1)
        return np.bincount(below, copies * (1 - part), size) + np.bincount(after, copies * part, size)

    def generate(
        self, deadline: Deadline, report: Callable[[], None] | None = None, rounds: int | None = None
    ) -> bool:
        """Add columns until the program nearly meets its bound, none helps, so many rounds are over, or the deadline.

        Args:
            report: is called after each round.
            rounds: at most so many linear programs are solved; None for any number.

        Returns:
            Whether it came so far; False if the deadline was first.
        """
        self._proven = 0.0
        self._near = False
        self._ended = False

        def solutions() -> Iterator[np.ndarray]:
            for _ in range(rounds) if rounds else count():
                if not deadline.solve(self.master, self.counts):
                    return
                yield self.master.prices
                if report:
                    report()
            self._ended = True

        def price(mixed: np.ndarray, own: np.ndarray) -> int | None:
            layers = self.depth if self.limit else 1
            deadline.spend(_STEPS_AN_ADDITION * len(self.breakpoints) * self.slots * layers)
            packs, value = self._price(mixed)
            bound = exact_dot(self.counts, mixed) / value
            if bound > self._proven:
                self._proven, self.prices = bound, mixed
            self._near = self.master.objective <= self._proven * (1 + _GAP)
            return None if self._near else self._add(packs, own)

        solved = generate_columns(solutions(), lambda: self.prices, price)
        return solved or self._near or self._ended

    def _price(self, prices: np.ndarray) -> tuple[list[Multiset], int]:
        """Find the best packs with each breakpoint and with a length between each two, and what the best is worth."""
        values = np.full(self.slots + 1, NOT_FOR_SALE)
        values[self.breakpoints] = prices
        knapsack = solve_knapsack(values, self.limit)
        lengths = np.arange(self.breakpoints[0], self.breakpoints[-1] + 1, knapsack.unit)
        worth = np.interp(lengths, self.breakpoints, prices).astype(np.int64)
        worth += knapsack.best_beside(lengths)
        at = np.searchsorted(lengths, self.breakpoints)
        between = [a + 1 + int(worth[a + 1 : b].argmax()) for a, b in pairwise(at.tolist()) if b > a + 1]
        return knapsack.packs_with(lengths[np.union1d(at, between).astype(np.int64)]), int(worth.max())

    def _add(self, packs: list[Multiset], prices: np.ndarray | None = None) -> int:
        """Add these packs as columns, if they are worth more than a pack costs; return how many were new."""
        columns = []
        for pack in packs:
            parts = self._parts(*np.array(pack).T)
            if prices is None or parts @ prices > PRICE_OF_A_PACK * (1 + 1e-7):
                # fractional copies, where a strategy has whole ones
                used = np.flatnonzero(parts)[::-1]
                columns.append(cast(Multiset, tuple(zip(used.tolist(), parts[used].tolist(), strict=True))))
                self.pack_of[columns[-1]] = pack
        return self.master.add(columns)

    def table(self) -> np.ndarray:
        """Return prices of all lengths, exactly linear between the breakpoints, so that they have few bends; int64."""
        breakpoints = np.append(0, np.rint(self.breakpoints * self.unit).astype(np.int64))
        widths = np.diff(breakpoints)
        slopes = np.maximum(np.diff(self.prices, prepend=0), 0) // widths
        widths[-1] += self.capacity - breakpoints[-1]
        table = np.append(0, np.cumsum(np.repeat(slopes, widths)))
        table[: self.shortest] = 0
        return np.minimum(table, PRICE_OF_A_PACK)
