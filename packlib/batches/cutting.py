"""Where each batch begins when ordered samples are cut by a budget of tokens, as greedily as may be.

All in linear time. Where batches have a least size, the greedy cut may leave one too small though another cut would
do; then a dynamic program finds the greediest of the others.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

Budget = int | Sequence[int]  # of every column, or one for each


def cut(rows: np.ndarray, budget: Budget, fewest: int, most: int, padded: bool, in_order: bool) -> np.ndarray:
    """The first row of each group; every group takes as many rows as the budget and `fewest` allow.

    Args:
        rows: shape (R, k): the lengths of k samples a row, 0 for none. A group of rows makes k batches, one a
            column.
        budget: of each batch, an integer where `padded` or `in_order` or k is 1; no length is above it.
        fewest, most: rows of a group; the last may have fewer. Where no cut keeps `fewest`, it is not kept.
        padded: the budget limits rows × longest of the group; else the sum of lengths of each column.
        in_order: the lengths rise, or fall, through the rows, so the column of the longest is one and the same.
    """
    longest = rows.max(1) if rows.shape[1] > 1 else rows[:, 0]
    if not isinstance(budget, int) or (not (padded or in_order) and rows.shape[1] > 1):
        starts = _followed(_furthest_ends(rows, budget, most, padded))
    else:
        starts = scan(longest.tolist(), budget, most, padded)
    if (np.diff(starts) < fewest).any():
        ends = next_cuts(rows, budget, fewest, most, padded)
        if ends[0]:
            starts = _followed(ends)
    return np.array(starts)


def _followed(ends: list[int]) -> list[int]:
    """Where groups start, the first at row 0 and each where the one before it ends; `ends` has one for each row."""
    starts = [0]
    while ends[starts[-1]] < len(ends):
        starts.append(ends[starts[-1]])
    return starts


def scan(lengths: Sequence[int], budget: int, most: int, padded: bool) -> list[int]:
    """Row by row: the first of each group of one column."""
    starts, start, used = [0], 0, 0  # used: the sum of lengths so far, or the longest
    for end, length in enumerate(lengths, 1):
        if not padded:
            used += length
        elif length > used:
            used = length
        allowed = budget // (end - start) if padded else budget
        if used > allowed or end - start > most:
            start, used = end - 1, length
            starts.append(start)
    return starts


def next_cuts(rows: np.ndarray, budget: Budget, fewest: int, most: int, padded: bool) -> list[int]:
    """For each row, where the group that starts there ends so that all groups from there on have `fewest` rows.

    Of all such ends the last, so a cut that follows them is the greedy one where that will do. Only the last group may
    have fewer rows. 0 where there is no such end.

    Args:
        rows, budget, most, padded: as in `cut`.
    """
    ends = _furthest_ends(rows, budget, most, padded)
    number = len(ends)
    cuts, at = [0] * number, 0
    starts = [number]  # the rows from which the rest can be cut, last first
    for start in range(number - 1, -1, -1):
        while starts[at] > ends[start]:  # the further from the end, the nearer the ends: `at` never goes back
            at += 1
            if at == len(starts):
                return cuts
        if starts[at] == number or starts[at] - start >= fewest:
            cuts[start] = starts[at]
            starts.append(start)
    return cuts


def _furthest_ends(rows: np.ndarray, budget: Budget, most: int, padded: bool) -> list[int]:
    """Where the longest group ends that starts at each row."""
    if not padded:
        totals = [np.concatenate([[0], np.cumsum(column, dtype=np.int64)]) for column in rows.T]
        allowed = np.broadcast_to(budget, len(totals)).tolist()
        pairs = zip(totals, allowed, strict=True)
        ends = np.min([total.searchsorted(total[:-1] + tokens, "right") - 1 for total, tokens in pairs], axis=0)
        return np.minimum(ends, np.arange(len(rows)) + most).tolist()
    longest, ends, end = rows.max(1).tolist(), [], 0
    widest = deque[int]()  # rows of the group, each longer than all after it: the first is the longest
    for start in range(len(longest)):
        while end < len(longest) and end - start < most:
            width = max(longest[end], longest[widest[0]] if widest else 0)
            if width * (end - start + 1) > budget:
                break
            while widest and longest[widest[-1]] <= longest[end]:
                widest.pop()
            widest.append(end)
            end += 1
        ends.append(end)
        if widest[0] == start:
            widest.popleft()
    return ends


def halve_fullest(offsets: np.ndarray, multiple: int) -> np.ndarray:
    """Cut the batches with the most samples in two until their number is a multiple of `multiple`."""
    batches, samples = len(offsets) - 1, int(offsets[-1])
    if -(-batches // multiple) * multiple > samples:
        raise ValueError(f"{samples} samples in {batches} batches cannot fill a multiple of {multiple} batches.")
    while missing := -(len(offsets) - 1) % multiple:
        sizes = np.diff(offsets)
        fullest = np.argsort(-sizes, kind="stable")[:missing]
        fullest = fullest[sizes[fullest] > 1]
        offsets = np.sort(np.append(offsets, offsets[fullest] + sizes[fullest] // 2))
    return offsets
