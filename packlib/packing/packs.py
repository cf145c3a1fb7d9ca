"""From a plan to packs: which samples share which pack."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np

from packlib.arrays import map_arrays, save_arrays
from packlib.checks import shown, whole_number
from packlib.lengths.counting import MAX_LENGTH, as_integers, as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.ragged import Ragged
from packlib.reading import naming

_MANY = 64  # packs of a strategy that are worth a slice each
_MANY_SAMPLES = 1 << 17  # worth loading the compiler for
_ARRAYS = ("sample_ids", "offsets", "lengths_used")


@dataclass(frozen=True, eq=False)
class Packs(Ragged):
    """Which samples share a pack: pack `i` holds `sample_ids[offsets[i]:offsets[i + 1]]`.

    Attributes:
        sample_ids: integers from 0 up, shape (number of samples,); positions in the `lengths` that were packed.
        offsets: int64, shape (number of packs + 1,).
        lengths_used: integers, shape (number of packs,); tokens in each pack, from 1 to `max_length`.
        max_length: slots of a pack, in tokens.

    >>> from packlib.packing import plan
    >>> packs = plan([5, 3, 3, 2, 8], max_length=8).assign([5, 3, 3, 2, 8])
    >>> packs.num_packs, packs[1].tolist(), packs.lengths_used.tolist(), packs.efficiency
    (3, [0, 1], [8, 8, 5], 0.875)

    `len(packs)` is the number of packs, `packs[i]` the sample ids of pack i, and iterating goes through all packs.

    Raises:
        TypeError, ValueError: with the first attribute that is wrong, in one sentence.
    """

    sample_ids: np.ndarray
    offsets: np.ndarray
    lengths_used: np.ndarray
    max_length: int
    _called = "pack", "packs"

    def __post_init__(self) -> None:
        checked = vars(self)  # the attributes of what is frozen cannot be set in another way
        for name, noun in zip(_ARRAYS, ("sample_id", "offset", "used length"), strict=True):
            checked[name] = as_integers(checked[name], noun)
        checked["offsets"] = ends = self.offsets.astype(np.int64, copy=False)
        checked["max_length"] = top = whole_number("max_length", self.max_length, 1, MAX_LENGTH)
        packs = len(ends) - 1
        if packs < 1 or ends[0] != 0 or ends[-1] != len(self.sample_ids) or (ends[1:] <= ends[:-1]).any():
            raise ValueError(f"The offsets do not cut {len(self.sample_ids)} sample ids into packs.")
        if len(used := self.lengths_used) != packs or used.max() > top or (used < np.diff(ends)).any():
            raise ValueError(
                f"lengths_used must have {packs} entries, of at most {top} tokens and one or more a sample."
            )
        ids = np.sort(self.sample_ids)
        whole_number("sample_ids", ids[0], 0)
        if (same := ids[1:] == ids[:-1]).any():
            raise ValueError(f"Sample {ids[same.argmax()]} comes more than once in the packs.")

    def verify(self, lengths: Iterable[int] | None = None) -> Self:
        """Check the packs and return them: each sample is in one pack, and no pack is too long.

        Args:
            lengths: of all samples, in tokens: then each pack also holds as many tokens as it says.

        Raises:
            TypeError, ValueError: with the first thing that is wrong.
        """
        self.__post_init__()
        if lengths is not None and len(self):
            known = as_lengths(lengths)
            if (last := int(self.sample_ids.max())) >= len(known):
                raise ValueError(f"The packs hold sample {last}; there are {len(known)} lengths.")
            held = np.minimum(known[self.sample_ids], self.max_length).astype(np.int64)
            tokens = np.add.reduceat(held, self.offsets[:-1])
            if (wrong := tokens != self.lengths_used).any():
                at = int(wrong.argmax())
                raise ValueError(f"Pack {at} holds {tokens[at]} tokens of these lengths, not {self.lengths_used[at]}.")
        return self

    @property
    def num_packs(self) -> int:
        return len(self)

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return int(self.lengths_used.sum()) / max(1, len(self) * self.max_length)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.sample_ids[self._row(index)]

    def __repr__(self) -> str:
        full = f"{self.efficiency:.3%} full"
        return f"Packs({len(self):,} packs of {self.max_length}, {len(self.sample_ids):,} samples, {full})"

    def save(self, path: str | os.PathLike) -> None:
        """Write the packs to one file, which is whole or not there."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        save_arrays(path, "Packs", {**arrays, "max_length": np.array([self.max_length])})

    @classmethod
    def load(cls, path: str | os.PathLike, verify: bool = True) -> "Packs":
        """Map a file that `save` wrote: the arrays are read from disk where they are used.

        Args:
            verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it is no whole file of packs.
        """
        names = (*_ARRAYS, "max_length")
        with naming(path, "whole file of packs") as file:
            fields = map_arrays(file, "Packs", names, verify=verify)
            return cls(**{**fields, "max_length": fields["max_length"].item()})


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


