"""Packing under a tight depth limit: longest processing time first, in as few packs as that allows.

A depth limit makes places scarce beside space. Best fit puts long sequences together and leaves the short ones without
places; LPT (Graham, Bounds on Multiprocessing Timing Anomalies, 1969) spreads the long ones over all packs. With a
limit on the jobs of a machine it is studied by Dell'Amico and Martello, Bounds for the Cardinality Constrained P||Cmax
Problem (2001). As in MULTIFIT (Coffman, Garey, Johnson, 1978), a search finds how much is enough: here, how many packs.
"""

import math
import time
from typing import NamedTuple

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks, OpenPacks, best_fit, from_long_to_short, number_of_packs
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.leveling import fill_evenly
from packlib.packing.search.sums import direct_bound

_SCARCE = 1.05  # best fit stops once the mean length left is at most this times max_length / depth limit
_NEAR = 1000  # the search ends within this part of the packs
_STEPS_A_LENGTH = 7500  # of a trial
# how many more sequences find a pack if there is one pack more, for each that it may hold: a guess, until two trials
# have measured it
_EFFECT = 16


def lpt(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[EqualPacks]:
    """Pack longest-processing-time-first: best fit while the sequences are long, then all packs fill evenly.

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
    """Pack as `lpt` does, with a deadline that may leave out what comes after LPFHP; it counts all trials but one."""
    started = time.thread_time()  # a busy machine's pauses say nothing of a trial
    best, begun = _best_fit(histogram, max_sequences_per_pack)
    if begun is None:
        return best
    seconds = time.thread_time() - started
    found = _fewest_packs(deadline, histogram, max_sequences_per_pack, begun, number_of_packs(best), seconds)
    return found or best


class _Begun(NamedTuple):
    """The packs of best fit at the moment when places become scarce.

    Attributes:
        closed: the packs that take no more.
        open_groups: the groups of equal packs that take more, after a group of empty packs, of which there are none.
        space: of a pack of each group of `open_groups`; int64.
        left: `left[l]` sequences of length l are in no pack yet; int64.
    """

    closed: list[EqualPacks]
    open_groups: list[EqualPacks]
    space: np.ndarray
    left: np.ndarray


def _best_fit(
    histogram: LengthHistogram, max_sequences_per_pack: int | None
) -> tuple[list[EqualPacks], _Begun | None]:
    """Make the plan of LPFHP, and keep its packs at the moment when places become scarce; None if they never do."""
    top, limit = histogram.max_length, _most_sequences(histogram, max_sequences_per_pack)
    tokens = histogram.num_tokens
    sequences = histogram.num_sequences
    left = histogram.counts.copy()
    packs, begun = OpenPacks(limit), None
    for length, n in from_long_to_short(histogram):
        if begun is None and tokens * limit <= _SCARCE * top * sequences:
            opened = packs.still_open()
            space = np.array([top] + [space for space, _ in opened])
            begun = _Begun(list(packs.closed), [((), 0), *(group for _, group in opened)], space, left.copy())
        best_fit(packs, length, n, top)
        tokens -= n * length
        sequences -= n
        left[length] = 0
    return packs.equal_packs(), begun


def _fewest_packs(
    deadline: Deadline,
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None,
    begun: _Begun,
    enough: int,
    seconds: float,
) -> list[EqualPacks] | None:
    """Search for the fewest packs that, filled evenly, hold everything; return them, or None if best fit has no more.

    The fewer sequences find no pack, the less does one more pack help: a line through two trials ends before the number
    that is enough.

    Args:
        enough: packs of best fit.
        seconds: that best fit took; a trial is not begun if the last took longer than there is time left.
    """
    limit, lengths = _most_sequences(histogram, max_sequences_per_pack), int(np.count_nonzero(histogram.counts))
    places = limit - np.array([len(group) for group, _ in begun.open_groups])
    number = np.array([n for _, n in begun.open_groups])
    opened = number_of_packs(begun.closed) + number_of_packs(begun.open_groups)
    bound = direct_bound(histogram.counts, max_sequences_per_pack)
    too_few, near = max(bound, opened) - 1, max(1, bound // _NEAR)
    left_out = 0  # sequences that find no pack in `too_few` packs
    gain, measured = float(limit * _EFFECT), False  # how many fewer are left out for one more pack; whether trials say
    tried, filled = too_few + 1, None
    steps = 0  # of the next trial: those of the first are counted with LPFHP
    while enough - too_few > near and deadline.seconds_left() > seconds and deadline.allows(steps):
        number[0] = tried - opened
        started = time.thread_time()
        trial = fill_evenly(begun.left, begun.space, places, number)
        seconds = time.thread_time() - started
        deadline.spend(steps)
        steps = trial_steps(lengths)
        if trial.left:  # too few again
            measured = left_out > trial.left
            gain = (left_out - trial.left) / (tried - too_few) if measured else gain / 2
            too_few, left_out = tried, trial.left
        else:
            enough, filled = tried, trial
            if measured:  # the line was right: a pack less would save little
                break
            gain *= 4
        tried = min(too_few + math.ceil(left_out / gain) + near // 2, enough - 1)
    return None if filled is None else begun.closed + filled.strategies(begun.open_groups)


def _most_sequences(histogram: LengthHistogram, max_sequences_per_pack: int | None) -> int:
    """Return the most sequences that a pack can hold, by the limit and by how many there are."""
    return min(max_sequences_per_pack or histogram.num_sequences, histogram.num_sequences)


def trial_steps(lengths: int) -> int:
    """Return about how many steps a trial of so many different lengths takes, of those that a `Deadline` counts."""
    return _STEPS_A_LENGTH * lengths
