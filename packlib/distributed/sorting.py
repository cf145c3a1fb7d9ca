"""Sort rows across ranks: sort locally, choose where to cut, exchange once, sort what came.

Sample sort (Frazer and McKellar, 1970) cuts at splitters that it takes from a sample, and sends a splitter's ties to
one side; so a value that is frequent piles up on one rank. Here the ranks count instead of sampling: they find the
rows number n/p, 2n/p, … of the sorted whole by bisection, and cut right there, in the middle of ties if need be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike

from packlib.arguments import as_floats, shown, whole_number
from packlib.collectives import Collectives

INT64_MAX = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class SortedRows:
    """This rank's part of the rows that all ranks sorted together.

    Attributes:
        rows: int64, shape (n/p give or take one, columns).
        start: the place of its first row in the sorted whole.
        load_after: rows on each rank; int64, shape (ranks,).
        rows_sent: rows that left this rank.
        bytes_sent: what it sent in all, counting included.
    """

    rows: np.ndarray
    start: int
    load_after: np.ndarray
    rows_sent: int
    bytes_sent: int


def exact_sort(rows: np.ndarray, group: dist.ProcessGroup | None = None, by: int | None = None) -> SortedRows:
    """Sort the n rows of all p ranks together; every rank ends with n/p of them, give or take one, whatever the data.

    The sort is stable: ties keep the order of rank, then row. So the ranks' results, one after the other, do not depend
    on how many ranks there are. Every rank of the group calls it.

    Args:
        rows: whole numbers, shape (rows of this rank, columns); a rank may have none.
        by: how many of the first columns to compare, one after the other; by default all of them.

    Raises:
        RankError: the same on every rank, if the rows of one rank are not as above, or differ from the others' in the
            number of columns. A single rank raises the plain TypeError or ValueError.
    """
    ranks = Collectives(group)
    rows, rows_of_ranks = check_rows(ranks, rows)
    ranks.check_same(by=by)
    by = whole_number("by", rows.shape[1] if by is None else by, 1, rows.shape[1])
    rows = sort_rows(rows, by)
    bounds = rows_of_ranks.sum() * np.arange(ranks.size + 1) // ranks.size
    cuts = _cut_points(np.ascontiguousarray(rows.T[:by]), bounds[1:-1], ranks)
    rows_to_ranks = np.diff(cuts, prepend=0, append=len(rows))
    received = ranks.exchange(rows, rows_to_ranks)
    return SortedRows(
        sort_rows(received, by) if ranks.size > 1 else received,  # runs in the order of ranks: still stable
        start=int(bounds[ranks.rank]),
        load_after=np.diff(bounds),
        rows_sent=len(rows) - int(rows_to_ranks[ranks.rank]),
        bytes_sent=ranks.bytes_sent,
    )


def interleave(rows: np.ndarray, group: dist.ProcessGroup | None = None) -> np.ndarray:
    """Deal the rows of all ranks out in turn: row i of the whole goes to rank i modulo the number of ranks.

    If the rows are sorted, the first rows of all ranks are about equal, then their second rows, and so on; each rank's
    rows stay in order. Every rank of the group calls it.

    Args:
        rows: whole numbers, shape (rows of this rank, columns); the whole is the ranks' rows, rank after rank.

    Raises:
        RankError: as in `exact_sort`.
    """
    ranks = Collectives(group)
    rows, rows_of_ranks = check_rows(ranks, rows)
    start = rows_of_ranks[: ranks.rank].sum()  # of this rank's rows in the whole
    piles = [rows[(rank - start) % ranks.size :: ranks.size] for rank in range(ranks.size)]
    return ranks.exchange(np.concatenate(piles), [len(pile) for pile in piles])


def sort_rows(rows: np.ndarray, by: int | None = None) -> np.ndarray:
    """Sort rows in ascending order of their first `by` columns (all by default); ties keep their order.

    A radix sort of few passes: the columns, less their minima, are joined into one long binary number, and a digit of
    it is as wide as fits into 64 bits beside the row's place. NumPy sorts such keys fast, and no two of them tie. Short
    columns, such as a length and a sample id, take one pass. (`np.lexsort` takes two to four times as long.)
    """
    _refuse_other_rows(rows)
    by = None if by is None else whole_number("by", by, 1, rows.shape[1])
    if len(rows) < 2:
        return rows
    order = np.arange(len(rows))
    digit_bits = 64 - (len(rows) - 1).bit_length()
    digit_mask = (1 << digit_bits) - 1
    digit = np.zeros(len(rows), np.uint64)
    bits_used = 0  # of the digit
    for column in rows.T[:by][::-1]:
        least = int(column.min())
        bits_left = (int(column.max()) - least).bit_length()
        values = column.astype(np.uint64) - np.uint64(least % 2**64)  # modulo 2^64: no difference is too large
        while bits_left:
            bits_taken = min(bits_left, digit_bits - bits_used)
            digit |= values << bits_used & digit_mask
            values = values >> bits_taken
            bits_left -= bits_taken
            bits_used += bits_taken
            if bits_used == digit_bits:
                order = _sort_by_digit(order, digit)
                digit = np.zeros(len(rows), np.uint64)
                bits_used = 0
    if bits_used:
        order = _sort_by_digit(order, digit)
    return rows.take(order, axis=0)


def _sort_by_digit(order: np.ndarray, digit: np.ndarray) -> np.ndarray:
    """Sort rows that are in `order` by `digit`; equal ones keep their order.

    Args:
        order: the rows, in the order so far.
        digit: of each row, as it was given; uint64, as wide as leaves bits for a place in the order.
    """
    place_bits = (len(order) - 1).bit_length()
    place_mask = (1 << place_bits) - 1
    keys = digit.take(order) << place_bits | np.arange(len(order), dtype=np.uint64)
    keys.sort()
    places = (keys & place_mask).view(np.int64)
    return order.take(places)


def _cut_points(columns: np.ndarray, bounds: np.ndarray, ranks: Collectives) -> np.ndarray:
    """Find where to cut this rank's sorted rows, so that cut b has `bounds[b]` rows before it on all ranks together.

    Column by column, each cut keeps a window of local rows: those that tie so far with row number `bounds[b]` of the
    sorted whole. The row's value in the next column is found by halving the values that it may have; a round costs
    8 bytes a cut.

    Args:
        columns: shape (columns, rows of this rank).
        bounds: shape (cuts,), ascending.

    Returns:
        The number of this rank's rows before each cut; int64, shape (cuts,).
    """
    # by cut, its window: local rows from `firsts` to before `ends`
    firsts = np.zeros_like(bounds)
    ends = np.full_like(bounds, columns.shape[1])
    for column in columns:
        windows = [column[first:end] for first, end in zip(firsts, ends, strict=True)]
        values = _values_at_bounds(windows, firsts, bounds, ranks)
        ends = firsts + _count(windows, values, "right")
        firsts = firsts + _count(windows, values, "left")
    # What is left ties in every column: the ranks take their ties one after the other.
    ties = ranks.gather(ends - firsts)  # shape (ranks, cuts)
    ties_before_cuts = bounds - ranks.sum(firsts)  # on all ranks
    own_ties_before_cuts = ties_before_cuts - ties[: ranks.rank].sum(axis=0)
    return firsts + own_ties_before_cuts.clip(0, ends - firsts)


def _values_at_bounds(
    windows: list[np.ndarray], firsts: np.ndarray, bounds: np.ndarray, ranks: Collectives
) -> np.ndarray:
    """Find the value of row number `bounds[b]` of the sorted whole in a column, for each cut; int64, shape (cuts,).

    Args:
        windows: the column's values in this rank's rows that may be that row, ascending.
        firsts: this rank's rows before each window.
    """
    least_and_greatest = [(w[0], ~w[-1]) if len(w) else (INT64_MAX, INT64_MAX) for w in windows]
    low, high = ranks.minimum(np.array(least_and_greatest, np.int64).reshape(-1, 2)).T
    high = ~high  # the least of all ~x is ~ of the greatest x; unlike -x, it always fits in 64 bits
    while (low < high).any():
        middle = (low & high) + ((low ^ high) >> 1)  # (low + high) // 2, without overflow
        rows_up_to_middle = ranks.sum(firsts + _count(windows, middle, "right"))
        is_in_lower_half = rows_up_to_middle > bounds
        low = np.where(is_in_lower_half, low, middle + 1)
        high = np.where(is_in_lower_half, middle, high)
    return low


def _count(windows: Sequence[np.ndarray], values: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
    """Count the entries of each sorted window that are under its value ("left"), or under or equal ("right")."""
    pairs = zip(windows, values, strict=True)
    return np.array([np.searchsorted(window, value, side) for window, value in pairs], np.int64)


def check_rows(ranks: Collectives, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return this rank's rows as int64, shape (rows, columns), and how many each rank has, shape (ranks,).

    Raises:
        RankError: the same on every rank, if the rows of one rank are not whole numbers of shape (rows, columns), or
            differ from the others' in the number of columns. A single rank raises the plain TypeError or ValueError.
    """
    with ranks.agree_on_errors():
        rows = np.asarray(rows)
        _refuse_other_rows(rows)
    ranks.check_same(columns=rows.shape[1])
    return np.ascontiguousarray(rows, np.int64), ranks.gather(np.array(len(rows)))


