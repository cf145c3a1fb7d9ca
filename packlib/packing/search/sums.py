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

    Take a length `short` up to half a pack. A sequence longer than max_length - short costs a pack, for no sequence of
    `short` tokens or more fits beside it. A sequence under `short` costs nothing. The first kind lets all others pay by
    the token; the second, where there is a depth limit, lets each pay the same. In the third, each sequence of more
    than half a pack costs a pack. Without a depth limit this is the bound L2 of Martello and Toth (Discrete Applied
    Mathematics 28, 1990).

    Args:
        counts, max_sequences_per_pack: as in `certified_bound`.

    Returns:
        The number of packs, and what proves it: `shared_by` and `shortest` of `packlib.packing.proofs.Sums`. Of proofs
        that are as good, tokens come before sequences, and a lower `shortest` before a higher one.
    """
    unit = common_divisor(np.flatnonzero(counts))
    counts = counts[::unit]  # a pack fills a multiple of it
    top = len(counts) - 1
    # at index l: how many sequences have a length of at least l, and their tokens, which fit in 64 bits
    sequences, tokens = (np.cumsum(n[::-1])[::-1] for n in (counts, counts * np.arange(top + 1)))
    short = np.arange(1, top // 2 + 1)
    alone = sequences[top - short + 1]
    by_tokens = alone - (tokens[top - short + 1] - tokens[short]) // top  # minus a floor rounds up
    over_half = sequences[top // 2 + 1]
    found: list[tuple[np.ndarray, Literal["tokens", "sequences"]]] = [(np.append(by_tokens, over_half), "tokens")]
    if max_sequences_per_pack is not None:
        depth = min(max_sequences_per_pack, int(sequences[0]))  # a limit need not fit in 64 bits
        found.append((alone - (alone - sequences[short]) // depth, "sequences"))
    bounds, shared_by = max(found, key=lambda one: int(one[0].max(initial=0)))
    # lengths are multiples of the unit, so this leaves out just the same ones
    return int(bounds.max()), shared_by, int(bounds.argmax()) * unit + 1
