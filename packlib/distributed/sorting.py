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

from packlib.checks import whole_number
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
    rows, before = check_rows(ranks, rows)
    ranks.check_same(by=by)
    by = whole_number("by", rows.shape[1] if by is None else by, 1, rows.shape[1])
    rows = sort_rows(rows, by)
    bounds = before.sum() * np.arange(ranks.size + 1) // ranks.size
    cuts = _cut_points(np.ascontiguousarray(rows.T[:by]), bounds[1:-1], ranks)
    counts = np.diff(cuts, prepend=0, append=len(rows))
    received = ranks.exchange(rows, counts)
    return SortedRows(
        sort_rows(received, by) if ranks.size > 1 else received,  # runs in the order of ranks: still stable
        start=int(bounds[ranks.rank]),
        load_after=np.diff(bounds),
        rows_sent=len(rows) - int(counts[ranks.rank]),
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
    rows, sizes = check_rows(ranks, rows)
    start = sizes[: ranks.rank].sum()
    piles = [rows[(rank - start) % ranks.size :: ranks.size] for rank in range(ranks.size)]
    return ranks.exchange(np.concatenate(piles), [len(pile) for pile in piles])


def sort_rows(rows: np.ndarray, by: int | None = None) -> np.ndarray:
    """The rows in ascending order of their first `by` columns (all by default); ties keep their order.

    A radix sort of few passes: the columns, less their minima, are joined into one long binary number, and a digit of
    it is as wide as fits into 64 bits beside the row's place. NumPy sorts such keys fast, and no two of them tie. Short
    columns, such as a length and a sample id, take one pass.
    """
    if len(rows) < 2:
        return rows
    order = np.arange(len(rows))
    room = 64 - (len(rows) - 1).bit_length()
    digit, used = np.zeros(len(rows), np.uint64), 0
    for column in rows.T[:by][::-1]:
        low, high = int(column.min()), int(column.max())
        value = column.astype(np.uint64) - np.uint64(low % 2**64)  # modulo 2^64: no difference is too large
        width = (high - low).bit_length()
        while width:
            fits = min(width, room - used)
            digit |= value << used & (1 << room) - 1
            value, width, used = value >> fits, width - fits, used + fits
            if used == room:
                order = _pass(order, digit)
                digit, used = np.zeros_like(digit), 0
    return rows.take(_pass(order, digit) if used else order, axis=0)


def _pass(order: np.ndarray, digit: np.ndarray) -> np.ndarray:
    """Sort rows that are in `order` by `digit`; equal ones keep their order."""
    place = (len(order) - 1).bit_length()
    keys = digit.take(order) << place | np.arange(len(order), dtype=np.uint64)
    keys.sort()
    return order.take((keys & (1 << place) - 1).view(np.int64))


def _cut_points(columns: np.ndarray, bounds: np.ndarray, ranks: Collectives) -> np.ndarray:
    """Where to cut this rank's sorted rows, so that cut b has `bounds[b]` rows before it on all ranks together.

    Column by column, each cut keeps a window of local rows: those that tie so far with row number `bounds[b]` of the
    sorted whole. The row's value in the next column is found by halving the values that it may have; a round costs
    8 bytes a cut.

    Args:
        columns: shape (columns, rows of this rank).
        bounds: shape (cuts,), ascending.
    """
    first, last = np.zeros_like(bounds), np.full_like(bounds, columns.shape[1])
    for column in columns:
        windows = [column[i:j] for i, j in zip(first, last, strict=True)]
        edges = [(w[0], ~w[-1]) if len(w) else (INT64_MAX, INT64_MAX) for w in windows]
        low, high = ranks.minimum(np.array(edges, np.int64).reshape(-1, 2)).T
        high = ~high  # the least of all ~x is ~ of the greatest x; unlike -x, it always fits in 64 bits
        while (low < high).any():
            middle = (low & high) + ((low ^ high) >> 1)  # (low + high) // 2, without overflow
            beyond = ranks.sum(first + _count(windows, middle, "right")) > bounds
            low, high = np.where(beyond, low, middle + 1), np.where(beyond, middle, high)
        first, last = first + _count(windows, low, "left"), first + _count(windows, low, "right")
    # What is left ties in every column: the ranks take their ties one after the other.
    ties = ranks.gather(last - first)
    wanted = bounds - ranks.sum(first) - ties[: ranks.rank].sum(axis=0)
    return first + wanted.clip(0, last - first)


def _count(windows: Sequence[np.ndarray], values: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
    """How many entries of each sorted window are under its value ("left"), or under or equal ("right")."""
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
        if rows.dtype.kind not in "iu" or not np.can_cast(rows.dtype, np.int64):
            raise TypeError(f"Rows must be whole numbers that fit in int64, not {rows.dtype}.")
        if rows.ndim != 2 or not rows.shape[1]:
            raise ValueError(f"Rows must have the shape (rows, columns), one column at least, not {rows.shape}.")
    ranks.check_same(columns=rows.shape[1])
    return np.ascontiguousarray(rows, np.int64), ranks.gather(np.array(len(rows)))


def load_imbalance(loads: ArrayLike) -> float:
    """Divide the time of the slowest rank by that of evenly shared work; 1 is even.

    >>> from packlib.distributed import load_imbalance
    >>> load_imbalance([2, 4]), load_imbalance([[2, 4], [4, 2]])
    (1.3333333333333333, 1.3333333333333333)

    Args:
        loads: what each rank has to do, shape (ranks,), or (steps, ranks) if the ranks wait for each other after each
            step.
    """
    each = np.asarray(loads, float)
    return float(each.max(axis=-1).sum() / each.mean(axis=-1).sum())
