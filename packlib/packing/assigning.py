"""From a plan to packs: which samples stand where in it."""

from collections.abc import Iterable

import numpy as np

from packlib.checks import whole_number
from packlib.lengths.counting import as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.packs import Packs
from packlib.packing.ragged import ranges

_WORTH_A_SLICE = 64  # packs of a strategy; samples of others are placed one by one


def order_by_length(lengths: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """A stable sort: equal lengths keep their order.

    Returns:
        The sample ids in ascending order of length, and where each length starts among them, shape
        (max_length + 2,).
    """
    starts = np.concatenate([[0], np.cumsum(np.bincount(lengths, minlength=max_length + 1))])
    if max_length < 1 << 16:
        lengths = lengths.astype(np.uint16, copy=False)  # NumPy sorts 16 bits by counting, and more by comparing
    order = np.argsort(lengths, kind="stable")
    return order.astype(np.int32 if len(lengths) < 1 << 31 else np.int64, copy=False), starts


def place_samples(
    histogram: LengthHistogram,
    items: np.ndarray,
    sizes: np.ndarray,
    repeats: np.ndarray,
    lengths: Iterable[int],
    seed: int | None,
) -> Packs:
    """The packs of `PackingPlan.assign`; the first four are those of the plan."""
    top = histogram.max_length
    lengths = as_lengths(lengths)
    if (histogram.truncated or histogram.dropped) and int(lengths.max()) > top:
        lengths = lengths.clip(max=top + bool(histogram.dropped))  # what is dropped sorts behind all others
    if int(lengths.max()) > top + 1:
        raise ValueError(f"Length {lengths.max()} is over the maximum length {top} of the plan.")
    order, starts = order_by_length(lengths, top + 1)
    _refuse_other_lengths(histogram, np.diff(starts))
    if seed is not None:
        _shuffle(order[: histogram.num_sequences], starts, whole_number("seed", seed, 0))

    # Each place of each strategy takes the next samples of its length, as many as the strategy has packs.
    place = ranges(np.cumsum(repeats * sizes) - repeats * sizes, sizes)
    ends = np.concatenate([[0], np.cumsum(np.repeat(sizes, repeats))])
    repeats, sizes = np.repeat(repeats, sizes), np.repeat(sizes, sizes)
    by_length = np.argsort(items, kind="stable")
    first = np.empty(len(repeats), np.int64)
    first[by_length] = np.cumsum(repeats[by_length]) - repeats[by_length]
    sample_ids = np.empty(histogram.num_sequences, order.dtype)
    held = np.empty(histogram.num_sequences, np.int32)
    few = np.flatnonzero(repeats < _WORTH_A_SLICE)
    pack = ranges(np.zeros_like(few), repeats[few])
    few = np.repeat(few, repeats[few])
    at = place[few] + pack * sizes[few]
    sample_ids[at], held[at] = order[first[few] + pack], items[few]
    often = np.flatnonzero(repeats >= _WORTH_A_SLICE)
    columns = place, sizes, first, repeats, items
    for at, size, begin, n, length in zip(*(column[often].tolist() for column in columns), strict=True):
        sample_ids[at : at + n * size : size] = order[begin : begin + n]
        held[at : at + n * size : size] = length
    return Packs._of(sample_ids=sample_ids, offsets=ends, lengths=held, max_length=top)


def _shuffle(order: np.ndarray, starts: np.ndarray, seed: int) -> None:
    """Permute the samples of each length, in place.

    Each length has a generator of its own: its permutation does not depend on what else is packed, or where.
    """
    for length in np.flatnonzero(np.diff(starts)[:-1] > 1).tolist():
        np.random.default_rng([seed, length]).shuffle(order[starts[length] : starts[length + 1]])


def _refuse_other_lengths(histogram: LengthHistogram, given: np.ndarray) -> None:
    dropped = histogram.dropped if given[-1] else 0  # they may have been left out already
    planned = np.append(histogram.counts, dropped)
    wrong = np.flatnonzero(given != planned)
    if wrong.size:
        length = int(wrong[0])
        over = "over " if length > histogram.max_length else ""
        raise ValueError(
            f"The plan was made for other lengths: of length {over}{length - bool(over)} it has {planned[length]:,}, "
            f"and {given[length]:,} are given."
        )
