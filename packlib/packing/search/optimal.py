"""Packing with a proof: `optimal`, the steps of a search and their order.

1. Start (`starts.py`): the plans of the fast methods, and the bound of sums.
2. If the exact knapsack is cheap (a small table, or few lengths and no depth limit that binds), search exactly: columns
   and bounds by a linear program (`exact.py`), rounding by dives (`dives.py`), and a list of all packs that matter
   (`listing.py`).
3. Otherwise fill a few packs at a time again (`refilling.py`). If that gains nothing for a while, prove more: by exact
   prices, if their tables are affordable, or else by prices of a few lengths and with a plan after them
   (`long_bound.py`). Then refill again, and last round what the exact prices found.

All steps share the best plan and bound so far (`best.py`), and the search ends where they meet, at its deadline
(`deadline.py`), or where steps gain nothing any more.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Literal

import numpy as np

from packlib.arguments import number, whole_number
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks
from packlib.packing.proofs import Proof
from packlib.packing.search.best import Best
from packlib.packing.search.bound import EXACT_STEPS, FEW_LENGTHS, exact_size, needs_relaxation
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.dives import Dives
from packlib.packing.search.exact import FEW_SEQUENCES, SMALL_STEPS, ExactProgram
from packlib.packing.search.listing import list_packs
from packlib.packing.search.long_bound import prove_long_rows
from packlib.packing.search.progress import Callback, shown
from packlib.packing.search.refilling import refill
from packlib.packing.search.starts import start

# Different lengths are the rows of the linear program, and the time to solve it grows with their square: with more than
# the most, only sums and the prices of a few lengths prove. With few of them a larger table is small, too.
_MOST_LENGTHS = 2100
# Steps of exact prices where tables are large: about a second before refilling goes on, and twenty at the end.
_FIRST_STEPS, _LAST_STEPS = 5 * 10**8, 10**10
_DIVES = 400  # attempts at rounding, at most
_FIRST_DIVES = 12  # attempts that are always made; packs are listed after them
# Rounds of refilling that save no pack: before exact prices, before prices of a few lengths, which cost less than
# exact ones, and at the end. Twice as many at the end saved no pack of 64 settings, and took 1.8 times as long.
_FIRST_PATIENCE = 5
_MORE_PATIENCE = 20
_PATIENCE = 60


def optimal(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callback = None,
    rounds: int | None = None,
    on_interrupt: Literal["return", "raise"] = "return",
    steps: float = math.inf,
    known: Mapping[str, list[EqualPacks]] | None = None,
) -> tuple[list[EqualPacks], Proof | None]:
    """Search for the fewest packs, and prove how few there can be.

    Args:
        max_sequences_per_pack: at most this many sequences a pack, or None.
        time_limit: seconds after which the best plan and bound so far are returned.
        progress: called after every round; if it returns False, the search ends likewise. Or True for a bar, False for
            none. By default a search of more than two seconds shows a bar where stderr is a terminal.
        rounds: linear programs, or as much work of another kind, after which the search ends likewise; a busy machine
            finds the same plan as an idle one.
        on_interrupt: "return": an interrupt (Ctrl-C) ends the search likewise, with a warning; "raise" raises it.
        steps: additions of the exact knapsack, or as much work of another kind (see `Deadline`), after which the search
            ends likewise; half a billion take about a second.
        known: plans by "lpfhp" and "exact_filling" that were made already; the steps of these methods are counted as if
            they were made here.

    Returns:
        The strategies, and what proves the best bound: prices of a linear program, with a list of packs where that
        proves one more, or None if only sums prove as much (see `packlib.packing.proofs`).
    """
    most_seconds = math.inf if time_limit is None else number("time_limit", time_limit, at_least=0)
    most_rounds = math.inf if rounds is None else whole_number("rounds", rounds, 0)
    with shown(progress) as callback:
        best = Best(histogram, max_sequences_per_pack, Deadline(most_seconds, most_rounds, steps), callback)
        try:
            search(best, known)
        except KeyboardInterrupt as stop:
            if on_interrupt == "raise" or type(stop) is not KeyboardInterrupt:  # a command's own ends the command
                raise
            warning = (
                f"The search was interrupted: this is the best plan so far, of {best.num_packs:,} packs; the proven "
                f"minimum is {best.lower_bound:,}."
            )
            warnings.warn(warning, RuntimeWarning, stacklevel=3)  # where `plan` was called
        return best.strategies, best.proof


def search(best: Best, known: Mapping[str, list[EqualPacks]] | None = None) -> None:
    """Take the steps of a search until the bound is met, the deadline is over, or nothing more is found.

    Each step returns when it can gain no more, and returns at once where the bound is met or the deadline is over.
    `known` is that of `optimal`.
    """
    counts, limit = best.histogram.counts, best.limit
    lengths = int(np.count_nonzero(counts))
    few_lengths = lengths <= FEW_LENGTHS
    small_tables = not needs_relaxation(counts, limit, EXACT_STEPS if few_lengths else SMALL_STEPS)
    affordable_tables = lengths <= _MOST_LENGTHS and not needs_relaxation(counts, limit)
    # With few lengths in rows of many slots refilling has little to choose from. Without a depth limit that binds the
    # knapsack has one layer, which is soon filled.
    one_layer = exact_size(counts, limit).layers == 1
    exact_first = small_tables or (affordable_tables and few_lengths and one_layer)

    plans = start(best, exact_first, known)
    if best.done():
        return
    if exact_first:
        exact = ExactProgram(best, plans)
        if prove_exactly(exact):
            round_exactly(exact)
        refill(best, _PATIENCE)
    elif affordable_tables:
        refill(best, _FIRST_PATIENCE)
        exact = ExactProgram(best, plans[:1])  # a program of thousands of rows is slow to leave many packs
        with best.deadline.at_most(_FIRST_STEPS):
            prove_exactly(exact)
        refill(best, _PATIENCE)
        with best.deadline.at_most(_LAST_STEPS):
            if prove_exactly(exact):
                round_exactly(exact)
    else:
        refill(best, _MORE_PATIENCE)
        prove_long_rows(best)
        refill(best, _PATIENCE)


def prove_exactly(exact: ExactProgram) -> bool:
    """Solve the linear program with exact prices, and keep the bound that they prove; a second call goes on.

    Returns False if the plan meets the bound already, or the deadline was first.
    """
    if exact.done() or not exact.generate():
        return False
    if not exact.done():
        exact.sharpen()
    exact.offer_rounded_down()
    return True


def round_exactly(exact: ExactProgram) -> None:
    """Round the solution of a linear program by dives, and list packs if there are few sequences."""
    dives = Dives(exact)
    for attempt in range(_DIVES):
        if exact.done():
            return
        if attempt == _FIRST_DIVES and exact.counts.sum() <= FEW_SEQUENCES:
            list_packs(exact)
        if attempt < _FIRST_DIVES or dives.work_left > 0:
            dives.dive(attempt)
