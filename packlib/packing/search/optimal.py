"""Packing with a proof: column generation, then rounding by diving.

The linear program (`packlib.packing.search.master`) starts from the strategies of LPFHP. Its prices go into a knapsack,
which looks for packs worth more than a pack costs; they are added until there are none. The same knapsack turns
the prices into a lower bound (`packlib.packing.search.bound`). Gilmore and Gomory (1961). Where the data has few
sequences, of many lengths, the search begins with packs that can really be filled: none uses a length more often than
it occurs.

Rounding dives: use every strategy as often as the solution says, rounded down, and solve again for the sequences
that are left; where nothing is left to round down, round some of the largest fractions up. Once few sequences are left,
strategies are generated that can be filled with these alone, and an integer program over them may end the dive. See
Sadykov, Vanderbeck, Pessoa, Tahiri and Uchoa, Primal heuristics for branch and price: the assets of diving methods
(INFORMS Journal on Computing 31, 2019). Where dives leave a gap, and the packs that can matter are few enough to be
listed, another integer program finds a plan that meets the bound, or proves that there is none
(`packlib.packing.search.whole_packs`). Rows that are too long for the exact knapsack go another way:
a few packs at a time are filled again (`packlib.packing.search.refilling`), and a linear program on few lengths proves
more (`packlib.packing.search.long_rows`).
"""

import itertools
import math
import time
import warnings
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np

from packlib.checks import number, whole_number
from packlib.lengths.counting import float_unit
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.exact_filling import fill_exactly
from packlib.packing.filling import fill_places
from packlib.packing.greedy import EqualPacks, lpfhp, spread_evenly
from packlib.packing.proofs import Prices, PricesAndList, Proof
from packlib.packing.search.base import Search
from packlib.packing.search.bound import (
    EXACT_STEPS,
    PRICE_OF_A_PACK,
    direct_bound,
    exact_dot,
    exact_size,
    needs_relaxation,
)
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.knapsack import NOT_FOR_SALE, Knapsack, Multiset, fillable, fillable_packs, solve_knapsack
from packlib.packing.search.long_rows import LongSearch
from packlib.packing.search.lpt import lpt_until
from packlib.packing.search.master import TOLERANCE, MasterProblem
from packlib.packing.search.progress import Callback, Progress, shown
from packlib.packing.search.refilling import Refilling
from packlib.packing.search.whole_packs import FEW_NODES, LISTED, NODES, WHOLE, choose, flat

_SLACK = PRICE_OF_A_PACK >> 28  # a pack must be worth so much more than it costs
_STEPS_A_ROUND = 10**7  # of the exact knapsack, above which prices are found on few lengths
_FEW_LENGTHS = 1100  # ten times as many steps are taken for at most so many different lengths
_MOST_LENGTHS = 2100  # the same, once refilling has left a gap
_STEP = 2e-9  # seconds of the exact knapsack
_DIVES, _FIRST_DIVES = 400, 12  # attempts at rounding; so many come before packs are listed
_FEW = 1000  # strategies are looked for, and packs are listed, for at most so many sequences
_LEFT, _FEW_STRATEGIES = 0.45, 200  # of the sequences, and strategies of them, that are left to an integer program
_CLOSE = 1e-6  # of a pack: a pack that is worth so much more than it costs is new
_WORK = 2 * 10**9  # steps of dives, of which at least the first few are made: some ten seconds
_NOISE = 0.3  # of the fractions, in all attempts but the first
_STEPS_OF_REFILLING = 50_000  # in a round of it: some 100 ms
_SEARCH_STEPS_A_REFILLING_STEP = 600
_FIRST_PATIENCE, _PATIENCE = 20, 120  # rounds of refilling that save no pack: before another search, and at the end
_REFILLED_FIRST, _REFILLED = 100_000, 2_000_000  # sequences at most, for refilling before and after other searches
_WRITING = 3e-6  # seconds a sequence, a guess: writing the plan down and verifying it
_FACTOR = 1000  # the largest by which a price multiplies the common denominator


