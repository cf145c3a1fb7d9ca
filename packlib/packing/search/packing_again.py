"""Packing bad packs again: a plan after prices, and what becomes of its packs that are worth less than a pack costs.

Real packs after a solution on a few lengths (`long_packs.py`) are good but for some. These are taken apart, the linear
program is solved for their sequences alone, and they are packed after its solution. Where that takes no fewer packs,
some good packs are taken apart with them, since bad ones alone may not mix.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import EqualPacks
from packlib.packing.search.best import Best
from packlib.packing.search.bound import PRICE_OF_A_PACK
from packlib.packing.search.breakpoint_program import BreakpointProgram
from packlib.packing.search.long_packs import follow
from packlib.packing.search.lpt import lpt
from packlib.packing.search.refilling import WRITING

_STEPS_A_SEQUENCE = 100  # of the deadline: a sequence that is packed
_BAD = 5e-4  # of a pack: a bad one is worth so much less than it costs
_GOOD = (0, 1, 3, 2, 5)  # good packs that are taken apart for each bad one: the next where one number fails
_MORE_GOOD = 1000  # and as many besides, where bad ones are few
_ROUNDS = 8  # linear programs of an attempt, at most
_PATIENCE = 10  # attempts in a row that save no pack
_WORK = 8000  # breakpoints, times all attempts


def pack_again(
    program: BreakpointProgram, best: Best, table: np.ndarray, pack_of: np.ndarray | None = None
) -> np.ndarray:
    """Offer the plan after a program's solution, and better ones, until the bound is met or no attempt saves a pack.

    Args:
        program: solved; afterwards it is one of other sequences.
        table: the prices of all lengths, after its solution.
        pack_of: a plan that is bettered instead, if it has fewer packs: of each sequence, from long to short, the pack.

    Returns:
        The plan, as `pack_of`.
    """
    lengths = best.histogram.expand()[::-1]
    after, packs = _packed_after(program, best, lengths)
    if pack_of is None or packs < pack_of.max() + 1:
        pack_of = after
    best.offer(_strategies(lengths, pack_of))
    try:
        for better in _better_plans(program, best, lengths, table[lengths] / PRICE_OF_A_PACK, pack_of):
            pack_of = better
            best.report("rounding", len(program.master.strategies))
    finally:  # after an interrupt, too; writing each plan down would take as long as an attempt
        best.offer(_strategies(lengths, pack_of))
    return pack_of


def _better_plans(
    program: BreakpointProgram, best: Best, lengths: np.ndarray, worth: np.ndarray, pack_of: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the plan after each attempt that takes no more packs, until no attempt saves a pack.

    Args:
        lengths, worth: of each sequence, from long to short; what it is worth in packs.
        pack_of: the plan to begin with, as in `pack_again`.
    """
    packs = int(pack_of.max()) + 1
    draw = np.random.default_rng(0)
    failures = 0
    prices = program.prices
    for _ in range(_WORK // len(prices) + 1):
        if packs == best.lower_bound or failures == _PATIENCE:
            return
        if best.deadline.seconds_left() <= len(lengths) * WRITING or not best.deadline.next_round():
            return
        taken_apart = _choose(np.bincount(pack_of, worth, packs) < 1 - _BAD, _GOOD[failures % len(_GOOD)], draw)
        failures += 1
        again = taken_apart[pack_of]
        if not again.any():
            continue
        program.set_counts(np.bincount(lengths[again], minlength=best.histogram.max_length + 1))
        program.prices = prices
        if not program.generate(best.deadline, rounds=_ROUNDS):
            return
        new_pack_of, new_packs = _packed_after(program, best, lengths[again])
        saved = int(taken_apart.sum()) - new_packs
        if saved < 0:
            continue
        kept = packs - int(taken_apart.sum())
        pack_of = (np.cumsum(~taken_apart) - 1)[pack_of]
        pack_of[again] = kept + new_pack_of
        packs = kept + new_packs
        if saved:
            failures = 0
        yield pack_of


def _choose(bad: np.ndarray, good_for_each: int, draw: np.random.Generator) -> np.ndarray:
    """Choose the packs that are taken apart: the bad ones, and if wanted some good ones for each; bool, a pack each."""
    chosen = bad.copy()
    if good_for_each:
        good = np.flatnonzero(~bad)
        number = min(len(good), good_for_each * int(bad.sum()) + _MORE_GOOD)
        chosen[draw.choice(good, number, replace=False)] = True
    return chosen


def _packed_after(program: BreakpointProgram, best: Best, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """Pack sequences (from long to short) after the last solution, and by `lpt` those that find no place there.

    Returns:
        The pack of each, int64, and the number of packs; none of them is empty.
    """
    best.deadline.spend(_STEPS_A_SEQUENCE * len(lengths))
    pack_of, total = follow(program, lengths)
    left = lengths[pack_of < 0]
    if len(left):
        counts = np.bincount(left, minlength=best.histogram.max_length + 1)
        rest = [pack for pack, repeats in lpt(LengthHistogram(counts), best.limit) for _ in range(repeats)]
        ids = np.repeat(np.arange(len(rest)), [len(pack) for pack in rest])
        from_long_to_short = np.argsort(-np.concatenate(rest), kind="stable")
        pack_of[pack_of < 0] = total + ids[from_long_to_short]
    used, pack_of = np.unique(pack_of, return_inverse=True)
    return pack_of, len(used)


def _strategies(lengths: np.ndarray, pack_of: np.ndarray) -> list[EqualPacks]:
    ends = np.cumsum(np.bincount(pack_of)).tolist()
    by_pack = lengths[np.argsort(pack_of, kind="stable")].tolist()
    return [(tuple(by_pack[a:b]), 1) for a, b in itertools.pairwise([0, *ends])]
