"""Whole packs from a list: an integer program.

Fix a number of packs. At the prices of the best bound a plan of that many packs can waste so much in all, so no single
pack of it wastes more. Where the packs that waste no more are few enough to be listed (`Knapsack.packs_worth`), an
integer program over them finds such a plan, or proves that there is none. HiGHS solves it, by way of SciPy.
"""

import math

import numpy as np

from packlib.packing.greedy import EqualPacks
from packlib.packing.search.bound import exact_dot, needs_relaxation
from packlib.packing.search.knapsack import NOT_FOR_SALE, Multiset, solve_knapsack

LISTED = 10_000  # packs, at most
WHOLE = 3000  # of these, at most, for an integer program over all sequences
NODES = 2000  # of its branching
FEW_NODES = 60  # of that of an integer program over the sequences that a dive leaves


def choose(
    packs: list[Multiset], counts: np.ndarray, most: int, nodes: int, seconds: float = math.inf
) -> list[EqualPacks] | None:
    """Choose among packs so that they hold exactly these sequences, in at most so many packs.

    Args:
        packs: to choose among.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        most: packs that the choice may have.
        nodes: of the branching, after which it gives up; they are the same on every machine.
        seconds: after which it gives up, too.

    Returns:
        The strategies; an empty list if no choice takes so few; None if it gave up.
    """
    from scipy.optimize import LinearConstraint, milp  # here, since it takes a while to import
    from scipy.sparse import csc_array

    if not packs or seconds <= 0:
        return None if packs else []
    lengths = np.flatnonzero(counts)
    items = np.array([length for pack in packs for length, _ in pack])
    copies = np.array([copies for pack in packs for _, copies in pack], float)
    ends = np.cumsum([0] + [len(pack) for pack in packs])
    matrix = csc_array((copies, np.searchsorted(lengths, items), ends), shape=(len(lengths), len(packs)))
    all_packs = np.ones(len(packs))
    rules = LinearConstraint(matrix, counts[lengths], counts[lengths]), LinearConstraint(all_packs, 0, most)
    options = dict(node_limit=nodes, time_limit=None if math.isinf(seconds) else seconds)
    # any choice will do: without an objective HiGHS takes half as long
    found = milp(np.zeros(len(packs)), constraints=rules, integrality=all_packs, options=options)
    if found.x is not None:
        chosen = np.rint(found.x).astype(np.int64)
        return [(flat(packs[i]), int(chosen[i])) for i in np.flatnonzero(chosen)]
    return [] if found.status == 2 else None


def flat(pack: Multiset) -> tuple[int, ...]:
    return tuple(length for length, copies in pack for _ in range(copies))


def ruled_out(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None, packs: int) -> bool:
    """Return whether a list of the packs that matter shows that so many packs are not enough.

    The list is made with integers; that no choice of it is left is what HiGHS says, in floats.

    Args:
        counts, prices, max_sequences_per_pack: as in `certified_bound`.
        packs: the number that is ruled out, or not.
    """
    occurs = counts > 0
    if needs_relaxation(occurs, max_sequences_per_pack):
        return False
    knapsack = solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), max_sequences_per_pack)
    waste = packs * knapsack.best - exact_dot(counts[occurs], prices[occurs])
    if not 0 <= waste < knapsack.best:
        return waste < 0
    listed = knapsack.packs_worth(knapsack.best - waste, counts, WHOLE)
    return listed is not None and choose(listed, counts, packs, NODES) == []
