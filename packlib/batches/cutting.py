"""Where each batch begins when ordered samples are cut by a budget of tokens, as greedily as may be.

All in linear time. Where batches have a least size, the greedy cut may leave one too small though another cut would
do; then a dynamic program finds the greediest of the others.
"""

from collections import deque
from itertools import pairwise

import numpy as np

_CHUNK = 1 << 18  # lengths that are Python integers at a time


def cut(rows: np.ndarray, budget: int, fewest: int, most: int, padded: bool, in_order: bool) -> np.ndarray:
    """The first row of each group; every group takes as many rows as the budget and `fewest` allow.

    Args:
        rows: shape (R, k): the lengths of k samples a row, 0 for none. A group of rows makes k batches, one a
            column.
        budget: of each batch; no length is above it.
        fewest, most: rows of a group; the last may have fewer. Where no cut keeps `fewest`, it is not kept.
        padded: the budget limits rows × longest of the group; else the sum of lengths of each column.
        in_order: the lengths rise, or fall, through the rows.
    """
    starts: list | np.ndarray
    if in_order:  # the column of the longest is one and the same
        starts = _runs(rows.max(1), budget, most, padded)
    elif not padded and (rows.shape[1] > 1 or 8 * int(rows.sum(dtype=np.int64)) < budget * len(rows)):
        starts = _jumps(rows, budget, most)
    else:
        starts = _scan(rows.max(1), budget, most, padded)
    if (np.diff(starts) < fewest).any():
        ends = next_cuts(rows, budget, fewest, most, padded)
        if ends[0]:
            starts = [0]
            while ends[starts[-1]] < len(rows):
                starts.append(ends[starts[-1]])
    return np.asarray(starts)


def _jumps(rows: np.ndarray, budget: int, most: int) -> np.ndarray:
    """From one batch to the next by binary search in the cumulative sums: fast where batches are large."""
    totals = [np.concatenate([[0], np.cumsum(column, dtype=np.int64)]) for column in rows.T]
    starts, start = [], 0
    while start < len(rows):
        starts.append(start)
        ends = [int(total.searchsorted(total[start] + budget, "right")) - 1 for total in totals]
        start = min(start + most, *ends)
    return np.array(starts)


def _scan(lengths: np.ndarray, budget: int, most: int, padded: bool) -> np.ndarray:
    """One by one: fast where batches are small, and the only way where the longest is not known before."""
    starts, start, used = [0], 0, 0  # used: the sum of lengths so far, or the longest
    for chunk in range(0, len(lengths), _CHUNK):
        for end, length in enumerate(lengths[chunk : chunk + _CHUNK].tolist(), chunk + 1):
            if not padded:
                used += length
            elif length > used:
                used = length
            if (used * (end - start) if padded else used) > budget or end - start > most:
                start, used = end - 1, length
                starts.append(start)
    return np.array(starts)


def _runs(lengths: np.ndarray, budget: int, most: int, padded: bool) -> np.ndarray:
    """Equal lengths, side by side where the data is sorted, all at once: a step for each length."""
    edges = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    starts, start, used = [np.zeros(1, np.int64)], 0, 0  # used: the sum of lengths since start
    for first, end in pairwise(edges):
        length, rows = int(lengths[first]), first - start
        if padded:
            more = budget // max(length, int(lengths[start])) - rows
        else:
            more = (budget - used) // length
        begin = first + max(min(more, most - rows), 0)  # of the next batch, if it begins in this run
        if begin < end:
            new = np.arange(begin, end, min(budget // length, most))
            starts.append(new)
            start, used = int(new[-1]), 0
        used += (end - max(start, first)) * length
    return np.concatenate(starts)


def next_cuts(rows: np.ndarray, budget: int, fewest: int, most: int, padded: bool) -> list[int]:
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


def _furthest_ends(rows: np.ndarray, budget: int, most: int, padded: bool) -> list[int]:
    """Where the longest group ends that starts at each row."""
    if not padded:
        totals = [np.concatenate([[0], np.cumsum(column, dtype=np.int64)]) for column in rows.T]
        ends = np.min([total.searchsorted(total[:-1] + budget, "right") - 1 for total in totals], axis=0)
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
