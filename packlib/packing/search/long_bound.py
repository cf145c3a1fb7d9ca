"""The bound for long rows under a depth limit: prices that are linear between a few lengths, and a plan after them.

Under a depth limit the sums of tokens and of sequences may lie up to 2 % below the fewest packs, and with thousands of
lengths the exact knapsack takes minutes. One call of `prove_long_rows` takes 0.1 to 4 s. It solves a linear program
over a few lengths (`breakpoint_program.py`), whose prices prove a bound for all (`relaxed_knapsack.py`). Where the
depth limit is tight, real packs after its solution (`long_packs.py`) are a better start than those of `lpt`.
"""

import itertools
from functools import partial

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks
from packlib.packing.proofs import Prices
from packlib.packing.search.best import Best
from packlib.packing.search.bound import certified_bound
from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.long_packs import follow
from packlib.packing.search.lpt import lpt

_BREAKPOINTS = (60, 120)
_NEAR = 2e-4  # of the bound: more breakpoints, which take longer, are for plans that do not come so near
_SEQUENCES = 2_000_000  # that are packed one by one, at most
_STEPS_A_SEQUENCE = 100  # that is packed


def prove_long_rows(best: Best) -> None:
    """Under a depth limit, prove what prices of a few lengths prove, and offer a plan after their solution."""
    for breakpoints in _BREAKPOINTS if best.limit else ():
        if best.done() or best.num_packs <= (1 + _NEAR) * best.lower_bound:
            return
        program = BreakpointProgram(best.histogram.counts, best.limit, breakpoints)
        solved = program.generate(best.deadline, report=partial(_report, best, program))
        table = program.table()
        bound = certified_bound(best.histogram.counts, table, best.limit)
        if bound > best.lower_bound:
            best.prove(bound, Prices(table))
        if solved and not best.done() and best.histogram.num_sequences <= _SEQUENCES:
            best.offer(_plan_after(program, best))
            _report(best, program)


def _report(best: Best, program: BreakpointProgram) -> None:
    best.report("pricing", len(program.master.strategies))


def _plan_after(program: BreakpointProgram, best: Best) -> list[EqualPacks]:
    """Pack the sequences as the solution says, and by `lpt` those that find no place there."""
    best.deadline.spend(_STEPS_A_SEQUENCE * best.histogram.num_sequences)
    lengths = best.histogram.expand()[::-1]
    pack_of, _ = follow(program, lengths)
    placed = pack_of >= 0
    ends = np.cumsum(np.bincount(pack_of[placed])).tolist()
    items = lengths[placed][np.argsort(pack_of[placed], kind="stable")].tolist()
    packs: list[EqualPacks] = [(tuple(items[a:b]), 1) for a, b in itertools.pairwise([0, *ends]) if b > a]
    left = np.bincount(lengths[~placed], minlength=best.histogram.max_length + 1)
    return packs + (lpt(LengthHistogram(left), best.limit) if left.any() else [])
