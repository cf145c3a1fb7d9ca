"""Packing long rows: a linear program over a few lengths, and real packs after its solution.

With thousands of lengths up to 131,072 the exact knapsack takes minutes. Here prices are linear between some hundred
lengths (`breakpoint_program.py`), and prove a bound for the real ones. The plan follows the solution
(`long_packs.py`); then the packs that are worth less than a pack costs are packed again, some good ones
with them, as long as that helps.
"""

import itertools
import math
import time

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.filling import fill_places
from packlib.packing.greedy import Group
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound, direct_bound
from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.long_packs import deal, place_long
from packlib.packing.search.lpt import lpt, lpt_until
from packlib.packing.search.progress import Callback, Progress

_ITEMS = 2_000_000  # sequences that are packed one by one; of more, one stands for several
_BAD = 5e-4  # of a pack: what a pack that is packed again is worth less
_GOOD = (0, 1, 3, 2, 5)  # how many good packs are packed again with each bad one: the next where one fails
_AGAIN = 8  # at most so many rounds of pricing then
_PACKING = 1e-6  # seconds a sequence, a guess; writing the plan down and verifying it takes about as long
_PATIENCE, _ATTEMPTS, _QUICK = 30, 120, 6  # to better a plan: without success, in all, and for the first plan
_HASTE = 10  # without success, where more breakpoints would come next
# Series of breakpoints, and rounds of pricing: first a quick plan, for if the time is up soon; then until no column
# helps; last more breakpoints, which take longer, where the plan does not come near.
_STAGES = ((60, 24), (60, math.inf), (120, math.inf))
_NEAR = 1e-3  # of the bound


