"""Pack in the ways that packing is compared with: one sequence a pack, and next-fit in the order of the sequences.

Next-fit is in Johnson, Near-Optimal Bin Packing Algorithms (1973).
"""

from collections import Counter

import numpy as np

from packlib.arguments import whole_number
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks, from_long_to_short

_MOST_ONE_BY_ONE = 1 << 28  # sequences: their lengths alone take 2 GiB


def unpacked(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
    """Put every sequence into a pack of its own: padding as usual. The depth limit makes no difference."""
    return [((length,), sequences) for length, sequences in from_long_to_short(histogram)]


def next_fit(histogram: LengthHistogram, max_sequences_per_pack: int | None = None, seed: int = 0) -> list[EqualPacks]:
    """Fill one open pack; a sequence that does not fit closes it. A loader that concatenates as it reads does this.

    Args:
        histogram: the lengths.
        max_sequences_per_pack: the depth limit, or None.
        seed: of the order in which the sequences come.
    """
    if histogram.num_sequences > _MOST_ONE_BY_ONE:
        raise ValueError(
            f"next_fit takes sequences one by one, at most {_MOST_ONE_BY_ONE:,}; {histogram.name} has "
            f"{histogram.num_sequences:,}."
        )
    lengths = np.random.default_rng(whole_number("seed", seed, 0)).permutation(histogram.expand())
    packs: Counter[tuple[int, ...]] = Counter()
    pack, slots_used = list[int](), 0
    for length in lengths.tolist():
        if slots_used + length > histogram.max_length or len(pack) == max_sequences_per_pack:
            packs[tuple(sorted(pack))] += 1
            pack, slots_used = [], 0
        pack.append(length)
        slots_used += length
    packs[tuple(sorted(pack))] += 1
    return list(packs.items())
