"""Packing with a proof: column generation, then rounding by diving.

The linear program (`packlib.packing.master`) starts from the strategies of LPFHP. Its prices go into a knapsack,
which looks for packs worth more than a pack costs; they are added until there are none. The same knapsack turns
the prices into a lower bound (`packlib.packing.certificate`). Gilmore and Gomory (1961).

Rounding dives: use every strategy as often as the solution says, rounded down, and solve again for the sequences
that are left; where nothing is left to round down, round some of the largest fractions up.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from packlib.checks import number
from packlib.lengths.counting import float_unit
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.certificate import PRICE_OF_A_PACK, exact_dot
from packlib.packing.filling import fill_places
from packlib.packing.greedy import Group, lpfhp, spread_evenly
from packlib.packing.knapsack import NOT_FOR_SALE, Knapsack, Multiset, solve_knapsack
from packlib.packing.master import TOLERANCE, MasterProblem

_SLACK = PRICE_OF_A_PACK >> 28  # a pack must be worth so much more than it costs
_DIVES = 12  # attempts at rounding
_NOISE = 0.3  # of the fractions, in all attempts but the first
_FACTOR = 1000  # the largest by which a price multiplies the common denominator


@dataclass(frozen=True)
class Progress:
    """What is known after a round; given to the `progress` callback of `optimal`."""

    stage: str  # "pricing" or "rounding"
    strategies: int
    num_packs: int
    lower_bound: int
    seconds: float


def optimal(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[list[Group], np.ndarray | None]:
    """The fewest packs that are known, and the prices that prove how few there can be.

    Args:
        max_sequences_per_pack: at most this many sequences a pack, or None.
        time_limit: seconds after which the best plan and bound so far are returned.
        progress: called after every round.

    Returns:
        The strategies, and the prices of the best bound (None if the area proves as much).
    """
    if time_limit is not None:
        number("time_limit", time_limit, at_least=0)
    search = _Search(histogram, max_sequences_per_pack, time_limit, progress)
    search.run()
    return search.best, search.proof


class _Search:
    """The best plan and bound so far, and the ways to better ones."""

    def __init__(
        self,
        histogram: LengthHistogram,
        max_sequences_per_pack: int | None,
        time_limit: float | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.histogram, self.limit, self.progress = histogram, max_sequences_per_pack, progress
        self.counts, self.top = histogram.counts, histogram.max_length
        self.lengths = np.flatnonzero(self.counts)
        self.started = time.perf_counter()
        self.seconds = math.inf if time_limit is None else time_limit
        # Prices by the token are always sound: they prove the area bound. So is one price for every sequence.
        self.lower_bound = -(-histogram.num_tokens // self.top)
        self.proof: np.ndarray | None = None
        self.prices = self.lengths * (PRICE_OF_A_PACK // self.top)
        starts = [lpfhp(histogram, max_sequences_per_pack)]
        if max_sequences_per_pack:
            same_price = np.full(len(self.lengths), PRICE_OF_A_PACK // max_sequences_per_pack)
            self.prove(-(-histogram.num_sequences // max_sequences_per_pack), same_price)
            starts.append(spread_evenly(histogram, max_sequences_per_pack, self.lower_bound))
        self.best = min(starts, key=_packs)
        self.num_packs = _packs(self.best)
        self.start = [tuple(Counter(lengths).items()) for strategies in starts for lengths, _ in strategies]

    def run(self) -> None:
        if self.done():
            return
        self.master = MasterProblem(self.counts)
        self.master.add(self.start)
        solved = self.generate()
        if solved and not self.done():
            self.sharpen()
        # Also if the time is up, the strategies found so far are worth having.
        now, left = self.take(self.master.whole_usage, self.counts)
        self.keep(Counter(dict(now)), left, _packs(now))
        for attempt in range(_DIVES if solved else 0):
            self.dive(attempt)

    def done(self) -> bool:
        return self.num_packs == self.lower_bound or self.time_left() <= 0

    def time_left(self) -> float:
        return self.seconds - (time.perf_counter() - self.started)

    def report(self, stage: str) -> None:
        if self.progress:
            seconds = time.perf_counter() - self.started
            strategies = len(self.master.strategies)
            self.progress(Progress(stage, strategies, self.num_packs, self.lower_bound, seconds))

    def by_length(self, prices: np.ndarray, others: int) -> np.ndarray:
        table = np.full(self.top + 1, others)
        table[self.lengths] = prices
        return table

    def prove(self, bound: int, prices: np.ndarray) -> None:
        """Keep the bound that `prices` prove, if it is the best so far."""
        if bound > self.lower_bound:
            self.lower_bound, self.prices, self.proof = bound, prices, self.by_length(prices, 0)

    def generate(self) -> bool:
        """Add strategies until the linear program meets the lower bound, or none helps.

        The prices of a solution jump from round to round. Looking for packs between them and the prices of the best
        bound so far takes a few rounds instead of many (Wentges 1997); where that finds nothing, go nearer.
        Returns False if the time was up first.
        """
        while self.master.solve(self.counts, self.time_left()):
            if self.master.unit == 1 and self.master.fewest <= self.lower_bound:
                return True
            prices, center = self.master.prices, self.prices
            price_of = self.by_length(prices, NOT_FOR_SALE).tolist()
            for tenths in (8, 5, 2, 0):
                mixed = (center * tenths + prices * (10 - tenths)) // 10
                knapsack = self.price(mixed)
                packs = map(knapsack.pack_with, self.lengths.tolist())
                if self.master.add(p for p in packs if _value(p, price_of) > PRICE_OF_A_PACK + _SLACK):
                    break
            else:
                return True
            self.report("pricing")
        return False

    def price(self, prices: np.ndarray) -> Knapsack:
        """Find the packs that are worth most, and what that proves."""
        knapsack = solve_knapsack(self.by_length(prices, NOT_FOR_SALE), self.limit)
        self.prove(-(-exact_dot(self.counts[self.lengths], prices) // knapsack.best), prices)
        return knapsack

    def sharpen(self) -> None:
        """Prove the bound with the prices as fractions: rounded ones lose many packs on very large counts."""
        prices, unit = self.master.prices_in_packs, 1
        for price in prices.tolist():
            unit *= Fraction(price * unit).limit_denominator(_FACTOR).denominator
            if unit > PRICE_OF_A_PACK:
                return  # no small common denominator
        self.price(np.rint(prices * unit).astype(np.int64) * (PRICE_OF_A_PACK // unit))

    def dive(self, attempt: int) -> None:
        """Round down and solve again until nothing is left, or until this cannot beat the best plan any more.

        The first attempt rounds the largest fractions up, later ones add noise to the choice.
        """
        noise = np.random.default_rng(attempt)
        chosen, left, fixed, unit = Counter[tuple[int, ...]](), self.counts, 0, float_unit(self.counts)
        while left.any() and not self.done() and self.master.solve(left, self.time_left()):
            if self.master.unit < unit:  # lengths that were too rare to be seen may prove more
                unit = self.master.unit
                self.sharpen()
            if fixed + self.master.fewest >= self.num_packs:
                return
            usage, rounded = self.master.usage, self.master.whole_usage
            if not rounded.any():
                up = max(1, np.count_nonzero(usage > 0.5) // 5)
                blur = noise.uniform(0, _NOISE if attempt else 0, len(usage))
                blurred = usage + blur * (usage > TOLERANCE)
                rounded[np.argsort(-blurred, kind="stable")[:up]] = 1
            now, left = self.take(rounded, left)
            chosen += Counter(dict(now))
            fixed += _packs(now)
            self.keep(chosen, left, fixed)

    def take(self, repeats: np.ndarray, left: np.ndarray) -> tuple[list[Group], np.ndarray]:
        """Use the strategies of the master problem so often; return them, and the counts that find no place."""
        strategies = list(self.master.strategies)
        taken = [(_flat(strategies[s]), int(repeats[s])) for s in np.flatnonzero(repeats)]
        return taken, fill_places(taken, left)[1]

    def keep(self, chosen: dict[tuple[int, ...], int], left: np.ndarray, fixed: int) -> None:
        """Pack what is left greedily; keep the whole if it is the best so far."""
        rest = lpfhp(LengthHistogram(left), self.limit) if left.any() else []
        if fixed + _packs(rest) < self.num_packs:
            filled, left = fill_places(list(chosen.items()), self.counts)
            rest = lpfhp(LengthHistogram(left), self.limit) if left.any() else []
            self.best = filled + rest
            self.num_packs = _packs(self.best)
            self.report("rounding")


def _value(pack: Multiset, price_of: list[int]) -> int:
    return sum(price_of[length] * copies for length, copies in pack)


def _flat(pack: Multiset) -> tuple[int, ...]:
    return tuple(length for length, copies in pack for _ in range(copies))


def _packs(strategies: list[Group]) -> int:
    return sum(packs for _, packs in strategies)
