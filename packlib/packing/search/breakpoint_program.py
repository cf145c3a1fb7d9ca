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

_SLOTS = 1 << 12  # of a pack, at most
_STEPS_AN_ADDITION = 5  # of the knapsack, with what is made of its table
_GAP = 1e-5  # between the linear program and its bound, when it is solved well enough


def choose_breakpoints(counts: np.ndarray, slots: int, series: int, with_next: bool) -> np.ndarray:
    """Choose where prices may bend.

    If the lengths are few, each is a breakpoint or lies between two: at 2.5 slots there is one at 2 and one at 3. If
    they are many, there are four kinds of breakpoints:

    1. lengths between which there are equal shares of the sequences and tokens,
    2. lengths that are even in the logarithm,
    3. lengths that leave space for a whole number of the shortest,
    4. the longest lengths of which 2, 3, … 8 copies fit into a pack, and the next length after each.

    For example, packs have 100 slots, and there is one sequence of each length from 20 to 100. Besides 20 and 100, the
    breakpoints are 53 and 79 of the first kind, 60 and 80 of the third, beside which 2 or 1 of the shortest fit, and
    50, 51, 33, 34, 25, 26 and 21 of the fourth. With so few, the second kind has 20 alone.

    >>> import numpy as np
    >>> from packlib.packing.search.breakpoint_program import choose_breakpoints
    >>> counts = np.repeat([0, 1], [20, 81])
    >>> choose_breakpoints(counts, slots=100, series=3, with_next=False)
    array([ 20,  21,  25,  26,  33,  34,  50,  51,  53,  60,  79,  80, 100])

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (capacity + 1,).
        slots: of a pack.
        series: about how many breakpoints there are of the first kind and of the third; of the second half as many.
        with_next: whether the next length after each of the third kind is a breakpoint, too: beside it, one fewer of
            the shortest fits.

    Returns:
        Lengths in slots of a pack, ascending; int64.
    """
    lengths = np.flatnonzero(counts)
    in_slots = lengths * slots / (len(counts) - 1)
    low, high = max(1, round(in_slots[0])), min(math.ceil(in_slots[-1]), slots)
    if len(lengths) <= 2 * series:
        breakpoints = np.concatenate([in_slots, np.ceil(in_slots)])
    else:
        equal_shares = in_slots[_between_equal_shares(counts[lengths], lengths, series)]
        even = _even_in_logarithm(low, high, series // 2)
        copies_of_shortest = np.floor(_even_in_logarithm(1, slots // low, series))
        beside_shortest = slots - low * copies_of_shortest
        beside_one_fewer = beside_shortest + 1 if with_next else []
        copies_fit = slots // np.arange(2, 9)
        one_fewer_fits = copies_fit + 1
        breakpoints = np.concatenate(
            [[low, high], equal_shares, even, beside_shortest, beside_one_fewer, copies_fit, one_fewer_fits]
        )
    return np.unique(np.clip(breakpoints.astype(np.int64), low, high))


def _between_equal_shares(counts: np.ndarray, lengths: np.ndarray, parts: int) -> np.ndarray:
    """Return the places in `lengths` that cut it into parts with equal shares; int64, shape (parts - 1,).

    The share of some lengths is their share of all sequences plus their share of all tokens. All lengths have 2.

    Args:
        counts: how many sequences have each of `lengths`; int64, shape (n,).
        lengths: ascending; int64, same shape.
        parts: how many parts there are.
    """
    sequences, tokens = np.cumsum(counts), np.cumsum(counts * lengths)
    shares_up_to = sequences / sequences[-1] + tokens / tokens[-1]
    return np.searchsorted(shares_up_to, 2 * np.arange(1, parts) / parts)


def _even_in_logarithm(low: int, high: int, number: int) -> np.ndarray:
    """Return numbers from `low` to `high`, each the same factor above the one before; float64, shape (number,).

    Powers differ in their last digits from one processor to another, and may be just below a whole number. So that all
    are rounded down to the same numbers, a millionth is added.
    """
    return np.geomspace(low, high, number) + 1e-6


class BreakpointProgram:
    """The linear program on the breakpoints.

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (capacity + 1,).
        series: see `choose_breakpoints`.

    Attributes:
        capacity, limit: the tokens of a pack, and the depth limit or None.
        depth: the most sequences that a pack can hold.
        shortest: the shortest length, in tokens.
        slots, unit: the slots of a pack, and the tokens of a slot, a fraction.
        breakpoints: the lengths that are its rows, in slots, ascending; int64, shape (rows,).
        counts: how many sequences each breakpoint stands for; int64, same shape.
        prices: of the breakpoints, those of the best bound so far; int64, same shape.
        master: the linear program. Its "lengths" are the indices of the breakpoints, so that a strategy is pairs of a
            breakpoint's index and copies, which here may be fractions.
        pack_of: the pack that each strategy of `master` stands for, as pairs of a length in slots and copies.
    """

    def __init__(self, counts: np.ndarray, max_sequences_per_pack: int | None, series: int) -> None:
        self.capacity, self.limit = len(counts) - 1, max_sequences_per_pack
        self.depth = deepest(counts > 0, max_sequences_per_pack)
        self.shortest = int(np.flatnonzero(counts)[0])
        self.slots = self._choose_slots()
        self.unit = self.capacity / self.slots
        self.breakpoints = choose_breakpoints(counts, self.slots, series, with_next=self.depth <= ALL_LONG)
        self.prices = self.breakpoints * (PRICE_OF_A_PACK // self.slots)  # each slot has the same price
        self.set_counts(counts)
        every_index_occurs = np.ones(len(self.breakpoints), np.int64)
        self.master = MasterProblem(every_index_occurs)
        self.pack_of: dict[Multiset, Multiset] = {}
        # the first strategies: for each breakpoint, as many copies as fit
        most_copies = np.minimum(self.slots // self.breakpoints, self.depth)
        pairs = zip(self.breakpoints.tolist(), most_copies.tolist(), strict=True)
        self._add([((size, copies),) for size, copies in pairs])

    def _choose_slots(self) -> int:
        """Choose a number of slots such that the shortest length takes nearly a whole number of them."""
        most = min(self.capacity, _SLOTS)

        def distance(slots: int) -> float:
            """Return by how many slots the shortest length misses a whole number, 1 or more."""
            shortest_in_slots = slots * (self.shortest / self.capacity)
            return abs(shortest_in_slots - max(1, round(shortest_in_slots)))

        return min(range(most, most // 2, -1), key=distance)

    def set_counts(self, counts: np.ndarray) -> None:
        """Pack these sequences from now on; `counts` is as in the arguments of the class."""
        lengths = np.flatnonzero(counts)
        at_breakpoints = self._at_breakpoints(lengths / self.unit, counts[lengths])
        self.counts = np.maximum(np.rint(at_breakpoints), 0).astype(np.int64)

    def _at_breakpoints(self, sizes: np.ndarray, copies: np.ndarray) -> np.ndarray:
        """Replace sequences by parts of sequences at breakpoints, with the same sums of sequences and of tokens.

        With breakpoints at 4 and 8 slots, a sequence of 5 counts as 3/4 of one at 4 and 1/4 of one at 8. A length below
        the first breakpoint or above the last, by less than a slot, is extrapolated from the two nearest breakpoints.

        Args:
            sizes: lengths in slots, shape (n,).
            copies: how many sequences have each of them; same shape.

        Returns:
            The sequences at each breakpoint; float64, shape (breakpoints,).
        """
        n = len(self.breakpoints)
        below = np.clip(np.searchsorted(self.breakpoints, sizes, side="right") - 1, 0, max(n - 2, 0))
        above = np.minimum(below + 1, n - 1)
        width = np.maximum(self.breakpoints[above] - self.breakpoints[below], 1)
        share_above = (sizes - self.breakpoints[below]) / width
        return np.bincount(below, copies * (1 - share_above), n) + np.bincount(above, copies * share_above, n)

    def generate(
        self, deadline: Deadline, report: Callable[[], None] | None = None, rounds: int | None = None
    ) -> bool:
        """Add columns until the program is within a hundred-thousandth of its bound, or none helps.

        Args:
            deadline: ends it, too; it counts the rounds and steps.
            report: is called after each round.
            rounds: linear programs, after which it ends, too; None for any number.

        Returns:
            False if the deadline ended it, else True.
        """
        proven = 0.0  # packs, a fraction
        is_near_bound = False
        rounds_are_over = False

        def solutions() -> Iterator[np.ndarray]:
            nonlocal rounds_are_over
            for _ in range(rounds) if rounds else count():
                if not deadline.solve(self.master, self.counts):
                    return
                yield self.master.prices
                if report:
                    report()
            rounds_are_over = True

        def add_columns(prices: np.ndarray, solution_prices: np.ndarray) -> int | None:
            nonlocal proven, is_near_bound
            layers = self.depth if self.limit else 1
            deadline.spend(_STEPS_AN_ADDITION * len(self.breakpoints) * self.slots * layers)
            packs, best_pack_value = self._best_packs(prices)
            bound = exact_dot(self.counts, prices) / best_pack_value
            if bound > proven:
                proven, self.prices = bound, prices
            is_near_bound = self.master.objective <= proven * (1 + _GAP)
            return None if is_near_bound else self._add(packs, solution_prices)

        none_helps = generate_columns(solutions(), lambda: self.prices, add_columns)
        return none_helps or is_near_bound or rounds_are_over

    def _best_packs(self, prices: np.ndarray) -> tuple[list[Multiset], int]:
        """Find packs that are worth most at these prices of the breakpoints, linear between them.

        All sequences of a pack are at breakpoints, but for one, which may have any length.

        Returns:
            The best pack with a sequence at each breakpoint, and the best with one strictly between each two, as pairs
            of a length in slots and copies; and the value of the best of all.
        """
        price_of_size = np.full(self.slots + 1, NOT_FOR_SALE)
        price_of_size[self.breakpoints] = prices
        knapsack = solve_knapsack(price_of_size, self.limit)
        sizes = np.arange(self.breakpoints[0], self.breakpoints[-1] + 1, knapsack.unit)  # of the one of any length
        price_of_one = np.interp(sizes, self.breakpoints, prices).astype(np.int64)
        value = price_of_one + knapsack.best_beside(sizes)
        at_breakpoints = np.searchsorted(sizes, self.breakpoints)  # indices in `sizes`
        best_between = [
            below + 1 + int(value[below + 1 : above].argmax())
            for below, above in pairwise(at_breakpoints.tolist())
            if above > below + 1
        ]
        indices = np.union1d(at_breakpoints, best_between).astype(np.int64)
        return knapsack.packs_with(sizes[indices]), int(value.max())

    def _add(self, packs: list[Multiset], prices: np.ndarray | None = None) -> int:
        """Add packs, in slots, as strategies; return how many were new.

        Args:
            prices: of the breakpoints: only packs are added that are worth more than a pack costs. None adds all.
        """
        strategies = []
        for pack in packs:
            sizes, copies = np.array(pack).T
            at_breakpoints = self._at_breakpoints(sizes, copies)
            if prices is None or at_breakpoints @ prices > PRICE_OF_A_PACK * (1 + 1e-7):
                rows = np.flatnonzero(at_breakpoints)[::-1]  # from long to short
                # a Multiset, but for copies that may be fractions
                strategy = cast(Multiset, tuple(zip(rows.tolist(), at_breakpoints[rows].tolist(), strict=True)))
                strategies.append(strategy)
                self.pack_of[strategy] = pack
        return self.master.add(strategies)

    def price_of_length(self) -> np.ndarray:
        """Return prices of all lengths, exactly linear between the breakpoints, so that they have few bends.

        Slopes are whole numbers, rounded down.

        Returns:
            int64, shape (capacity + 1,).
        """
        breakpoints = np.append(0, np.rint(self.breakpoints * self.unit).astype(np.int64))  # in tokens
        widths = np.diff(breakpoints)
        slopes = np.maximum(np.diff(self.prices, prepend=0), 0) // widths
        widths[-1] += self.capacity - breakpoints[-1]  # the last slope goes on to the end
        price_of_length = np.append(0, np.cumsum(np.repeat(slopes, widths)))
        price_of_length[: self.shortest] = 0
        return np.minimum(price_of_length, PRICE_OF_A_PACK)
