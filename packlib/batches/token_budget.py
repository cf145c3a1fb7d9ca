"""Batches of about equally many tokens: few long samples or many short ones.

Source: "Attention is all you need" (Vaswani et al. 2017, section 5.1), where a batch holds about 25,000
source tokens and 25,000 target tokens.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from packlib.arguments import flag, one_of, percent, whole_number
from packlib.lengths.counting import as_lengths
from packlib.packing.ragged import Ragged

_MOST_TOKENS = 1 << 62  # twice as many do not fit in 64 bits
Order = Literal["dataset", "ascending", "descending", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, eq=False)
class TokenBatches(Ragged[np.ndarray]):
    """Batch `i` holds the samples `sample_ids[offsets[i]:offsets[i + 1]]`; padded, it is `rows[i]` × `widths[i]`.

    Attributes:
        sample_ids: integers, shape (number of samples,); positions in the `lengths` that `batch_by_tokens` was given.
        offsets: int64, shape (number of batches + 1,).
        widths: int64, shape (number of batches,): the width of each batch, in tokens.
        tokens, longest: int64, shape (number of batches,): the sum and the maximum of its lengths.
        same_shape_every: k, if every k batches in turn have one shape. Some of the last k may be blank: they have no
            sample.
    """

    sample_ids: np.ndarray
    offsets: np.ndarray
    widths: np.ndarray
    tokens: np.ndarray
    longest: np.ndarray
    same_shape_every: int
    _nouns = "batch", "batches"

    def __getitem__(self, index: int) -> np.ndarray:
        return self.sample_ids[self._row(index)]

    @property
    def sizes(self) -> np.ndarray:
        """Samples in each batch; int64, shape (number of batches,)."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> np.ndarray:
        """Rows of each batch, some of them blank where batches of one shape have a sample less; int64."""
        every = self.same_shape_every
        return np.repeat(self.sizes.reshape(-1, every).max(1), every)

    @property
    def slots(self) -> int:
        """All slots that are computed: rows × width of every batch."""
        return int(self.rows @ self.widths)

    @property
    def padding_fraction(self) -> float:
        """Share of the slots that hold no token."""
        return 1 - int(self.tokens.sum()) / self.slots

    @property
    def shape_cost(self) -> float:
        """Share of the slots that are there only because batches must have equal shapes."""
        return 1 - int(self.sizes @ self.longest) / self.slots

    def __repr__(self) -> str:
        count = len(self)
        samples = len(self.sample_ids)
        every = self.same_shape_every
        shapes = f", {percent(self.shape_cost, 2)} for one shape in every {every} batches" if every > 1 else ""
        return (
            f"TokenBatches({count:,} batches, {samples:,} samples, {samples / count:.1f} a batch of "
            f"{self.tokens.mean():,.0f} tokens, {percent(self.padding_fraction, 2)} padding{shapes})"
        )


