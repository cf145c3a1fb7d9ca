"""Whole packs from a list, in a search: a plan that meets the bound, or a proof that there is none."""

import time
from collections import Counter

from packlib.packing.proofs import PricesAndList
from packlib.packing.search.exact import ExactProgram
from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack
from packlib.packing.search.whole_packs import FEW_NODES, LISTED, NODES, WHOLE, choose


def list_packs(exact: ExactProgram) -> None:
    """Look among the packs that waste little for a plan that meets the bound, or prove that there is none.

    A plan with as many packs as the bound wastes `total_waste`, so no pack of it wastes more. Where too many packs
    waste no more than that, only those that waste least are listed: they may make a plan, but prove nothing.
    """
    exact.program.allow(None)
    exact.center_prices()
    started = time.perf_counter()
    target = exact.best.lower_bound
    total_waste = exact.total_waste(target)
    if exact.done() or not 0 <= total_waste < exact.best_pack_value:
        return
    knapsack = solve_knapsack(exact.by_length(exact.prices, NOT_FOR_SALE), exact.limit)
    listed = None
    most_waste = total_waste  # of a pack that is listed
    while most_waste >= total_waste >> 10 and not exact.is_over():
        listed = knapsack.packs_worth(exact.best_pack_value - most_waste, exact.counts, LISTED)
        if listed is not None:
            break
        most_waste = (most_waste - 1) // 2
    if listed is None:
        return
    exact.program.add(listed)
    if len(listed) <= WHOLE and not exact.done():
        all_are_listed = most_waste == total_waste
        nodes = NODES if all_are_listed else FEW_NODES
        packs = choose(listed, exact.counts, target, nodes, exact.is_over)
        # the plan's own check lists and chooses again, for which there must be time
        is_time_for_check = exact.time_left() > time.perf_counter() - started
        if packs == [] and all_are_listed and is_time_for_check:
            exact.best.prove(target + 1, PricesAndList(exact.by_length(exact.prices, 0)))
        exact.offer(Counter(), packs or None)
