"""From a plan to packs: which samples stand where in it."""

from collections.abc import Iterable

import numpy as np

from packlib.arguments import whole_number
from packlib.lengths.counting import as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.packs import Packs
from packlib.packing.ragged import ranges

_WORTH_A_SLICE = 64  # packs of a strategy; samples of others are placed one by one


def order_by_length(lengths: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort samples by length; equal lengths keep their order.

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
    """Make the packs of `PackingPlan.assign`; the first four arguments are those of the plan."""
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

    # The packs of a strategy stand one after the other, so that its k-th item fills every size-th slot from its first.
    offsets = np.concatenate([[0], np.cumsum(np.repeat(sizes, repeats))])
    strategy_starts = np.cumsum(repeats * sizes) - repeats * sizes
    first_slot = ranges(strategy_starts, sizes)
    packs_of_item = np.repeat(repeats, sizes)
    size_of_item = np.repeat(sizes, sizes)
    first_sample = _first_samples(items, packs_of_item)
    sample_ids = np.empty(histogram.num_sequences, order.dtype)
    packed_lengths = np.empty(histogram.num_sequences, np.int32)

    # Items of few packs: all samples at once.
    seldom = np.flatnonzero(packs_of_item < _WORTH_A_SLICE)
    pack = ranges(np.zeros_like(seldom), packs_of_item[seldom])
    item = np.repeat(seldom, packs_of_item[seldom])
    slots = first_slot[item] + pack * size_of_item[item]
    sample_ids[slots] = order[first_sample[item] + pack]
    packed_lengths[slots] = items[item]

    # Items of many packs: a slice for each, which is faster for millions of samples.
    often = np.flatnonzero(packs_of_item >= _WORTH_A_SLICE)
    columns = first_slot, size_of_item, first_sample, packs_of_item, items
    for slot, size, sample, packs, length in zip(*(column[often].tolist() for column in columns), strict=True):
        every_pack = slice(slot, slot + packs * size, size)
        sample_ids[every_pack] = order[sample : sample + packs]
        packed_lengths[every_pack] = length
    return Packs._of(sample_ids=sample_ids, offsets=offsets, lengths=packed_lengths, max_length=top)


def _first_samples(items: np.ndarray, packs_of_item: np.ndarray) -> np.ndarray:
    """Find each item's first sample in the order of length; items of one length take turns."""
    by_length = np.argsort(items, kind="stable")
    first_sample = np.empty(len(items), np.int64)
    first_sample[by_length] = np.cumsum(packs_of_item[by_length]) - packs_of_item[by_length]
    return first_sample


def _shuffle(order: np.ndarray, starts: np.ndarray, seed: int) -> None:
    """Permute the samples of each length, in place.

    Each length has a generator of its own: its permutation does not depend on what else is packed, or where.
    """
    for length in np.flatnonzero(np.diff(starts)[:-1] > 1).tolist():
        np.random.default_rng([seed, length]).shuffle(order[starts[length] : starts[length + 1]])


def _refuse_other_lengths(histogram: LengthHistogram, counts: np.ndarray) -> None:
    dropped = histogram.dropped if counts[-1] else 0  # they may have been left out already
    planned = np.append(histogram.counts, dropped)
    wrong = np.flatnonzero(counts != planned)
    if wrong.size:
        length = int(wrong[0])
        over = "over " if length > histogram.max_length else ""
        raise ValueError(
            f"The plan was made for other lengths: of length {over}{length - bool(over)} it has {planned[length]:,}, "
            f"and {counts[length]:,} are given."
        )
