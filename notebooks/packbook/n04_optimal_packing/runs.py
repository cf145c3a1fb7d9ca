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

_STEPS_A_ROUND = 10**7  # additions that solve one knapsack; more would take too long for a notebook


def prices_of(packing: PackingPlan) -> np.ndarray:
    """Return the price of each length, in packs, that proves the plan's bound; shape (max_length + 1,)."""
    return packing.prices / PRICE_OF_A_PACK


def best_prices(packing: PackingPlan) -> np.ndarray:
    """Return the price of each length, in packs, that proves the highest bound; shape (max_length + 1,).

    These are the duals of the linear program. Column generation begins with the packs of the plan, and ends when no
    pack is worth more than it costs. If that would take too long, as for over 512 lengths with `quick=False`, the
    plan's own prices are returned.
    """
    histogram, depth = packing.histogram, packing.max_sequences_per_pack
    if needs_relaxation(histogram.counts, depth, _STEPS_A_ROUND):
        return prices_of(packing)
    master = MasterProblem(histogram.counts)
    master.add(tuple(Counter(pack).items()) for pack in packing.strategies)
    *_, prices = _rounds(master, histogram, depth)
    return prices / PRICE_OF_A_PACK


def best_pack(prices: dict[int, Fraction], max_length: int) -> tuple[int, ...]:
    """Return the pack that is worth most, as lengths, longest first.

    Args:
        prices: by length, in packs.
    """
    scale = math.lcm(*(Fraction(price).denominator for price in prices.values()))
    whole_prices = np.full(max_length + 1, NOT_FOR_SALE)  # a knapsack takes whole numbers
    for length, price in prices.items():
        whole_prices[length] = int(price * scale)
    candidates = solve_knapsack(whole_prices, None).packs_with(np.array(list(prices)))  # (length, copies) pairs
    best = max(candidates, key=lambda pack: sum(prices[length] * copies for length, copies in pack))
    return tuple(length for length, copies in best for _ in range(copies))


def in_words(pack: Sequence[int]) -> str:
    """Return a pack in words: "4 + 3 + 3"."""
    return " + ".join(map(str, pack))


def scarce(lengths: np.ndarray, prices: np.ndarray, max_length: int) -> str | None:
    """Name what prices pay for.

    Args:
        lengths: shape (lengths,).
        prices: of these lengths, in packs, same shape.

    Returns:
        "a token" if each price is near the length's share of a pack, "a place" if most prices are about equal; None if
        neither holds, or if there are too few lengths.
    """
    if len(lengths) < 3:
        return None  # too few to tell a line from a step
    if np.abs(prices - lengths / max_length).mean() <= 0.05 * prices.mean():
        return "a token"
    if np.abs(prices - np.median(prices)).mean() <= 0.2 * prices.mean():
        return "a place"
    return None


def as_fraction(number: float) -> Fraction:
    """Return the simple fraction that a solver's number stands for."""
    return Fraction(float(number)).limit_denominator(1000)


def column_generation(histogram: LengthHistogram, depth: int | None) -> Iterator[tuple[int, float, int]]:
    """Yield, for each round, how many strategies are known, the packs of the solution, and the best bound so far.

    The packs are those of the linear program, in fractions.
    """
    master, best_bound = MasterProblem(histogram.counts), 0
    master.add(tuple(Counter(pack).items()) for pack, _ in lpfhp(histogram, depth))
    for prices in _rounds(master, histogram, depth):
        best_bound = max(best_bound, certified_bound(histogram.counts, prices, depth))
        yield len(master.strategies), master.objective, best_bound


def _rounds(master: MasterProblem, histogram: LengthHistogram, depth: int | None) -> Iterator[np.ndarray]:
    """Solve the master problem and add packs that are worth more than they cost, until there is none.

    Yields:
        The prices of each round, shape (max_length + 1,): whole numbers, of which a pack costs `PRICE_OF_A_PACK`.
    """
    num_new = 1
    while num_new and master.solve(histogram.counts):
        prices = np.full(histogram.max_length + 1, NOT_FOR_SALE)
        prices[master.lengths] = master.prices
        yield np.maximum(prices, 0)
        knapsack = solve_knapsack(prices, depth)
        packs = knapsack.packs_with(master.lengths)
        least_worth = PRICE_OF_A_PACK + (PRICE_OF_A_PACK >> 20)  # a millionth more than a pack costs, or rounds go on
        bargains = [
            pack for pack in packs if sum(int(prices[length]) * copies for length, copies in pack) > least_worth
        ]
        num_new = master.add(bargains)
