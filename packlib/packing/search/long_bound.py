"""The bound for long rows under a depth limit: prices that are linear between a few lengths, and a plan after them.

Under a depth limit the sums of tokens and of sequences may lie up to 2 % below the fewest packs, and with thousands of
lengths the exact knapsack takes minutes. One call of `prove_long_rows` takes 0.1 to 4 s. It solves a linear program
over a few lengths (`breakpoint_program.py`), whose prices prove a bound for all (`relaxed_knapsack.py`). Where the
depth limit is tight, real packs after its solution (`long_packs.py`), of which bad ones are packed again
(`packing_again.py`), are a better start than those of `lpt`.
"""

from functools import partial

import numpy as np

from packlib.packing.proofs import Prices
from packlib.packing.search.best import Best
from packlib.packing.search.bound import certified_bound
from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.packing_again import pack_again

_SERIES = (60, 120)  # breakpoints of a first linear program, and of a second if the first does not come near
_NEAR = 2e-4  # of the bound: more breakpoints, which take longer, are for plans that do not come so near
_STEPS_AGAIN = 5 * 10**9  # some ten seconds
_SEQUENCES = 2_000_000  # that are packed one by one, at most


def prove_long_rows(best: Best) -> None:
    """Keep the bound that prices of a few lengths prove under a depth limit, and offer a plan after their solution."""
    pack_of: np.ndarray | None = None  # the plan so far, as of `pack_again`
    for series in _SERIES if best.limit else ():
        if best.done() or best.num_packs <= (1 + _NEAR) * best.lower_bound:
            return
        program = BreakpointProgram(best.histogram.counts, best.limit, series)
        solved = program.generate(best.deadline, report=partial(_report, best, program))
        price_of_length = program.price_of_length()
        bound = certified_bound(best.histogram.counts, price_of_length, best.limit)
        if bound > best.lower_bound:
            best.prove(bound, Prices(price_of_length))
        if solved and not best.done() and best.histogram.num_sequences <= _SEQUENCES:
            with best.deadline.at_most(_STEPS_AGAIN):
                pack_of = pack_again(program, best, price_of_length, pack_of)


def _report(best: Best, program: BreakpointProgram) -> None:
    best.report("pricing", len(program.master.strategies))
