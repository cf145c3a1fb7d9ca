"""Whole packs from a list, in a search: a plan that meets the bound, or a proof that there is none."""

import time
from collections import Counter

from packlib.packing.proofs import PricesAndList
from packlib.packing.search.exact import ExactProgram
from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack
from packlib.packing.search.whole_packs import FEW_NODES, LISTED, NODES, WHOLE, choose


def list_packs(exact: ExactProgram) -> None:
    """Look among the packs that waste little for a plan that meets the bound, or prove that there is none.

    A plan of so few packs wastes `spare` in all. Where too many packs waste no more, only those that waste least are
    looked at.
    """
    exact.program.allow(None)
    exact.center_prices()
    started, target = time.perf_counter(), exact.best.lower_bound
    spare = exact.spare(target)
    if exact.done() or not 0 <= spare < exact.pack_worth:
        return
    knapsack, listed = solve_knapsack(exact.by_length(exact.prices, NOT_FOR_SALE), exact.limit), None
    most_waste = spare  # of a pack that is listed: with less than `spare`, a plan may hold packs that are not
    while listed is None and most_waste >= spare >> 10 and not exact.is_over():
        listed = knapsack.packs_worth(exact.pack_worth - most_waste, exact.counts, LISTED)
        most_waste = (most_waste - 1) // 2 if listed is None else most_waste
    if listed is None:
        return
    exact.program.add(listed)
    if len(listed) <= WHOLE and not exact.done():
        all_are_listed = most_waste == spare
        answer = choose(listed, exact.counts, target, NODES if all_are_listed else FEW_NODES, exact.is_over)
        if answer == [] and all_are_listed and exact.time_left() > time.perf_counter() - started:
            # there is time for the plan's own check
            exact.best.prove(target + 1, PricesAndList(exact.by_length(exact.prices, 0)))
        exact.improve(Counter(), answer or None)
