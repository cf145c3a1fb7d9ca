"""Make batches of about the same number of tokens: few long samples or many short ones.

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

_MOST_TOKENS = 1 << 62  # of all samples, and of a budget: their sum fits in 64 bits
Order = Literal["dataset", "ascending", "descending", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, eq=False)
class TokenBatches(Ragged[np.ndarray]):
    """Batch `i` holds the samples `sample_ids[offsets[i]:offsets[i + 1]]`; padded, it is `rows[i]` × `widths[i]`.

    Attributes:
        sample_ids: integers, shape (number of samples,); positions in the `lengths` of `batch_by_tokens`.
        offsets: int64, shape (number of batches + 1,).
        widths: the width of each batch, in tokens; int64, shape (number of batches,).
        tokens: the sum of the lengths in each batch; int64, same shape.
        longest: the largest of these lengths, and 0 for a blank batch; int64, same shape.
        same_shape_every: k, if groups of k successive batches have the same shape. Some of the last k batches may be
            blank: they have no sample.
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
        """Rows of each batch; int64, shape (number of batches,).

        A batch with fewer samples than another one of the same shape has blank rows.
        """
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
        """Share of the slots that are added to make batches of the same shape."""
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
    """Cut the samples, in the chosen order, into batches that each take as many samples as `max_tokens` allows.

    Every sample is in exactly one batch. The time is linear in the number of samples (that of the sort, too, if lengths
    are below 65,536).

    >>> from packlib.batches import batch_by_tokens
    >>> batches = batch_by_tokens([4, 2, 3, 9, 1, 5], max_tokens=10)
    >>> [samples.tolist() for samples in batches]
    [[0, 1, 2], [3, 4], [5]]

    Args:
        lengths: tokens of each sample.
        max_tokens: the budget of a batch, in tokens: its lengths add up to at most this (see `count_padding`).
        min_batch, max_batch: the fewest and the most samples of a batch. Only the last batch (or the last k, see
            `same_shape_every`) may have fewer than `min_batch`. If the largest batch would leave too few samples for a
            later one, it takes fewer.
        order: "dataset", "random", or "ascending" or "descending" by length. For an order of your own, such as by
            `difficulties`, pass the lengths in that order.
        same_shape_every: k. Groups of k successive batches, such as the micro-batches of an update in a pipeline, get
            the same shape: the samples of a group are assigned to its k batches in turn. If k does not divide the
            number of samples, some of the last k batches have a sample less than the others, and a blank row.
        target_lengths: a second length of each sample, such as that of its translation, with a budget of the same size.
            It cannot be combined with `same_shape_every` or `count_padding`, which are for one width of a batch.
        count_padding: if True, the budget counts padding too: samples × longest, and not the sum of lengths.
        blank_batches: if True and samples are too few for the last k batches, some of these have no sample, and a
            loader makes them of padding alone. If False, too few samples are an error, since a mean over the labels of
            a blank batch is 0 / 0.
        seed: of the random order (None is 0), or of the order of samples of equal length (None keeps the data set's).

    Raises:
        TypeError, ValueError: for bad arguments; naming the samples that are too long; if no cut keeps `min_batch`.
    """
    one_of("order", order, ORDERS)
    flag("count_padding", count_padding)
    flag("blank_batches", blank_batches)
    _check_seed(seed)
    lengths = as_lengths(lengths)
    num_samples = len(lengths)
    every = whole_number("same_shape_every", same_shape_every, 1)
    whole_number("min_batch", min_batch, 1)
    max_rows = num_samples if max_batch is None else whole_number("max_batch", max_batch, min_batch)
    _refuse_few_samples(num_samples, every, blank_batches)
    whole_number("the sum of lengths", int(lengths.sum(dtype=np.float64)), 1, _MOST_TOKENS)
    budget = _checked_budget("lengths", max_tokens, lengths)
    targets = None
    if target_lengths is not None:
        targets = _checked_targets(target_lengths, num_samples, max_tokens, every, count_padding)

    # A row has a sample for each batch of a shape, one column a batch. A group of rows becomes `every` batches.
    sample_ids = _ordered(lengths, order, seed)
    rows = _rows(lengths[sample_ids], every)
    if targets is not None:
        rows = np.concatenate([rows, targets[sample_ids, None]], axis=1)  # two columns: both must keep the budget
    largest_ends = _padded_ends(rows, budget, max_rows) if count_padding else _ends(rows, budget, max_rows)
    if min_batch > 1:
        largest_ends = _ends_leaving_enough(largest_ends.tolist(), min_batch)
    _refuse_no_cut(largest_ends, min_batch, max_tokens)
    starts = _group_starts(largest_ends)
    sizes = np.repeat(np.diff(starts, append=len(rows)), every)
    num_blank = len(rows) * every - num_samples  # places of the last row without a sample
    _refuse_blank_batches(num_blank, int(sizes[-1]), num_samples, every, blank_batches)
    sizes[len(sizes) - num_blank :] -= 1
    sample_ids = _batch_by_batch(sample_ids, starts, every)
    return _token_batches(sample_ids, sizes, lengths[sample_ids], every)


