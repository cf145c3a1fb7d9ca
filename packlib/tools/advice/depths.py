"""Which method, and how deep: LPFHP, and the exact search where LPFHP is not proven to be good enough."""

from typing import NamedTuple

from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan, plan

NEAR = 0.001  # of the fewest packs: a plan so near is good enough
WITHIN = 0.005  # of the packs without a limit: the smallest depth so near is taken
ROUNDS = 8  # of the exact search, so that no answer depends on the clock; more take longer than they save
_DEPTHS = [1, 2, 3, *(part << shift for shift in range(25) for part in (4, 6))]


class DepthTrial(NamedTuple):
    """A depth limit: the packs of the best plan found, and a number below which there are none."""

    depth: int
    packs: int
    bound: int


def good_enough(made: PackingPlan) -> bool:
    """Return whether a plan is proven to be within one pack or 0.1 % of the fewest."""
    return made.gap <= max(1, NEAR * made.lower_bound)


def best_plans(histogram: LengthHistogram, depth: int | None = None, rounds: int | None = ROUNDS) -> list[PackingPlan]:
    """Plans from the best to the runner-up; the search is asked where LPFHP is not proven to be good enough.

    Of as many packs, that with the closest bound comes first: the search may prove what LPFHP found.

    Args:
        depth: sequences in a pack at most.
        rounds: of the search; None lets it end by itself.
    """
    made = [plan(histogram, method=method, max_sequences_per_pack=depth) for method in ("lpfhp", "spfhp")]
    if not good_enough(made[0]):
        made.append(plan(histogram, max_sequences_per_pack=depth, rounds=rounds, on_interrupt="raise"))
    return sorted(made, key=lambda one: (one.num_packs, one.gap))


def try_depths(histogram: LengthHistogram, limit: int | None) -> tuple[DepthTrial, ...]:
    """Try depths, ascending, up to the first that is good enough, or to `limit`."""
    greedy = plan(histogram, method="lpfhp", max_sequences_per_pack=limit)
    fewest = min(one.num_packs for one in best_plans(histogram, limit))
    deepest = min(limit or histogram.num_sequences, max(greedy.deepest, 1))
    found: list[DepthTrial] = []
    for depth in [*(depth for depth in _DEPTHS if depth < deepest), deepest]:
        plans = best_plans(histogram, depth)
        packs = min([plans[0].num_packs, *(trial.packs for trial in found)])  # a deeper pack may use a shallower plan
        found.append(DepthTrial(depth, packs, max(one.lower_bound for one in plans)))
        if packs <= (1 + NEAR) * fewest:
            break
    return tuple(found)


def smallest_depth(depths: tuple[DepthTrial, ...]) -> int:
    """The smallest depth tried whose packs are within half a percent of the deepest one's."""
    return next(trial.depth for trial in depths if trial.packs <= (1 + WITHIN) * depths[-1].packs)
