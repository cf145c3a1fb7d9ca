"""The plans that a search starts from: those of the fast methods, each if the steps that are left allow it."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.exact_filling import fill_exactly
from packlib.packing.greedy import EqualPacks, lpfhp, spread_evenly
from packlib.packing.search.best import Best
from packlib.packing.search.lpt import lpt_until, trial_steps

# Steps of a method for each different length; those of exact filling also grow with its sets of bits, and so with rows.
_BEST_FIT_STEPS = 2000
_EVEN_STEPS = 3000
_EXACT_STEPS = 5000
_EXACT_STEPS_A_SLOT = 0.25


def start(
    best: Best, exact_first: bool, known: Mapping[str, list[EqualPacks]] | None = None
) -> list[list[EqualPacks]]:
    """Offer the plans of the fast methods, until one meets the bound; return the strategies of each plan made.

    Best fit always makes its plan, each other method only if the deadline has the steps left that it takes. The steps
    of all plans that are made are counted.

    Args:
        exact_first: whether the exact search comes next; then `lpt` is left out, which may take longer than that.
        known: plans by "lpfhp" and "exact_filling" that were made already.
    """
    plans = list[list[EqualPacks]]()
    for name, steps, make_plan in _fast_methods(best, exact_first):
        if plans and not best.deadline.allows(steps):
            continue
        best.deadline.spend(steps)
        known_plan = (known or {}).get(name)
        plans.append(make_plan() if known_plan is None else known_plan)
        best.offer(plans[-1])
        if best.done():
            break
    return plans


def exact_filling_steps(histogram: LengthHistogram) -> float:
    """Return about how many steps exact filling takes, of those that a `Deadline` counts."""
    return int(np.count_nonzero(histogram.counts)) * (_EXACT_STEPS + _EXACT_STEPS_A_SLOT * histogram.max_length)


def _fast_methods(best: Best, exact_first: bool) -> Iterator[tuple[str, float, Callable[[], list[EqualPacks]]]]:
    """Yield the name of each method, about how many steps it takes, and what makes its plan."""
    histogram, limit = best.histogram, best.limit
    lengths = int(np.count_nonzero(histogram.counts))
    exact_steps = exact_filling_steps(histogram)
    yield "lpfhp", _BEST_FIT_STEPS * lengths, lambda: lpfhp(histogram, limit)
    yield "exact_filling", exact_steps, lambda: fill_exactly(histogram, limit, evenly=False)
    if limit is not None:
        yield "spread evenly", _EVEN_STEPS * lengths, lambda: spread_evenly(histogram, limit, best.lower_bound)
        yield "exact filling, evenly", exact_steps, lambda: fill_exactly(histogram, limit, evenly=True)
        if not exact_first:
            # its trials, which are the most of it, are counted as they are made
            yield "lpt", trial_steps(lengths), lambda: lpt_until(best.deadline, histogram, limit)
