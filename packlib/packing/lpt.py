"""Packing under a tight depth limit: longest processing time first, in as few packs as that allows.

A depth limit makes places scarce beside space. Best fit puts long sequences together and leaves the short ones without
places; LPT (Graham, Bounds on Multiprocessing Timing Anomalies, 1969) spreads the long ones over all packs. With a
limit on the jobs of a machine it is studied by Dell'Amico and Martello, Bounds for the Cardinality Constrained P||Cmax
Problem (2001). As in MULTIFIT (Coffman, Garey, Johnson, 1978), a search finds how much is enough: here, how many packs.
"""

import math
from dataclasses import dataclass

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.certificate import direct_bound
from packlib.packing.greedy import Group, OpenPacks, best_fit, from_long_to_short

# Best fit stops once the sequences left average this many times what each place of an empty pack has.
_SCARCE = (1.05, 0.95)
_NEAR = 3000  # the search ends within this part of the packs


def lpt(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """Longest-processing-time-first: best fit while the sequences are long, then all packs fill evenly.

    Best fit (LPFHP) goes on until the sequences left are so short that as many as the depth limit allows leave space
    in a pack. From there each goes into the pack with the most space beyond what its places will need, see
    `packlib.packing.compiled.level`. The result is never worse than LPFHP's, and is that without a depth limit.

    >>> histogram = LengthHistogram.from_lengths([6] * 10 + [2] * 30, 12)
    >>> [plan(histogram, method, 4).num_packs for method in ("lpfhp", "lpt")]
    [13, 10]
    """
    top, limit = histogram.max_length, min(max_sequences_per_pack or histogram.num_sequences, histogram.num_sequences)
    packs, starts, passed = OpenPacks(limit), list[_Start](), 0
    tokens, sequences, left = histogram.num_tokens, histogram.num_sequences, histogram.counts.copy()
    for length, n in from_long_to_short(histogram):
        now = sum(tokens * limit <= times * top * sequences for times in _SCARCE)
        if now > passed:
            starts.append(_Start(list(packs.closed), packs.still_open(), left.copy(), top, limit))
            passed = now
        best_fit(packs, length, n, top)
        tokens, sequences, left[length] = tokens - n * length, sequences - n, 0
    best, bound = packs.equal_packs(), direct_bound(histogram.counts, max_sequences_per_pack)
    for start in starts:
        best = start.fewer(best, bound)
    return best


@dataclass
class _Start:
    """Where best fit stopped: the groups that are full, those that are open with their space, and the counts left."""

    closed: list[Group]
    begun: list[tuple[int, Group]]
    left: np.ndarray
    top: int
    limit: int

    def fewer(self, best: list[Group], bound: int) -> list[Group]:
        """Fill packs evenly, as few as a search finds to be enough, if they are fewer than those of `best`.

        The sequences that find no pack are nearly in proportion to the packs that are missing.
        """
        from packlib.packing.compiled import level  # here, since it takes a while to import

        groups = [group for _, group in self.begun]
        space = np.array([self.top] + [space for space, _ in self.begun])
        places = self.limit - np.array([0] + [len(lengths) for lengths, _ in groups])
        packs = np.array([0] + [n for _, n in groups])
        opened = sum(n for _, n in self.closed + groups)
        lengths = np.flatnonzero(self.left)[::-1].copy()

        few, many, near = max(bound, opened) - 1, sum(n for _, n in best), max(1, bound // _NEAR)
        total, filled, enough, without, slope = few + 1, None, False, 0, float(self.limit)
        while many - few > near:
            total = min(max(total, few + 1), many - 1)
            packs[0] = total - opened
            trial = level(lengths, self.left[lengths], space, places, packs)
            if now := int(trial[-1].sum()):
                if without > now:
                    slope = (without - now) / (total - few)
                few, without, enough = total, now, False
                total = min(few + math.ceil(without / slope), many - near)
            else:
                many, filled = total, trial
                total, enough = few + (many - few) // 4 if enough else many - near, True
        return best if filled is None else self.closed + _as_groups(filled, [((), 0), *groups])


def _as_groups(filled: tuple[np.ndarray, ...], begun: list[Group]) -> list[Group]:
    origins, packs, ends, items, _ = (array.tolist() for array in filled)
    groups, start = list[Group](), 0
    for origin, n, end in zip(origins, packs, ends, strict=True):
        lengths = (*begun[origin][0], *items[start:end])
        if n and lengths:
            groups.append((lengths, n))
        start = end
    return groups
