"""What notebook 04 computes: prices, the pack that is worth most, and column generation with the library's parts."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan
from packlib.packing.greedy import lpfhp
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound, needs_relaxation
from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack
from packlib.packing.search.master import MasterProblem

_STEPS_A_ROUND = 10**7  # additions of a knapsack: more take too long for a notebook


def prices_of(packing: PackingPlan) -> np.ndarray:
    """Return the prices that prove the plan's bound, in packs; shape (max_length + 1,)."""
    return packing.prices / PRICE_OF_A_PACK


def best_prices(packing: PackingPlan) -> np.ndarray:
    """Return the prices that prove most, the duals of the linear program, in packs; shape (max_length + 1,).

    Column generation begins with the packs of the plan, and ends when none is worth more than it costs. Where that
    takes too long (over 512 lengths and `quick=False`), they are the prices of the plan.
    """
    histogram, depth = packing.histogram, packing.max_sequences_per_pack
    if needs_relaxation(histogram.counts, depth, _STEPS_A_ROUND):
        return prices_of(packing)
    master = MasterProblem(histogram.counts)
    master.add(tuple(Counter(pack).items()) for pack in packing.strategies)
    *_, prices = _rounds(master, histogram, depth)
    return prices / PRICE_OF_A_PACK


def best_pack(prices: dict[int, Fraction], max_length: int) -> tuple[int, ...]:
    """Return the pack that is worth most at `prices`, given by length; longest first."""
    whole = np.full(max_length + 1, NOT_FOR_SALE)
    scale = math.lcm(*(Fraction(price).denominator for price in prices.values()))
    for length, price in prices.items():
        whole[length] = int(price * scale)
    best = max(
        solve_knapsack(whole, None).packs_with(np.array(list(prices))),
        key=lambda slots: sum(prices[length] * copies for length, copies in slots),
    )
    return tuple(length for length, copies in best for _ in range(copies))


def in_words(pack: Sequence[int]) -> str:
    """Return a pack in words: "4 + 3 + 3"."""
    return " + ".join(map(str, pack))


def scarce(lengths: np.ndarray, prices: np.ndarray, max_length: int) -> str | None:
    """Name what prices pay for: "a token" if near the length's share of a pack, "a place" if most are alike."""
    if len(lengths) < 3:
        return None  # too few to tell a line from a step
    if np.abs(prices - lengths / max_length).mean() <= 0.05 * prices.mean():
        return "a token"
    return "a place" if np.abs(prices - np.median(prices)).mean() <= 0.2 * prices.mean() else None


def as_fraction(number: float) -> Fraction:
    """Return the simple fraction that a solver's number stands for."""
    return Fraction(float(number)).limit_denominator(1000)


def column_generation(histogram: LengthHistogram, depth: int | None) -> Iterator[tuple[int, float, int]]:
    """Yield, for each round, the strategies known, the packs of the solution, and the best bound so far."""
    master, best = MasterProblem(histogram.counts), 0
    master.add(tuple(Counter(pack).items()) for pack, _ in lpfhp(histogram, depth))
    for prices in _rounds(master, histogram, depth):
        best = max(best, certified_bound(histogram.counts, prices, depth))
        yield len(master.strategies), master.objective, best


def _rounds(master: MasterProblem, histogram: LengthHistogram, depth: int | None) -> Iterator[np.ndarray]:
    """Solve and add packs that are worth more than they cost, until there is none; yields the prices of each round."""
    new = 1
    while new and master.solve(histogram.counts):
        prices = np.full(histogram.max_length + 1, NOT_FOR_SALE)
        prices[master.lengths] = master.prices
        yield np.maximum(prices, 0)
        knapsack = solve_knapsack(prices, depth)
        packs = knapsack.packs_with(master.lengths)
        gain = PRICE_OF_A_PACK + (PRICE_OF_A_PACK >> 20)
        new = master.add(p for p in packs if sum(int(prices[n]) * copies for n, copies in p) > gain)
