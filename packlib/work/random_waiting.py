"""How long ranks wait for the slowest when packs are dealt at random, from the work of each pack alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from packlib.checks import shown, whole_number

_DEALT, _DEALS = 1 << 20, 1000  # packs that are dealt at random, in so many deals at most


class RandomWaiting(NamedTuple):
    """Shares of the time that the average rank waits for the slowest when packs are dealt at random.

    Attributes:
        mean, low, high: of many deals, and its interval of 95 % or more.
        least: no deal of the same packs to steps as large has less.
    """

    mean: float
    low: float
    high: float
    least: float


def waiting_at_random(each: Iterable[float], ranks: int, packs_per_rank: int = 1, *, seed: int = 0) -> RandomWaiting:
    """How long ranks wait for the slowest, from the work of each pack alone.

    Packs that make no whole step are left out, the last ones first. The rank with the heaviest pack of a step has
    packs_per_rank - 1 others. Of all packs, the heaviest of each step are no lighter than every (ranks x
    packs_per_rank)-th in falling order, and the others no lighter than the lightest: this is where `least` comes from.
    With one pack a rank, packs dealt in that order reach it.

    >>> found = waiting_at_random([3, 1], ranks=2)  # one of the two ranks is idle for two of three hours
    >>> round(found.mean, 3), round(found.least, 3)
    (0.333, 0.333)

    Args:
        each: the work of each pack, shape (number of packs,).
        ranks, packs_per_rank: every rank trains on so many packs in every step.
        seed: of the random deals; at most 1,000 deals, or about a million packs.

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
    steps = len(each) // step
    each = each[: steps * step]
    if not (fine := (each > 0) & (each <= np.finfo(np.float64).max / len(each))).all():
        raise ValueError(f"each must be above 0 and finite in all, not {shown(float(each[~fine][0]))}.")
    deals = min(_DEALS, -(-_DEALT // len(each)))
    dealt = (rng.permutation(each).reshape(steps, ranks, -1).sum(axis=2) for _ in range(deals))
    means, slowest = np.concatenate([(of_ranks.mean(axis=1), of_ranks.max(axis=1)) for of_ranks in dealt], axis=1)
    ratio = means.sum() / slowest.sum()
    error = 1.96 * (means - ratio * slowest).std() / np.sqrt(len(means)) / slowest.mean()  # of a ratio of two means
    falling = np.sort(each)[::-1]
    least = falling[::step].sum() + falling[len(each) - steps * (packs_per_rank - 1) :].sum()
    top = min(1.0, each.sum() / ranks / least)  # share of the time that the average rank may be at work, at most
    ratio = min(ratio, top)  # they may differ by a rounding
    return RandomWaiting(*(float(1 - share) for share in (ratio, min(top, ratio + error), ratio - error, top)))