class LongSearch:
    """The best plan and bound so far, and the ways to better ones; arguments as of `optimal`.

    What a search looks at before its deadline, one with a later deadline looks at too: its plan has no more packs and
    its bound is no lower.

    Attributes:
        proof: the prices that prove the bound, or None if `direct_bound` proves as much.
        num_packs, lower_bound: so far.
    """

    def __init__(
        self, histogram: LengthHistogram, max_sequences_per_pack: int | None, progress: Callback, deadline: Deadline
    ) -> None:
        self.progress, self.deadline = progress, deadline
        self.counts, self.limit, self.top = histogram.counts, max_sequences_per_pack, histogram.max_length
        self.start = lpt_until(deadline, histogram, max_sequences_per_pack)
        self.num_packs = sum(packs for _, packs in self.start)
        self.lower_bound = direct_bound(self.counts, max_sequences_per_pack)
        self.proof: np.ndarray | None = None
        self.listed = False
        self.each = -(-histogram.num_sequences // _ITEMS)
        # seconds that it takes to pack all, and then to write the plan down and verify it: guesses at first
        self.packing = self.writing = min(histogram.num_sequences, _ITEMS) * _PACKING
        self.pack_of: np.ndarray | None = None  # of each of `lengths`, if that is better than the start

    def time_left(self) -> float:
        """Seconds until the plan must be written down and verified."""
        return self.deadline.seconds_left() - self.writing

    def report(self, stage: str) -> None:
        if self.progress:
            columns = len(self.program.master.strategies)
            now = Progress(stage, columns, self.num_packs, self.lower_bound, self.deadline.seconds())
            if self.progress(now) is False:
                self.deadline.stop()

    def run(self) -> None:
        if self.num_packs == self.lower_bound or self.time_left() <= 0:
            return
        # Of many sequences, from long to short, the first of every few stands for them.
        ends = -(-np.cumsum(self.counts[::-1]) // self.each)
        self.lengths = np.repeat(np.arange(self.top, -1, -1), np.diff(ends, prepend=0))
        best: tuple[np.ndarray, int] | None = None
        solved = 0
        for series, rounds in _STAGES:
            if series == solved:
                continue
            self.program = BreakpointProgram(self.counts, self.limit, series)
            if not self.program.generate(self.deadline, self.writing, rounds, lambda: self.report("pricing")):
                return
            packed = self.prove_and_pack()
            if packed is None:
                return
            worth = self.program.table()[self.lengths] / PRICE_OF_A_PACK
            if not self.program.solved:
                self.improve(*packed, worth, _QUICK, _QUICK)
                continue
            solved, best = series, min(packed, best or packed, key=lambda plan: plan[1])
            last = series == _STAGES[-1][0] or len(self.program.breakpoints) == np.count_nonzero(self.counts)
            best = self.improve(*best, worth, _ATTEMPTS, _PATIENCE if last else _HASTE)
            if last or self.near() or self.time_left() <= 0:
                return

    def near(self) -> bool:
        return self.num_packs <= (1 + _NEAR) * self.lower_bound

    def prove_and_pack(self) -> tuple[np.ndarray, int] | None:
        """What the prices and the solution of the program are good for: a bound, and a plan; None without time."""
        self.prices: np.ndarray = self.program.prices
        table = self.program.table()
        bound = certified_bound(self.counts, table, self.limit)
        if bound > self.lower_bound:
            self.lower_bound, self.proof = bound, table
        if self.each > 1:
            self.program.set_counts(np.bincount(self.lengths, minlength=self.top + 1))
            if not self.deadline.solve(self.program.master, self.program.counts, self.writing):
                return None
        if self.time_left() <= self.packing:
            return None
        before = time.perf_counter()
        packed = self.pack(self.lengths)
        self.packing = time.perf_counter() - before
        self.writing = 1.5 * self.packing
        self.keep(*packed)
        return packed

    def improve(
        self, pack_of: np.ndarray, packs: int, worth: np.ndarray, most: int, patience: int
    ) -> tuple[np.ndarray, int]:
        """Pack the sequences of bad packs again, and of good ones with them where that fails; return the plan.

        Args:
            pack_of, packs: the plan so far.
            worth: the price of each of `lengths`, in packs.
            most: attempts in all.
            patience: attempts without success, where the plan is not near its bound.
        """
        draw, tries, failures, took = np.random.default_rng(0), 0, 0, 0.0
        while self.each * packs > self.lower_bound and tries < most:
            if failures >= (_PATIENCE if self.near() else patience) or self.time_left() < took:
                break
            before = time.perf_counter()
            freed = np.bincount(pack_of, worth, packs) < 1 - _BAD
            more = _GOOD[failures % len(_GOOD)]
            if more:
                good = np.flatnonzero(~freed)
                freed[draw.choice(good, min(len(good), more * int(freed.sum()) + 1000), replace=False)] = True
            tries, failures = tries + 1, failures + 1
            again = freed[pack_of]
            if not again.any():
                continue
            self.program.set_counts(np.bincount(self.lengths[again], minlength=self.top + 1))
            self.program.prices = self.prices
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

    def keep(self, pack_of: np.ndarray, packs: int) -> None:
        """Keep the plan if it is the best so far."""
        if self.each * packs <= self.num_packs:
            self.pack_of, self.num_packs = pack_of, self.each * packs
            self.report("rounding")

    def pack(self, lengths: np.ndarray) -> tuple[np.ndarray, int]:
        """Follow the last solution of the program: the pack of each of `lengths` (from long to short), the packs."""
        pack_of, room, places, wanted = place_long(lengths, self.program)
        deal(lengths, pack_of, room, places, wanted)
        left = lengths[pack_of < 0]
        if len(left):
            pack_of[pack_of < 0] = len(room) + self.greedily(left)
        used, pack_of = np.unique(pack_of, return_inverse=True)
        return pack_of, len(used)

    def greedily(self, lengths: np.ndarray) -> np.ndarray:
        """The pack of each of these sequences (from long to short)."""
        best = lpt(LengthHistogram(np.bincount(lengths, minlength=self.top + 1)), self.limit)
        ends = np.cumsum([packs for _, packs in best])
        used = np.concatenate([np.tile(pack, packs) for pack, packs in best])
        ids = [np.arange(end - packs, end).repeat(len(pack)) for (pack, packs), end in zip(best, ends, strict=True)]
        return np.concatenate(ids)[np.argsort(-used, kind="stable")]

    @property
    def best(self) -> list[Group]:
        """The strategies of the best plan."""
        if self.pack_of is None:
            return self.start
        order, sizes = np.argsort(self.pack_of, kind="stable"), np.bincount(self.pack_of)
        items, ends = self.lengths[order].tolist(), np.cumsum(sizes).tolist()
        packs = [(tuple(items[a:b]), self.each) for a, b in itertools.pairwise([0, *ends])]
        return packs if self.each == 1 else fill_places(packs, self.counts)[0]
