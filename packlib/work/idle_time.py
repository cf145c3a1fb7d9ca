"""How long ranks wait for the slowest, from the work of each pack alone."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from packlib.arguments import as_floats, shown, whole_number
from packlib.work.windows import least_times

_DEALT = 1 << 20  # packs that are dealt at random, in all deals together: it bounds the time where packs are many
_DEALS = 1000  # at most: it bounds the time where packs are few


class Waiting(NamedTuple):
    """Shares of the time that the average rank waits for the slowest.

    Attributes:
        mean, low, high: of many deals, and its interval of 95 % or more.
        least: no deal of the same packs to steps as large has less.
    """

    mean: float
    low: float
    high: float
    least: float


def waiting(each: Iterable[float], ranks: int, packs_per_rank: int = 1, *, seed: int = 0) -> Waiting:
    """Estimate how long ranks wait for the slowest if packs are dealt to steps and ranks at random, as by a loader.

    Packs that make no whole step are left out, the last ones first.

    >>> from packlib.work import waiting
    >>> idle = waiting([3, 1], ranks=2)  # one of the two ranks is idle for two of three hours
    >>> round(idle.mean, 3), round(idle.least, 3)
    (0.333, 0.333)

    Args:
        each: the work of each pack, shape (number of packs,).
        ranks, packs_per_rank: every rank trains on so many packs in every step.
        seed: of the deals; at most 1,000 of them, or about a million packs.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    ranks = whole_number("ranks", ranks, 1)
    packs_per_rank = whole_number("packs_per_rank", packs_per_rank, 1)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    step = ranks * packs_per_rank
    each = as_floats("each", each)
    if each.ndim != 1:
        raise ValueError(f"each must have one dimension, not the shape {each.shape}.")
    if not len(each):
        raise ValueError("each must hold the work of at least 1 pack, not of 0.")
    if step > len(each):
        raise ValueError(f"ranks × packs_per_rank must be at most {len(each)}, the number of packs, not {step}.")
    each = each[: len(each) // step * step]
    is_fine = (each > 0) & (each <= np.finfo(np.float64).max / len(each))
    if not is_fine.all():
        raise ValueError(f"each must be above 0 and finite in all, not {shown(float(each[~is_fine][0]))}.")
    num_deals = min(_DEALS, -(-_DEALT // len(each)))
    deals = [rng.permutation(each) for _ in range(num_deals)]
    rank_works = np.concatenate(deals).reshape(-1, ranks, packs_per_rank).sum(axis=2)
    mean = rank_works.mean(axis=1)
    slowest = rank_works.max(axis=1)

    # the share of the time that the average rank works: a ratio of two means, with the error of such a ratio
    least_time = least_times(each[None], ranks, packs_per_rank)[0]
    most_busy = min(1.0, each.sum() / ranks / least_time)
    busy = min(most_busy, mean.sum() / slowest.sum())  # they may differ by a rounding
    error = 1.96 * (mean - busy * slowest).std() / np.sqrt(len(mean)) / slowest.mean()
    return Waiting(
        mean=float(1 - busy),
        low=float(1 - min(most_busy, busy + error)),
        high=float(1 - (busy - error)),
        least=float(1 - most_busy),
    )
