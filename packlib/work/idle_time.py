"""Estimate how long ranks wait for the slowest, from the work of each pack alone."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from packlib.arguments import as_floats, shown, whole_number
from packlib.work.windows import least_times

_PACKS_OF_DRAWS = 1 << 20  # packs in all random assignments together, about: it limits the time where packs are many
_MOST_DRAWS = 1000  # random assignments: it limits the time where packs are few


class Waiting(NamedTuple):
    """Shares of the time that the average rank waits for the slowest.

    Attributes:
        mean: the mean over many random assignments of the packs to steps.
        low, high: the ends of its interval of 95 % or more.
        least: a lower bound over all assignments of the same packs to steps of this size.
    """

    mean: float
    low: float
    high: float
    least: float


def waiting(each: Iterable[float], ranks: int, packs_per_rank: int = 1, *, seed: int = 0) -> Waiting:
    """Estimate how long ranks wait for the slowest if packs are assigned to steps and ranks at random, as by a loader.

    Packs that make no whole step are left out, the last ones first.

    >>> from packlib.work import waiting
    >>> idle = waiting([3, 1], ranks=2)  # one of the two ranks is idle for two of three hours
    >>> round(idle.mean, 3), round(idle.least, 3)
    (0.333, 0.333)

    Args:
        each: the work of each pack, shape (number of packs,).
        ranks: number of ranks.
        packs_per_rank: packs that each rank trains on in every step.
        seed: of the random assignments, of which there are up to 1,000, with about a million packs together.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    ranks = whole_number("ranks", ranks, 1)
    packs_per_rank = whole_number("packs_per_rank", packs_per_rank, 1)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    packs_per_step = ranks * packs_per_rank
    each = as_floats("each", each)
    if each.ndim != 1:
        raise ValueError(f"each must have one dimension, not the shape {each.shape}.")
    if not len(each):
        raise ValueError("each must hold the work of at least 1 pack, not of 0.")
    if packs_per_step > len(each):
        raise ValueError(
            f"ranks × packs_per_rank must be at most {len(each)}, the number of packs, not {packs_per_step}."
        )
    pack_works = each[: len(each) // packs_per_step * packs_per_step]
    largest = np.finfo(np.float64).max / len(pack_works)  # then the sum is finite, too
    is_allowed = (pack_works > 0) & (pack_works <= largest)
    if not is_allowed.all():
        raise ValueError(f"each must be above 0 and finite in all, not {shown(float(pack_works[~is_allowed][0]))}.")
    num_draws = min(_MOST_DRAWS, -(-_PACKS_OF_DRAWS // len(pack_works)))
    draws = [rng.permutation(pack_works) for _ in range(num_draws)]
    rank_works = np.concatenate(draws).reshape(-1, ranks, packs_per_rank).sum(axis=2)  # (steps of all draws, ranks)
    mean = rank_works.mean(axis=1)
    slowest = rank_works.max(axis=1)

    # the share of the time that the average rank works: a ratio of two means, with the error of such a ratio
    least_time = least_times(pack_works[None], ranks, packs_per_rank)[0]  # all steps are one window
    most_busy = min(1.0, pack_works.sum() / ranks / least_time)
    busy = min(most_busy, mean.sum() / slowest.sum())  # if both are equal, rounding may make the second larger
    error = 1.96 * (mean - busy * slowest).std() / np.sqrt(len(mean)) / slowest.mean()  # 1.96: an interval of 95 %
    return Waiting(
        mean=float(1 - busy),
        low=float(1 - min(most_busy, busy + error)),
        high=float(1 - (busy - error)),
        least=float(1 - most_busy),
    )
