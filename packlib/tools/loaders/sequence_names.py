"""Numbers for sequences and labels, so that equal ones are counted together, and names for them in sentences."""

from collections.abc import Iterable, Sequence

import numpy as np

from packlib.arguments import one_line
from packlib.tools.loaders.batch_sequences import OneSequence

# In place of a number of labels:
NO_LABELS = -1  # the sequence has none
OTHER_TOKENS = -2  # its tokens differ from when it first came: where they are masked anew, so are its labels
_SHOWN_TOKENS = 6  # of a sequence, in a sentence
_SHOWN = 3  # sequences in a sentence


class SequenceNames:
    """Gives numbers, from 0 up, to sequences and to their labels; equal ones have the same number.

    With an id column, sequences with the same name are equal.

    Attributes:
        rows: by number of a sequence, the first row of the source that has it; empty without a source.
        first: by number, the sequence as it first came.
        labels: by number of labels, the labels; those of whole numbers as int64.
    """

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.first: list[OneSequence] = []
        self.labels: list[np.ndarray] = []
        self._numbers: dict[bytes | str, int] = {}
        self._labels: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.first)

    def number(self, sequence: OneSequence) -> int:
        """Return the number of a sequence: a new number if no equal sequence came before."""
        key = sequence.content if sequence.name is None else sequence.name
        number = self._numbers.setdefault(key, len(self.first))
        if number == len(self.first):
            self.first.append(sequence)
        return number

    def label_number(self, sequence: OneSequence) -> int:
        """Return the number of the labels of a sequence, `NO_LABELS` or `OTHER_TOKENS`."""
        if sequence.labels is None:
            return NO_LABELS
        if self.first[self.number(sequence)].content != sequence.content:
            return OTHER_TOKENS
        labels = np.asarray(sequence.labels)
        labels = labels.astype(np.int64) if labels.dtype.kind in "iub" else labels
        key = labels.tobytes() if labels.dtype != object else repr(labels.tolist()).encode()
        number = self._labels.setdefault(key, len(self.labels))
        if number == len(self.labels):
            self.labels.append(labels)
        return number

    def numbers(self, sequences: Iterable[OneSequence]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of the sequences of a batch, and the numbers of their labels."""
        batch = list(sequences)
        return tuple(map(self.number, batch)), tuple(map(self.label_number, batch))

    def named(self, numbers: Sequence[int]) -> str:
        """Return the first of these sequences in words, such as "row 3 (7 8 9 …) and 4 more"."""
        first_few = ", ".join(map(self._named, list(numbers)[:_SHOWN]))
        more = len(numbers) - _SHOWN
        return first_few + (f" and {more:,} more" if more > 0 else "")

    def _named(self, number: int) -> str:
        """Return a sequence in words: its row in the source, its name or its order of coming, and its first tokens."""
        sequence = self.first[number]
        tokens = sequence.tokens[:_SHOWN_TOKENS].tolist()
        dots = " …" if len(sequence.tokens) > _SHOWN_TOKENS else ""
        first_tokens = f"{' '.join(map(str, tokens))}{dots}"  # empty if it is an image, say
        if number in self.rows:
            return f"row {self.rows[number]:,}" + (f" ({first_tokens})" if first_tokens else "")
        if sequence.name is not None:
            return f"id {one_line(sequence.name, 40)}"
        return f"({first_tokens})" if first_tokens else f"sample {number:,} of those that came"
