"""The plans that a search starts from: those of the fast methods, each if the steps that are left allow it."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.exact_filling import fill_exactly
from packlib.packing.greedy import EqualPacks, lpfhp, spread_evenly
from packlib.packing.search.best import Best
from packlib.packing.search.lpt import lpt_until, trial_steps

# Steps of a method for each different length; those of exact filling also grow with its sets of bits, and so with rows.
_BEST_FIT = 2000
_EVEN = 3000
_EXACT = 5000
_EXACT_A_SLOT = 0.25


def start(
    best: Best, exact_first: bool, known: Mapping[str, list[EqualPacks]] | None = None
) -> list[list[EqualPacks]]:
    """Offer the plans of the fast methods, until one meets the bound; return all that were made.

    Best fit is always made, each other method only if at least the steps that it takes are left. The steps of all that
    are made are counted.

    Args:
        exact_first: whether the exact search comes next; then `lpt` is left out, which may take longer than that.
        known: plans by "lpfhp" and "exact_filling" that were made already.
    """
    made = list[list[EqualPacks]]()
    for name, steps, make in _fast_methods(best, exact_first):
        if made and not best.deadline.allows(steps):
            continue
        best.deadline.spend(steps)
        strategies = (known or {}).get(name)
        made.append(make() if strategies is None else strategies)
        best.offer(made[-1])
        if best.done():
            break
    return made


def exact_filling_steps(histogram: LengthHistogram) -> float:
    """Return about how many steps exact filling takes, of those that a `Deadline` counts."""
    return int(np.count_nonzero(histogram.counts)) * (_EXACT + _EXACT_A_SLOT * histogram.max_length)


def _fast_methods(best: Best, exact_first: bool) -> Iterator[tuple[str, float, Callable[[], list[EqualPacks]]]]:
    """Yield the name of each method, about how many steps it takes, and what makes its plan."""
    histogram, limit = best.histogram, best.limit
    lengths, exact_steps = int(np.count_nonzero(histogram.counts)), exact_filling_steps(histogram)
    yield "lpfhp", _BEST_FIT * lengths, lambda: lpfhp(histogram, limit)
    yield "exact_filling", exact_steps, lambda: fill_exactly(histogram, limit, evenly=False)
    if limit is not None:
        yield "spread evenly", _EVEN * lengths, lambda: spread_evenly(histogram, limit, best.lower_bound)
        yield "exact filling, evenly", exact_steps, lambda: fill_exactly(histogram, limit, evenly=True)
        if not exact_first:
            # its trials, which are the most of it, are counted as they are made
            yield "lpt", trial_steps(lengths), lambda: lpt_until(best.deadline, histogram, limit)