def optimal(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callback = None,
    rounds: int | None = None,
    on_interrupt: Literal["return", "raise"] = "return",
    steps: float = math.inf,
) -> tuple[list[EqualPacks], Proof | None]:
    """The fewest packs that are known, and the prices that prove how few there can be.

    Args:
        max_sequences_per_pack: at most this many sequences a pack, or None.
        time_limit: seconds after which the best plan and bound so far are returned.
        progress: called after every round; if it returns False, the search ends likewise. Or True for a bar, False for
            none. By default a search of more than two seconds shows a bar where stderr is a terminal.
        rounds: linear programs after which the search ends likewise; a busy machine finds the same plan as an idle one.
        on_interrupt: "return": an interrupt (Ctrl-C) ends the search likewise, with a warning; "raise" raises it.
        steps: of a search that ends likewise, see `Deadline`: half a billion take some second.

    Returns:
        The strategies, and what proves the best bound: prices of a linear program, with a list of packs where that
        proves one more, or None if only sums prove as much (see `packlib.packing.proofs`).
    """
    limit = math.inf if time_limit is None else number("time_limit", time_limit, at_least=0)
    most = math.inf if rounds is None else whole_number("rounds", rounds, 0)
    with shown(progress) as callback:
        best = _Best(histogram, max_sequences_per_pack, callback, Deadline(limit, most, steps))
        try:
            best.search()
        except KeyboardInterrupt as stop:
            if on_interrupt == "raise" or type(stop) is not KeyboardInterrupt:  # a command's own ends the command
                raise
            found = f"of {best.num_packs:,} packs; the proven minimum is {best.lower_bound:,}"
            said = f"The search was interrupted: this is the best plan so far, {found}."
            warnings.warn(said, RuntimeWarning, stacklevel=3)  # where `plan` was called
        return best.strategies, best.proof


class _Best:
    """The best plan and bound of all searches; each search that is made gives its own to `keep`.

    Attributes:
        strategies, num_packs: the plan, and its packs.
        lower_bound, proof: the bound, and what proves it; None where sums do.
    """

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        self.histogram, self.limit = histogram, max_sequences_per_pack
        self.progress, self.deadline = progress, deadline
        self.lower_bound = direct_bound(histogram.counts, max_sequences_per_pack)
        self.proof: Proof | None = None
        self._set(lpfhp(histogram, max_sequences_per_pack))

    def _set(self, strategies: list[EqualPacks]) -> None:
        self.strategies, self.num_packs = strategies, _packs(strategies)

    def search(self) -> None:
        """Fill exactly; search exactly where the tables are small; else refill, search long rows, and refill again."""
        self.fill()
        if self.done():
            return
        counts, sequences = self.histogram.counts, self.histogram.num_sequences
        lengths = np.count_nonzero(counts)
        small = not needs_relaxation(counts, self.limit, EXACT_STEPS if lengths <= _FEW_LENGTHS else _STEPS_A_ROUND)
        if not small and sequences <= _REFILLED_FIRST:
            self.fill_evenly()
            self.refill(_FIRST_PATIENCE)
        if not self.done():
            exact = small or (lengths <= _MOST_LENGTHS and not needs_relaxation(counts, self.limit))
            self.take(_Search if exact else LongSearch)
        if sequences <= _REFILLED:
            self.refill(_PATIENCE)

    def done(self) -> bool:
        return self.num_packs == self.lower_bound or self.deadline.seconds_left() <= 0

    def fill(self) -> None:
        """Keep an exact filling that is better than best fit."""
        for evenly in (False, True) if self.limit else (False,):
            if not self.done():
                filled = fill_exactly(self.histogram, self.limit, evenly)
                if _packs(filled) < self.num_packs:
                    self._set(filled)

    def fill_evenly(self) -> None:
        """Keep a plan by `lpt`, for scarce places, if it is better."""
        if self.limit and not self.done():
            filled = lpt_until(self.deadline, self.histogram, self.limit)
            if _packs(filled) < self.num_packs:
                self._set(filled)

    def take(self, kind: type[Search]) -> None:
        """Make a search of this kind, and keep what it finds, also if it is interrupted."""
        search = kind(self.histogram, self.limit, self.report_of, self.deadline)
        try:
            search.run()
        finally:
            if search.lower_bound > self.lower_bound or (search.lower_bound == self.lower_bound and search.proof):
                self.lower_bound, self.proof = search.lower_bound, search.proof
            if search.num_packs < self.num_packs:
                self._set(search.best)

    def report_of(self, now: Progress) -> bool | None:
        """Report what a search says as part of the whole."""
        packs, bound = min(now.num_packs, self.num_packs), max(now.lower_bound, self.lower_bound)
        return self.progress(replace(now, num_packs=packs, lower_bound=bound)) if self.progress else None

    def refill(self, patience: int) -> None:
        """Refill a few packs at a time, until the bound is met or `patience` rounds save no pack."""
        if self.done():
            return
        refilling, idle = Refilling(self.strategies, self.histogram.max_length, self.limit), 0
        writing = self.histogram.num_sequences * _WRITING
        while idle < patience and len(refilling.packs) > self.lower_bound:
            if self.deadline.seconds_left() <= writing or not self.deadline.next_round():
                break
            before, started = len(refilling.packs), refilling.steps
            while refilling.steps < started + _STEPS_OF_REFILLING and len(refilling.packs) > self.lower_bound:
                refilling.attempt()
            self.deadline.spend((refilling.steps - started) * _SEARCH_STEPS_A_REFILLING_STEP)
            idle = 0 if len(refilling.packs) < before else idle + 1
            if len(refilling.packs) < self.num_packs:
                self._set([(pack, 1) for pack in refilling.packs])
            now = Progress(
                "refilling", len(self.strategies), self.num_packs, self.lower_bound, self.deadline.seconds()
            )
            if self.progress and self.progress(now) is False:
                self.deadline.stop()


