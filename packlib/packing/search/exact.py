"""The linear program of packing with exact prices: columns, bounds, and rounding its solution down.

The program (`master.py`) starts from the strategies of fast plans. Its prices go into a knapsack, which looks for packs
worth more than a pack costs; they are added until there are none (`columns.py`). The same knapsack turns the prices
into a lower bound (`bound.py`). Where the data has few sequences, of many lengths, the search begins with packs that
can really be filled: none uses a length more often than it occurs.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import numpy as np

from packlib.lengths.counting import exact_dot
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.filling import fill_places
from packlib.packing.greedy import EqualPacks, lpfhp
from packlib.packing.proofs import Prices
from packlib.packing.search.best import Best
from packlib.packing.search.bound import PRICE_OF_A_PACK, exact_size
from packlib.packing.search.columns import generate_columns
from packlib.packing.search.knapsack import NOT_FOR_SALE, Knapsack, Multiset, fillable_packs, solve_knapsack
from packlib.packing.search.master import MasterProblem
from packlib.packing.search.whole_packs import flat

SMALL_STEPS = 10**7  # of a knapsack that takes some 20 ms
_SLACK = PRICE_OF_A_PACK >> 28  # a pack must be worth so much more than it costs
_CLOSE = 1e-6  # of a pack: the same in solutions of the rest, which are less exact
_STEP = 2e-9  # seconds of the exact knapsack
_STEPS_A_COMPARISON = 2  # of lengths, in reading packs from its table
_STEPS_A_LENGTH, _STEPS_A_SLOT = 5000, 10  # of making a plan of a solution: for each length, and slot of a row
FEW_SEQUENCES = 1000  # at most, for strategies that can really be filled, and for a list of packs
_FACTOR = 1000  # the largest by which a price multiplies the common denominator


class ExactProgram:
    """The linear program, and the prices that prove most.

    Attributes:
        best: the plan and bound so far, which this offers to.
        lengths: those that occur, ascending.
        program: the linear program over the strategies that are known.
        prices, worth, pack_worth: the prices of `lengths` that prove most, what all sequences together are worth, and
            what the best pack is worth, in units of which a pack costs 2^38; only `prove` and `center_prices` change
            them.
        knapsack_seconds: that the last knapsack took. A step ends while the deadline leaves time for one more, which
            the check of the plan solves.
    """

    def __init__(self, best: Best, known: Iterable[list[EqualPacks]]) -> None:
        self.best, self.deadline = best, best.deadline
        self.counts = best.histogram.counts
        self.top = best.histogram.max_length
        self.limit = best.limit
        self.lengths = np.flatnonzero(self.counts)
        self.knapsack_steps = exact_size(self.counts, self.limit).additions
        self.knapsack_seconds = self.knapsack_steps * _STEP  # a guess, until the first one was measured
        self.program = MasterProblem(self.counts)
        self.program.add(tuple(Counter(lengths).items()) for plan in known for lengths, _ in plan)
        # Prices by the token are always sound: they prove the area bound. So is one price for every sequence.
        self.prices = self.lengths * (PRICE_OF_A_PACK // self.top)
        self.worth = exact_dot(self.counts[self.lengths], self.prices)
        self.pack_worth = PRICE_OF_A_PACK // self.top * self.top
        if self.limit:
            price = PRICE_OF_A_PACK // self.limit
            self._keep_if_more(np.full(len(self.lengths), price), price * self.limit)

    def time_left(self) -> float:
        return self.deadline.seconds_left() - self.knapsack_seconds

    def is_over(self) -> bool:
        return self.time_left() <= 0

    def done(self) -> bool:
        return self.best.num_packs == self.best.lower_bound or self.is_over()

    def solve(self, counts: np.ndarray) -> bool:
        """Solve the linear program for these counts; False if the time was up first."""
        return self.deadline.solve(self.program, counts, self.knapsack_seconds)

    # Columns and bounds

    def generate(self, to_the_end: bool = False) -> bool:
        """Add strategies until the linear program meets the lower bound, or none helps; a second call goes on.

        Args:
            to_the_end: go on until none helps even where the bound is met.

        Returns:
            False if the deadline was first.
        """
        self._met = False  # whether the program meets the lower bound
        solutions = self._solutions(to_the_end)
        return generate_columns(solutions, lambda: self.prices, self._add_priced) or self._met

    def _solutions(self, to_the_end: bool) -> Iterator[np.ndarray]:
        """Yield the prices of the linear program, solved again and again, until it meets the bound or the time is up.

        Few sequences of many lengths begin with strategies for which there are enough of them, which are fewer.
        """
        rounds, few = 0, self.are_few(self.counts) and self.counts.sum() <= 2 * len(self.lengths)
        while self.solve(self.counts):
            rounds += 1
            if rounds.bit_count() == 1:  # now and then, for if the time is up soon, that is the plan
                self.keep_solution()
            self._met = not to_the_end and self.program.unit == 1 and self.program.fewest <= self.best.lower_bound
            if self._met:
                return
            few = few and self.add_fillable(self.counts) > 0
            if not few:
                yield self.program.prices
            self.report("pricing")

    def _add_priced(self, prices: np.ndarray, own: np.ndarray) -> int | None:
        """Add the best packs at these prices that are worth more than they cost at the solution's own."""
        if self.time_left() < self.knapsack_seconds:
            return None
        packs, own_price_of = self.packs_with_each(self.price(prices)), self.price_of_each(own)
        return self.program.add(p for p in packs if value_of(p, own_price_of) > PRICE_OF_A_PACK + _SLACK)

    def packs_with_each(self, knapsack: Knapsack) -> list[Multiset]:
        """Read from the table, for each length, the best pack that holds it, and count the steps of reading."""
        self.deadline.spend(_STEPS_A_COMPARISON * len(self.lengths) ** 2 * len(knapsack.table))
        return knapsack.packs_with(self.lengths)

    def price(self, prices: np.ndarray) -> Knapsack:
        """Find the packs that are worth most, and what that proves."""
        started = time.perf_counter()
        knapsack = solve_knapsack(self.by_length(prices, NOT_FOR_SALE), self.limit)
        self.deadline.spend(self.knapsack_steps)
        self.knapsack_seconds = time.perf_counter() - started
        self.prove(prices, knapsack.best)
        return knapsack

    def prove(self, prices: np.ndarray, pack_worth: int) -> None:
        """Keep `prices` if they prove more than the best so far, fractions of a pack included.

        Args:
            pack_worth: what the most valuable pack is worth at these prices.
        """
        if self._keep_if_more(prices, pack_worth):
            self.best.prove(-(-self.worth // pack_worth), Prices(self.by_length(prices, 0)))

    def _keep_if_more(self, prices: np.ndarray, pack_worth: int) -> bool:
        worth = exact_dot(self.counts[self.lengths], prices)
        more = worth * self.pack_worth > self.worth * pack_worth
        if more:
            self.prices = prices
            self.worth = worth
            self.pack_worth = pack_worth
        return more

    def sharpen(self) -> None:
        """Prove the bound with the prices as fractions: rounded ones lose many packs on very large counts."""
        prices, unit = self.program.prices_in_packs, 1
        for price in prices.tolist():
            unit *= Fraction(price * unit).limit_denominator(_FACTOR).denominator
            if unit > PRICE_OF_A_PACK:
                return  # no small common denominator
        self.price(np.rint(prices * unit).astype(np.int64) * (PRICE_OF_A_PACK // unit))

    def center_prices(self) -> None:
        """Take prices from the middle of all that are best, so that fewer packs waste little and are listed."""
        while not self.is_over() and self.solve(self.counts):
            prices = self.program.middle_prices(self.is_over)
            knapsack = self.price(prices)
            price_of = self.price_of_each(prices)
            packs = self.packs_with_each(knapsack)
            if not self.program.add(p for p in packs if value_of(p, price_of) > PRICE_OF_A_PACK * (1 + _CLOSE)):
                self.prices, self.pack_worth = prices, knapsack.best
                self.worth = exact_dot(self.counts[self.lengths], prices)
                return

    def price_of_each(self, prices: np.ndarray) -> dict[int, int]:
        """Return the price of each length that occurs; rows may be far longer than they have different lengths."""
        return dict(zip(self.lengths.tolist(), prices.tolist(), strict=True))

    def by_length(self, prices: np.ndarray, others: int) -> np.ndarray:
        """Return a table of prices, with `others` for lengths that do not occur; int64, shape (top + 1,)."""
        table = np.full(self.top + 1, others)
        table[self.lengths] = prices
        return table

    # Few sequences

    def are_few(self, left: np.ndarray) -> bool:
        """Return whether these sequences are so few that strategies are looked for which they alone can fill."""
        return left.sum() <= FEW_SEQUENCES and self.fillable_steps(left) <= SMALL_STEPS

    def fillable_steps(self, left: np.ndarray) -> int:
        """Count the steps of looking for them."""
        return int(left.sum()) * exact_size(left, self.limit).entries

    def add_fillable(self, left: np.ndarray) -> int:
        """Add strategies that help, with no more sequences of a length than are left; return how many."""
        prices = self.program.prices
        self.deadline.spend(self.fillable_steps(left))
        found, price_of = fillable_packs(left, self.by_length(prices, 0), self.limit), self.price_of_each(prices)
        return self.program.add(pack for pack in found if value_of(pack, price_of) > PRICE_OF_A_PACK * (1 + _CLOSE))

    # Rounding

    def spare(self, packs: int) -> int:
        """Return what a plan of so many packs can waste in all, by the prices of the best bound."""
        return packs * self.pack_worth - self.worth

    def take(self, repeats: np.ndarray, left: np.ndarray, target: int) -> tuple[Counter[tuple[int, ...]], np.ndarray]:
        """Use the strategies of the program so often, but leave out packs that waste too much.

        By the prices of the best bound these waste more than a plan of `target` packs can waste in all, so no such plan
        has them.

        Args:
            repeats: how often each strategy is used, if enough sequences are left; shape (strategies,).
            left: `left[l]` sequences of length l have no pack yet; int64, shape (max_length + 1,).

        Returns:
            How often each pack is used, and the counts that find no place.
        """
        self.deadline.spend(_STEPS_A_LENGTH * len(self.lengths) + _STEPS_A_SLOT * self.top)
        planned = ((flat(strategy), int(n)) for strategy, n in zip(self.program.strategies, repeats, strict=True) if n)
        filled = fill_places(list(planned), left)[0]
        spare, price_of = self.spare(target), self.price_of_each(self.prices)
        taken = Counter[tuple[int, ...]]()
        left = left.copy()
        for lengths, packs in filled:
            if self.pack_worth - sum(price_of[length] for length in lengths) <= spare:
                taken[lengths] += packs
                np.subtract.at(left, list(lengths), packs)
        return taken, left

    def keep_solution(self) -> None:
        """Round the solution of the linear program down, and keep what that makes if it is the best so far."""
        self.keep(*self.take(self.program.whole_usage, self.counts, self.best.num_packs - 1))

    def keep(self, chosen: Counter[tuple[int, ...]], left: np.ndarray) -> None:
        """Pack what is left greedily; keep the whole if it is the best so far."""
        self.improve(chosen, lpfhp(LengthHistogram(left), self.limit) if left.any() else [])

    def improve(self, chosen: Counter[tuple[int, ...]], rest: list[EqualPacks] | None) -> None:
        """Keep the plan of these packs and the rest, if there is one, and it is the best so far."""
        if rest is not None and self.best.offer(list(chosen.items()) + rest):
            self.report("rounding")

    def report(self, stage: str) -> None:
        self.best.report(stage, len(self.program.strategies))


def value_of(pack: Multiset, price_of: Mapping[int, int]) -> int:
    return sum(price_of[length] * copies for length, copies in pack)
