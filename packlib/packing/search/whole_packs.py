"""Whole packs from a list: an integer program.

At the prices of the best bound, every pack of a plan of so many packs wastes at most what such a plan can waste in all.
Where the packs that waste no more are few enough to be listed (`Knapsack.packs_worth`), an integer program over them
finds such a plan, or proves that there is none. HiGHS solves it, by way of SciPy.
"""

import math
from enum import Enum

import numpy as np

from packlib.packing.greedy import Group
from packlib.packing.search.bound import exact_dot, is_long
from packlib.packing.search.knapsack import NOT_FOR_SALE, Multiset, solve_knapsack

LISTED, NODES = (1000, 3000, 10_000), 300  # packs of an integer program, at first and then; and nodes of its branching


class Answer(Enum):
    """Why there is no choice of packs: there is none, or the search for it gave up."""

    NONE = "none"
    UNKNOWN = "unknown"


def choose(
    packs: list[Multiset], counts: np.ndarray, fewest: int, nodes: int, seconds: float = math.inf
) -> list[Group] | Answer:
    """Choose among packs so that they hold exactly these sequences, in `fewest` packs.

    Args:
        packs: to choose among.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        nodes: of the branching, after which it gives up; they are the same on every machine.
        seconds: after which it gives up, too.

    Returns:
        The strategies, or `Answer.NONE` if no choice takes so few, or `Answer.UNKNOWN`.
    """
    from scipy.optimize import LinearConstraint, milp  # here, since it takes a while to import
    from scipy.sparse import csc_array

    lengths = np.flatnonzero(counts)
    if not packs or seconds <= 0:
        return Answer.UNKNOWN if packs else Answer.NONE
    items = np.array([length for pack in packs for length, _ in pack])
    copies = np.array([copies for pack in packs for _, copies in pack], float)
    ends = np.cumsum([0] + [len(pack) for pack in packs])
    matrix = csc_array((copies, np.searchsorted(lengths, items), ends), shape=(len(lengths), len(packs)))
    options = {"node_limit": nodes} | ({} if math.isinf(seconds) else {"time_limit": seconds})
    ones = np.ones(len(packs))
    rules = LinearConstraint(matrix, counts[lengths], counts[lengths]), LinearConstraint(ones, 0, fewest)
    found = milp(ones, constraints=rules, integrality=ones, options=options)
    if found.x is not None:
        chosen = np.rint(found.x).astype(np.int64)
        return [(flat(packs[i]), int(chosen[i])) for i in np.flatnonzero(chosen)]
    return Answer.NONE if found.status == 2 else Answer.UNKNOWN


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
    listed = knapsack.packs_worth(knapsack.best - waste, counts, LISTED[-1])
    return listed is not None and choose(listed, counts, packs, NODES) is Answer.NONE
