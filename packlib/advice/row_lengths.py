"""Which row length: a dozen are tried, shorter and longer than now."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from packlib.advice.depths import best_plans
from packlib.checks import one_of, whole_number
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import MAX_LENGTH
from packlib.packing.greedy import lpfhp
from packlib.work import Work

OVERLONG = ("truncate", "drop", "split")
TRIED = [Fraction(eighths, 8) for eighths in (2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 24, 32)]  # of the length now
WORTH = 0.02  # slots for a token: for less, nobody changes the length of the rows
_AS_GOOD = 0.005  # of the best: the shortest of these is taken


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
    """

    max_length: int
    packs: int
    slots: int
    tokens: int
    overlong: int
    tokens_cut: int
    skipping: float
    dense: float

    @property
    def slots_a_token(self) -> float:
        return self.slots / self.tokens


def cut(whole: LengthHistogram, max_length: int, overlong: str = "truncate") -> LengthHistogram:
    """The lengths for rows of `max_length` slots.

    >>> from packlib.advice import cut
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


def count_cut(whole: LengthHistogram, max_length: int, overlong: str) -> tuple[int, int]:
    """Sequences that are longer than a row, and their tokens that are lost, or that go to further pieces."""
    over = whole.counts[max_length + 1 :]
    beyond = np.arange(1, len(over) + 1) + (max_length if overlong == "drop" else 0)
    return int(over.sum()), int(over @ beyond)


def try_lengths(
    whole: LengthHistogram,
    max_length: int,
    overlong: str,
    work: Work,
    causal: bool = True,
    max_sequences_per_pack: int | None = None,
    longest: int | None = None,
) -> tuple[RowLength, ...]:
    """Rows of `max_length`, and a dozen that are shorter or longer, from a quarter to four times; ascending.

    All are packed by LPFHP. That of now and the best are packed by the exact search too, where LPFHP may be far off,
    since a bad plan of the one would speak for the other.

    Args:
        work: of the model's layers, for sequences that attend to themselves.
        causal: a dense mask hides half of the pairs that it computes.
        longest: no longer rows are tried, as those that a model has no positions for.
    """
    step = 8 if max_length >= 64 else 1
    most = min(MAX_LENGTH, max(longest or MAX_LENGTH, max_length))
    tops = {max_length, *(round(max_length * part / step) * step for part in TRIED if part != 1)}

    def packed(top: int, exactly: bool = False) -> RowLength:
        rows, depth = cut(whole, top, overlong), max_sequences_per_pack
        packs = best_plans(rows, depth)[0].num_packs if exactly else sum(many for _, many in lpfhp(rows, depth))
        tokens, slots = rows.num_tokens, packs * top
        squares = float(np.arange(top + 1, dtype=np.float64) ** 2 @ rows.counts)
        pairs = (2 if causal else 1) * work.per_square * slots * top
        skipping, dense = work.per_token * slots + work.per_square * squares, work.per_token * slots + pairs
        return RowLength(
            top, packs, slots, tokens, *count_cut(whole, top, overlong), skipping / tokens, dense / tokens
        )

    possible = (top for top in sorted(tops) if 0 < top <= most)
    found = {top: packed(top) for top in possible if overlong != "drop" or whole.counts[: top + 1].any()}
    certain: set[int] = set()
    while (best := choose((*found.values(),), max_length).max_length) not in {max_length, *certain}:
        found |= {top: packed(top, exactly=True) for top in {best, max_length} - certain}
        certain |= {best, max_length}
    return (*found.values(),)


def choose(tried: tuple[RowLength, ...], max_length: int) -> RowLength:
    """The row length to take: that of now, unless another saves more than 2 % of the slots and cuts no more tokens.

    Of those that save as much as the best, but for half a percent, the shortest.
    """
    now = next(row for row in tried if row.max_length == max_length)
    allowed = [row for row in tried if row.tokens_cut <= now.tokens_cut]
    least = min(row.slots_a_token for row in allowed)
    best = next(row for row in allowed if row.slots_a_token <= (1 + _AS_GOOD) * least)
    return best if best.slots_a_token < (1 - WORTH) * now.slots_a_token else now
