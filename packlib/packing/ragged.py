"""Rows of different lengths, one after the other in flat arrays: packs, batches of samples, sequences of tokens."""

from collections.abc import Iterator
from typing import Any, Generic, Self, TypeVar

import numpy as np

Item = TypeVar("Item")  # a row as it is taken out


class Ragged(Generic[Item]):
    """Rows of different lengths in flat arrays: row `i` is from `offsets[i]` to `offsets[i + 1]`.

    Attributes:
        offsets: int64, shape (number of rows + 1,), ascending from 0.
    """

    offsets: np.ndarray
    _nouns = "row", "rows"  # what a row is called in errors, singular and plural

    @classmethod
    def _of(cls, **fields: Any) -> Self:
        """Make an instance without a check, because its fields are right by construction.

        To check 16 million samples takes a second.
        """
        instance = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(instance, name, value)  # as the __init__ of a frozen dataclass does
        return instance

    def _row(self, index: int) -> slice:
        """Return the slice of row `index`; a negative one counts from the end."""
        if not -len(self) <= index < len(self):
            singular, plural = self._nouns
            raise IndexError(f"There are {len(self)} {plural}, so there is no {singular} {index}.")
        index %= len(self)
        return slice(self.offsets[index], self.offsets[index + 1])

    def __getitem__(self, index: int) -> Item:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Item]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self.offsets) - 1


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List `lengths[0]` numbers from `starts[0]` on, then `lengths[1]` numbers from `starts[1]` on, and so on.

    >>> import numpy as np
    >>> from packlib.packing.ragged import ranges
    >>> ranges(np.array([5, 20]), np.array([3, 2])).tolist()
    [5, 6, 7, 20, 21]
    """
    ends = np.cumsum(lengths)  # of each range among all numbers
    begins = ends - lengths
    total = ends[-1] if len(ends) else 0
    return np.arange(total) + np.repeat(starts - begins, lengths)
