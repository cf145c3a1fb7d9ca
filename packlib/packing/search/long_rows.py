"""Packing long rows: a linear program over a few lengths, and real packs after its solution.

With thousands of lengths up to 131,072 the exact knapsack takes minutes. Here prices are linear between some hundred
lengths (`breakpoint_program.py`), and prove a bound for the real ones. The plan follows the solution (`long_packs.py`);
then the packs that are worth less than a pack costs are packed again, some good ones with them, as long as that helps.
"""

import itertools
import time

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.filling import fill_places
from packlib.packing.greedy import EqualPacks
from packlib.packing.proofs import Prices
from packlib.packing.search.base import Search
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound
from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.long_packs import follow
from packlib.packing.search.lpt import lpt, lpt_until
from packlib.packing.search.progress import Callback

_ITEMS = 2_000_000  # sequences that are packed one by one; of more, one stands for several
_BAD = 5e-4  # of a pack: what a pack that is packed again is worth less
_GOOD = (0, 1, 3, 2, 5)  # how many good packs are packed again with each bad one: the next where one fails
_AGAIN = 8  # at most so many rounds of pricing then
_WRITING = 0.7e-6  # seconds a sequence, a guess: packing it, writing the plan down and verifying it
_STEPS_A_SEQUENCE = 100  # that is packed
_PATIENCE = 10  # attempts to better a plan without success
_WORK = 8000  # breakpoints times all attempts
_SERIES = (60, 120)  # of breakpoints
_NEAR = 2e-4  # of the bound: more breakpoints, which take longer, are for plans that do not come so near


class LongSearch(Search):
    """The best plan and bound so far, and the ways to better ones."""

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        super().__init__(histogram, max_sequences_per_pack, progress, deadline)
        self.start = lpt_until(deadline, histogram, max_sequences_per_pack)
        self.num_packs = sum(packs for _, packs in self.start)
        self.pack_of: np.ndarray | None = None  # of each of `lengths`, if that is better than the start
        # Of many sequences, from long to short, the first of every few stands for them.
        self.each = -(-histogram.num_sequences // _ITEMS)
        self.writing = histogram.num_sequences / self.each * _WRITING

    def time_left(self) -> float:
        """Seconds until the plan must be written down and verified."""
        return self.deadline.seconds_left() - self.writing

    def run(self) -> None:
        if self.num_packs == self.lower_bound or self.time_left() <= 0:
            return
        ends = -(-np.cumsum(self.counts[::-1]) // self.each)
        self.lengths = np.repeat(np.arange(self.top, -1, -1), np.diff(ends, prepend=0))
        plans = list[tuple[np.ndarray, int]]()
        for series in _SERIES:
            self.program = BreakpointProgram(self.counts, self.limit, series)
            self.master = self.program.master
            solved = self.program.generate(self.deadline, self.writing, report=lambda: self.report("pricing"))
            table = self.program.table()
            bound = certified_bound(self.counts, table, self.limit)
            if bound > self.lower_bound or (bound == self.lower_bound and self.proof is None):
                self.lower_bound, self.proof = bound, Prices(table)
            if not solved:
                return
            if self.each > 1:
                self.program.set_counts(np.bincount(self.lengths, minlength=self.top + 1))
                if not self.deadline.solve(self.master, self.program.counts, self.writing):
                    return
            if self.time_left() <= self.writing:
                return
            before = time.perf_counter()
            plans.append(self.pack(self.lengths))
            self.keep(*plans[-1])
            self.writing = 1.5 * (time.perf_counter() - before)
            plans = [self.improve(*min(plans, key=lambda plan: plan[1]), table[self.lengths] / PRICE_OF_A_PACK)]
            if self.num_packs <= (1 + _NEAR) * self.lower_bound or self.time_left() <= 0:
                return

    def improve(self, pack_of: np.ndarray, packs: int, worth: np.ndarray) -> tuple[np.ndarray, int]:
        """Pack the sequences of bad packs again, and of good ones with them where that fails; return the plan.

        Args:
            pack_of, packs: the plan so far.
            worth: the price of each of `lengths`, in packs.
        """
        draw, failures, took, prices = np.random.default_rng(0), 0, 0.0, self.program.prices
        for _ in range(_WORK // len(prices) + 1):
            if self.num_packs == self.lower_bound or failures == _PATIENCE or self.time_left() < took:
                break
            before = time.perf_counter()
            freed = np.bincount(pack_of, worth, packs) < 1 - _BAD
            more = _GOOD[failures % len(_GOOD)]
            if more:
                good = np.flatnonzero(~freed)
                freed[draw.choice(good, min(len(good), more * int(freed.sum()) + 1000), replace=False)] = True
            failures += 1
            again = freed[pack_of]
            if not again.any():
                continue
            self.program.set_counts(np.bincount(self.lengths[again], minlength=self.top + 1))
            self.program.prices = prices
            if not self.program.generate(self.deadline, self.writing, _AGAIN):
                break
            packed, number = self.pack(self.lengths[again])
            fewer = int(freed.sum()) - number
            if fewer >= 0:
                failures = 0 if fewer else failures
                pack_of = (np.cumsum(~freed) - 1)[pack_of]
                packs -= fewer
                pack_of[again] = packed + packs - number
                self.keep(pack_of, packs)
            took = time.perf_counter() - before
        return pack_of, packs

    def pack(self, lengths: np.ndarray) -> tuple[np.ndarray, int]:
        """Follow the last solution of the program: the pack of each of `lengths` (from long to short), the packs."""
        pack_of, total = follow(self.program, lengths)
        self.deadline.spend(_STEPS_A_SEQUENCE * len(lengths))
        left = lengths[pack_of < 0]
        if len(left):
            rest = lpt(LengthHistogram(np.bincount(left, minlength=self.top + 1)), self.limit)
            packs = [pack for pack, repeats in rest for _ in range(repeats)]
            ids, used = np.repeat(np.arange(len(packs)), list(map(len, packs))), np.concatenate(packs)
            pack_of[pack_of < 0] = total + ids[np.argsort(-used, kind="stable")]
        used, pack_of = np.unique(pack_of, return_inverse=True)
        return pack_of, len(used)

    def keep(self, pack_of: np.ndarray, packs: int) -> None:
        """Keep the plan if it is the best so far."""
        packs = self.each * packs
        if packs <= self.num_packs:
            self.pack_of, self.num_packs = pack_of, packs
            self.report("rounding")

    @property
    def best(self) -> list[EqualPacks]:
        """The strategies of the best plan."""
        if self.pack_of is None:
            return self.start
        ends = np.cumsum(np.bincount(self.pack_of)).tolist()
        items = self.lengths[np.argsort(self.pack_of, kind="stable")].tolist()
        packs = [(tuple(items[a:b]), self.each) for a, b in itertools.pairwise([0, *ends])]
        return packs if self.each == 1 else fill_places(packs, self.counts)[0]
