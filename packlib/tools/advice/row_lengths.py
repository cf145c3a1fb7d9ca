"""Which row length: a dozen are tried, shorter and longer than now, and the least work for a token counts."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.lengths.counting import MAX_LENGTH
from packlib.lengths.overlong import CutRule
from packlib.packing import Method, PackingPlan
from packlib.packing.greedy import lpfhp, number_of_packs
from packlib.packing.rounding import rounded_up
from packlib.tools.advice.depths import quick_plan
from packlib.work import Work

Form = Literal["bounds", "dense"]  # what tells the model where sequences end: their bounds, or a mask of all pairs
FORMS: tuple[Form, ...] = get_args(Form)
TRIED = [eighths / 8 for eighths in (2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 24, 32)]  # of the length now
WORTH = 0.02  # of the work for a token, or of the slots of a pass: nobody changes anything for less
SAVED = 0.05  # of the work: for less, no special kernel is worth its trouble
LOSSY = 0.02  # of the tokens: if more are beyond the rows, what becomes of them is decided first


@dataclass(frozen=True)
class RowLength:
    """Packs, slots and work of rows of one length.

    Attributes:
        max_length: slots of a row.
        packs, slots: of one pass over the data.
        tokens: that are kept.
        overlong: sequences that are longer than a row.
        tokens_cut: lost with them, or cut off into further pieces.
        skipping, dense: the work for a kept token, in units of `Work`, with attention that skips what lies between
            sequences, and with a dense mask.
        rounded: whether lengths were rounded up for the packs, as `rounded_up` does where very many differ.
    """

    max_length: int
    packs: int
    slots: int
    tokens: int
    overlong: int
    tokens_cut: int
    skipping: float
    dense: float
    rounded: bool

    @property
    def slots_a_token(self) -> float:
        return self.slots / self.tokens

    def work(self, form: Form) -> float:
        """Return the work for a kept token, in the form that the model gets."""
        return self.skipping if form == "bounds" else self.dense


def count_cut(whole: LengthHistogram, max_length: int, overlong: CutRule) -> tuple[int, int]:
    """Count the sequences that are longer than a row, and their tokens that are lost, or that go to further pieces."""
    sequences_over = whole.counts[max_length + 1 :]
    tokens_beyond = np.arange(1, len(sequences_over) + 1) + (max_length if overlong == "drop" else 0)
    return int(sequences_over.sum()), int(sequences_over @ tokens_beyond)


def count_row(
    whole: LengthHistogram,
    rows: LengthHistogram,
    overlong: CutRule,
    work: Work,
    causal: bool,
    packs: int,
    rounded: bool = False,
) -> RowLength:
    """Count what rows of one length hold and cost.

    Args:
        rows: `whole`, for rows of that length.
        overlong, work, causal, packs, rounded: as of `try_lengths` and `RowLength`.
    """
    max_length, tokens = rows.max_length, rows.num_tokens
    slots = packs * max_length
    squares = float(np.arange(max_length + 1, dtype=np.float64) ** 2 @ rows.counts)
    pairs = (2 if causal else 1) * work.per_square * slots * max_length
    skipping, dense = work.per_token * slots + work.per_square * squares, work.per_token * slots + pairs
    over = count_cut(whole, max_length, overlong)
    return RowLength(max_length, packs, slots, tokens, *over, skipping / tokens, dense / tokens, rounded)


def try_lengths(
    whole: LengthHistogram,
    max_length: int,
    overlong: CutRule,
    work: Work,
    causal: bool = True,
    max_sequences_per_pack: int | None = None,
    longest: int | None = None,
    method: Method = "auto",
) -> tuple[tuple[RowLength, ...], dict[int, PackingPlan]]:
    """Try rows of `max_length`, and a dozen that are shorter or longer, from a quarter to four times; ascending.

    Today's row length and the best one of each form get the best plan of the fast methods, since a bad plan for one
    would favor another. All others are packed by LPFHP. Where there are many different lengths, that takes long: then
    the lengths of `rounded_up` are packed, unless `method` is another than "auto".

    Args:
        work: of the model's layers, for sequences that attend to themselves.
        causal: a dense mask hides half of the pairs that it computes.
        longest: the longest row to try above `max_length`, such as the positions that a model has; None for no limit.
        method: of the plans, as in `packlib.packing.plan`.

    Returns:
        The rows, from short to long, and the plans of those that were planned, by their length.
    """
    depth, plans = max_sequences_per_pack, {}

    def to_pack(rows: LengthHistogram) -> LengthHistogram:
        return rounded_up(rows) if method == "auto" else rows

    def packed(top: int) -> RowLength:
        rows = whole.with_max_length(top, overlong)
        lengths = to_pack(rows)
        packs = number_of_packs(lpfhp(lengths, depth))
        return count_row(whole, rows, overlong, work, causal, packs, lengths is not rows)

    def planned(top: int) -> RowLength:
        rows = whole.with_max_length(top, overlong)
        lengths = to_pack(rows)
        plans[top] = quick_plan(lengths, depth, method)
        return count_row(whole, rows, overlong, work, causal, plans[top].num_packs, lengths is not rows)

    rows_tried = {max_length: planned(max_length)}
    for top in _others(whole, max_length, min(MAX_LENGTH, max(longest or MAX_LENGTH, max_length))):
        if overlong != "drop" or whole.counts[: top + 1].any():
            rows_tried[top] = packed(top)
    rows_tried = dict(sorted(rows_tried.items()))
    while best := {choose((*rows_tried.values(),), max_length, form).max_length for form in FORMS} - plans.keys():
        rows_tried[min(best)] = planned(min(best))
    return (*rows_tried.values(),), plans


def _others(whole: LengthHistogram, max_length: int, longest_row: int) -> list[int]:
    """List the row lengths to try beside that of now: parts of it, and rows for one and two of the longest sequence."""
    step = 8 if max_length >= 64 else 1
    longest_sequence = int(whole.counts.nonzero()[0][-1])
    tops = {round(max_length * part / step) * step for part in TRIED}
    tops |= {
        top
        for top in (-(-longest_sequence // step) * step, -(-2 * longest_sequence // step) * step)
        if min(tops) <= top <= max(tops)
    }
    return sorted(top for top in tops - {max_length} if 0 < top <= longest_row)


def cuts_less(tried: tuple[RowLength, ...], now: RowLength, all_tokens: int) -> RowLength | None:
    """Return the shortest row that cuts at most 2 % of the tokens, or else the one that cuts least, if half at most.

    None if there is none, or if `now` cuts so few.
    """
    if now.tokens_cut <= LOSSY * all_tokens:
        return None
    row = next((row for row in tried if row.tokens_cut <= LOSSY * all_tokens), tried[-1])
    return row if 2 * row.tokens_cut <= now.tokens_cut else None


def allowed(tried: tuple[RowLength, ...], max_length: int) -> list[RowLength]:
    """List the rows that cut no more tokens than that of now."""
    now = next(row for row in tried if row.max_length == max_length)
    return [row for row in tried if row.tokens_cut <= now.tokens_cut]


def choose(tried: tuple[RowLength, ...], max_length: int, form: Form) -> RowLength:
    """Choose the row length: the shortest within 2 % of the least work, of those that cut no more tokens than now."""
    rows = allowed(tried, max_length)
    least = min(row.work(form) for row in rows)
    return next(row for row in rows if row.work(form) <= (1 + WORTH) * least)


def form_of(tried: tuple[RowLength, ...], max_length: int) -> Form:
    """Choose the form: a dense mask, unless bounds save over 5 % of its work, each in the row length to take."""
    bounds, dense = (choose(tried, max_length, form) for form in FORMS)
    return "bounds" if 1 - bounds.skipping / dense.dense >= SAVED else "dense"


def next_best(tried: tuple[RowLength, ...], max_length: int, form: Form, chosen: RowLength) -> RowLength | None:
    """Return the best of the other rows that cut no more tokens than now; None if there is none."""
    other_rows = [row for row in allowed(tried, max_length) if row is not chosen]
    return min(other_rows, key=lambda row: row.work(form), default=None)