class _Search(Search):
    """The best plan and bound so far, and the ways to better ones."""

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        super().__init__(histogram, max_sequences_per_pack, progress, deadline)
        self.lengths = np.flatnonzero(self.counts)
        self.work_left = _WORK
        # what the knapsack takes, a guess at first; the check of the plan solves one more
        self.knapsack_steps = math.prod(exact_size(self.counts, max_sequences_per_pack))
        self.knapsack_seconds = self.knapsack_steps * _STEP
        # Prices by the token are always sound: they prove the area bound. So is one price for every sequence. What all
        # sequences are worth, and the best pack, are in the units of prices, of which a pack costs 2^38.
        self.prices = self.lengths * (PRICE_OF_A_PACK // self.top)
        self.worth = exact_dot(self.counts[self.lengths], self.prices)
        self.pack_worth = PRICE_OF_A_PACK // self.top * self.top
        starts = [lpfhp(histogram, max_sequences_per_pack)]
        if max_sequences_per_pack:
            same_price = np.full(len(self.lengths), PRICE_OF_A_PACK // max_sequences_per_pack)
            self.prove(same_price, int(same_price[0]) * max_sequences_per_pack)
            self.proof = None  # sums prove as much
            starts.append(spread_evenly(histogram, max_sequences_per_pack, self.lower_bound))
            if self.knapsack_steps > _STEPS_A_ROUND:  # it may be long until there is a better plan
                starts.append(lpt_until(deadline, histogram, max_sequences_per_pack))
        self.stages: list[tuple[Counter[tuple[int, ...]], np.ndarray]] = []  # of the last dive from the start
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
            if attempt == _FIRST_DIVES and not self.done() and self.counts.sum() <= _FEW:
                self.master.allow(None)
                self.center_prices()
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
        bound, more = -(-worth // best), worth * self.pack_worth > self.worth * best
        if more:
            self.prices, self.worth, self.pack_worth = prices, worth, best
        if bound > self.lower_bound or (more and bound == self.lower_bound):
            self.lower_bound, self.proof = bound, Prices(self.by_length(prices, 0))

    def generate(self) -> bool:
        """Add strategies until the linear program meets the lower bound, or none helps.

        The prices of a solution jump from round to round. Looking for packs between them and the prices of the best
        bound so far takes a few rounds instead of many (Wentges 1997); where that finds nothing, go nearer. Few
        sequences of many lengths begin with strategies for which there are enough of them, which are fewer.
        Returns False if the time was up first.
        """
        rounds, few = 0, self.few(self.counts) and self.counts.sum() <= 2 * len(self.lengths)
        while self.solve(self.counts):
            rounds += 1
            if rounds.bit_count() == 1:  # now and then, for if the time is up soon, that is the plan
                self.keep_solution()
            if self.master.unit == 1 and self.master.fewest <= self.lower_bound:
                return True
            if few and self.add_fillable(self.counts):
                self.report("pricing")
                continue
            few = False
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
        self.deadline.spend(self.knapsack_steps)
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

        The first attempt rounds the largest fractions up, later ones add noise to the choice. Every fourth begins with
        all sequences, the others half way through that one. When few sequences are left, an integer program over the
        strategies that they are enough for may end it.
        """
        noise = np.random.default_rng(attempt)
        target = self.num_packs - 1 if attempt % 2 else self.lower_bound
        chosen, left, unit = Counter[tuple[int, ...]](), self.counts, float_unit(self.counts)
        from_start = attempt % 4 == 0 or not self.stages
        if from_start:
            self.stages = []
        else:
            chosen, left = self.stages[len(self.stages) // 2]
            chosen = chosen.copy()
        while left.any() and not self.done() and self.solve_rest(left, target - chosen.total()):
            if self.master.unit < unit:  # lengths that were too rare to be seen may prove more
                unit = self.master.unit
                self.sharpen()
            if chosen.total() + self.master.fewest >= self.num_packs:
                break
            self.choose_rest(chosen, left, target)
            if from_start:
                self.stages.append((chosen.copy(), left))
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

    def choose_rest(self, chosen: Counter[tuple[int, ...]], left: np.ndarray, target: int) -> None:
        """Let an integer program pack what is left, if that is little, and few strategies are made of it alone.

        Only those count that waste no more than a plan of `target` packs can waste in all, as in `take`.
        """
        if left.sum() > _LEFT * self.counts.sum():
            return
        spare, price_of = self.spare(target), self.by_length(self.prices, 0).tolist()
        few = [
            pack
            for pack in itertools.compress(self.master.strategies, fillable(self.master.strategies, left))
            if self.pack_worth - _value(pack, price_of) <= spare
        ]
        if len(few) <= _FEW_STRATEGIES:
            self.work_left -= 3000 * len(few)
            self.deadline.spend(3000 * len(few))
            answer = choose(few, left, target - chosen.total(), FEW_NODES, self.time_left())
            self.improve(chosen, answer or None)

    def solve_rest(self, left: np.ndarray, packs: int) -> bool:
        """Solve the linear program for what is left.

        Where that is little, only strategies count for which there are enough sequences, and new ones are looked for
        until it takes no more than `packs`.
        """
        if not self.few(left):
            self.work_left -= self.steps_of_solving()
            self.master.allow(None)
            return self.solve(left)
        self.master.add(tuple(Counter(pack).items()) for pack, _ in lpfhp(LengthHistogram(left), self.limit))
        self.master.allow(left)
        while self.solve(left):
            self.work_left -= self.steps_of_solving() + self.fillable_steps(left)
            if self.master.objective <= packs + TOLERANCE or not self.add_fillable(left):
                return True
        return False

    def few(self, left: np.ndarray) -> bool:
        """Whether strategies of these sequences alone are looked for."""
        return left.sum() <= _FEW and self.fillable_steps(left) <= _STEPS_A_ROUND

    def steps_of_solving(self) -> int:
        """About what a linear program takes, in the steps that are counted here."""
        return 30 * len(self.lengths) ** 2

    def fillable_steps(self, left: np.ndarray) -> int:
        return int(left.sum()) * math.prod(exact_size(left, self.limit)[1:])

    def add_fillable(self, left: np.ndarray) -> int:
        """Add strategies that help, with no more sequences of a length than are left; return how many."""
        price_of = self.by_length(self.master.prices, 0)
        self.deadline.spend(self.fillable_steps(left))
        found, prices = fillable_packs(left, price_of, self.limit), price_of.tolist()
        return self.master.add(pack for pack in found if _value(pack, prices) > PRICE_OF_A_PACK * (1 + _CLOSE))

    def spare(self, packs: int) -> int:
        """What a plan of so many packs can waste in all, by the prices of the best bound."""
        return packs * self.pack_worth - self.worth

    def take(self, repeats: np.ndarray, left: np.ndarray, target: int) -> tuple[Counter[tuple[int, ...]], np.ndarray]:
        """Use the strategies of the master problem so often, but for packs that no plan of `target` packs can have.

        Those waste more, by the prices of the best bound, than such a plan can waste in all.

        Returns:
            How often each pack is used, and the counts that find no place.
        """
        planned = ((flat(strategy), int(n)) for strategy, n in zip(self.master.strategies, repeats, strict=True) if n)
        filled = fill_places(list(planned), left)[0]
        spare, price_of = self.spare(target), self.by_length(self.prices, 0).tolist()
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

    def center_prices(self) -> None:
        """Take prices from the middle of all that are best, so that fewer packs waste little and are listed."""
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
        spare = waste = self.spare(target)
        if self.done() or not 0 <= spare < self.pack_worth:
            return
        knapsack, listed = solve_knapsack(self.by_length(self.prices, NOT_FOR_SALE), self.limit), None
        while listed is None and waste >= spare >> 10 and self.time_left() > 0:
            listed = knapsack.packs_worth(self.pack_worth - waste, self.counts, LISTED)
            waste = (waste - 1) // 2 if listed is None else waste
        if listed is None:
            return
        self.master.add(listed)
        if len(listed) <= WHOLE and not self.done():
            answer = choose(listed, self.counts, target, NODES if waste == spare else FEW_NODES, self.time_left())
            if answer == [] and waste == spare and self.time_left() > time.perf_counter() - started:
                # there is time for the plan's own check
                self.lower_bound, self.proof = target + 1, PricesAndList(self.by_length(self.prices, 0))
            self.improve(Counter(), answer or None)

    def improve(self, chosen: Counter[tuple[int, ...]], rest: list[EqualPacks] | None) -> None:
        if rest is not None and chosen.total() + _packs(rest) < self.num_packs:
            self.best = list(chosen.items()) + rest
            self.num_packs = _packs(self.best)
            self.report("rounding")


def _value(pack: Multiset, price_of: list[int]) -> int:
    return sum(price_of[length] * copies for length, copies in pack)


def _packs(strategies: list[EqualPacks]) -> int:
    return sum(packs for _, packs in strategies)
