"""A lower bound that can be checked: prices of lengths, and a dynamic program over integers.

Give every length l a price u[l] >= 0. If no pack that is allowed is worth more than `best`, then sequences worth
sum(counts * u) need at least sum(counts * u) / best packs. That is weak duality of the packing linear program
(Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem, 1961). Prices, pack values and the
division are integers, so no rounding error can make the bound false.
"""

import numpy as np


def certified_bound(counts: np.ndarray, duals: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """The number of packs that the prices `duals` prove to be needed (int64, shape (max_length + 1,))."""
    raise NotImplementedError
