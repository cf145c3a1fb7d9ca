"""Packing bad packs again: the packs of a plan whose sequences are worth less, at its prices, than a pack costs.

Packs that follow a solution on a few lengths (`long_packs.py`) are good but for some. These are taken apart, the linear
program is solved for their sequences alone, and the sequences are packed as this solution says. Where that takes no
fewer packs, some good packs are taken apart with the bad ones, since bad ones alone may not mix.
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
_GOOD = (0, 1, 3, 2, 5)  # good packs that are taken apart for each bad one: after each failure the next number
_MORE_GOOD = 1000  # good packs besides, in an attempt that takes any, so that there are enough where bad ones are few
_ROUNDS = 8  # linear programs of an attempt, at most
_PATIENCE = 10  # attempts in a row that save no pack
_WORK = 8000  # breakpoints, times all attempts


def pack_again(
    program: BreakpointProgram, best: Best, price_of_length: np.ndarray, pack_of: np.ndarray | None = None
) -> np.ndarray:
    """Offer the plan of a program's solution, and better ones, until the bound is met or no attempt saves a pack.

    Args:
        program: a program that was solved; afterwards it is one of other sequences.
        price_of_length: the prices of all lengths, after its solution; int64, shape (max_length + 1,).
        pack_of: another plan, which is bettered instead if it has fewer packs: the pack of each sequence, from long to
            short; int64, shape (sequences,).

    Returns:
        The best plan of these, as `pack_of`.
    """
    lengths = best.histogram.expand()[::-1]
    by_solution, packs = _packed_by_solution(program, best, lengths)
    if pack_of is None or packs < pack_of.max() + 1:
        pack_of = by_solution
    best.offer(_strategies(lengths, pack_of))
    try:
        sequence_prices = price_of_length[lengths] / PRICE_OF_A_PACK
        for better in _better_plans(program, best, lengths, sequence_prices, pack_of):
            pack_of = better
            best.report("rounding", len(program.master.strategies))
    finally:  # after an interrupt, too; writing each plan down would take as long as an attempt
        best.offer(_strategies(lengths, pack_of))
    return pack_of


def _better_plans(
    program: BreakpointProgram, best: Best, lengths: np.ndarray, sequence_prices: np.ndarray, pack_of: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the plan after each attempt that takes no more packs, until the bound is met or no attempt saves a pack.

    Args:
        lengths, sequence_prices: the length of each sequence, from long to short, and its price, in packs.
        pack_of: the plan to begin with, as in `pack_again`.
    """
    packs = int(pack_of.max()) + 1
    draw = np.random.default_rng(0)
    failures = 0  # attempts in a row that saved no pack
    prices = program.prices
    for _ in range(_WORK // len(prices) + 1):
        if packs == best.lower_bound or failures == _PATIENCE:
            return
        if best.deadline.seconds_left() <= len(lengths) * WRITING or not best.deadline.next_round():
            return
        value_of_pack = np.bincount(pack_of, sequence_prices, packs)
        is_bad = value_of_pack < 1 - _BAD
        is_taken_apart = _with_good_packs(is_bad, _GOOD[failures % len(_GOOD)], draw)
        failures += 1
        again = is_taken_apart[pack_of]  # for each sequence, whether it is packed again
        if not again.any():
            continue
        program.set_counts(np.bincount(lengths[again], minlength=best.histogram.max_length + 1))
        program.prices = prices
        if not program.generate(best.deadline, rounds=_ROUNDS):
            return
        new_pack_of, new_packs = _packed_by_solution(program, best, lengths[again])
        packs_taken_apart = int(is_taken_apart.sum())
        if new_packs > packs_taken_apart:
            continue
        if new_packs < packs_taken_apart:
            failures = 0
        # the other packs are numbered anew, from 0 up; the new ones follow
        other_packs = packs - packs_taken_apart
        new_number = np.cumsum(~is_taken_apart) - 1
        pack_of = new_number[pack_of]
        pack_of[again] = other_packs + new_pack_of
        packs = other_packs + new_packs
        yield pack_of


def _with_good_packs(is_bad: np.ndarray, good_for_each: int, draw: np.random.Generator) -> np.ndarray:
    """Choose the packs that are taken apart: the bad ones, and for each bad one some good ones, if any are wanted.

    Args:
        is_bad: for each pack, whether it is bad; bool, shape (packs,).
        good_for_each: good packs for each bad one.

    Returns:
        For each pack, whether it is taken apart; bool, same shape.
    """
    is_taken_apart = is_bad.copy()
    if good_for_each:
        good = np.flatnonzero(~is_bad)
        number = min(len(good), good_for_each * int(is_bad.sum()) + _MORE_GOOD)
        is_taken_apart[draw.choice(good, number, replace=False)] = True
    return is_taken_apart


def _packed_by_solution(program: BreakpointProgram, best: Best, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    """Pack sequences as the program's last solution says, and by `lpt` those that find no place there.

    Args:
        lengths: the length of each sequence, from long to short; int64, shape (sequences,).

    Returns:
        The pack of each, int64, shape (sequences,), and the number of packs; none of them is empty.
    """
    best.deadline.spend(_STEPS_A_SEQUENCE * len(lengths))
    pack_of, packs = follow(program, lengths)
    has_no_pack = pack_of < 0
    if has_no_pack.any():
        counts = np.bincount(lengths[has_no_pack], minlength=best.histogram.max_length + 1)
        more_packs = [pack for pack, repeats in lpt(LengthHistogram(counts), best.limit) for _ in range(repeats)]
        number_of_pack = np.repeat(np.arange(len(more_packs)), [len(pack) for pack in more_packs])  # by sequence
        from_long_to_short = np.argsort(-np.concatenate(more_packs), kind="stable")
        pack_of[has_no_pack] = packs + number_of_pack[from_long_to_short]
    numbers, pack_of = np.unique(pack_of, return_inverse=True)  # numbers the packs anew, without the empty ones
    return pack_of, len(numbers)


def _strategies(lengths: np.ndarray, pack_of: np.ndarray) -> list[EqualPacks]:
    """List the lengths in each pack; arguments are as of `_better_plans`."""
    ends = np.cumsum(np.bincount(pack_of)).tolist()
    by_pack = lengths[np.argsort(pack_of, kind="stable")].tolist()
    return [(tuple(by_pack[start:end]), 1) for start, end in itertools.pairwise([0, *ends])]
