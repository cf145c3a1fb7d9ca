"""The plans that a search starts from: those of the fast methods."""

from collections.abc import Iterator

from packlib.packing.exact_filling import fill_exactly
from packlib.packing.greedy import EqualPacks, lpfhp, spread_evenly
from packlib.packing.search.best import Best
from packlib.packing.search.lpt import lpt_until


def start(best: Best, small: bool) -> list[list[EqualPacks]]:
    """Offer the plans of the fast methods, until one meets the bound; return all that were made.

    Args:
        small: whether the exact search takes moments: then `lpt`, which may take longer, is left out.
    """
    made = list[list[EqualPacks]]()
    for strategies in _fast_plans(best, small):
        made.append(strategies)
        best.offer(strategies)
        if best.done():
            break
    return made


def _fast_plans(best: Best, small: bool) -> Iterator[list[EqualPacks]]:
    histogram, limit = best.histogram, best.limit
    yield lpfhp(histogram, limit)
    yield fill_exactly(histogram, limit, evenly=False)
    if limit is not None:
        yield fill_exactly(histogram, limit, evenly=True)
        yield spread_evenly(histogram, limit, best.lower_bound)
        if not small:
            yield lpt_until(best.deadline, histogram, limit)
