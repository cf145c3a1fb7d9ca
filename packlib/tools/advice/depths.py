"""Which plan, and how deep: the plan that `plan` makes by default, and what the greedy methods make beside it."""

from typing import NamedTuple

from packlib.lengths import LengthHistogram
from packlib.packing import Method, PackingPlan, plan
from packlib.packing.methods import NEAR

WITHIN = 0.005  # of the packs without a limit: the smallest depth so near is taken
GREEDY: tuple[Method, ...] = ("lpfhp", "spfhp")
_DEPTHS = [1, 2, 3, *(part << shift for shift in range(25) for part in (4, 6))]


class DepthTrial(NamedTuple):
    """A depth limit: the packs of the best plan found, and a number below which there are none."""

    depth: int
    packs: int
    bound: int


def best_plans(histogram: LengthHistogram, depth: int | None = None, method: Method = "auto") -> list[PackingPlan]:
    """Return the plan by a method, and after it those of the greedy methods that did not make it, the best one first.

    Args:
        depth: sequences in a pack at most.
        method: of the first plan, as in `packlib.packing.plan`.
    """
    chosen = plan(histogram, method=method, max_sequences_per_pack=depth, on_interrupt="raise")
    greedy = [name for name in GREEDY if name != chosen.method]
    others = [plan(histogram, method=name, max_sequences_per_pack=depth) for name in greedy]
    return [chosen, *sorted(others, key=lambda made: made.num_packs)]


def try_depths(histogram: LengthHistogram, limit: int | None) -> tuple[DepthTrial, ...]:
    """What depths allow, ascending, up to the first that is good enough, or to `limit`."""
    greedy = plan(histogram, method="lpfhp", max_sequences_per_pack=limit)
    at_limit = best_plans(histogram, limit)
    fewest = min(one.num_packs for one in at_limit)
    deepest = min(limit or histogram.num_sequences, max(greedy.deepest, 1))
    found: list[DepthTrial] = []
    for depth in [*(depth for depth in _DEPTHS if depth < deepest), deepest]:
        plans = at_limit if depth == limit else best_plans(histogram, depth)
        packs = min([plans[0].num_packs, *(trial.packs for trial in found)])  # a deeper pack may use a shallower plan
        found.append(DepthTrial(depth, packs, max(one.lower_bound for one in plans)))
        if packs <= (1 + NEAR) * fewest:
            break
    return tuple(found)


def smallest_depth(depths: tuple[DepthTrial, ...]) -> int:
    """The smallest depth tried whose packs are within half a percent of the deepest one's."""
    return next(trial.depth for trial in depths if trial.packs <= (1 + WITHIN) * depths[-1].packs)
