"""Which plan, and how deep: the plan of `plan`, quick plans to choose by, and those of the greedy methods beside it."""

from collections.abc import Iterable
from typing import NamedTuple

from packlib.lengths import LengthHistogram
from packlib.packing import Method, PackingPlan, plan
from packlib.packing.methods import NEAR, auto_plans, fast_plans, is_near
from packlib.packing.proofs import Sums

WITHIN = 0.005  # of the packs without a limit: the smallest depth so near is taken
GREEDY: tuple[Method, ...] = ("lpfhp", "spfhp")
# Different lengths: with more, lpt takes tenths of a second, and saved at most 0.6 % of the packs where it was tried.
_FEW_LENGTHS = 4096
# 1, 2, 3, 4, 6, 8, 12, 16, …: the depths that are tried
_DEPTHS = [1, 2, 3, *(part << shift for shift in range(25) for part in (4, 6))]


class DepthTrial(NamedTuple):
    """A depth limit: the packs of the best plan found, and a number below which there are none."""

    depth: int
    packs: int
    bound: int


def best_plan(histogram: LengthHistogram, depth: int | None = None, method: Method = "auto") -> PackingPlan:
    """Return the plan that `packlib.plan` makes of these lengths.

    Args:
        depth: sequences in a pack at most.
        method: as in `packlib.plan`.
    """
    return plan(histogram, method=method, max_sequences_per_pack=depth, on_interrupt="raise")


def quick_plan(
    histogram: LengthHistogram, depth: int | None = None, method: Method = "auto", enough: float = 0
) -> PackingPlan:
    """Return a plan to choose rows and depths by: the best of the fast methods instead of the plan of "auto".

    A report chooses among several plans, and makes one search: that of the plan which it advises.

    Args:
        depth, method: as of `best_plan`; other methods than "auto" are used as they are.
        enough: packs; for a plan with no more, none is made by "lpt", which takes longest.
    """
    if method != "auto":
        return best_plan(histogram, depth, method)
    plans = fast_plans(histogram, depth)
    packs = plans[-1].num_packs
    is_enough = packs <= enough or is_near(packs, plans[0].lower_bound)
    if depth and not is_enough and (histogram.counts > 0).sum() <= _FEW_LENGTHS:
        plans.append(best_plan(histogram, depth, "lpt"))
    return min(plans, key=lambda made_plan: made_plan.num_packs)


def finished(
    quick: PackingPlan, histogram: LengthHistogram, depth: int | None, method: Method
) -> tuple[PackingPlan, list[PackingPlan]]:
    """Return the plan of `best_plan`, which is `quick` (made by `quick_plan`) where "auto" does not search.

    Returns:
        The plan, and the other plans that were made to find it.
    """
    is_of_these = quick.max_sequences_per_pack == depth and quick.histogram == histogram
    if method != "auto":
        return (quick if is_of_these else best_plan(histogram, depth, method)), []
    if is_of_these and is_near(quick.num_packs, quick.lower_bound) and quick.method != "lpt":
        return quick, []
    filled = quick if quick.method == "exact_filling" else None
    best, *others = auto_plans(histogram, depth, on_interrupt="raise", filled=filled)
    return best, others


def beside(chosen: PackingPlan, others: list[PackingPlan]) -> list[PackingPlan]:
    """Return the plans of the greedy methods that did not make `chosen`, at its depth, the best one first.

    Args:
        others: plans that may be among them; they are not made again.
    """
    histogram, depth = chosen.histogram, chosen.max_sequences_per_pack
    plans_by_method = {other_plan.method: other_plan for other_plan in others if other_plan.histogram == histogram}
    plans = [
        plans_by_method.get(name) or plan(histogram, method=name, max_sequences_per_pack=depth)
        for name in GREEDY
        if name != chosen.method
    ]
    return sorted(plans, key=lambda made_plan: made_plan.num_packs)


def try_depths(histogram: LengthHistogram, at_limit: PackingPlan) -> tuple[DepthTrial, ...]:
    """Try depths, ascending, up to the first that is good enough, or to the depth limit of the plan `at_limit`.

    That plan is one of the lengths, or of those of `rounded_up`; the plans of other depths then are, too. A depth that
    cannot be within half a percent of the deepest, as its bound shows, is not searched: best fit tells about how far
    off it is.
    """
    deepest = max(at_limit.deepest, 1)
    rounded = at_limit.histogram
    enough = (1 + WITHIN) * at_limit.num_packs
    trials: list[DepthTrial] = []
    for depth in [*(depth for depth in _DEPTHS if depth < deepest), deepest]:
        too_shallow = histogram.num_sequences > depth * enough
        method: Method = "lpfhp" if too_shallow else "auto"
        tried = at_limit if depth == deepest else quick_plan(rounded, depth, method, enough)
        packs = min([tried.num_packs, *(trial.packs for trial in trials)])  # a deeper pack may use a shallower plan
        bound = tried.lower_bound
        if rounded != histogram:  # what rounded lengths need is no bound of the true ones
            bound = Sums.strongest(histogram.counts, depth).bound(histogram.counts, depth)
        trials.append(DepthTrial(depth, packs, bound))
        if packs <= (1 + NEAR) * at_limit.num_packs:
            break
    return tuple(trials)


def with_plan(depths: Iterable[DepthTrial], made_plan: PackingPlan) -> tuple[DepthTrial, ...]:
    """Return the trials with the packs of a plan in place of its depth's, and no more than these for deeper packs."""
    updated = list[DepthTrial]()
    for trial in depths:
        packs, bound = min([trial.packs, *(shallower.packs for shallower in updated)]), trial.bound
        if trial.depth == made_plan.max_sequences_per_pack:
            packs, bound = made_plan.num_packs, max(bound, made_plan.lower_bound)
        updated.append(DepthTrial(trial.depth, packs, bound))
    return tuple(updated)


def smallest_depth(depths: tuple[DepthTrial, ...]) -> int:
    """Return the smallest depth tried whose packs are within half a percent of the deepest one's."""
    return next(trial.depth for trial in depths if trial.packs <= (1 + WITHIN) * depths[-1].packs)
