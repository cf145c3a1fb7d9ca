"""Plans and their depths: the plan of `plan`, quick plans to choose row lengths and depths by, and plans to compare.

The depth of a pack is the number of its sequences; a depth limit is the most that a pack may have.
"""

from collections.abc import Iterable
from typing import NamedTuple

from packlib.lengths import LengthHistogram
from packlib.packing import Method, PackingPlan, plan
from packlib.packing.methods import NEAR, auto_plans, fast_plans, is_near
from packlib.packing.proofs import Sums

WITHIN = 0.005  # the smallest depth is taken whose packs are at most this share more than those of the deepest
GREEDY: tuple[Method, ...] = ("lpfhp", "spfhp")
# Most different lengths for which lpt is run: with more, it takes tenths of a second, and saved at most 0.6 % of the
# packs where it was tried.
_FEW_LENGTHS = 4096
# 1, 2, 3, 4, 6, 8, 12, 16, …: the depths that are tried
_DEPTHS = [1, 2, 3, *(start << doublings for doublings in range(25) for start in (4, 6))]


class DepthTrial(NamedTuple):
    """A depth limit, the packs of the best plan found with it, and the lower bound on the packs of any plan with it."""

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
    """Return a plan to choose row lengths and depths by: the best of the fast methods, instead of the plan of "auto".

    A report compares many plans, and searches for one alone: the plan that it advises.

    Args:
        depth: as in `best_plan`.
        method: as in `best_plan`; other methods than "auto" make their own plan.
        enough: number of packs. A plan that has this number or fewer is good enough: "lpt", which takes longest, is
            not tried.
    """
    if method != "auto":
        return best_plan(histogram, depth, method)
    plans = fast_plans(histogram, depth)
    packs = plans[-1].num_packs
    is_enough = packs <= enough or is_near(packs, plans[0].lower_bound)
    if depth and not is_enough and (histogram.counts > 0).sum() <= _FEW_LENGTHS:
        plans.append(best_plan(histogram, depth, "lpt"))
    return min(plans, key=lambda made_plan: made_plan.num_packs)


def final_plan(
    quick: PackingPlan, histogram: LengthHistogram, depth: int | None, method: Method
) -> tuple[PackingPlan, list[PackingPlan]]:
    """Return the plan that `best_plan` makes, without making `quick` again.

    Args:
        quick: what `quick_plan` made, maybe of rounded lengths or with another depth limit.

    Returns:
        The plan, and the other plans that were made to find it.
    """
    has_these_arguments = quick.max_sequences_per_pack == depth and quick.histogram == histogram
    if method != "auto":
        return (quick if has_these_arguments else best_plan(histogram, depth, method)), []
    if has_these_arguments and is_near(quick.num_packs, quick.lower_bound) and quick.method != "lpt":
        return quick, []  # "auto" would not search either
    filled = quick if quick.method == "exact_filling" else None
    best, *others = auto_plans(histogram, depth, on_interrupt="raise", filled=filled)
    return best, others


def greedy_plans(chosen: PackingPlan, others: list[PackingPlan]) -> list[PackingPlan]:
    """Return the plans of the greedy methods that did not make `chosen`, with its depth limit, the best one first.

    Args:
        others: plans that were made already; those of greedy methods are not made again.
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
    """Try depth limits, ascending, up to the first that needs about as few packs as `at_limit`.

    Args:
        histogram: the lengths.
        at_limit: the plan with the largest depth limit to try, of these lengths or of those of `rounded_up`; plans with
            smaller limits are made of the same lengths.
    """
    deepest = max(at_limit.deepest, 1)
    rounded = at_limit.histogram
    enough = (1 + WITHIN) * at_limit.num_packs
    trials: list[DepthTrial] = []
    for depth in [*(depth for depth in _DEPTHS if depth < deepest), deepest]:
        # A depth that cannot have few enough packs is not worth a search: best fit tells about how many it has.
        is_too_shallow = histogram.num_sequences > depth * enough
        method: Method = "lpfhp" if is_too_shallow else "auto"
        trial_plan = at_limit if depth == deepest else quick_plan(rounded, depth, method, enough)
        packs = min([trial_plan.num_packs, *(trial.packs for trial in trials)])  # a plan of less depth is allowed, too
        bound = trial_plan.lower_bound
        if rounded != histogram:  # a bound for rounded lengths is none for the true ones
            bound = Sums.strongest(histogram.counts, depth).bound(histogram.counts, depth)
        trials.append(DepthTrial(depth, packs, bound))
        if packs <= (1 + NEAR) * at_limit.num_packs:
            break
    return tuple(trials)


def with_plan(depths: Iterable[DepthTrial], made_plan: PackingPlan) -> tuple[DepthTrial, ...]:
    """Return the trials after a better plan was made for one depth: deeper ones have at most its packs, too."""
    updated = list[DepthTrial]()
    for trial in depths:
        packs, bound = min([trial.packs, *(shallower.packs for shallower in updated)]), trial.bound
        if trial.depth == made_plan.max_sequences_per_pack:
            packs, bound = made_plan.num_packs, max(bound, made_plan.lower_bound)
        updated.append(DepthTrial(trial.depth, packs, bound))
    return tuple(updated)


def smallest_depth(depths: tuple[DepthTrial, ...]) -> int:
    """Return the smallest depth tried that needs at most half a percent more packs than the deepest."""
    return next(trial.depth for trial in depths if trial.packs <= (1 + WITHIN) * depths[-1].packs)