def batch_by_tokens(
    lengths: Iterable[int],
    max_tokens: int,
    min_batch: int = 1,
    max_batch: int | None = None,
    order: Order = "dataset",
    same_shape_every: int = 1,
    *,
    target_lengths: Iterable[int] | None = None,
    count_padding: bool = False,
    blank_batches: bool = False,
    seed: int | Sequence[int] | None = None,
) -> TokenBatches:
    """Cut the samples, in the wanted order, into batches that each take as many as `max_tokens` allows.

    Every sample lands in exactly one batch. Takes linear time (where lengths are below 65,536, the sort too).

    >>> from packlib.batches import batch_by_tokens
    >>> batches = batch_by_tokens([4, 2, 3, 9, 1, 5], max_tokens=10)
    >>> [samples.tolist() for samples in batches]
    [[0, 1, 2], [3, 4], [5]]

    Args:
        lengths: tokens of each sample.
        max_tokens: the budget of a batch: its lengths add up to this at most (see `count_padding`).
        min_batch, max_batch: the fewest and the most samples of a batch. Only the last batch (or the last k, see
            `same_shape_every`) may have fewer than `min_batch`. Where a batch that is as full as it can be would leave
            too few samples for a later one, it takes fewer.
        order: "dataset", "random", or "ascending" or "descending" by length. For an order of your own, such as by
            `difficulties`, give the lengths in that order.
        same_shape_every: k batches in turn, such as the micro-batches of an update in a pipeline, get one shape: the
            samples are dealt to the k in turn. Where k does not divide their number, some of the last k batches have a
            sample less than the others, and a blank row.
        target_lengths: a second length of each sample, such as that of its translation, with as large a budget. It
            goes with neither `same_shape_every` nor `count_padding`, which know one width of a batch.
        count_padding: the budget counts padding too: samples × longest, and not the sum of lengths.
        blank_batches: where samples are too few for the last k batches, some of these have no sample, and a loader
            makes them of padding alone. Otherwise that is an error, since a mean over the labels of such a batch is
            0 / 0.
        seed: of the random order (None is 0), or of the order of samples of equal length (None keeps the data set's).

    Raises:
        TypeError, ValueError: for bad arguments; naming the samples that are too long; if no cut keeps `min_batch`.
    """
    one_of("order", order, ORDERS)
    flag("count_padding", count_padding)
    flag("blank_batches", blank_batches)
    _check_seed(seed)
    lengths = as_lengths(lengths)
    number = len(lengths)
    every = whole_number("same_shape_every", same_shape_every, 1)
    whole_number("min_batch", min_batch, 1)
    max_rows = number if max_batch is None else whole_number("max_batch", max_batch, min_batch)
    _refuse_few_samples(number, every, blank_batches)
    whole_number("the sum of lengths", int(lengths.sum(dtype=np.float64)), 1, _MOST_TOKENS)
    budget = _checked_budget("lengths", max_tokens, lengths)
    targets = None
    if target_lengths is not None:
        targets = _checked_targets(target_lengths, number, max_tokens, every, count_padding)

    sample_ids = _ordered(lengths, order, seed)
    rows = _rows(lengths[sample_ids], every)
    if targets is not None:
        rows = np.concatenate([rows, targets[sample_ids, None]], axis=1)
    largest_ends = _padded_ends(rows, budget, max_rows) if count_padding else _ends(rows, budget, max_rows)
    if min_batch > 1:
        largest_ends = _leaving_enough(largest_ends.tolist(), min_batch)
    _refuse_no_cut(largest_ends, min_batch, max_tokens)
    starts = _starts(largest_ends)
    sizes = np.repeat(np.diff(starts, append=len(rows)), every)
    num_blank = len(rows) * every - number  # places of the last row without a sample
    _refuse_blank_batches(num_blank, int(sizes[-1]), number, every, blank_batches)
    sizes[len(sizes) - num_blank :] -= 1
    sample_ids = _dealt(sample_ids, starts, every)
    return _token_batches(sample_ids, sizes, lengths[sample_ids], every)


def _check_seed(seed: Any) -> None:
    """Raise an error unless a seed is None, a whole number, or several."""
    if seed is not None:
        for number in seed if isinstance(seed, (list, tuple)) else [seed]:
            whole_number("seed", number, 0)


def _refuse_few_samples(number: int, every: int, blank_batches: bool) -> None:
    if number < every and not blank_batches:
        raise ValueError(
            f"same_shape_every must be at most {number}, as there are samples, not {every}, unless blank_batches "
            "is True."
        )


def _checked_budget(name: str, budget: int, lengths: np.ndarray) -> int:
    """Return the budget, checked: no length is above it. A budget beyond what 64 bits can add up is cut to that."""
    too_long = np.flatnonzero(lengths > whole_number("max_tokens", budget, 1))
    if too_long.size:
        examples = ", ".join(f"sample {i} with {lengths[i]}" for i in too_long[:5].tolist())
        raise ValueError(
            f"max_tokens {budget} allows {budget} tokens a sample; {len(too_long)} of {name} have more: {examples}"
            f"{', …' if len(too_long) > 5 else ''}. Raise max_tokens, or cut or leave out these samples."
        )
    return min(budget, _MOST_TOKENS)


def _checked_targets(
    target_lengths: Iterable[int], number: int, max_tokens: int, every: int, count_padding: bool
) -> np.ndarray:
    """Return the second length of each sample; integers, shape (number,)."""
    if every > 1 or count_padding:
        raise ValueError("target_lengths goes with neither same_shape_every nor count_padding.")
    targets = as_lengths(target_lengths, noun="Target length")
    if len(targets) != number:
        raise ValueError(f"target_lengths must have one length for each of the {number} samples.")
    _checked_budget("target_lengths", max_tokens, targets)
    return targets


def _refuse_no_cut(largest_ends: np.ndarray, min_batch: int, max_tokens: int) -> None:
    """Raise a ValueError if no batch can begin with the first sample."""
    if not largest_ends[0]:
        raise ValueError(
            f"min_batch {min_batch} cannot be kept: in this order, every cut within max_tokens {max_tokens} leaves "
            "fewer samples to a batch before the last. Lower min_batch, or raise max_tokens."
        )


def _refuse_blank_batches(num_blank: int, last_size: int, number: int, every: int, blank_batches: bool) -> None:
    """Raise a ValueError if some of the last batches would have no sample, unless they may."""
    if num_blank and last_size == 1 and not blank_batches:
        raise ValueError(
            f"same_shape_every {every} leaves {num_blank} of the last {every} batches without a sample: pass "
            f"blank_batches=True, leave out {every - num_blank} of {number} samples, or take another order or "
            "max_tokens."
        )


