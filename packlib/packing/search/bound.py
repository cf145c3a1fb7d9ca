"""A lower bound that can be checked: prices of lengths, and a dynamic program over integers.

**The proof.** `h[l]` sequences have length l. A row holds a fixed number of tokens, and there may be a depth limit.

1. Give every length a price `u[l] >= 0`. The value of a pack is the sum of the prices of its sequences.
2. Let `p` be a number such that no pack has a higher value, of all packs that fit into a row within the depth limit.
3. The packs of a plan hold every sequence once, so together they are worth `sum(h * u)`. Each of them is worth at most
   `p`, so n packs are worth at most `n * p`.
4. Every plan therefore has at least `sum(h * u) / p` packs, rounded up.

That is weak duality of the packing linear program (Gilmore and Gomory, A Linear Programming Approach to the
Cutting-Stock Problem, 1961). It holds for any prices, wherever they come from. Good ones come from the linear programs
of `exact.py` and `breakpoint_program.py`.

**Where `p` comes from.** Step 2 is the only one that takes work: a knapsack. One of two functions computes it.

- `solve_knapsack(...).best` is exactly the value of the best pack. With `f[k][c]` the best value of at most k
  sequences in c tokens, `f[k][c]` is the largest of `f[k - 1][c]` and of `f[k - 1][c - l] + u[l]` over the lengths
  l <= c. Then `p` is `f` of the depth limit and all tokens of a row. Without a depth limit the index k falls away.
- `relaxed_best` returns a number that is at least that value, in fewer steps, for long rows: it also allows some packs
  that do not fit, and rounds up. So `p` may be larger, and then the bound is lower, but not false.

**Why rounding cannot make it false.** Prices, `p` and the division are integers. Prices with which a pack could be
worth more than 2^60 are refused, so no sum overflows the 64 bits of the table. `exact_dot` computes `sum(h * u)`
exactly, in Python's integers where 64 bits do not hold it.

The bound of a plan may be one pack higher than its prices prove: `whole_packs.py` then shows, with the help of HiGHS in
floating point, that no packing has only as many packs as they prove. `packlib.packing.proofs` lists all kinds of
proofs.
"""

from typing import NamedTuple

import numpy as np

from packlib.arguments import depth_limit, shown
from packlib.lengths.counting import exact_dot
from packlib.packing.search.knapsack import NOT_FOR_SALE, common_divisor, solve_knapsack
from packlib.packing.search.relaxed_knapsack import relaxed_best

# Prices are multiples of 2^-38 packs: 20 bits lose a few packs on millions of sequences.
PRICE_OF_A_PACK = 1 << 38

# Additions (lengths x slots x layers) above which a relaxed knapsack takes the place of the exact one: some 0.2
# seconds, or two with few lengths. The relaxed bound is weak where lengths are far apart.
EXACT_STEPS, _STEPS_OF_FEW = 10**8, 10**9
FEW_LENGTHS = 1100
_MOST_VALUE = 1 << 60  # of a pack: sums stay within 64 bits
_MOST_SLOTS = _MOST_VALUE // PRICE_OF_A_PACK  # of a row, so that no prices are too high
_MOST_ENTRIES = 1 << 27  # of the exact knapsack's table, a gigabyte


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
    max_sequences_per_pack = depth_limit(max_sequences_per_pack)
    _check_prices(counts, prices, max_sequences_per_pack)
    occurs = counts > 0
    if needs_relaxation(occurs, max_sequences_per_pack):
        # lengths that do not occur may be counted here, which only raises p; their prices were not checked
        allowed_prices = np.clip(prices, 0, PRICE_OF_A_PACK)
        best_pack = relaxed_best(allowed_prices, occurs, max_sequences_per_pack)
    else:
        best_pack = solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), max_sequences_per_pack).best
    all_sequences = exact_dot(counts[occurs], prices[occurs])
    return -(-all_sequences // best_pack)  # minus a floor rounds up


def _check_prices(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None) -> None:
    """Raise an error unless these are counts and prices with which the knapsacks do not overflow.

    A pack is worth at most the highest price of a token (rounded up) for each of its slots, and at most the highest
    price of a sequence for each sequence that it may hold.
    """
    for name, values in (("counts", counts), ("prices", prices)):
        if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iu":
            raise TypeError(f"{name} must be an array of whole numbers, one for each length, not {shown(values)}.")
    if not (counts > 0).any() or (counts < 0).any():
        raise ValueError("counts must be at least 0, and not all 0.")
    if prices.shape != counts.shape:
        raise ValueError(f"There must be {len(counts)} prices, one for each length, not the shape {prices.shape}.")
    lengths = np.flatnonzero(counts)
    prices = prices[lengths]
    if prices.min() < 0 or prices.max() > PRICE_OF_A_PACK or not prices.any():
        raise ValueError(f"The prices must be from 0 to {PRICE_OF_A_PACK}, and not all 0.")
    row_length = len(counts) - 1
    by_token = int((prices // lengths).max() + 1) * row_length
    by_sequence = int(prices.max()) * (max_sequences_per_pack or by_token)
    if min(by_token, by_sequence) > _MOST_VALUE:
        raise ValueError(f"The prices must leave every pack worth at most 2^60; here one can be worth {by_token}.")


def needs_relaxation(counts: np.ndarray, max_sequences_per_pack: int | None, steps: int | None = None) -> bool:
    """Return True if the exact knapsack takes more additions than `steps`, or a table of over a gigabyte.

    By default it may take as many as the check of a plan by its prices: 10^8, or 10^9 with few lengths. A search uses
    the exact knapsack only where this check does, so that the prices that it finds prove as much in the check.

    Args:
        counts: how many sequences have each length, or which lengths occur; shape (max_length + 1,).
    """
    table = exact_size(counts, max_sequences_per_pack)
    if steps is None:
        steps = _STEPS_OF_FEW if table.lengths <= FEW_LENGTHS else EXACT_STEPS
    return table.additions > steps or table.spaces > _MOST_SLOTS or table.entries > _MOST_ENTRIES


class TableSize(NamedTuple):
    """The size of the exact knapsack's table.

    Attributes:
        lengths: how many different lengths are for sale.
        spaces: its columns: from 0 slots to those of a row.
        layers: its rows: one for each number of sequences where a depth limit binds, or else one.
    """

    lengths: int
    spaces: int
    layers: int

    @property
    def entries(self) -> int:
        """Return the entries of the table."""
        return self.spaces * self.layers

    @property
    def additions(self) -> int:
        """Return the additions that fill the table: one for each entry and length."""
        return self.lengths * self.entries


def exact_size(counts: np.ndarray, max_sequences_per_pack: int | None) -> TableSize:
    """Compute the size of the exact knapsack's table, without filling it; `counts` is as of `needs_relaxation`."""
    lengths = np.flatnonzero(counts)
    unit = common_divisor(lengths)
    slots = (len(counts) - 1) // unit
    deepest = slots // (int(lengths[0]) // unit)
    layers = max_sequences_per_pack if max_sequences_per_pack and max_sequences_per_pack < deepest else 1
    return TableSize(len(lengths), slots + 1, layers)
