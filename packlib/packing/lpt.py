"""Packing under a tight depth limit: longest processing time first, with as few packs as that allows.

The limit makes places scarce beside space. Best fit puts long sequences together and leaves the short ones without
places; LPT (Graham, Bounds on Multiprocessing Timing Anomalies, 1969) spreads the long ones over all packs. With a
limit on the jobs of a machine it is studied by Dell'Amico and Martello, Bounds for the Cardinality Constrained P||Cmax
Problem (2001). As in MULTIFIT (Coffman, Garey, Johnson, 1978), bisection finds how much is needed: here, packs.
"""

import math

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.certificate import direct_bound
from packlib.packing.greedy import Group, OpenPacks, best_fit, from_long_to_short, lpfhp

_SCARCE = 1.05  # places are, once sequences average this many times what a place of an empty pack has
_FINE = 4000  # bisection ends within this part of the packs


def lpt(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """Longest-processing-time-first: best fit while sequences are long, then all packs fill evenly.

    Best fit (LPFHP) goes on until the sequences left are so short that the depth limit would leave space in a pack
    of them alone. From there each goes into the pack with the most space beyond what its places will need (see
    `packlib.packing.compiled.level`), among as few packs as bisection finds to be enough. Without a depth limit this
    is LPFHP.

    >>> histogram = LengthHistogram.from_lengths([6] * 10 + [1] * 30, 12)
    >>> sum(packs for _, packs in lpfhp(histogram, 4)), sum(packs for _, packs in lpt(histogram, 4))
    (13, 10)
    """
    top, limit = histogram.max_length, min(max_sequences_per_pack or histogram.num_sequences, histogram.num_sequences)
    begun = OpenPacks(limit)
    tokens, sequences, left = histogram.num_tokens, histogram.num_sequences, histogram.counts.copy()
    for length, n in from_long_to_short(histogram):
        if tokens * limit <= _SCARCE * top * sequences:
            break
        best_fit(begun, length, n, top)
        tokens, sequences, left[length] = tokens - n * length, sequences - n, 0
    if not sequences:
        return begun.equal_packs()

    from packlib.packing.compiled import level  # here, since it takes a while to import

    groups = [group for stack in begun.groups.values() for group in stack]
    spaces = np.array([top] + [space for space, stack in begun.groups.items() for _ in stack])
    places = limit - np.array([0] + [len(lengths) for lengths, _ in groups])
    packs = np.array([0] + [count for _, count in groups])
    lengths = np.flatnonzero(left)[::-1].copy()
    opened = int(packs.sum()) + sum(count for _, count in begun.closed)

    def fill(total: int) -> tuple:
        packs[0] = total - opened
        return level(lengths, left[lengths], spaces, places, packs)

    # The sequences that are left without a pack are nearly in proportion to the packs that are missing.
    few, many, slope = 0, histogram.num_sequences, float(limit)
    total = max(direct_bound(histogram.counts, max_sequences_per_pack), opened)
    near, filled, without, enough = max(1, total // _FINE), None, 0, False
    while many - few > near:
        trial = fill(total)
        now, before = int(trial[-1].sum()), enough
        enough = now == 0
        if enough:
            many, filled = total, trial
            if not few:
                break
            total = few + (many - few) // 4 if before else many - near
        else:
            if without > now:
                slope = (without - now) / (total - few)
            few, without = total, now
            total = min(few + math.ceil(without / slope), many - near)
        total = max(total, few + near)
    return _strategies(filled or fill(many), begun.closed, groups)


def _strategies(filled: tuple, closed: list[Group], groups: list[Group]) -> list[Group]:
    origin, packs, ends, items, _ = (array.tolist() for array in filled)
    made, start = list(closed), 0
    for group, count, end in zip(origin, packs, ends, strict=True):
        lengths = tuple(items[start:end]) + (groups[group - 1][0] if group else ())
        if count and lengths:
            made.append((lengths, count))
        start = end
    return made
