"""Packs: which samples share a row."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from packlib.arguments import percent, whole_number
from packlib.files import naming
from packlib.lengths.counting import MAX_LENGTH, as_integers
from packlib.packing.arrays import map_arrays, save_arrays
from packlib.packing.ragged import Ragged

_SAVED = "sample_ids", "offsets", "lengths", "max_length"  # attributes that a file of packs has


@dataclass(frozen=True, eq=False, repr=False)
class Packs(Ragged[np.ndarray]):
    """Samples in packs: pack `i` holds `sample_ids[offsets[i]:offsets[i + 1]]`.

    Attributes:
        sample_ids: integers from 0 up, shape (number of samples,); positions in the lengths that were packed.
        offsets: int64, shape (number of packs + 1,).
        lengths: the tokens of each sample, in the order of `sample_ids`; int32, shape (number of samples,).
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
    lengths: np.ndarray
    max_length: int
    _nouns = "pack", "packs"

    def __post_init__(self) -> None:
        sample_ids = as_integers(self.sample_ids, "sample_id")
        offsets = as_integers(self.offsets, "offset").astype(np.int64, copy=False)
        lengths = as_integers(self.lengths, "length")
        max_length = whole_number("max_length", self.max_length, 1, MAX_LENGTH)
        _refuse_other_offsets(offsets, len(sample_ids))
        _refuse_other_lengths(lengths, offsets, max_length)
        _refuse_doubles(sample_ids)
        fields = {
            "sample_ids": sample_ids,
            "offsets": offsets,
            "lengths": lengths.astype(np.int32, copy=False),
            "max_length": max_length,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def verify(self) -> Self:
        """Check the packs and return them: each sample is in one pack, and no pack is too long.

        Raises:
            TypeError, ValueError: with the first thing that is wrong.
        """
        self.__post_init__()
        return self

    @property
    def num_packs(self) -> int:
        return len(self)

    @cached_property
    def lengths_used(self) -> np.ndarray:
        """Tokens in each pack; int32, shape (number of packs,)."""
        if not len(self):
            return np.empty(0, np.int32)
        return np.add.reduceat(self.lengths, self.offsets[:-1], dtype=np.int32)

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return int(self.lengths_used.sum(dtype=np.int64)) / max(1, len(self) * self.max_length)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.sample_ids[self._row(index)]

    def __repr__(self) -> str:
        full = f"{percent(self.efficiency, 3)} full"
        return f"Packs({len(self):,} packs of {self.max_length}, {len(self.sample_ids):,} samples, {full})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the packs to one file, which is whole or not there; those of a schedule in the order of training."""
        save_arrays(path, "Packs", {name: np.atleast_1d(getattr(self, name)) for name in _SAVED})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Packs":
        """Map a file that `save` wrote: each part of the arrays is read from disk when it is used.

        Of a schedule these are its packs, in the order of training. The checksum is compared, which reads the whole
        file once (about a second a gigabyte).

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it is no whole file of packs.
        """
        with naming(path, "whole file of packs") as file:
            arrays: dict[str, Any] = dict(map_arrays(file, "Packs", _SAVED))
            return Packs(**arrays | {"max_length": arrays["max_length"].item()})


def _refuse_other_offsets(offsets: np.ndarray, num_samples: int) -> None:
    """Raise a ValueError unless offsets cut so many samples into packs of one sample or more."""
    covers_samples = len(offsets) >= 2 and offsets[0] == 0 and offsets[-1] == num_samples
    if not covers_samples or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError(f"The offsets do not cut {num_samples} sample ids into packs.")


def _refuse_other_lengths(lengths: np.ndarray, offsets: np.ndarray, max_length: int) -> None:
    """Raise a ValueError unless each sample has a length, and no pack has more tokens than `max_length`."""
    num_samples = int(offsets[-1])
    if len(lengths) != num_samples or lengths.min() < 1 or lengths.max() > max_length:
        raise ValueError(f"lengths must have {num_samples} entries, one a sample, each from 1 to {max_length} tokens.")
    tokens = np.add.reduceat(lengths, offsets[:-1], dtype=np.int64)
    if tokens.max() > max_length:
        raise ValueError(f"Pack {tokens.argmax()} holds {tokens.max()} tokens; max_length is {max_length}.")


def _refuse_doubles(sample_ids: np.ndarray) -> None:
    """Raise a ValueError if a sample comes twice, or has a negative number."""
    ascending = np.sort(sample_ids)
    whole_number("sample_ids", ascending[0], 0)
    is_double = ascending[1:] == ascending[:-1]
    if is_double.any():
        raise ValueError(f"Sample {ascending[is_double.argmax()]} comes more than once in the packs.")
