"""Which row length: a dozen are tried, shorter and longer than now."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from packlib.checks import one_of, whole_number
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import MAX_LENGTH
from packlib.packing import PackingPlan
from packlib.packing.greedy import lpfhp
from packlib.tools.advice.depths import ROUNDS, best_plans
from packlib.work import Work

Overlong = Literal["truncate", "drop", "split"]
OVERLONG: tuple[Overlong, ...] = get_args(Overlong)
TRIED = [eighths / 8 for eighths in (2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 24, 32)]  # of the length now
WORTH = 0.02  # slots for a token: for less, nobody changes the length of the rows
_AS_GOOD = 0.005  # of the best: the shortest of these is taken
_MUCH = 0.01  # of the tokens: more that are cut ask for longer rows
_FEW = 4096  # different lengths: up to so many, LPFHP takes milliseconds


@dataclass(frozen=True)
class RowLength:
    """What rows of one length would take.

    Attributes:
        max_length: slots of a row.
        packs, slots: of one pass over the data.
        tokens: that are kept.
        overlong: sequences that are longer than a row.
        tokens_cut: lost with them, or cut off into further pieces.
        skipping, dense: the work for a kept token, in units of `Work`, with attention that skips what lies between
            sequences, and with a dense mask.
        counted: whether the packs were really made; otherwise the rows are taken to be full, and `packs`, `slots` and
            the work are lower bounds.
    """

    max_length: int
    packs: int
    slots: int
    tokens: int
    overlong: int
    tokens_cut: int
    skipping: float
    dense: float
    counted: bool

    @property
    def slots_a_token(self) -> float:
        return self.slots / self.tokens


def cut(whole: LengthHistogram, max_length: int, overlong: Overlong = "truncate") -> LengthHistogram:
    """The lengths for rows of `max_length` slots.

    >>> from packlib.tools.advice import cut
    >>> from packlib.lengths import LengthHistogram
    >>> cut(LengthHistogram.from_lengths([3, 10]), 4, "split").expand()
    array([2, 3, 4, 4])

    Args:
        overlong: "truncate" longer sequences, "drop" them, or "split" them into full rows and a rest.

    Raises:
        ValueError: if no sequence is short enough to stay.
    """
    one_of("overlong", overlong, OVERLONG)
    top = whole_number("max_length", max_length, 1, MAX_LENGTH)
    if overlong == "split":
        lengths, counts = np.arange(len(whole.counts)), np.zeros(top + 1, np.int64)
        np.add.at(counts, lengths % top, whole.counts)
        counts[0] = 0
        counts[top] += (lengths // top) @ whole.counts
        return replace(whole, counts=counts, max_length=top)
    if overlong == "drop" and not whole.counts[: top + 1].any():
        count = f"All {whole.num_sequences:,} sequences of {whole.name}"
        raise ValueError(f'{count} are longer than {top} tokens: overlong="drop" leaves none.')
    return whole.with_max_length(top, overlong)


def count_cut(whole: LengthHistogram, max_length: int, overlong: Overlong) -> tuple[int, int]:
    """Sequences that are longer than a row, and their tokens that are lost, or that go to further pieces."""
    over = whole.counts[max_length + 1 :]
    beyond = np.arange(1, len(over) + 1) + (max_length if overlong == "drop" else 0)
    return int(over.sum()), int(over @ beyond)


def try_lengths(
    whole: LengthHistogram,
    max_length: int,
    overlong: Overlong,
    work: Work,
    causal: bool = True,
    max_sequences_per_pack: int | None = None,
    longest: int | None = None,
    rounds: int | None = ROUNDS,
) -> tuple[tuple[RowLength, ...], dict[int, list[PackingPlan]]]:
    """Rows of `max_length`, and a dozen that are shorter or longer, from a quarter to four times; ascending.

    Today's row length and the best one get the best plan that can be found, since a bad plan for either would favor the
    other. All others are packed by LPFHP. Where there are many different lengths, that takes long: then only those are
    packed that would be chosen if their rows were full, and the shortest that cuts far fewer tokens.

    Args:
        work: of the model's layers, for sequences that attend to themselves.
        causal: a dense mask hides half of the pairs that it computes.
        longest: the longest row to try above `max_length`, such as the positions that a model has; None for no limit.
        rounds: of the exact search.

    Returns:
        The rows, and the plans of those that were planned, by their length.
    """
    depth, plans = max_sequences_per_pack, {}
    few = np.count_nonzero(whole.counts) <= _FEW

    def row(top: int, packs: int | None = None) -> RowLength:
        """Rows of one length; full ones, unless `packs` are counted."""
        rows = cut(whole, top, overlong)
        tokens, counted = rows.num_tokens, packs is not None
        packs = -(-tokens // top) if packs is None else packs
        slots = packs * top
        squares = float(np.arange(top + 1, dtype=np.float64) ** 2 @ rows.counts)
        pairs = (2 if causal else 1) * work.per_square * slots * top
        skipping, dense = work.per_token * slots + work.per_square * squares, work.per_token * slots + pairs
        over = count_cut(whole, top, overlong)
        return RowLength(top, packs, slots, tokens, *over, skipping / tokens, dense / tokens, counted)

    def packed(top: int) -> RowLength:
        return row(top, sum(count for _, count in lpfhp(cut(whole, top, overlong), depth)))

    def planned(top: int) -> RowLength:
        plans[top] = best_plans(cut(whole, top, overlong), depth, rounds)
        return row(top, plans[top][0].num_packs)

    now = planned(max_length)
    found = {max_length: now}
    for top in _others(max_length, min(MAX_LENGTH, max(longest or MAX_LENGTH, max_length))):
        if overlong != "drop" or whole.counts[: top + 1].any():
            full = row(top)
            found[top] = packed(top) if few or _saves(full, now) else full
    found = dict(sorted(found.items()))
    if (less := cuts_less((*found.values(),), now, whole.num_tokens)) and not less.counted:
        found[less.max_length] = packed(less.max_length)
    while (best := choose((*found.values(),), max_length).max_length) not in plans:
        found[best] = planned(best)
    return (*found.values(),), plans


def _others(max_length: int, most: int) -> list[int]:
    """The row lengths to try, without that of now."""
    step = 8 if max_length >= 64 else 1
    tops = {round(max_length * part / step) * step for part in TRIED} - {max_length}
    return [top for top in tops if 0 < top <= most]


def _saves(row: RowLength, now: RowLength) -> bool:
    """Whether a row length is worth taking instead of today's."""
    return row.tokens_cut <= now.tokens_cut and row.slots_a_token < (1 - WORTH) * now.slots_a_token


def cuts_less(tried: tuple[RowLength, ...], now: RowLength, all_tokens: int) -> RowLength | None:
    """The shortest row that cuts at most half as many tokens as that of now, or the longest; None if few are cut."""
    if now.tokens_cut <= _MUCH * all_tokens:
        return None
    row = next((row for row in tried if row.tokens_cut <= now.tokens_cut / 2), tried[-1])
    return row if row.tokens_cut < now.tokens_cut else None


def choose(tried: tuple[RowLength, ...], max_length: int) -> RowLength:
    """The row length to take: that of now, unless another saves more than 2 % of the slots and cuts no more tokens.

    Of those that save as much as the best, but for half a percent, the shortest.
    """
    now = next(row for row in tried if row.max_length == max_length)
    allowed = [row for row in tried if row.counted and row.tokens_cut <= now.tokens_cut]
    least = min(row.slots_a_token for row in allowed)
    best = next(row for row in allowed if row.slots_a_token <= (1 + _AS_GOOD) * least)
    return best if _saves(best, now) else now