def _rows(ordered_lengths: np.ndarray, every: int) -> np.ndarray:
    """Put the lengths into rows of `every` samples, one for each batch of a shape; 0 fills the last row up."""
    num_blank = -len(ordered_lengths) % every
    return np.append(ordered_lengths, np.zeros(num_blank, ordered_lengths.dtype)).reshape(-1, every)


def _starts(largest_ends: np.ndarray) -> list[int]:
    """Return the first row of each group, if each takes as many rows as it may."""
    starts = [0]
    while largest_ends[starts[-1]] < len(largest_ends):
        starts.append(int(largest_ends[starts[-1]]))
    return starts


def _dealt(sample_ids: np.ndarray, starts: list[int], every: int) -> np.ndarray:
    """Return the samples batch by batch: each column of a group of rows is a batch."""
    if every == 1:
        return sample_ids
    num_blank = -len(sample_ids) % every
    rows = np.append(sample_ids, np.full(num_blank, -1)).reshape(-1, every)
    groups = np.split(rows, starts[1:])
    by_batch = np.concatenate([group.T.ravel() for group in groups])
    return by_batch[by_batch >= 0]


def _token_batches(sample_ids: np.ndarray, sizes: np.ndarray, lengths: np.ndarray, every: int) -> TokenBatches:
    """Return the batches of so many samples, with their widths and tokens.

    Args:
        sizes: samples of each batch; 0 for a blank one.
        lengths: of each of the `sample_ids`.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    is_filled = sizes > 0
    firsts = offsets[:-1][is_filled]
    longest = np.zeros(len(sizes), np.int64)
    longest[is_filled] = np.maximum.reduceat(lengths, firsts)
    tokens = np.zeros(len(sizes), np.int64)
    tokens[is_filled] = np.add.reduceat(lengths, firsts, dtype=np.int64)
    widths = np.repeat(longest.reshape(-1, every).max(1), every)
    return TokenBatches(sample_ids, offsets, widths, tokens, longest, every)


def _ordered(lengths: np.ndarray, order: str, seed: int | Sequence[int] | None) -> np.ndarray:
    """Return the positions of the samples in the wanted order."""
    if order == "dataset":
        return np.arange(len(lengths))
    rng = np.random.default_rng(0 if seed is None else seed)
    if order == "random":
        return rng.permutation(len(lengths))
    shuffled = np.arange(len(lengths)) if seed is None else rng.permutation(len(lengths))
    keys = lengths[shuffled]
    if keys.max() < 1 << 16:
        keys = keys.astype(np.uint16, copy=False)  # which NumPy sorts by counting
    return shuffled[np.argsort(keys if order == "ascending" else ~keys, kind="stable")]


def _ends(rows: np.ndarray, budget: int, max_rows: int) -> np.ndarray:
    """Find where the largest group ends that starts at each row: each column adds up to the budget at most."""
    number = len(rows)
    ends = np.minimum(np.arange(number) + min(max_rows, number), number)
    for column in rows.T:
        tokens_before = np.concatenate([[0], np.cumsum(column, dtype=np.int64)])
        ends_by_budget = tokens_before.searchsorted(tokens_before[:-1] + budget, "right") - 1
        ends = np.minimum(ends, ends_by_budget)
    return ends


def _padded_ends(rows: np.ndarray, budget: int, max_rows: int) -> np.ndarray:
    """Find where the largest group ends that starts at each row: its rows × its longest is the budget at most."""
    longest = rows.max(1).tolist()
    ends = np.empty(len(longest), np.int64)
    records = deque[int]()  # rows of the group that are longer than all before them; the longest first
    end = len(longest)
    for start in reversed(range(len(longest))):
        while records and longest[records[-1]] <= longest[start]:
            records.pop()
        records.append(start)
        while end - start > max_rows or (end - start) * longest[records[0]] > budget:
            end -= 1
            if records[0] == end:
                records.popleft()
        ends[start] = end
    return ends


def _leaving_enough(largest_ends: list[int], fewest: int) -> np.ndarray:
    """Find where the largest group of each row ends that leaves all but the last group `fewest` rows; else 0.

    Args:
        largest_ends: where the largest group ends that starts at each row, whatever comes after it.
    """
    number = len(largest_ends)
    ends = np.zeros(number, np.int64)
    cuttable = [number]  # the rows from which on the rest can be cut, the last first
    reachable = 0  # of the last row among them that the group may reach
    for start in reversed(range(number)):
        while reachable < len(cuttable) and cuttable[reachable] > largest_ends[start]:
            reachable += 1
        if reachable == len(cuttable):
            return np.zeros(number, np.int64)
        end = cuttable[reachable]
        if end == number or end - start >= fewest:
            ends[start] = end
            cuttable.append(start)
    return ends
