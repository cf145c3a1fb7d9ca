"""Packing with a proof: column generation, then rounding by diving.

The linear program (`packlib.packing.search.master`) starts from the strategies of LPFHP. Its prices go into a knapsack,
which looks for packs worth more than a pack costs; they are added until there are none. The same knapsack turns
the prices into a lower bound (`packlib.packing.search.bound`). Gilmore and Gomory (1961).

Rounding dives: use every strategy as often as the solution says, rounded down, and solve again for the sequences
that are left; where nothing is left to round down, round some of the largest fractions up. What a dive leaves is
packed by exchanges (`packlib.packing.search.swapping`) if that takes fewer packs. Where two dives leave a gap, and the
packs that can matter are few enough to be listed, an integer program finds a plan that meets the bound, or proves that
there is none; where it gives up, dives among the listed packs leave it half of the sequences
(`packlib.packing.search.whole_packs`). Rows that are too long for the exact knapsack go another way
(`packlib.packing.search.long_rows`).
"""

import math
import time
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

from packlib.checks import number, whole_number
from packlib.lengths.counting import float_unit
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.filling import fill_places
from packlib.packing.greedy import Group, lpfhp, spread_evenly
from packlib.packing.search.bound import EXACT_STEPS, PRICE_OF_A_PACK, exact_dot, exact_size, is_long
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import NOT_FOR_SALE, Knapsack, Multiset, solve_knapsack
from packlib.packing.search.long_rows import LongSearch
from packlib.packing.search.lpt import lpt_until
from packlib.packing.search.master import TOLERANCE, MasterProblem
from packlib.packing.search.progress import Callback, Search, shown
from packlib.packing.search.swapping import swap_search
from packlib.packing.search.whole_packs import LISTED, NODES, WHOLE, choose, dive_among, flat

_SLACK = PRICE_OF_A_PACK >> 28  # a pack must be worth so much more than it costs
_STEPS_A_ROUND = 10**7  # of the exact knapsack, above which prices are found on few lengths
_FEW_LENGTHS = 1100  # ten times as many steps are taken for at most so many different lengths
_STEP = 2e-9  # seconds of the exact knapsack
_DIVES, _PLAIN_DIVES = 24, 2  # attempts at rounding; so many come before packs are listed
_LISTED_DIVES = 16  # and so many among those
_EXCHANGED = 1000  # at most so many sequences are left to exchanges, or to an integer program
_CLOSE = 1e-6  # of a pack: what one may be worth more than it costs at prices that are close to the best
# What dives may do in all, after the first few: a hundred times the steps times the sequences that are exchanged, and
# ten times the square of the lengths for each linear program. That is some six seconds.
_WORK, _FIRST_DIVES = 3 * 10**8, 4
_STEPS = 300  # of exchanges in the first attempt; each later one takes twice as many, up to 16 times
_NOISE = 0.3  # of the fractions, in all attempts but the first
_FACTOR = 1000  # the largest by which a price multiplies the common denominator


def optimal(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callback = None,
    rounds: int | None = None,
) -> tuple[list[Group], dict[str, Any]]:
    """The fewest packs that are known, and the prices that prove how few there can be.

    Args:
        max_sequences_per_pack: at most this many sequences a pack, or None.
        time_limit: seconds after which the best plan and bound so far are returned; more never make them worse. An
            interrupt (Ctrl-C) ends the search likewise, with a warning.
        progress: called after every round; if it returns False, the search ends likewise. Or True for a bar, False for
            none. By default a search of more than two seconds shows a bar where stderr is a terminal.
        rounds: linear programs after which the search ends likewise; a busy machine finds the same plan as an idle one.

    Returns:
        The strategies, and what proves the best bound: `prices` (None if sums prove as much), and whether packs are
        `listed`, see `PackingPlan`.
    """
    limit = math.inf if time_limit is None else number("time_limit", time_limit, at_least=0)
    most = math.inf if rounds is None else whole_number("rounds", rounds, 0)
    depth, few = max_sequences_per_pack, np.count_nonzero(histogram.counts) <= _FEW_LENGTHS
    takes_long = is_long(histogram.counts, depth, EXACT_STEPS if few else _STEPS_A_ROUND)
    kind = LongSearch if takes_long else _Search
    with shown(progress) as callback:
        search = kind(histogram, depth, callback, Deadline(limit, most))
        try:
            search.run()
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:  # a request to terminate is more than one to stop searching
                raise
            warnings.warn("The search was interrupted: this is the best plan so far.", RuntimeWarning, stacklevel=2)
        return search.best, {"prices": search.proof, "listed": search.listed}


