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
_NEAR = 1000  # the search ends within one in so many packs of the fewest that are enough
_STEPS_A_LENGTH = 7500  # of a trial
# With one more pack, 16 times as many sequences as it may hold find a pack: a guess, until two trials have measured it.
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
    filled_evenly = _fewest_packs(deadline, histogram, max_sequences_per_pack, begun, number_of_packs(best), seconds)
    return filled_evenly or best


class _Begun(NamedTuple):
    """The packs of best fit at the moment when places become scarce.

    Attributes:
        closed: the packs that take no more.
        open_groups: the groups of equal packs that take more. The first is that of empty packs; it has 0 of them here,
            and each trial says how many it opens.
        space: the slots that a pack of each of `open_groups` has left; int64, shape (groups,).
        left: `left[l]` sequences of length l are in no pack yet; int64, shape (max_length + 1,).
    """

    closed: list[EqualPacks]
    open_groups: list[EqualPacks]
    space: np.ndarray
    left: np.ndarray


def _best_fit(
    histogram: LengthHistogram, max_sequences_per_pack: int | None
) -> tuple[list[EqualPacks], _Begun | None]:
    """Make the plan of LPFHP, and keep its packs at the moment when places become scarce; None if they never do."""
    max_length = histogram.max_length
    limit = _most_sequences(histogram, max_sequences_per_pack)
    tokens_left = histogram.num_tokens
    sequences_left = histogram.num_sequences
    left = histogram.counts.copy()
    packs, begun = OpenPacks(limit), None
    for length, n in from_long_to_short(histogram):
        # the mean length left, tokens_left / sequences_left, against max_length / limit
        if begun is None and tokens_left * limit <= _SCARCE * max_length * sequences_left:
            still_open = packs.still_open()
            space = np.array([max_length, *(space for space, _ in still_open)])
            begun = _Begun(list(packs.closed), [((), 0), *(group for _, group in still_open)], space, left.copy())
        best_fit(packs, length, n, max_length)
        tokens_left -= n * length
        sequences_left -= n
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
    """Search for the fewest packs that hold everything if they are filled evenly.

    Each trial fills a number of packs and counts the sequences that are left out. A line through the last two trials
    says which number to try next. The fewer sequences are left out, the less does one more pack help, so the line ends
    before the number that is enough.

    Args:
        enough: packs of best fit.
        seconds: seconds that best fit took; a trial begins only if there is more time left than the last one took.

    Returns:
        The packs, or None if no trial with fewer packs than best fit held everything.
    """
    limit = _most_sequences(histogram, max_sequences_per_pack)
    lengths = int(np.count_nonzero(histogram.counts))
    places = limit - np.array([len(group) for group, _ in begun.open_groups])  # of a pack of each group
    packs_of_group = np.array([n for _, n in begun.open_groups])
    already_open = number_of_packs(begun.closed) + number_of_packs(begun.open_groups)
    bound = direct_bound(histogram.counts, max_sequences_per_pack)
    near = max(1, bound // _NEAR)
    too_few = max(bound, already_open) - 1  # packs; between these and `enough` is the number that is looked for
    left_out = 0  # sequences that find no pack in `too_few` packs
    gain = float(limit * _EFFECT)  # how many fewer sequences are left out for one more pack
    is_measured = False  # whether two trials say so
    num_tried, best_trial = too_few + 1, None
    steps = 0  # of the next trial: those of the first are counted with LPFHP
    while enough - too_few > near and deadline.seconds_left() > seconds and deadline.allows(steps):
        packs_of_group[0] = num_tried - already_open  # empty ones
        started = time.thread_time()
        trial = fill_evenly(begun.left, begun.space, places, packs_of_group)
        seconds = time.thread_time() - started
        deadline.spend(steps)
        steps = trial_steps(lengths)
        if trial.left_out:  # too few again
            is_measured = left_out > trial.left_out
            gain = (left_out - trial.left_out) / (num_tried - too_few) if is_measured else gain / 2
            too_few, left_out = num_tried, trial.left_out
        else:
            enough, best_trial = num_tried, trial
            if is_measured:  # the line was right: a pack less would save little
                break
            gain *= 4
        num_tried = min(too_few + math.ceil(left_out / gain) + near // 2, enough - 1)
    return None if best_trial is None else begun.closed + best_trial.strategies(begun.open_groups)


def _most_sequences(histogram: LengthHistogram, max_sequences_per_pack: int | None) -> int:
    """Return the most sequences that a pack can hold, by the limit and by how many there are."""
    return min(max_sequences_per_pack or histogram.num_sequences, histogram.num_sequences)


def trial_steps(lengths: int) -> int:
    """Return about how many steps a trial of so many different lengths takes, of those that a `Deadline` counts."""
    return _STEPS_A_LENGTH * lengths
