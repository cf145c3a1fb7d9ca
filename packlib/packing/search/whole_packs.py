"""Whole packs from a list: an integer program.

At the prices of the best bound, every pack of a plan of so many packs wastes at most what such a plan can waste in all.
Where the packs that waste no more are few enough to be listed (`Knapsack.packs_worth`), an integer program over them
finds such a plan, or proves that there is none. Where it gives up, dives take packs of the list until one over the
sequences that are left is small enough. HiGHS solves them, by way of SciPy.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from packlib.packing.greedy import Group
from packlib.packing.search.bound import exact_dot, is_long
from packlib.packing.search.knapsack import NOT_FOR_SALE, Multiset, solve_knapsack

# Packs of an integer program over all sequences, and of one over those that a dive leaves; nodes of their branching.
WHOLE, LISTED, NODES, FEW_NODES = 3000, 10_000, 300, 60
_LEFT = 0.55  # of the sequences, which a dive leaves to the integer program


def choose(
    packs: list[Multiset], counts: np.ndarray, fewest: int, nodes: int, seconds: float = math.inf
) -> list[Group] | None:
    """Choose among packs so that they hold exactly these sequences, in `fewest` packs.

    Args:
        packs: to choose among.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        nodes: of the branching, after which it gives up; they are the same on every machine.
        seconds: after which it gives up, too.

    Returns:
        The strategies; an empty list if no choice takes so few; None if it gave up.
    """
    if not packs or seconds <= 0:
        return None if packs else []
    found = _solve(packs, counts, fewest, np.ones(len(packs)), nodes, seconds)
    if found.x is not None:
        chosen = np.rint(found.x).astype(np.int64)
        return [(flat(packs[i]), int(chosen[i])) for i in np.flatnonzero(chosen)]
    return [] if found.status == 2 else None


def dive_among(
    packs: list[Multiset], counts: np.ndarray, fewest: int, seed: int, seconds_left: Callable[[], float]
) -> list[Group] | None:
    """Choose by rounding until about half of the sequences are left, and then by an integer program.

    Every choice that keeps `fewest` is as good as another, so the packs cost something at random: each seed leads a
    linear program to another corner, and there a third of the packs that it uses most are taken whole.

    Args:
        packs, counts, fewest: as in `choose`.
        seconds_left: is asked before each program; the dive gives up when it is 0.

    Returns:
        The strategies, or None if it gave up.
    """
    costs, few = dict(zip(packs, np.random.default_rng(seed).random(len(packs)), strict=True)), counts.sum() * _LEFT
    taken, left = list[Group](), counts.copy()
    while left.sum() > few:
        if not packs or seconds_left() <= 0:
            return None
        found = _solve(packs, left, fewest - len(taken), np.array([costs[p] for p in packs]), None, seconds_left())
        if found.x is None:
            return None
        most = np.argsort(-found.x, kind="stable")[: max(1, np.count_nonzero(found.x > 0.5) // 3)]
        for pack in (packs[i] for i in most):
            if _fits(pack, left):
                taken.append((flat(pack), 1))
                for length, copies in pack:
                    left[length] -= copies
        packs = [pack for pack in packs if _fits(pack, left)]
    rest = choose(packs, left, fewest - len(taken), FEW_NODES, seconds_left())
    return taken + rest if rest else None


def _fits(pack: Multiset, left: np.ndarray) -> bool:
    return all(copies <= left[length] for length, copies in pack)


def _solve(
    packs: list[Multiset], counts: np.ndarray, fewest: int, costs: np.ndarray, nodes: int | None, seconds: float
) -> Any:
    """The program of `choose`, with what each pack costs, as SciPy solves it; in fractions where `nodes` is None."""
    from scipy.optimize import LinearConstraint, milp  # here, since it takes a while to import
    from scipy.sparse import csc_array

    lengths = np.flatnonzero(counts)
    items = np.array([length for pack in packs for length, _ in pack])
    copies = np.array([copies for pack in packs for _, copies in pack], float)
    ends = np.cumsum([0] + [len(pack) for pack in packs])
    matrix = csc_array((copies, np.searchsorted(lengths, items), ends), shape=(len(lengths), len(packs)))
    rules = (
        LinearConstraint(matrix, counts[lengths], counts[lengths]),
        LinearConstraint(np.ones(len(packs)), 0, fewest),
    )
    options = dict(node_limit=nodes, time_limit=None if math.isinf(seconds) else seconds)
    return milp(costs, constraints=rules, integrality=np.full(len(packs), nodes is not None), options=options)


def flat(pack: Multiset) -> tuple[int, ...]:
    return tuple(length for length, copies in pack for _ in range(copies))


def ruled_out(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None, packs: int) -> bool:
    """Whether a list of the packs that matter shows that so many packs are not enough.

    The list is made with integers; that no choice of it is left is what HiGHS says, in floats.

    Args:
        counts, prices, max_sequences_per_pack: as in `certified_bound`.
    """
    occurs = counts > 0
    if is_long(occurs, max_sequences_per_pack):
        return False
    knapsack = solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), max_sequences_per_pack)
    waste = packs * knapsack.best - exact_dot(counts[occurs], prices[occurs])
    if not 0 <= waste < knapsack.best:
        return waste < 0
    listed = knapsack.packs_worth(knapsack.best - waste, counts, LISTED)
    return listed is not None and choose(listed, counts, packs, NODES) == []
