"""Choose samples for the places of a plan, which makes packs of it."""

from collections.abc import Iterable

import numpy as np

from packlib.arguments import whole_number
from packlib.lengths.counting import as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.packs import Packs
from packlib.packing.ragged import ranges

_WORTH_A_SLICE = 64  # packs of a strategy, at least: one slice places samples in all of them


def order_by_length(lengths: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort samples by length; equal lengths keep their order.

    Returns:
        The sample ids in ascending order of length; int32 or int64, shape (number of samples,). And for each length the
        position among them of the first sample that has it; shape (max_length + 2,): the last is the number of samples.
    """
    starts = np.concatenate([[0], np.cumsum(np.bincount(lengths, minlength=max_length + 1))])
    if max_length < 1 << 16:
        lengths = lengths.astype(np.uint16, copy=False)  # NumPy sorts 16 bits by counting, and more by comparing
    short_to_long = np.argsort(lengths, kind="stable")
    return short_to_long.astype(np.int32 if len(lengths) < 1 << 31 else np.int64, copy=False), starts


def place_samples(
    histogram: LengthHistogram,
    items: np.ndarray,
    sizes: np.ndarray,
    repeats: np.ndarray,
    lengths: Iterable[int],
    seed: int | None,
) -> Packs:
    """Make the packs of `PackingPlan.assign`.

    Args:
        histogram, items, sizes, repeats: those of the plan.
        lengths, seed: as of `PackingPlan.assign`.
    """
    max_length = histogram.max_length
    lengths = as_lengths(lengths)
    if (histogram.truncated or histogram.dropped) and int(lengths.max()) > max_length:
        # truncated samples get the maximum length; dropped ones get a token more, which sorts them behind all others
        lengths = lengths.clip(max=max_length + 1 if histogram.dropped else max_length)
    if int(lengths.max()) > max_length + 1:
        raise ValueError(f"Length {lengths.max()} is over the maximum length {max_length} of the plan.")
    short_to_long, starts = order_by_length(lengths, max_length + 1)
    _refuse_other_lengths(histogram, np.diff(starts))
    if seed is not None:
        _shuffle(short_to_long[: histogram.num_sequences], starts, whole_number("seed", seed, 0))

    # The packs of a strategy are next to each other. Two packs (5, 3) fill the places 0 to 3, so that the item 5 is at
    # places 0 and 2, and the item 3 at places 1 and 3: from the first place of an item in steps of the pack's size.
    offsets = np.concatenate([[0], np.cumsum(np.repeat(sizes, repeats))])
    strategy_starts = np.cumsum(repeats * sizes) - repeats * sizes
    # arrays with an entry for each item of each strategy, as `items`
    first_place = ranges(strategy_starts, sizes)
    packs_of_item = np.repeat(repeats, sizes)
    size_of_item = np.repeat(sizes, sizes)
    first_sample = _first_samples(items, packs_of_item)
    sample_ids = np.empty(histogram.num_sequences, short_to_long.dtype)
    packed_lengths = np.empty(histogram.num_sequences, np.int32)

    # Items of few packs: the places of all of them at once.
    in_few_packs = np.flatnonzero(packs_of_item < _WORTH_A_SLICE)
    item = np.repeat(in_few_packs, packs_of_item[in_few_packs])
    pack = ranges(np.zeros_like(in_few_packs), packs_of_item[in_few_packs])  # counted from the strategy's first pack
    places = first_place[item] + pack * size_of_item[item]
    sample_ids[places] = short_to_long[first_sample[item] + pack]
    packed_lengths[places] = items[item]

    # Items of many packs: a slice for each, which is faster for millions of samples.
    in_many_packs = np.flatnonzero(packs_of_item >= _WORTH_A_SLICE)
    columns = first_place, size_of_item, first_sample, packs_of_item, items
    for place, size, sample, packs, length in zip(
        *(column[in_many_packs].tolist() for column in columns), strict=True
    ):
        every_pack = slice(place, place + packs * size, size)
        sample_ids[every_pack] = short_to_long[sample : sample + packs]
        packed_lengths[every_pack] = length
    return Packs._of(sample_ids=sample_ids, offsets=offsets, lengths=packed_lengths, max_length=max_length)


def _first_samples(items: np.ndarray, packs_of_item: np.ndarray) -> np.ndarray:
    """Find the position of each item's first sample among the samples from short to long.

    Items of one length take as many samples as they have packs, one item after the other.
    """
    by_length = np.argsort(items, kind="stable")
    first_sample = np.empty(len(items), np.int64)
    first_sample[by_length] = np.cumsum(packs_of_item[by_length]) - packs_of_item[by_length]
    return first_sample


def _shuffle(short_to_long: np.ndarray, starts: np.ndarray, seed: int) -> None:
    """Permute the samples of each length, in place; the arrays are those of `order_by_length`.

    Each length has a generator of its own: its permutation does not depend on what else is packed, or where.
    """
    counts = np.diff(starts)[:-1]  # without the last: those are dropped samples
    for length in np.flatnonzero(counts > 1).tolist():
        np.random.default_rng([seed, length]).shuffle(short_to_long[starts[length] : starts[length + 1]])


def _refuse_other_lengths(histogram: LengthHistogram, counts: np.ndarray) -> None:
    """Raise a ValueError unless the samples have the lengths of the plan's histogram.

    Args:
        histogram: of the plan.
        counts: how many samples have each length; shape (max_length + 2,), where the last one counts dropped samples.
    """
    max_length = histogram.max_length
    dropped = histogram.dropped if counts[-1] else 0  # they may have been left out already
    planned = np.append(histogram.counts, dropped)
    wrong = np.flatnonzero(counts != planned)
    if wrong.size:
        length = int(wrong[0])
        length_in_words = f"over {max_length}" if length > max_length else str(length)
        raise ValueError(
            f"The plan was made for other lengths: of length {length_in_words} it has {planned[length]:,}, "
            f"and {counts[length]:,} are given."
        )