def _check_seed(seed: Any) -> None:
    """Raise a TypeError or ValueError unless a seed is None, a whole number, or a list of whole numbers."""
    if seed is not None:
        for number in seed if isinstance(seed, (list, tuple)) else [seed]:
            whole_number("seed", number, 0)


def _refuse_few_samples(num_samples: int, every: int, blank_batches: bool) -> None:
    """Raise a ValueError if samples are too few for one group of batches, unless some batches may be blank."""
    if num_samples < every and not blank_batches:
        raise ValueError(
            f"same_shape_every must be at most {num_samples}, as there are samples, not {every}, unless blank_batches "
            "is True."
        )


def _checked_budget(name: str, budget: int, lengths: np.ndarray) -> int:
    """Return the budget, at most `_MOST_TOKENS`; raise a ValueError if a length is above it.

    Args:
        name: of the argument that has the lengths, for the error.
        budget: `max_tokens`.
        lengths: of the samples.
    """
    too_long = np.flatnonzero(lengths > whole_number("max_tokens", budget, 1))
    if too_long.size:
        examples = ", ".join(f"sample {i} with {lengths[i]}" for i in too_long[:5].tolist())
        raise ValueError(
            f"max_tokens {budget} allows {budget} tokens a sample; {len(too_long)} of {name} have more: {examples}"
            f"{', …' if len(too_long) > 5 else ''}. Raise max_tokens, or cut or leave out these samples."
        )
    return min(budget, _MOST_TOKENS)


def _checked_targets(
    target_lengths: Iterable[int], num_samples: int, max_tokens: int, every: int, count_padding: bool
) -> np.ndarray:
    """Return the second length of each sample, checked; integers, shape (num_samples,)."""
    if every > 1 or count_padding:
        raise ValueError("target_lengths goes with neither same_shape_every nor count_padding.")
    targets = as_lengths(target_lengths, noun="Target length")
    if len(targets) != num_samples:
        raise ValueError(f"target_lengths must have one length for each of the {num_samples} samples.")
    _checked_budget("target_lengths", max_tokens, targets)
    return targets


def _refuse_no_cut(largest_ends: np.ndarray, min_batch: int, max_tokens: int) -> None:
    """Raise a ValueError if no batch can begin with the first sample, which `_ends_leaving_enough` marks by a 0."""
    if not largest_ends[0]:
        raise ValueError(
            f"min_batch {min_batch} cannot be kept: in this order, every cut within max_tokens {max_tokens} leaves "
            "fewer samples to a batch before the last. Lower min_batch, or raise max_tokens."
        )


def _refuse_blank_batches(num_blank: int, last_size: int, num_samples: int, every: int, blank_batches: bool) -> None:
    """Raise a ValueError if some of the last batches would have no sample, unless they may be blank.

    Args:
        num_blank: how many of the last batches have a sample less than the others.
        last_size: samples that the others of the last batches have.
        num_samples, every, blank_batches: of the call.
    """
    if num_blank and last_size == 1 and not blank_batches:
        raise ValueError(
            f"same_shape_every {every} leaves {num_blank} of the last {every} batches without a sample: pass "
            f"blank_batches=True, leave out {every - num_blank} of {num_samples} samples, or take another order or "
            "max_tokens."
        )


def _rows(ordered_lengths: np.ndarray, every: int) -> np.ndarray:
    """Put the lengths into rows of `every` samples, one for each batch of a shape; the last row may end with zeros.

    >>> import numpy as np
    >>> from packlib.batches.token_budget import _rows
    >>> _rows(np.array([4, 2, 3, 9, 1]), every=2).tolist()
    [[4, 2], [3, 9], [1, 0]]
    """
    num_blank = -len(ordered_lengths) % every
    return np.append(ordered_lengths, np.zeros(num_blank, ordered_lengths.dtype)).reshape(-1, every)


def _group_starts(largest_ends: np.ndarray) -> list[int]:
    """Return the first row of each group, if each takes as many rows as it may.

    Args:
        largest_ends: for each row, the row behind the largest group that starts there.
    """
    starts = [0]
    while largest_ends[starts[-1]] < len(largest_ends):
        starts.append(int(largest_ends[starts[-1]]))
    return starts


