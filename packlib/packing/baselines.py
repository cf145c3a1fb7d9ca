"""The classic packings, for comparison: one sequence a pack, next-fit, first-fit- and best-fit-decreasing.

Johnson, Near-Optimal Bin Packing Algorithms (1973). The decreasing ones work on the histogram, since equal
sequences are interchangeable; next-fit depends on the order of the sequences.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from packlib.checks import whole_number
from packlib.lengths.counting import as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import Group, from_long_to_short, lpfhp

_MOST_ONE_BY_ONE = 1 << 28  # their lengths alone take 2 GiB


def unpacked(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """Every sequence alone: padding as usual."""
    return [((length,), n) for length, n in from_long_to_short(histogram)]


def next_fit(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    order: Iterable[int] | None = None,
    seed: int = 0,
) -> list[Group]:
    """One open pack; a sequence that does not fit closes it. What a loader does that concatenates as it reads.

    Args:
        order: the lengths in the order they come; by default shuffled by `seed`.
    """
    if order is None:
        if histogram.num_sequences > _MOST_ONE_BY_ONE:
            raise ValueError(
                f"next_fit takes sequences one by one, at most {_MOST_ONE_BY_ONE:,}; {histogram.name} has "
                f"{histogram.num_sequences:,}."
            )
        lengths = np.random.default_rng(whole_number("seed", seed, 0)).permutation(histogram.expand())
    else:
        lengths = as_lengths(order)
        if LengthHistogram.from_lengths(lengths, max(histogram.max_length, int(lengths.max()))) != histogram:
            raise ValueError(f"The order must hold the lengths of {histogram.name}, each as often as it occurs.")
    packs: Counter[tuple[int, ...]] = Counter()
    pack, used = list[int](), 0
    for length in lengths.tolist():
        if used + length > histogram.max_length or len(pack) == max_sequences_per_pack:
            packs[tuple(sorted(pack))] += 1
            pack, used = [], 0
        pack.append(length)
        used += length
    packs[tuple(sorted(pack))] += 1
    return list(packs.items())


def first_fit_decreasing(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """From long to short, each sequence into the first pack that takes it.

    Equal packs that were opened one after the other fill in the same way, so they are kept as one run.
    """
    top, limit = histogram.max_length, max_sequences_per_pack or histogram.num_sequences
    runs: list[list] = []  # [space left, lengths, packs], in the order the packs were opened
    closed: list[Group] = []
    for length, n in from_long_to_short(histogram):
        changed: list[list] = []
        for at, (space, lengths, packs) in enumerate(runs):
            if n == 0:
                changed += runs[at:]
                break
            fits = min(space // length, limit - len(lengths))
            full = min(packs, n // fits) if fits else 0
            rest = min(fits, n - full * fits) if full < packs else 0
            n -= full * fits + rest
            for copies, count in ((fits, full), (rest, int(rest > 0)), (0, packs - full - (rest > 0))):
                if count:
                    changed.append([space - copies * length, lengths + (length,) * copies, count])
        if n:
            fits = min(top // length, limit)
            for copies, count in ((fits, n // fits), (n % fits, int(n % fits > 0))):
                if count:
                    changed.append([top - copies * length, (length,) * copies, count])
        runs = []
        for space, lengths, packs in changed:
            if space == 0 or len(lengths) == limit:
                closed.append((lengths, packs))
            elif runs and runs[-1][1] == lengths:
                runs[-1][2] += packs
            else:
                runs.append([space, lengths, packs])
    return closed + [(lengths, packs) for _, lengths, packs in runs]


def best_fit_decreasing(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """From long to short, each sequence into the fullest pack that takes it.

    That is LPFHP: it only handles many equal packs at once.
    """
    return lpfhp(histogram, max_sequences_per_pack)
