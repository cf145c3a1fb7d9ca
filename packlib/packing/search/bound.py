"""A lower bound that can be checked: prices of lengths, and a dynamic program over integers.

The proof: h[l] sequences have length l. Give every length a price u[l] >= 0. A pack is worth the sum of the prices of
its sequences. Let p be a number that no pack exceeds, of all packs that fit into a row within the depth limit. The
packs of a plan hold every sequence once, so together they are worth sum(h * u). Each of them is worth at most p, so n
packs are worth at most n * p. Every plan therefore has at least sum(h * u) / p packs, rounded up.

That is weak duality of the packing linear program (Gilmore and Gomory, A Linear Programming Approach to the
Cutting-Stock Problem, 1961). It holds for any prices; good ones come from the linear programs of `exact.py` and
`breakpoint_program.py`. `knapsack.py` computes p exactly, as the worth of the best pack. For long rows
`relaxed_knapsack.py` computes in fewer steps a p that may be larger, and a bound that is then lower but not false.
Prices, p and the division are integers, so no rounding error can make it false either.

The bound of a plan may be one pack higher than its prices prove: `whole_packs.py` then shows that no packing has just
that many packs, with the help of HiGHS in floating point. `packlib.packing.proofs` lists all kinds of proofs.
"""

import numpy as np

from packlib.arguments import depth_limit, shown
from packlib.lengths.counting import exact_dot
from packlib.packing.search.knapsack import NOT_FOR_SALE, common_divisor, solve_knapsack
from packlib.packing.search.relaxed_knapsack import relaxed_best

# Prices are multiples of 2^-38 packs: 20 bits lose a few packs on millions of sequences.
PRICE_OF_A_PACK = 1 << 38

# Additions (lengths x slots x depth) above which a relaxed knapsack takes the place of the exact one: some 0.2 seconds,
# or two with few lengths. The relaxed bound is weak where lengths are far apart.
EXACT_STEPS, _STEPS_OF_FEW = 10**8, 10**9
FEW_LENGTHS = 1100
_MOST_WORTH = 1 << 60  # of a pack: sums stay within 64 bits
_MOST_SLOTS = _MOST_WORTH // PRICE_OF_A_PACK  # of a row, so that no prices are too high
_MOST_ENTRIES = 1 << 27  # of its table, a gigabyte


def certified_bound(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """Compute the number of packs that prices prove to be needed.

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        prices: from 0 to 2^38 (a whole pack); same shape. Prices of lengths that do not occur are not
            looked at.
        max_sequences_per_pack: the depth limit, or None.

    Raises:
        TypeError, ValueError: naming an argument of another kind; if the prices have another shape, are out of range,
            are all 0, or are too high for 64 bits.
    """
    for name, values in (("counts", counts), ("prices", prices)):
        if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iu":
            raise TypeError(f"{name} must be an array of whole numbers, one for each length, not {shown(values)}.")
    max_sequences_per_pack = depth_limit(max_sequences_per_pack)
    if not (counts > 0).any() or (counts < 0).any():
        raise ValueError("counts must be at least 0, and not all 0.")
    if prices.shape != counts.shape:
        raise ValueError(f"There must be {len(counts)} prices, one for each length, not the shape {prices.shape}.")
    occurs = counts > 0
    if prices[occurs].min() < 0 or prices[occurs].max() > PRICE_OF_A_PACK or not prices[occurs].any():
        raise ValueError(f"The prices must be from 0 to {PRICE_OF_A_PACK}, and not all 0.")
    lengths = np.flatnonzero(occurs)
    # refuse prices with which the knapsack would overflow: a pack is worth at most the highest price of a token
    # (rounded up) for each of its slots
    by_token = int((prices[lengths] // lengths).max() + 1) * (len(prices) - 1)
    # and at most the highest price of a sequence for each that it may hold
    by_sequence = int(prices[occurs].max()) * (max_sequences_per_pack or by_token)
    if min(by_token, by_sequence) > _MOST_WORTH:
        raise ValueError(f"The prices must leave every pack worth at most 2^60; here one can be worth {by_token}.")
    if needs_relaxation(occurs, max_sequences_per_pack):
        worth_of_best = relaxed_best(np.clip(prices, 0, PRICE_OF_A_PACK), occurs, max_sequences_per_pack)
    else:
        worth_of_best = solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), max_sequences_per_pack).best
    # sum(h * u) / p of the proof; minus a floor rounds up
    return -(-exact_dot(counts[occurs], prices[occurs]) // worth_of_best)


def needs_relaxation(counts: np.ndarray, max_sequences_per_pack: int | None, steps: int | None = None) -> bool:
    """Return True if the exact knapsack takes more additions than `steps`, or a table of over a gigabyte.

    By default it may take as many as the check of a plan by its prices: 10^8, or 10^9 with few lengths. A search uses
    the exact knapsack only where this check does, so that the prices that it finds prove as much in the check.
    """
    lengths, slots, layers = exact_size(counts, max_sequences_per_pack)
    most = (_STEPS_OF_FEW if lengths <= FEW_LENGTHS else EXACT_STEPS) if steps is None else steps
    return lengths * slots * layers > most or slots > _MOST_SLOTS or slots * layers > _MOST_ENTRIES


def exact_size(counts: np.ndarray, max_sequences_per_pack: int | None) -> tuple[int, int, int]:
    """Count the lengths, slots and layers of the exact knapsack; their product is its additions."""
    lengths = np.flatnonzero(counts)
    unit = common_divisor(lengths)
    slots = (len(counts) - 1) // unit
    deepest = slots // (int(lengths[0]) // unit)
    layers = max_sequences_per_pack if max_sequences_per_pack and max_sequences_per_pack < deepest else 1
    return len(lengths), slots + 1, layers
