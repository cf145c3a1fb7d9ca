"""Whole packs from a list: an integer program.

Fix a number of packs. At the prices of the best bound a plan of that many packs can waste so much in all, so no single
pack of it wastes more. Where the packs that waste no more are few enough to be listed (`Knapsack.packs_worth`), an
integer program over them finds such a plan, or proves that there is none. HiGHS solves it (`solver.py`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from packlib.lengths.counting import exact_dot
from packlib.packing.greedy import EqualPacks
from packlib.packing.search.bound import needs_relaxation
from packlib.packing.search.knapsack import NOT_FOR_SALE, Multiset, solve_knapsack
from packlib.packing.search.solver import run, silent_highs

LISTED = 10_000  # packs, at most
WHOLE = 3000  # of these, at most, for an integer program over all sequences
NODES = 2000  # of its branching
FEW_NODES = 60  # of that of an integer program over the sequences that a dive leaves


def choose(
    packs: list[Multiset], counts: np.ndarray, most: int, nodes: int, is_over: Callable[[], bool] = lambda: False
) -> list[EqualPacks] | None:
    """Choose among packs so that they hold exactly these sequences, in at most so many packs.

    Args:
        packs: to choose among.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        most: packs that the choice may have.
        nodes: of the branching, after which it gives up; they are the same on every machine.
        is_over: is asked time and again; where it returns True, it gives up, too.

    Returns:
        The strategies; an empty list if no choice takes so few; None if it gave up.
    """
    import highspy  # here, since it takes a while to import

    if not packs:
        return []
    if is_over():
        return None
    highs = _program_of_choice(packs, counts, most)
    highs.setOptionValue("mip_max_nodes", nodes)
    if run(highs, is_over) == "Infeasible":
        return []
    if highs.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    chosen = np.rint(highs.getSolution().col_value).astype(np.int64)
    return [(flat(packs[i]), int(chosen[i])) for i in np.flatnonzero(chosen)]


def _program_of_choice(packs: list[Multiset], counts: np.ndarray, most: int) -> Any:
    """Make the integer program: a column a pack, a row for each length that occurs, and one for all packs."""
    import highspy  # here, since it takes a while to import

    highs, lengths = silent_highs(), np.flatnonzero(counts)
    all_packs, nothing = len(lengths), np.zeros(0, np.int32)
    lower, upper = np.append(counts[lengths], 0).astype(float), np.append(counts[lengths], most).astype(float)
    highs.addRows(all_packs + 1, lower, upper, 0, nothing, nothing, np.zeros(0))
    row_of = {length: row for row, length in enumerate(lengths.tolist())}
    starts, rows, copies = list[int](), list[int](), list[float]()
    for pack in packs:
        starts.append(len(rows))
        rows += [*(row_of[length] for length, _ in pack), all_packs]
        copies += [*(n for _, n in pack), 1]
    n = len(packs)
    # any choice will do: without an objective HiGHS takes half as long
    free = np.zeros(n), np.zeros(n), np.full(n, np.inf)
    highs.addCols(n, *free, len(rows), np.array(starts, np.int32), np.array(rows, np.int32), np.array(copies, float))
    whole = np.full(n, highspy.HighsVarType.kInteger)
    highs.changeColsIntegrality(n, np.arange(n, dtype=np.int32), whole)
    return highs


def flat(pack: Multiset) -> tuple[int, ...]:
    return tuple(length for length, copies in pack for _ in range(copies))


def ruled_out(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None, packs: int) -> bool:
    """Return whether a list of the packs that matter shows that so many packs are not enough.

    A pack wastes the difference between its worth and that of the best pack. All packs of a plan that is small enough
    waste at most `waste` together, so none of them wastes more alone. The packs that waste no more are listed with
    integers. HiGHS says, in floats, that no choice of them packs all sequences.

    Args:
        counts, prices, max_sequences_per_pack: as in `certified_bound`.
        packs: the number that is ruled out, or not.
    """
    occurs = counts > 0
    if needs_relaxation(occurs, max_sequences_per_pack):
        return False
    knapsack = solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), max_sequences_per_pack)
    waste = packs * knapsack.best - exact_dot(counts[occurs], prices[occurs])
    if waste < 0:
        return True  # the prices alone rule it out
    if waste >= knapsack.best:
        return False  # a pack may waste all its worth, so every pack would be listed
    listed = knapsack.packs_worth(knapsack.best - waste, counts, WHOLE)
    return listed is not None and choose(listed, counts, packs, NODES) == []