def _batch_by_batch(sample_ids: np.ndarray, starts: list[int], every: int) -> np.ndarray:
    """Return the samples batch by batch: each column of a group of rows is a batch.

    Args:
        sample_ids: row by row, `every` a row.
        starts: the first row of each group.
        every: batches of a group.
    """
    if every == 1:
        return sample_ids
    num_blank = -len(sample_ids) % every  # marked by -1
    rows = np.append(sample_ids, np.full(num_blank, -1)).reshape(-1, every)
    groups = np.split(rows, starts[1:])
    by_batch = np.concatenate([group.T.ravel() for group in groups])
    return by_batch[by_batch >= 0]


def _token_batches(sample_ids: np.ndarray, sizes: np.ndarray, lengths: np.ndarray, every: int) -> TokenBatches:
    """Make the batches, with their widths and tokens.

    Args:
        sample_ids: batch by batch.
        sizes: number of samples in each batch; 0 for a blank one.
        lengths: the length of each of the `sample_ids`.
        every: so many successive batches have the same shape.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    has_samples = sizes > 0
    firsts = offsets[:-1][has_samples]
    longest = np.zeros(len(sizes), np.int64)
    longest[has_samples] = np.maximum.reduceat(lengths, firsts)
    tokens = np.zeros(len(sizes), np.int64)
    tokens[has_samples] = np.add.reduceat(lengths, firsts, dtype=np.int64)
    widths = np.repeat(longest.reshape(-1, every).max(1), every)
    return TokenBatches(sample_ids, offsets, widths, tokens, longest, every)


def _ordered(lengths: np.ndarray, order: str, seed: int | Sequence[int] | None) -> np.ndarray:
    """Return the positions of the samples in `order`, one of `ORDERS`; int64, shape (number of samples,)."""
    if order == "dataset":
        return np.arange(len(lengths))
    rng = np.random.default_rng(0 if seed is None else seed)
    if order == "random":
        return rng.permutation(len(lengths))
    # the sort is stable: samples of equal length keep the order that they have before it
    before_sort = np.arange(len(lengths)) if seed is None else rng.permutation(len(lengths))
    keys = lengths[before_sort]
    if keys.max() < 1 << 16:
        keys = keys.astype(np.uint16, copy=False)  # which NumPy sorts by counting
    return before_sort[np.argsort(keys if order == "ascending" else ~keys, kind="stable")]


# In the three functions below, `rows` are lengths, shape (rows, columns), and a group is a run of successive rows. Each
# function returns for each row the end (excluded) of the largest group that starts there; int64, shape (rows,).


def _ends(rows: np.ndarray, budget: int, max_rows: int) -> np.ndarray:
    """Find the ends of the largest groups of at most `max_rows` rows in which no column adds up to over the budget.

    >>> import numpy as np
    >>> from packlib.batches.token_budget import _ends
    >>> _ends(np.array([[4], [2], [3], [9]]), budget=10, max_rows=4).tolist()
    [3, 3, 3, 4]
    """
    num_rows = len(rows)
    ends = np.minimum(np.arange(num_rows) + min(max_rows, num_rows), num_rows)
    for column in rows.T:
        tokens_before = np.concatenate([[0], np.cumsum(column, dtype=np.int64)])  # before each row, and of all
        ends_by_budget = tokens_before.searchsorted(tokens_before[:-1] + budget, "right") - 1
        ends = np.minimum(ends, ends_by_budget)
    return ends


def _padded_ends(rows: np.ndarray, budget: int, max_rows: int) -> np.ndarray:
    """Find the ends of the largest groups of at most `max_rows` rows whose rows × longest is the budget at most.

    Start and end of the group go from the last row to the first.
    """
    longest = rows.max(1).tolist()  # of each row
    ends = np.empty(len(longest), np.int64)
    records = deque[int]()  # rows of the group that are longer than all before them; the last and longest first
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


def _ends_leaving_enough(largest_ends: list[int], fewest: int) -> np.ndarray:
    """Find the ends of the largest groups after which the other rows can be cut so that groups have `fewest` rows.

    The last group may have fewer. If no such group starts at a row, its end is 0.

    Args:
        largest_ends: the ends of the largest groups, no matter how the other rows can be cut.
        fewest: the fewest rows of a group.
    """
    num_rows = len(largest_ends)
    ends = np.zeros(num_rows, np.int64)
    cuttable = [num_rows]  # rows at which a group may end, for the rows from there on can be cut; the last first
    reachable = 0  # place in `cuttable` of the last such row that the group may reach
    for start in reversed(range(num_rows)):
        while reachable < len(cuttable) and cuttable[reachable] > largest_ends[start]:
            reachable += 1
        if reachable == len(cuttable):  # neither this row's group nor an earlier one's reaches any of them
            return np.zeros(num_rows, np.int64)
        end = cuttable[reachable]
        if end == num_rows or end - start >= fewest:
            ends[start] = end
            cuttable.append(start)
    return ends
