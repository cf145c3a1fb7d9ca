"""The bound for long rows under a depth limit: prices that are linear between some sixty lengths.

Under a depth limit the sums of tokens and of sequences may lie up to 2 % below the fewest packs, and with thousands of
lengths the exact knapsack takes minutes. One call of `prove_long_rows` takes 0.1 to 4 s. It solves a linear program
over a few lengths (`breakpoint_program.py`), whose prices prove a bound for all (`relaxed_knapsack.py`).
"""

from packlib.packing.proofs import Prices
from packlib.packing.search.best import Best
from packlib.packing.search.bound import certified_bound
from packlib.packing.search.breakpoint_program import BreakpointProgram

_BREAKPOINTS = 60


def prove_long_rows(best: Best) -> None:
    """Under a depth limit, prove what prices that are linear between a few lengths prove."""
    if best.limit is None or best.done():
        return
    program = BreakpointProgram(best.histogram.counts, best.limit, _BREAKPOINTS)
    program.generate(best.deadline, report=lambda: best.report("pricing", len(program.master.strategies)))
    table = program.table()
    bound = certified_bound(best.histogram.counts, table, best.limit)
    if bound > best.lower_bound:
        best.prove(bound, Prices(table))
