"""The lower bound with which every search begins: sums of tokens and of sequences.

The proof is written out in `packlib.packing.proofs`.
"""

from typing import Literal

import numpy as np

from packlib.packing.search.knapsack import common_divisor


def direct_bound(counts: np.ndarray, max_sequences_per_pack: int | None) -> int:
    """Return the number of packs that sums alone prove to be needed; arguments as in `best_sums`."""
    return best_sums(counts, max_sequences_per_pack)[0]


def best_sums(
    counts: np.ndarray, max_sequences_per_pack: int | None
) -> tuple[int, Literal["tokens", "sequences"], int]:
    """Choose the sums that prove most: three kinds, for every length below which they can leave sequences out.

    Take a length `shortest` up to half a pack, and count only the sequences of at least so many tokens. Of these, each
    that is longer than max_length - shortest is alone in its pack. The others need

    - by the first kind, as many packs as their tokens fill,
    - by the second, where there is a depth limit, as many as their number fills.

    By the third kind only the sequences of more than half a pack count: each is alone. The first and the third together
    are the bound L2 of Martello and Toth (Discrete Applied Mathematics 28, 1990).

    Args:
        counts, max_sequences_per_pack: as in `certified_bound`.

    Returns:
        The number of packs, and what proves it: `shared_by` and `shortest` of `packlib.packing.proofs.Sums`. Of proofs
        that are as good, tokens come before sequences, and a lower `shortest` before a higher one.
    """
    unit = common_divisor(np.flatnonzero(counts))
    counts = counts[::unit]  # from here on lengths count in units: they are multiples of it, and so is what packs fill
    capacity = len(counts) - 1
    # at index l: how many sequences have a length of at least l, and their tokens, which fit in 64 bits
    sequences = _sums_from_each(counts)
    tokens = _sums_from_each(counts * np.arange(capacity + 1))
    shortest = np.arange(1, capacity // 2 + 1)  # each array below has an entry for each of them
    alone = sequences[capacity - shortest + 1]
    tokens_of_others = tokens[shortest] - tokens[capacity - shortest + 1]
    by_tokens = alone - (-tokens_of_others // capacity)  # minus a floor rounds up
    over_half = sequences[capacity // 2 + 1]  # the third kind, with the next `shortest`
    bounds_of: dict[Literal["tokens", "sequences"], np.ndarray] = {"tokens": np.append(by_tokens, over_half)}
    if max_sequences_per_pack is not None:
        depth = min(max_sequences_per_pack, int(sequences[0]))  # a limit need not fit in 64 bits
        others = sequences[shortest] - alone
        bounds_of["sequences"] = alone - (-others // depth)
    shared_by = max(bounds_of, key=lambda kind: int(bounds_of[kind].max(initial=0)))
    bounds = bounds_of[shared_by]
    # of the multiples of the unit, those that are not below index * unit + 1 are just those from (index + 1) * unit on
    return int(bounds.max()), shared_by, int(bounds.argmax()) * unit + 1


def _sums_from_each(values: np.ndarray) -> np.ndarray:
    """Return for each index the sum of the values from it to the end; int64, same shape."""
    return np.cumsum(values[::-1])[::-1]