class _Search(Search):
    """The best plan and bound so far, and the ways to better ones."""

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        super().__init__(histogram, max_sequences_per_pack, progress, deadline)
        self.lengths = np.flatnonzero(self.counts)
        self.work_left = _WORK
        # what the knapsack takes, a guess at first; the check of the plan solves one more
        steps = math.prod(exact_size(self.counts, max_sequences_per_pack))
        self.knapsack_seconds = steps * _STEP
        # Prices by the token are always sound: they prove the area bound. So is one price for every sequence.
        self.prices = self.lengths * (PRICE_OF_A_PACK // self.top)
        self.worth = exact_dot(self.counts[self.lengths], self.prices)
        self.pack_worth = PRICE_OF_A_PACK // self.top * self.top
        starts = [lpfhp(histogram, max_sequences_per_pack)]
        if max_sequences_per_pack:
            same_price = np.full(len(self.lengths), PRICE_OF_A_PACK // max_sequences_per_pack)
            self.prove(same_price, int(same_price[0]) * max_sequences_per_pack)
            starts.append(spread_evenly(histogram, max_sequences_per_pack, self.lower_bound))
            if steps > _STEPS_A_ROUND:  # it may be long until there is a better plan
                starts.append(lpt_until(deadline, histogram, max_sequences_per_pack))
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
        if solved:
            self.keep_solution()
        for attempt in range(_DIVES if solved else 0):
            if attempt == _PLAIN_DIVES and not self.done() and self.counts.sum() <= _EXCHANGED:
                self.settle()
                self.list_packs()
            if attempt < _FIRST_DIVES or self.work_left > 0:
                self.dive(attempt)

    def done(self) -> bool:
        return self.num_packs == self.lower_bound or self.time_left() <= 0

    def time_left(self) -> float:
        return self.deadline.seconds_left() - self.knapsack_seconds

    def solve(self, counts: np.ndarray) -> bool:
        return self.deadline.solve(self.master, counts, self.knapsack_seconds)

    def by_length(self, prices: np.ndarray, others: int) -> np.ndarray:
        table = np.full(self.top + 1, others)
        table[self.lengths] = prices
        return table

    def prove(self, prices: np.ndarray, best: int) -> None:
        """Keep `prices` if they prove more than the best so far, fractions of a pack included.

        Args:
            best: what the most valuable pack is worth at these prices.
        """
        worth = exact_dot(self.counts[self.lengths], prices)
        if worth * self.pack_worth > self.worth * best:
            self.prices, self.worth, self.pack_worth = prices, worth, best
        if -(-worth // best) > self.lower_bound:
            self.lower_bound, self.proof, self.listed = -(-worth // best), self.by_length(prices, 0), False

    def generate(self) -> bool:
        """Add strategies until the linear program meets the lower bound, or none helps.

        The prices of a solution jump from round to round. Looking for packs between them and the prices of the best
        bound so far takes a few rounds instead of many (Wentges 1997); where that finds nothing, go nearer.
        Returns False if the time was up first.
        """
        rounds = 0
        while self.solve(self.counts):
            rounds += 1
            if rounds.bit_count() == 1:  # now and then, for if the time is up soon, that is the plan
                self.keep_solution()
            if self.master.unit == 1 and self.master.fewest <= self.lower_bound:
                return True
            prices, center = self.master.prices, self.prices
            price_of = self.by_length(prices, NOT_FOR_SALE).tolist()
            for tenths in (8, 5, 2, 0):
                mixed = (center * tenths + prices * (10 - tenths)) // 10
                if self.time_left() < self.knapsack_seconds:
                    return False
                knapsack = self.price(mixed)
                packs = knapsack.packs_with(self.lengths)
                if self.master.add(p for p in packs if _value(p, price_of) > PRICE_OF_A_PACK + _SLACK):
                    break
            else:
                return True
            self.report("pricing")
        return False

    def price(self, prices: np.ndarray) -> Knapsack:
        """Find the packs that are worth most, and what that proves."""
        started = time.perf_counter()
        knapsack = solve_knapsack(self.by_length(prices, NOT_FOR_SALE), self.limit)
        self.knapsack_seconds = time.perf_counter() - started
        self.prove(prices, knapsack.best)
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

        The first attempt rounds the largest fractions up, later ones add noise to the choice. Then what was left
        after each rounding is packed by exchanges, the last first.
        """
        noise = np.random.default_rng(attempt)
        target = self.num_packs - 1 if attempt % 2 else self.lower_bound
        chosen, left, unit = Counter[tuple[int, ...]](), self.counts, float_unit(self.counts)
        stages = []
        while left.any() and not self.done() and self.solve(left):
            self.work_left -= 10 * len(self.lengths) ** 2
            if self.master.unit < unit:  # lengths that were too rare to be seen may prove more
                unit = self.master.unit
                self.sharpen()
            stages.append((chosen.copy(), left))
            if chosen.total() + self.master.fewest >= self.num_packs:
                break
            usage, rounded = self.master.usage, self.master.whole_usage
            if not rounded.any():
                up = max(1, np.count_nonzero(usage > 0.5) // 5)
                blur = noise.uniform(0, _NOISE if attempt else 0, len(usage))
                blurred = usage + blur * (usage > TOLERANCE)
                rounded[np.argsort(-blurred, kind="stable")[:up]] = 1
            taken, left = self.take(rounded, left, target)
            if not taken:
                break
            chosen.update(taken)
            self.keep(chosen, left)
        for chosen, left in reversed(stages):
            if not self.done() and left.sum() <= _EXCHANGED:
                self.exchange(chosen, left, attempt)

    def take(self, repeats: np.ndarray, left: np.ndarray, target: int) -> tuple[Counter[tuple[int, ...]], np.ndarray]:
        """Use the strategies of the master problem so often, but for packs that no plan of `target` packs can have.

        Those waste more, by the prices of the best bound, than such a plan can waste in all.

        Returns:
            How often each pack is used, and the counts that find no place.
        """
        places = ((flat(strategy), int(n)) for strategy, n in zip(self.master.strategies, repeats, strict=True) if n)
        filled = fill_places(list(places), left)[0]
        spare, price_of = target * self.pack_worth - self.worth, self.by_length(self.prices, 0).tolist()
        taken = Counter[tuple[int, ...]]()
        left = left.copy()
        for lengths, packs in filled:
            if self.pack_worth - sum(price_of[length] for length in lengths) <= spare:
                taken[lengths] += packs
                np.subtract.at(left, list(lengths), packs)
        return taken, left

    def keep_solution(self) -> None:
        """Round the solution of the linear program down, and keep what that makes if it is the best so far."""
        self.keep(*self.take(self.master.whole_usage, self.counts, self.num_packs - 1))

    def keep(self, chosen: Counter[tuple[int, ...]], left: np.ndarray) -> None:
        """Pack what is left greedily; keep the whole if it is the best so far."""
        self.improve(chosen, lpfhp(LengthHistogram(left), self.limit) if left.any() else [])

    def exchange(self, chosen: Counter[tuple[int, ...]], left: np.ndarray, attempt: int) -> None:
        """Look for a packing of what is left that makes the whole one pack less than the best plan has."""
        lengths, packs = np.repeat(self.lengths, left[self.lengths])[::-1].copy(), self.num_packs - 1 - chosen.total()
        if packs > 1 and lengths.sum() <= packs * self.top:
            steps = _STEPS * 2 ** min(attempt, 4)
            self.work_left -= 100 * steps * len(lengths)
            # prices know of scarce places, and many sequences share one: tokens tell these apart
            worth = self.by_length(self.prices, 0)[lengths] + lengths * (PRICE_OF_A_PACK // self.top)
            found = swap_search(lengths, worth, self.top, self.limit, packs, steps, attempt, self.time_left)
            self.improve(chosen, [(pack, 1) for pack in found] if found else None)

    def settle(self) -> None:
        """Take prices from the middle of all that are best; `generate` stops as soon as the bound is known."""
        while self.time_left() > 0 and self.solve(self.counts):
            prices = self.master.middle_prices()
            knapsack = self.price(prices)
            price_of = self.by_length(prices, NOT_FOR_SALE).tolist()
            packs = knapsack.packs_with(self.lengths)
            if not self.master.add(p for p in packs if _value(p, price_of) > PRICE_OF_A_PACK * (1 + _CLOSE)):
                self.prices, self.pack_worth = prices, knapsack.best
                self.worth = exact_dot(self.counts[self.lengths], prices)
                return

    def list_packs(self) -> None:
        """Look among the packs that waste little for a plan that meets the bound, or prove that there is none.

        A plan of so few packs wastes `spare` in all. Where too many packs waste no more, only those that waste least
        are looked at.
        """
        started, target = time.perf_counter(), self.lower_bound
        spare = waste = target * self.pack_worth - self.worth
        if self.done() or not 0 <= spare < self.pack_worth:
            return
        knapsack, listed = solve_knapsack(self.by_length(self.prices, NOT_FOR_SALE), self.limit), None
        while listed is None and waste >= spare >> 10 and self.time_left() > 0:
            listed = knapsack.packs_worth(self.pack_worth - waste, self.counts, LISTED)
            waste = (waste - 1) // 2 if listed is None else waste
        if not listed:
            return
        for seed in range(_LISTED_DIVES):
            if seed == _FIRST_DIVES and len(listed) <= WHOLE and not self.done():
                answer = choose(listed, self.counts, target, NODES, self.time_left())
                if answer == []:
                    if waste == spare and self.time_left() > time.perf_counter() - started:
                        # there is time for the plan's own check
                        self.lower_bound, self.listed, self.proof = target + 1, True, self.by_length(self.prices, 0)
                    return
                self.improve(Counter(), answer)
            if not self.done():
                self.improve(Counter(), dive_among(listed, self.counts, target, seed, self.time_left))

    def improve(self, chosen: Counter[tuple[int, ...]], rest: list[Group] | None) -> None:
        if rest is not None and chosen.total() + _packs(rest) < self.num_packs:
            self.best = list(chosen.items()) + rest
            self.num_packs = _packs(self.best)
            self.report("rounding")


def _value(pack: Multiset, price_of: list[int]) -> int:
    return sum(price_of[length] * copies for length, copies in pack)


def _packs(strategies: list[Group]) -> int:
    return sum(packs for _, packs in strategies)