def _refuse_other_rows(rows: np.ndarray) -> None:
    """Raise a TypeError or a ValueError unless these are whole numbers of shape (rows, columns)."""
    if not isinstance(rows, np.ndarray):
        raise TypeError(f"rows must be an array of whole numbers, not {shown(rows)}.")
    if rows.dtype.kind not in "iu" or not np.can_cast(rows.dtype, np.int64):
        raise TypeError(f"Rows must be whole numbers that fit in int64, not {rows.dtype}.")
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"Rows must have the shape (rows, columns), one column at least, not {rows.shape}.")


def load_imbalance(loads: ArrayLike) -> float:
    """Divide the time of the slowest rank by that of evenly shared work; 1 is even.

    >>> from packlib.distributed import load_imbalance
    >>> load_imbalance([2, 4]), load_imbalance([[2, 4], [4, 2]])
    (1.3333333333333333, 1.3333333333333333)

    Args:
        loads: what each rank has to do, shape (ranks,), or (steps, ranks) if the ranks wait for each other after each
            step.

    Raises:
        TypeError, ValueError: if the loads have another shape, or one is negative, infinite or no number.
    """
    loads = as_floats("loads", loads)
    if loads.ndim not in (1, 2) or not loads.size:
        raise ValueError(f"loads must have the shape (ranks,) or (steps, ranks), not {loads.shape}.")
    if not (np.isfinite(loads).all() and (loads >= 0).all() and loads.any()):
        raise ValueError(f"loads must be finite and at least 0, and not all 0, not {shown(loads.tolist())}.")
    slowest = loads.max(axis=-1)
    mean = loads.mean(axis=-1)
    return float(slowest.sum() / mean.sum())
