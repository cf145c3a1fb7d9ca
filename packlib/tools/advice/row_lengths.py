"""The row length: about a dozen are tried, shorter and longer than today's, to find the least work per token."""

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
TRIED = [eighths / 8 for eighths in (2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 24, 32)]  # multiples of today's length
WORTH = 0.02  # of the work per token, or of the slots of a pass: a smaller saving is not worth a change
SAVED = 0.05  # of the layers' work: a smaller saving is not worth a special kernel
LOSSY = 0.02  # of the tokens: if more are beyond the rows, the rule for longer sequences is decided first


@dataclass(frozen=True)
class RowLength:
    """Packs, slots and work of rows of one length.

    Attributes:
        max_length: slots of a row.
        packs, slots: number of each in one pass over the data.
        tokens: number of tokens that are kept.
        overlong: number of sequences that are longer than a row.
        tokens_cut: number of their tokens that are lost, or moved to further pieces.
        skipping: work per kept token, in FLOP of the layers, with attention that skips pairs of different sequences.
        dense: work per kept token with a dense mask, which computes all pairs.
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
        """Slots per kept token, 1 or more."""
        return self.slots / self.tokens

    def work(self, form: Form) -> float:
        """Return the work per kept token with this form of attention."""
        return self.skipping if form == "bounds" else self.dense


def count_cut(whole: LengthHistogram, max_length: int, overlong: CutRule) -> tuple[int, int]:
    """Return the number of sequences that are longer than a row, and of their tokens that the rule cuts.

    "truncate" and "split" cut the tokens behind `max_length`, "drop" cuts all.
    """
    counts = whole.counts[max_length + 1 :]  # of sequences with 1, 2, … tokens more than a row
    tokens_cut = np.arange(1, len(counts) + 1) + (max_length if overlong == "drop" else 0)
    return int(counts.sum()), int(counts @ tokens_cut)


def count_row(
    whole: LengthHistogram,
    rows: LengthHistogram,
    overlong: CutRule,
    work: Work,
    causal: bool,
    packs: int,
    rounded: bool = False,
) -> RowLength:
    """Return the packs, slots and work of rows of one length.

    Args:
        whole: the lengths before any cut.
        rows: the same lengths, cut to rows of that length.
        overlong, work, causal: as in `try_lengths`.
        packs, rounded: as in `RowLength`.
    """
    max_length, tokens = rows.max_length, rows.num_tokens
    slots = packs * max_length
    squared_lengths = float(np.arange(max_length + 1, dtype=np.float64) ** 2 @ rows.counts)
    # `work` counts, of a causal model, half of the pairs; a dense mask computes all of them.
    work_of_all_pairs = (2 if causal else 1) * work.per_square * slots * max_length
    num_overlong, tokens_cut = count_cut(whole, max_length, overlong)
    return RowLength(
        max_length,
        packs,
        slots,
        tokens,
        num_overlong,
        tokens_cut,
        skipping=(work.per_token * slots + work.per_square * squared_lengths) / tokens,
        dense=(work.per_token * slots + work_of_all_pairs) / tokens,
        rounded=rounded,
    )


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
    """Try rows of `max_length`, and about a dozen other lengths, from a quarter of it to four times as long.

    Today's row length and the best length of each form get the best plan of the fast methods, since a bad plan for one
    would favor another. All others are packed by LPFHP. Where very many lengths differ, that takes long: then the
    lengths of `rounded_up` are packed, unless `method` is another than "auto".

    Args:
        whole: the lengths before any cut.
        max_length: slots of a row today.
        overlong: what becomes of sequences that are longer than a row.
        work: of the model's layers, for sequences that attend to themselves.
        causal: whether a token sees only earlier ones, so that a dense mask hides half of the pairs that it computes.
        longest: the longest row to try above `max_length`, such as the positions that a model has; None for no limit.
        method: of the plans, as in `packlib.packing.plan`.

    Returns:
        The rows, from short to long; and, by row length, the plans of those that got one.
    """
    depth = max_sequences_per_pack
    plans: dict[int, PackingPlan] = {}

    def packed(row_length: int, planned: bool) -> RowLength:
        """Pack rows of this length: with a plan that is kept in `plans`, or by LPFHP alone, which is faster."""
        rows = whole.with_max_length(row_length, overlong)
        lengths = rounded_up(rows) if method == "auto" else rows
        if planned:
            plans[row_length] = quick_plan(lengths, depth, method)
            packs = plans[row_length].num_packs
        else:
            packs = number_of_packs(lpfhp(lengths, depth))
        return count_row(whole, rows, overlong, work, causal, packs, rounded=lengths is not rows)

    rows_by_length = {max_length: packed(max_length, planned=True)}
    for row_length in _other_lengths(whole, max_length, min(MAX_LENGTH, max(longest or MAX_LENGTH, max_length))):
        if overlong != "drop" or whole.counts[: row_length + 1].any():  # or else all sequences would be dropped
            rows_by_length[row_length] = packed(row_length, planned=False)
    rows_by_length = dict(sorted(rows_by_length.items()))
    while True:  # a better plan for one length may change which lengths are best
        rows = tuple(rows_by_length.values())
        best_without_plan = {choose(rows, max_length, form).max_length for form in FORMS} - plans.keys()
        if not best_without_plan:
            return rows, plans
        row_length = min(best_without_plan)
        rows_by_length[row_length] = packed(row_length, planned=True)


def _other_lengths(whole: LengthHistogram, max_length: int, longest_row: int) -> list[int]:
    """Return the row lengths to try next to today's: multiples of it, and rows for one or two longest sequences."""
    step = 8 if max_length >= 64 else 1  # row lengths are multiples of this
    lengths = {round(max_length * multiple / step) * step for multiple in TRIED}
    shortest, longest = min(lengths), max(lengths)
    longest_sequence = int(whole.counts.nonzero()[0][-1])
    for tokens in (longest_sequence, 2 * longest_sequence):
        row_length = -(-tokens // step) * step  # rounded up
        if shortest <= row_length <= longest:
            lengths.add(row_length)
    return sorted(length for length in lengths - {max_length} if 0 < length <= longest_row)


def cuts_less(tried: tuple[RowLength, ...], now: RowLength, all_tokens: int) -> RowLength | None:
    """Return longer rows that cut far fewer tokens than the rows `now`.

    These are the shortest that cut at most 2 % of all tokens; or else the longest, if they cut at most half as many as
    `now`. None if there are none, or if `now` cuts at most 2 % itself.
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
    """Return the shortest row whose work is within 2 % of the least, of those that cut no more tokens than today's.

    Args:
        tried: rows in ascending order of length.
        max_length: slots of a row today.
    """
    rows = allowed(tried, max_length)
    least = min(row.work(form) for row in rows)
    return next(row for row in rows if row.work(form) <= (1 + WORTH) * least)


def form_of(tried: tuple[RowLength, ...], max_length: int) -> Form:
    """Return "dense", unless bounds save at least 5 % of its work, each form in rows of its own best length."""
    bounds, dense = (choose(tried, max_length, form) for form in FORMS)
    return "bounds" if 1 - bounds.skipping / dense.dense >= SAVED else "dense"


def next_best(tried: tuple[RowLength, ...], max_length: int, form: Form, chosen: RowLength) -> RowLength | None:
    """Return the best of the other rows that cut no more tokens than now; None if there is none."""
    other_rows = [row for row in allowed(tried, max_length) if row is not chosen]
    return min(other_rows, key=lambda row: row.work(form), default=None)