@runtime_checkable
class Planned(Protocol):
    """What `assign` reads of a `PackingPlan`, whose method `assign` calls it."""

    @property
    def histogram(self) -> LengthHistogram: ...
    @property
    def items(self) -> np.ndarray: ...
    @property
    def offsets(self) -> np.ndarray: ...
    @property
    def repeats(self) -> np.ndarray: ...
    @property
    def sizes(self) -> np.ndarray: ...


def assign(plan: Planned, lengths: Iterable[int], seed: int | None = None) -> Packs:
    """Choose the samples for every pack of a `PackingPlan`; each sample lands in exactly one.

    >>> from packlib.packing import assign, plan
    >>> lengths = [5, 3, 3, 2, 8]
    >>> packs = assign(plan(lengths, max_length=8), lengths)
    >>> [samples.tolist() for samples in packs]
    [[4], [0, 1], [2, 3]]

    Args:
        lengths: the tokens of every sample, those that the plan's histogram was made from, in any order. Where
            the histogram truncated or dropped overlong samples, so does this.
        seed: permutes the samples of equal length, so that an epoch can have other company; None keeps their order.

    Returns:
        Packs in the plan's order (their order in training is the loader's business).

    Raises:
        TypeError, ValueError: if there is no plan, or it was made for other lengths.
    """
    if not isinstance(plan, Planned):
        raise TypeError(f"plan must be a PackingPlan, not {shown(plan)}.")
    histogram, top = plan.histogram, plan.histogram.max_length
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
    repeats, sizes = np.repeat(plan.repeats, plan.sizes), np.repeat(plan.sizes, plan.sizes)
    by_length = np.argsort(plan.items, kind="stable")
    first = np.empty(len(repeats), np.int64)
    first[by_length] = np.cumsum(repeats[by_length]) - repeats[by_length]
    column = np.arange(len(sizes)) - np.repeat(plan.offsets[:-1], plan.sizes)
    place = np.repeat(np.cumsum(plan.repeats * plan.sizes) - plan.repeats * plan.sizes, plan.sizes) + column
    sample_ids = np.empty(histogram.num_sequences, order.dtype)
    few = np.flatnonzero(repeats < _MANY)  # their samples one by one, others in slices
    pack = np.arange(int(repeats[few].sum())) - np.repeat(np.cumsum(repeats[few]) - repeats[few], repeats[few])
    few = np.repeat(few, repeats[few])
    sample_ids[place[few] + pack * sizes[few]] = order[first[few] + pack]
    many = np.flatnonzero(repeats >= _MANY)
    for at, size, begin, n in zip(*(a[many].tolist() for a in (place, sizes, first, repeats)), strict=True):
        sample_ids[at : at + n * size : size] = order[begin : begin + n]
    ends = np.cumsum(np.repeat(plan.sizes, plan.repeats))
    totals = np.add.reduceat(plan.items, plan.offsets[:-1]).astype(np.int32)
    used, ends = np.repeat(totals, plan.repeats), np.concatenate([[0], ends])
    return Packs._of(sample_ids=sample_ids, offsets=ends, lengths_used=used, max_length=top)


def _shuffle(order: np.ndarray, starts: np.ndarray, seed: int) -> None:
    """Permute the samples of each length (Durstenfeld, Algorithm 235: Random Permutation, 1964), in place.

    Each length has a generator of its own: its permutation does not depend on what else is packed, or where.
    """
    exchange = swap
    if len(order) > _MANY_SAMPLES:
        from packlib.packing.compiled import compiled  # here, since it takes a while to import

        exchange = compiled(swap)
    counts = np.diff(starts)[:-1]
    # how many samples there are to draw from; a little less keeps the product below when it is rounded
    choices = np.arange(counts.max(), 0, -1) * (1 - 2**-50)
    for length in np.flatnonzero(counts > 1).tolist():
        same = order[starts[length] : starts[length + 1]]
        drawn = np.random.default_rng([seed, length]).random(len(same)) * choices[len(choices) - len(same) :]
        exchange(same, drawn.astype(np.int64))


def swap(samples: np.ndarray, drawn: np.ndarray) -> None:
    """Exchange the sample at each place with that at `drawn` places behind it; `samples` changes."""
    for i in range(len(drawn)):
        j = i + drawn[i]
        samples[i], samples[j] = samples[j], samples[i]


def _refuse_other_lengths(histogram: LengthHistogram, given: np.ndarray) -> None:
    planned = np.append(histogram.counts, histogram.dropped)
    wrong = np.flatnonzero(given != planned)
    if wrong.size:
        length = int(wrong[0])
        over = "over " if length > histogram.max_length else ""
        raise ValueError(
            f"The plan was made for other lengths: of length {over}{length - bool(over)} it has {planned[length]:,}, "
            f"and {given[length]:,} are given."
        )
