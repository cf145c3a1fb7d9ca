"""Batches of about equally many tokens: few long samples or many short ones, cut in linear time.

Source: "Attention is all you need" (Vaswani et al. 2017, section 5.1), where a batch holds about 25,000
source tokens and 25,000 target tokens.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from packlib.batches.cutting import cut, halve_fullest, next_cuts
from packlib.checks import flag, one_of, whole_number
from packlib.lengths.counting import as_lengths
from packlib.packing.ragged import Ragged

_MOST_TOKENS = 1 << 62  # twice as many do not fit in 64 bits
ORDERS = ("dataset", "ascending", "descending", "random")


@dataclass(frozen=True, eq=False)
class TokenBatches(Ragged):
    """Batch `i` holds the samples `sample_ids[offsets[i]:offsets[i + 1]]`; padded, it is `rows[i]` × `widths[i]`.

    Attributes:
        sample_ids: integers, shape (number of samples,); positions in the `lengths` that were cut.
        offsets: int64, shape (number of batches + 1,).
        rows, widths: int64, shape (number of batches,): the shape of each batch, in sequences and tokens. Where
            shapes must be equal, a batch may have a row more than samples: its last row is blank.
        tokens, longest: int64, shape (number of batches,): the sum and the maximum of its lengths.
        same_shape_every: that many batches in turn have one shape, or None.
    """

    sample_ids: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    widths: np.ndarray
    tokens: np.ndarray
    longest: np.ndarray
    same_shape_every: int | None = None
    _called = "batch", "batches"

    def __post_init__(self) -> None:
        sizes = self.sizes
        if len(sizes) < 1 or self.offsets[0] or self.offsets[-1] != len(self.sample_ids) or sizes.min() < 1:
            raise ValueError(f"The offsets do not cut {len(self.sample_ids)} samples into batches.")
        if (self.rows < sizes).any() or (self.widths < self.longest).any():
            raise ValueError("A batch must have a row for each of its samples, as wide as the longest.")

    def __getitem__(self, index: int) -> np.ndarray:
        return self.sample_ids[self._row(index)]

    @property
    def sizes(self) -> np.ndarray:
        """Samples in each batch; int64, shape (number of batches,)."""
        return np.diff(self.offsets)

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
        count, samples, every = len(self), len(self.sample_ids), self.same_shape_every
        shapes = f", {self.shape_cost:.2%} for one shape in every {every} batches" if every else ""
        return (
            f"TokenBatches({count:,} batches, {samples:,} samples, {samples / count:.1f} a batch of "
            f"{self.tokens.mean():,.0f} tokens, {self.padding_fraction:.2%} padding{shapes})"
        )


def batch_by_tokens(
    lengths: Iterable[int],
    max_tokens: int,
    min_batch: int = 1,
    max_batch: int | None = None,
    order: str = "dataset",
    same_shape_every: int | None = None,
    *,
    target_lengths: Iterable[int] | None = None,
    max_target_tokens: int | None = None,
    count_padding: bool = False,
    num_batches_multiple_of: int = 1,
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
        max_tokens: the budget of a batch.
        min_batch, max_batch: the fewest and the most rows of a batch. Only the last batch of all (or the last k), and
            those that `num_batches_multiple_of` splits, may have fewer. Whether `min_batch` can be kept depends on the
            order; with max_tokens of min_batch times the longest sample it always can.
        order: "dataset", "random", or "ascending" or "descending" by length. For an order of your own, such as by
            `difficulties`, give the lengths in that order.
        same_shape_every: k batches in turn, such as the micro-batches of an update in a pipeline, get one shape.
            The samples are dealt to the k in turn. Where k does not divide their number, blank rows fill up: among the
            first k batches that have two rows or more, the last ones end in a blank row each.
        target_lengths: a second length of each sample, such as that of its translation, with a budget of its own. It
            goes with neither `same_shape_every` nor `count_padding`, which know one width of a batch.
        max_target_tokens: the budget of these; None for `max_tokens`.
        count_padding: the budget counts padding too: rows × longest, and not the sum of lengths.
        num_batches_multiple_of: make the number of batches a multiple of this, for ranks × accumulation: the fullest
            batches are halved.
        seed: of the random order; and of that of equally long samples, which by default is the data set's.

    Raises:
        TypeError, ValueError: for bad arguments; naming the samples that are too long, that make `min_batch`
            impossible, or that are left over where blank rows do not fit.
    """
    one_of("order", order, ORDERS)
    flag("count_padding", count_padding)
    whole_number("min_batch", min_batch, 1)
    whole_number("max_tokens", max_tokens, 1)
    lengths = as_lengths(lengths)
    most = len(lengths) if max_batch is None else whole_number("max_batch", max_batch, min_batch)
    every = 1 if same_shape_every is None else whole_number("same_shape_every", same_shape_every, 1)
    whole_number("num_batches_multiple_of", num_batches_multiple_of, 1)
    _refuse_overlong("max_tokens", max_tokens, lengths)
    budgets, second = [max_tokens], []
    if target_lengths is None:
        if max_target_tokens is not None:
            raise ValueError("max_target_tokens needs target_lengths, the target tokens of each sample.")
    else:
        if same_shape_every is not None or count_padding:
            raise ValueError("target_lengths goes with neither same_shape_every nor count_padding.")
        second = [as_lengths(target_lengths)]
        if len(second[0]) != len(lengths):
            raise ValueError(f"target_lengths must have one length for each of the {len(lengths)} samples.")
        own = max_tokens if max_target_tokens is None else max_target_tokens
        budgets.append(whole_number("max_target_tokens", own, 1))
        _refuse_overlong("max_target_tokens", budgets[1], second[0])
    if every > 1 and every % num_batches_multiple_of:
        raise ValueError(
            f"num_batches_multiple_of must divide same_shape_every {every}; {num_batches_multiple_of} does not."
        )
    whole_number("the sum of lengths", int(lengths.sum(dtype=np.float64)), 1, _MOST_TOKENS)
    budgets, most = [min(budget, _MOST_TOKENS) for budget in budgets], min(most, len(lengths))
    samples = _ordered(lengths, order, seed)
    if len(samples) < every:
        raise ValueError(f"same_shape_every {every} needs as many samples; there are {len(lengths)}.")
    in_order = order in ("ascending", "descending") and not second
    budget = budgets if second else budgets[0]

    def starts(ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
        begins = cut(rows, budget, min_batch, most, count_padding, in_order)
        if (few := np.flatnonzero(np.diff(begins) < min_batch)).size:
            first, after = begins[few[0]], begins[few[0] + 1]
            raise ValueError(
                f"min_batch {min_batch} cannot be kept in this order within max_tokens {max_tokens}: the batch that "
                f"begins with sample {ids[first * every]} takes {after - first}, and no other cut leaves enough for "
                "every batch."
            )
        return begins

    def startable(rows: np.ndarray) -> np.ndarray:
        if min_batch == 1:
            return np.ones(len(rows), bool)
        return np.array(next_cuts(rows, budget, min_batch, most, count_padding)) > 0

    if every == 1:
        ordered = lengths[samples]
        begins = starts(samples, np.stack([ordered, *(column[samples] for column in second)], axis=1))
        return _batches(samples, ordered, halve_fullest(np.append(begins, len(samples)), num_batches_multiple_of))
    begins = starts(samples, _in_rows(samples, lengths, every))
    if len(samples) % every:
        samples, begins = _with_blanks(samples, begins, lengths, every, starts, startable)
    return _dealt(samples, begins, lengths, every)


def _refuse_overlong(name: str, budget: int, lengths: np.ndarray) -> None:
    over = np.flatnonzero(lengths > budget)
    if over.size:
        raise ValueError(
            f"{name} {budget} allows {budget} tokens a sample; {len(over)} have more: "
            f"{_some(over, lengths)}. Raise {name}, or cut or leave out these samples."
        )


def _some(samples: np.ndarray, lengths: np.ndarray) -> str:
    """The first samples, in words."""
    named = ", ".join(f"sample {i} with {lengths[i]}" for i in samples[:5].tolist())
    return f"{named}{', …' if len(samples) > 5 else ''}"


def _ordered(lengths: np.ndarray, order: str, seed: int | Sequence[int] | None) -> np.ndarray:
    """The positions of the samples in the wanted order."""
    if order == "dataset":
        return np.arange(len(lengths))
    rng = np.random.default_rng(0 if seed is None else seed)
    if order == "random":
        return rng.permutation(len(lengths))
    shuffled = None if seed is None else rng.permutation(len(lengths))
    keys = lengths if shuffled is None else lengths[shuffled]
    if keys.max() < 1 << 16:
        keys = keys.astype(np.uint16, copy=False)  # which NumPy sorts by counting
    ids = np.argsort(keys if order == "ascending" else ~keys, kind="stable")
    return ids if shuffled is None else shuffled[ids]


def _in_rows(samples: np.ndarray, lengths: np.ndarray, every: int) -> np.ndarray:
    """The lengths of `samples` in rows of `every`, 0 where the last one is not full."""
    return np.append(lengths[samples], np.zeros(-len(samples) % every, lengths.dtype)).reshape(-1, every)


def _batches(samples: np.ndarray, ordered: np.ndarray, offsets: np.ndarray) -> TokenBatches:
    """Cut `samples`, whose lengths are `ordered`, at `offsets`; each batch is as wide as its longest."""
    longest = np.maximum.reduceat(ordered, offsets[:-1]).astype(np.int64)
    tokens = np.add.reduceat(ordered, offsets[:-1], dtype=np.int64)
    return TokenBatches(samples, offsets, np.diff(offsets), longest, tokens, longest)


def _with_blanks(
    samples: np.ndarray, begins: np.ndarray, lengths: np.ndarray, every: int, starts: Callable, startable: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """Fill up rows of `every` samples with blanks, -1, and cut what comes after them again.

    They go to the end of the first group with two rows, where no batch is all blank.

    Args:
        begins: where groups begin in rows of `samples`.
        starts: the same for other samples and their lengths in rows.
        startable: whether all groups from each row of samples on can have the rows that they need.
    """
    blank = -len(samples) % every
    ends = np.append(begins[1:], -(-len(samples) // every))
    rest = np.append(startable(_in_rows(samples[every - blank :], lengths, every)), True)
    takes = (ends - begins > 1) & rest[ends - 1]
    if not takes.any():
        left = samples[len(samples) // every * every :]
        raise ValueError(
            f"{len(samples)} samples make no multiple of {every} batches of one shape: no batch has room for a "
            f"blank row, and {len(left)} are left over: {_some(left, lengths)}. Leave these samples out."
        )
    group = int(np.argmax(takes))
    at = int(ends[group]) * every - blank
    head, tail = samples[:at], samples[at:]
    begins = begins[: group + 1]
    if len(tail):
        begins = np.append(begins, ends[group] + starts(tail, _in_rows(tail, lengths, every)))
    return np.concatenate([head, np.full(blank, -1, samples.dtype), tail]), begins


def _dealt(samples: np.ndarray, begins: np.ndarray, lengths: np.ndarray, every: int) -> TokenBatches:
    """Make each column of a group a batch; `samples` are in rows of `every`, and groups begin at rows `begins`."""
    number = len(samples) // every
    sizes = np.diff(np.append(begins, number))
    first, size = np.repeat(begins, sizes)[:, None], np.repeat(sizes, sizes)[:, None]
    target = first * every + np.arange(every) * size + (np.arange(number)[:, None] - first)
    dealt = np.empty_like(samples)  # from (group, row, column) to (group, column, row)
    dealt[target] = samples.reshape(-1, every)

    rows = np.repeat(sizes, every)
    held = np.add.reduceat(dealt >= 0, np.cumsum(rows) - rows, dtype=np.int64)
    dealt = dealt[dealt >= 0]
    own = _batches(dealt, lengths[dealt], np.concatenate([[0], np.cumsum(held)]))
    widths = np.repeat(own.longest.reshape(-1, every).max(1), every)
    return replace(own, rows=rows, widths=widths, same_shape_every=every)
