"""Whole packs from a list: an integer program.

Fix a number of packs. At the prices of the best bound, all packs of a plan of that many can waste only so much together
(`most_waste` of `ruled_out`), so no single one of them wastes more. Where the packs that waste no more are few enough
to be listed (`Knapsack.packs_worth`), an integer program over them finds such a plan, or proves that there is none.
HiGHS solves it (`solver.py`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from packlib.lengths.counting import exact_dot
from packlib.packing.greedy import EqualPacks
from packlib.packing.search.bound import needs_relaxation
from packlib.packing.search.knapsack import NOT_FOR_SALE, Multiset, solve_knapsack
from packlib.packing.search.solver import run, silent_highs

LISTED = 10_000  # packs of a list, at most
WHOLE = 3000  # packs of a list, at most, for an integer program over all sequences
NODES = 2000  # of the branching of such an integer program, after which it gives up
FEW_NODES = 60  # the same, of one that can prove nothing: over a part of the packs, or what a dive leaves


def choose(
    packs: list[Multiset], counts: np.ndarray, most: int, nodes: int, is_over: Callable[[], bool] = lambda: False
) -> list[EqualPacks] | None:
    """Choose among packs so that they hold exactly these sequences, in at most so many packs.

    Args:
        packs: the packs to choose among, each as often as wanted.
        counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
        most: packs of a choice, at most.
        nodes: of the branching, after which HiGHS gives up; they are the same on every machine.
        is_over: HiGHS asks it time and again, and gives up where it returns True.

    Returns:
        The chosen packs with how often each is used; an empty list if no choice takes so few; None if HiGHS gave up.
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

    highs = silent_highs()
    lengths = np.flatnonzero(counts)
    row_of = {length: row for row, length in enumerate(lengths.tolist())}
    row_of_all_packs = len(lengths)
    # the row of a length is just its sequences; that of all packs is from 0 to `most`
    lower = np.append(counts[lengths], 0).astype(float)
    upper = np.append(counts[lengths], most).astype(float)
    nothing = np.zeros(0, np.int32)
    highs.addRows(len(lower), lower, upper, 0, nothing, nothing, np.zeros(0))
    starts, rows, values = list[int](), list[int](), list[float]()
    for pack in packs:
        starts.append(len(rows))
        rows += [*(row_of[length] for length, _ in pack), row_of_all_packs]
        values += [*(copies for _, copies in pack), 1]
    n = len(packs)
    costs = np.zeros(n)  # any choice will do: without an objective HiGHS takes half as long
    least = np.zeros(n)
    highest = np.full(n, np.inf)
    column_starts, column_rows = np.array(starts, np.int32), np.array(rows, np.int32)
    highs.addCols(n, costs, least, highest, len(rows), column_starts, column_rows, np.array(values, float))
    highs.changeColsIntegrality(n, np.arange(n, dtype=np.int32), np.full(n, highspy.HighsVarType.kInteger))
    return highs


def flat(pack: Multiset) -> tuple[int, ...]:
    """Return the length of each sequence of a pack."""
    return tuple(length for length, copies in pack for _ in range(copies))


def ruled_out(counts: np.ndarray, prices: np.ndarray, max_sequences_per_pack: int | None, packs: int) -> bool:
    """Return whether a list of the packs that matter shows that `packs` packs are not enough.

    A pack wastes the difference between its value and that of the best pack. All packs of a plan of at most `packs`
    waste at most `most_waste` together, so none of them wastes more alone. The packs that waste no more are listed, in
    integers. HiGHS says, in floats, that no choice of them packs all sequences.

    Args:
        counts, prices, max_sequences_per_pack: as in `certified_bound`.
        packs: the number that is ruled out, or not.
    """
    occurs = counts > 0
    if needs_relaxation(occurs, max_sequences_per_pack):
        return False
    knapsack = solve_knapsack(np.where(occurs, prices, NOT_FOR_SALE), max_sequences_per_pack)
    most_waste = packs * knapsack.best - exact_dot(counts[occurs], prices[occurs])
    if most_waste < 0:
        return True  # the prices alone rule it out
    if most_waste >= knapsack.best:
        return False  # a pack may waste all its value, so every pack would be listed
    listed = knapsack.packs_worth(knapsack.best - most_waste, counts, WHOLE)
    return listed is not None and choose(listed, counts, packs, NODES) == []
