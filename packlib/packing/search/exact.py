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
# A pack helps the linear program if it is worth more than the whole pack that it costs: by so much, or by this part of
# a pack where sequences that a dive leaves are solved for, or prices are those of an interior point, both less exact.
_LEAST_GAIN = PRICE_OF_A_PACK >> 28
_LEAST_GAIN_INEXACT = 1e-6
_SECONDS_A_STEP = 2e-9  # of one addition of the exact knapsack
_STEPS_A_COMPARISON = 2  # of lengths, in reading packs from its table
_STEPS_A_LENGTH, _STEPS_A_SLOT = 5000, 10  # of making a plan of a solution: for each length, and slot of a row
FEW_SEQUENCES = 1000  # at most, for strategies that can really be filled, and for a list of packs
_MOST_FACTOR = 1000  # the largest by which a price multiplies the common denominator


class ExactProgram:
    """The linear program, and the prices that prove most.

    Attributes:
        best: the plan and bound so far, which this offers to.
        deadline: that of `best`.
        counts, max_length, limit: what is packed: `counts[l]` sequences of length l, the tokens of a row, and the depth
            limit or None.
        lengths: those that occur, ascending; int64. Prices of this class are arrays of one price for each of them.
        program: the linear program over the strategies that are known.
        prices: those that prove most; int64, shape (lengths,), of which 2^38 are the price of a pack.
        total_value, best_pack_value: the value of all sequences together, and that of the best pack, at these prices:
            the bound is one over the other. Only `prove` and `center_prices` change these three.
        knapsack_steps, knapsack_seconds: the additions of one exact knapsack, and the seconds that the last one took. A
            step ends while the deadline leaves time for one more, which the check of the plan solves.
    """

    def __init__(self, best: Best, known: Iterable[list[EqualPacks]]) -> None:
        """Make the linear program over the strategies of `known`, plans that were made already."""
        self.best, self.deadline = best, best.deadline
        self.counts = best.histogram.counts
        self.max_length = best.histogram.max_length
        self.limit = best.limit
        self.lengths = np.flatnonzero(self.counts)
        self.knapsack_steps = exact_size(self.counts, self.limit).additions
        self.knapsack_seconds = self.knapsack_steps * _SECONDS_A_STEP  # a guess, until the first one was measured
        self._meets_bound = False  # whether the last call of `generate` came to as few packs as the bound
        self.program = MasterProblem(self.counts)
        self.program.add(tuple(Counter(lengths).items()) for plan in known for lengths, _ in plan)
        # Prices by the token are always sound: they prove the area bound. So is one price for every sequence.
        price_of_a_token = PRICE_OF_A_PACK // self.max_length
        self.prices = self.lengths * price_of_a_token
        self.total_value = exact_dot(self.counts[self.lengths], self.prices)
        self.best_pack_value = price_of_a_token * self.max_length
        if self.limit:
            price_of_a_sequence = PRICE_OF_A_PACK // self.limit
            same_prices = np.full(len(self.lengths), price_of_a_sequence)
            self._keep_if_more(same_prices, price_of_a_sequence * self.limit)

    def time_left(self) -> float:
        """Return the seconds that are left beside those of the plan's own check."""
        return self.deadline.seconds_left() - self.knapsack_seconds

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self.time_left() <= 0

    def done(self) -> bool:
        """Return whether the best plan meets the bound, or no time is left."""
        return self.best.num_packs == self.best.lower_bound or self.is_over()

    def solve(self, counts: np.ndarray) -> bool:
        """Solve the linear program for these counts; return False if the time was up first."""
        return self.deadline.solve(self.program, counts, self.knapsack_seconds)

    # Columns and bounds

    def generate(self, to_the_end: bool = False) -> bool:
        """Add strategies until the linear program meets the lower bound, or none helps; a second call goes on.

        Args:
            to_the_end: go on until none helps even where the bound is met.

        Returns:
            False if the deadline was first.
        """
        self._meets_bound = False
        solutions = self._solutions(to_the_end)
        return generate_columns(solutions, lambda: self.prices, self._add_priced) or self._meets_bound

    def _solutions(self, to_the_end: bool) -> Iterator[np.ndarray]:
        """Yield the prices of the linear program, solved again and again, until it meets the bound or the time is up.

        Where there are few sequences of many lengths, the first rounds add strategies for which there are enough of
        them; such strategies are fewer. These rounds yield no prices: all lengths are priced only after them.
        """
        rounds = 0
        adds_fillable = self.are_few(self.counts) and self.counts.sum() <= 2 * len(self.lengths)
        while self.solve(self.counts):
            rounds += 1
            if rounds.bit_count() == 1:  # rounds 1, 2, 4, 8, …: if the time is up soon, that is the plan
                self.offer_rounded_down()
            if not to_the_end and self.program.unit == 1 and self.program.fewest <= self.best.lower_bound:
                self._meets_bound = True
                return
            adds_fillable = adds_fillable and self.add_fillable(self.counts) > 0
            if not adds_fillable:
                yield self.program.prices
            self.report("pricing")

    def _add_priced(self, prices_between: np.ndarray, solution_prices: np.ndarray) -> int | None:
        """Add the best packs at the first prices that are worth more than a pack at those of the solution.

        Returns:
            How many were new, or None if no time is left for a knapsack.
        """
        if self.time_left() < self.knapsack_seconds:
            return None
        packs = self.packs_with_each(self.solve_knapsack(prices_between))
        return self._add_if_worth_more(packs, solution_prices, PRICE_OF_A_PACK + _LEAST_GAIN)

    def _add_if_worth_more(self, packs: Iterable[Multiset], prices: np.ndarray, least: float) -> int:
        """Add the packs that are worth more than `least` at these prices; return how many were new."""
        price_of = self.price_of_each(prices)
        return self.program.add(pack for pack in packs if value_of(pack, price_of) > least)

    def packs_with_each(self, knapsack: Knapsack) -> list[Multiset]:
        """Read from the table, for each of `lengths`, the best pack that holds it; the deadline counts the steps."""
        self.deadline.spend(_STEPS_A_COMPARISON * len(self.lengths) ** 2 * len(knapsack.table))
        return knapsack.packs_with(self.lengths)

    def solve_knapsack(self, prices: np.ndarray) -> Knapsack:
        """Find the packs that are worth most at these prices, and keep the prices if they prove more."""
        started = time.perf_counter()
        knapsack = solve_knapsack(self.by_length(prices, NOT_FOR_SALE), self.limit)
        self.deadline.spend(self.knapsack_steps)
        self.knapsack_seconds = time.perf_counter() - started
        self.prove(prices, knapsack.best)
        return knapsack

    def prove(self, prices: np.ndarray, best_pack_value: int) -> None:
        """Keep `prices` if they prove more than the best so far, fractions of a pack included.

        Args:
            best_pack_value: the value of the best pack at these prices.
        """
        if self._keep_if_more(prices, best_pack_value):
            bound = -(-self.total_value // best_pack_value)  # minus a floor rounds up
            self.best.prove(bound, Prices(self.by_length(prices, 0)))

    def _keep_if_more(self, prices: np.ndarray, best_pack_value: int) -> bool:
        """Keep `prices` as the ones that prove most, if they do; return whether. Arguments are as of `prove`."""
        total_value = exact_dot(self.counts[self.lengths], prices)
        # total_value / best_pack_value > self.total_value / self.best_pack_value, in integers
        proves_more = total_value * self.best_pack_value > self.total_value * best_pack_value
        if proves_more:
            self._keep_prices(prices, total_value, best_pack_value)
        return proves_more

    def _keep_prices(self, prices: np.ndarray, total_value: int, best_pack_value: int) -> None:
        self.prices = prices
        self.total_value = total_value
        self.best_pack_value = best_pack_value

    def sharpen(self) -> None:
        """Prove the bound with the solution's prices as fractions: rounded ones lose many packs on very large counts.

        A corner of the linear program has prices such as 1/3 and 5/12. Multiplied by their common denominator they are
        whole, and no rounding makes the best pack worth more than a pack costs.
        """
        prices = self.program.prices_in_packs
        denominator = 1
        for price in prices.tolist():
            denominator *= Fraction(price * denominator).limit_denominator(_MOST_FACTOR).denominator
            if denominator > PRICE_OF_A_PACK:
                return  # no small common denominator
        numerators = np.rint(prices * denominator).astype(np.int64)
        self.solve_knapsack(numerators * (PRICE_OF_A_PACK // denominator))

    def center_prices(self) -> None:
        """Take prices from the middle of all optimal ones, so that fewer packs waste little and are listed.

        Packs that help at such prices are added first, until there is none. Then these prices are kept even if they
        prove a little less than others.
        """
        while not self.is_over() and self.solve(self.counts):
            prices = self.program.middle_prices(self.is_over)
            knapsack = self.solve_knapsack(prices)
            packs = self.packs_with_each(knapsack)
            if not self._add_if_worth_more(packs, prices, PRICE_OF_A_PACK * (1 + _LEAST_GAIN_INEXACT)):
                self._keep_prices(prices, exact_dot(self.counts[self.lengths], prices), knapsack.best)
                return

    def price_of_each(self, prices: np.ndarray) -> dict[int, int]:
        """Return the price of each length that occurs, as a dict: a table of all lengths may be far larger."""
        return dict(zip(self.lengths.tolist(), prices.tolist(), strict=True))

    def by_length(self, prices: np.ndarray, others: int) -> np.ndarray:
        """Return a table of prices, with `others` for lengths that do not occur; int64, shape (max_length + 1,)."""
        table = np.full(self.max_length + 1, others)
        table[self.lengths] = prices
        return table

    # Few sequences

    def are_few(self, left: np.ndarray) -> bool:
        """Return whether these sequences are so few that strategies are looked for which they alone can fill."""
        return left.sum() <= FEW_SEQUENCES and self.fillable_steps(left) <= SMALL_STEPS

    def fillable_steps(self, left: np.ndarray) -> int:
        """Count the steps of looking for strategies that these sequences alone can fill."""
        return int(left.sum()) * exact_size(left, self.limit).entries

    def add_fillable(self, left: np.ndarray) -> int:
        """Add strategies that help, with no more sequences of a length than are left; return how many were new."""
        prices = self.program.prices
        self.deadline.spend(self.fillable_steps(left))
        packs = fillable_packs(left, self.by_length(prices, 0), self.limit)
        return self._add_if_worth_more(packs, prices, PRICE_OF_A_PACK * (1 + _LEAST_GAIN_INEXACT))

    # Rounding

    def total_waste(self, packs: int) -> int:
        """Return what all packs of a plan of so many packs waste together, at the prices of the best bound.

        A pack wastes the difference between its value and that of the best pack.
        """
        return packs * self.best_pack_value - self.total_value

    def take(self, repeats: np.ndarray, left: np.ndarray, target: int) -> tuple[Counter[tuple[int, ...]], np.ndarray]:
        """Fill the strategies of the program with sequences, but leave out packs that waste too much.

        These waste more than a plan of `target` packs wastes in all, at the prices of the best bound. So no such plan
        has them.

        Args:
            repeats: how often each strategy is filled, if enough sequences are left; shape (strategies,).
            left: `left[l]` sequences of length l have no pack yet; int64, shape (max_length + 1,).
            target: packs of the plan that is looked for.

        Returns:
            How often each pack (its lengths) is used, and the counts that are left after it.
        """
        self.deadline.spend(_STEPS_A_LENGTH * len(self.lengths) + _STEPS_A_SLOT * self.max_length)
        planned = [(flat(strategy), int(n)) for strategy, n in zip(self.program.strategies, repeats, strict=True) if n]
        filled, _ = fill_places(planned, left)
        most_waste = self.total_waste(target)
        price_of = self.price_of_each(self.prices)
        taken = Counter[tuple[int, ...]]()
        left = left.copy()
        for lengths, packs in filled:
            waste = self.best_pack_value - sum(price_of[length] for length in lengths)
            if waste <= most_waste:
                taken[lengths] += packs
                np.subtract.at(left, list(lengths), packs)
        return taken, left

    def offer_rounded_down(self) -> None:
        """Offer the plan of the last solution: its usage rounded down, and what that leaves packed greedily."""
        self.offer_with_greedy(*self.take(self.program.whole_usage, self.counts, self.best.num_packs - 1))

    def offer_with_greedy(self, chosen: Counter[tuple[int, ...]], left: np.ndarray) -> None:
        """Offer the plan of the chosen packs, and of the sequences that are left, packed greedily."""
        self.offer(chosen, lpfhp(LengthHistogram(left), self.limit) if left.any() else [])

    def offer(self, chosen: Counter[tuple[int, ...]], others: list[EqualPacks] | None) -> None:
        """Offer the plan of the chosen packs and the others, if there are others; report it if it is the best so far.

        Args:
            others: packs of the sequences that the chosen ones leave; None if none were found.
        """
        if others is not None and self.best.offer(list(chosen.items()) + others):
            self.report("rounding")

    def report(self, stage: str) -> None:
        """Report the progress of the search after a round of this stage."""
        self.best.report(stage, len(self.program.strategies))


def value_of(pack: Multiset, price_of: Mapping[int, int]) -> int:
    """Return the value of a pack: the sum of the prices of its sequences."""
    return sum(price_of[length] * copies for length, copies in pack)
