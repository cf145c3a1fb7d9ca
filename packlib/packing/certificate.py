"""A lower bound that can be checked: prices of lengths, and a dynamic program over integers.

Give every length l a price u[l] >= 0. If no pack that is allowed is worth more than `best`, then sequences worth
sum(counts * u) need at least sum(counts * u) / best packs. That is weak duality of the packing linear program
(Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem, 1961). Prices, pack values and the
division are integers, so no rounding error can make the bound false.
"""

import numpy as np

from packlib.packing.knapsack import NOT_FOR_SALE, solve_knapsack

PRICE_OF_A_PACK = (
    1 << 38
)  # prices are multiples of 2^-38 packs: 20 bits lose a few packs on millions of sequences


def certified_bound(counts: np.ndarray, duals: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """The number of packs that prices prove to be needed.

    Args:
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        duals: the prices u, from 0 to 2^38 (a whole pack); same shape. Prices of lengths that do not occur are
            not looked at.
        max_sequences_per_pack: the depth limit, or None.

    Raises:
        ValueError: if the prices have another shape, are out of range, or are all 0.
    """
    if duals.shape != counts.shape:
        raise ValueError(
            f"There must be {len(counts)} duals, one for each length, not the shape {duals.shape}."
        )
    occurs = counts > 0
    if duals[occurs].min() < 0 or duals[occurs].max() > PRICE_OF_A_PACK or not duals[occurs].any():
        raise ValueError(f"The duals must be prices from 0 to {PRICE_OF_A_PACK}, and not all 0.")
    best = solve_knapsack(np.where(occurs, duals, NOT_FOR_SALE), max_sequences_per_pack).best
    return -(-worth(counts[occurs], duals[occurs]) // best)


def worth(counts: np.ndarray, prices: np.ndarray) -> int:
    """What all sequences are worth, exactly: Python integers cannot overflow."""
    return sum(n * price for n, price in zip(counts.tolist(), prices.tolist(), strict=True))
