"""Packing under a tight depth limit: longest processing time first, in as few packs as that allows.

A depth limit makes places scarce beside space. Best fit puts long sequences together and leaves the short ones without
places; LPT (Graham, Bounds on Multiprocessing Timing Anomalies, 1969) spreads the long ones over all packs. With a
limit on the jobs of a machine it is studied by Dell'Amico and Martello, Bounds for the Cardinality Constrained P||Cmax
Problem (2001). As in MULTIFIT (Coffman, Garey, Johnson, 1978), a search finds how much is enough: here, how many packs.
"""

import math
import time

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks, OpenPacks, best_fit, from_long_to_short
from packlib.packing.search.bound import direct_bound
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.leveling import fill_evenly

_SCARCE = 1.05  # best fit stops once the sequences left average so many times what each place of an empty pack has
_NEAR = 1000  # the search ends within this part of the packs
_STEPS_A_LENGTH = 7500  # of a trial
_EFFECT = 16  # sequences that find a pack for each place of one more: a guess, until two trials measured it


def lpt(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
    """Longest-processing-time-first: best fit while the sequences are long, then all packs fill evenly.

    Best fit (LPFHP) goes on until the sequences left are so short that as many as the depth limit allows leave space
    in a pack. From there each goes into the pack with the most space beyond what its places will need, see
    `packlib.packing.search.leveling`. The result is never worse than LPFHP's, and is that without a depth limit.

    >>> from packlib.packing import plan
    >>> lengths = [6] * 10 + [2] * 30
    >>> [plan(lengths, 12, method, max_sequences_per_pack=4).num_packs for method in ("lpfhp", "lpt")]
    [13, 10]
    """
    return lpt_until(Deadline(), histogram, max_sequences_per_pack)


def lpt_until(deadline: Deadline, histogram: LengthHistogram, max_sequences_per_pack: int | None) -> list[EqualPacks]:
    """Do the same with a deadline, which can leave out what comes after LPFHP. It counts all trials but the first."""
    started, before = time.thread_time(), None  # a busy machine's pauses say nothing of a trial
    top, limit = histogram.max_length, min(max_sequences_per_pack or histogram.num_sequences, histogram.num_sequences)
    tokens, sequences, left = histogram.num_tokens, histogram.num_sequences, histogram.counts.copy()
    packs = OpenPacks(limit)
    for length, n in from_long_to_short(histogram):
        if before is None and tokens * limit <= _SCARCE * top * sequences:
            before = (
                list(packs.closed),
                packs.still_open(),
                left.copy(),
            )  # the full ones, those that are open, the rest
        best_fit(packs, length, n, top)
        tokens, sequences, left[length] = tokens - n * length, sequences - n, 0
    best, bound = packs.equal_packs(), direct_bound(histogram.counts, max_sequences_per_pack)
    if before is None:
        return best

    # Fill as few packs evenly as a search finds to be enough, if they are fewer than those of best fit. The fewer
    # sequences find no pack, the less does one more pack help: a line through two trials ends before the number that
    # is enough.
    closed, still_open, left = before
    groups = [((), 0), *(group for _, group in still_open)]
    space = np.array([top] + [space for space, _ in still_open])
    places = limit - np.array([len(lengths) for lengths, _ in groups])
    number = np.array([n for _, n in groups])
    opened = sum(n for _, n in closed + groups)
    seconds = time.thread_time() - started  # that a trial may take: those of best fit, and then those of the last
    too_few, enough, near = max(bound, opened) - 1, sum(n for _, n in best), max(1, bound // _NEAR)
    left_out = 0  # sequences that find no pack where there are too few
    gain, measured = float(limit * _EFFECT), False  # how many fewer are left out for one more pack
    tried, filled = too_few + 1, None
    lengths = int(np.count_nonzero(histogram.counts))
    steps = 0  # of the next trial: those of the first are counted with LPFHP
    while enough - too_few > near and deadline.seconds_left() > seconds and deadline.allows(steps):
        number[0] = tried - opened
        started = time.thread_time()
        trial = fill_evenly(left, space, places, number)
        seconds = time.thread_time() - started
        deadline.spend(steps)
        steps = trial_steps(lengths)
        if now := trial.left:
            measured = left_out > now
            gain = (left_out - now) / (tried - too_few) if measured else gain / 2
            too_few, left_out = tried, now
        else:
            enough, filled = tried, trial
            if measured:
                break
            gain *= 4
        tried = min(too_few + math.ceil(left_out / gain) + near // 2, enough - 1)
    return best if filled is None else closed + filled.strategies(groups)


def trial_steps(lengths: int) -> int:
    """Return about how many steps a trial of so many different lengths takes, of those that a `Deadline` counts."""
    return _STEPS_A_LENGTH * lengths
