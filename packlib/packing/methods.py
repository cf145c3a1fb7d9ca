"""`plan`: every packing method behind one call."""

import inspect
from collections.abc import Callable
from typing import Any

from packlib.checks import depth_limit, one_of
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.baselines import best_fit_decreasing, first_fit_decreasing, next_fit, unpacked
from packlib.packing.greedy import lpfhp, spfhp
from packlib.packing.lpt import lpt
from packlib.packing.nnls import ennlshp, nnlshp
from packlib.packing.optimal import optimal
from packlib.packing.plans import PackingPlan

#: Each method takes a histogram, a depth limit or None, and its options; it returns strategies, and `optimal` the
#: prices that prove its bound too.
METHODS: dict[str, Callable] = {
    "unpacked": unpacked,
    "next_fit": next_fit,
    "first_fit_decreasing": first_fit_decreasing,
    "best_fit_decreasing": best_fit_decreasing,
    "spfhp": spfhp,
    "lpfhp": lpfhp,
    "lpt": lpt,
    "nnlshp": nnlshp,
    "ennlshp": ennlshp,
    "optimal": optimal,
}


def plan(
    histogram: LengthHistogram, method: str = "optimal", max_sequences_per_pack: int | None = None, **options: Any
) -> PackingPlan:
    """Plan how to pack a histogram, and verify the plan.

    >>> histogram = LengthHistogram.from_lengths([5, 3, 3, 2, 8], max_length=8)
    >>> best = plan(histogram)
    >>> best.strategies, best.num_packs, best.gap
    ([(8,), (5, 3), (3, 2)], 3, 0)
    >>> plan(histogram, "spfhp", max_sequences_per_pack=1).num_packs
    5

    Args:
        method: a name in `METHODS`.
        max_sequences_per_pack: the depth limit, or None for none (`nnlshp` and `ennlshp` then take 3).
        options: of the method, such as `time_limit` and `progress` of `optimal`; see its function.

    Raises:
        TypeError, ValueError: naming an unknown method or option, or a value that is not allowed.
    """
    if not isinstance(histogram, LengthHistogram):
        raise TypeError(f"plan takes a LengthHistogram, not {type(histogram).__name__}: use from_lengths or load.")
    function = METHODS[one_of("method", method, METHODS)]
    limit = depth_limit(max_sequences_per_pack)
    allowed = list(inspect.signature(function).parameters)[2:]
    for option in options:
        if option not in allowed:
            has = f"its options are {', '.join(allowed)}" if allowed else "it has none"
            raise TypeError(f"{method} has no option {option!r}: {has}.")
    if limit is None:
        limit = inspect.signature(function).parameters["max_sequences_per_pack"].default
    strategies = function(histogram, limit, **options)
    strategies, prices = strategies if isinstance(strategies, tuple) else (strategies, None)
    return PackingPlan.from_strategies(histogram, strategies, method, max_sequences_per_pack=limit, prices=prices)
