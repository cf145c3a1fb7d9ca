"""How long ranks wait for the slowest, from the work of each pack alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from packlib.checks import shown, whole_number
from packlib.work.windows import least_times

_DEALT, _DEALS = 1 << 20, 1000  # packs that are dealt at random, in so many deals at most


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
    >>> found = waiting([3, 1], ranks=2)  # one of the two ranks is idle for two of three hours
    >>> round(found.mean, 3), round(found.least, 3)
    (0.333, 0.333)

    Args:
        each: the work of each pack, shape (number of packs,).
        ranks, packs_per_rank: every rank trains on so many packs in every step.
        seed: of the deals; at most 1,000 of them, or about a million packs.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    ranks, packs_per_rank = whole_number("ranks", ranks, 1), whole_number("packs_per_rank", packs_per_rank, 1)
    rng, step = np.random.default_rng(whole_number("seed", seed, 0)), ranks * packs_per_rank
    each = np.asarray(list(each) if isinstance(each, Iterator) else each, np.float64)
    if each.ndim != 1:
        raise ValueError(f"each must have one dimension, not the shape {each.shape}.")
    if step > len(each):
        raise ValueError(f"ranks × packs_per_rank must be at most {len(each)}, the number of packs, not {step}.")
    each = each[: len(each) // step * step]
    if not (fine := (each > 0) & (each <= np.finfo(np.float64).max / len(each))).all():
        raise ValueError(f"each must be above 0 and finite in all, not {shown(float(each[~fine][0]))}.")
    deals = [rng.permutation(each) for _ in range(min(_DEALS, -(-_DEALT // len(each))))]
    of_ranks = np.concatenate(deals).reshape(-1, ranks, packs_per_rank).sum(axis=2)
    mean, slow = of_ranks.mean(axis=1), of_ranks.max(axis=1)
    top = min(1.0, each.sum() / ranks / least_times(each[None], ranks, packs_per_rank)[0])
    ratio = min(top, mean.sum() / slow.sum())  # they may differ by a rounding
    error = 1.96 * (mean - ratio * slow).std() / np.sqrt(len(mean)) / slow.mean()  # of a ratio of two means
    return Waiting(*(float(1 - share) for share in (ratio, min(top, ratio + error), ratio - error, top)))
