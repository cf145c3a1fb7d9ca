"""Numbers for sequences and labels, so that equal ones are counted together, and names for them in sentences."""

from collections.abc import Iterable, Sequence

import numpy as np

from packlib.arguments import one_line
from packlib.tools.loaders.batch_sequences import OneSequence

NO_LABELS = -1
OTHER_TOKENS = -2  # than when it came first: where tokens are masked anew, so are the labels
_SHOWN_TOKENS = 6  # of a sequence
_SHOWN = 3  # sequences of a sentence


class SequenceNames:
    """The number of each sequence: equal ones have the same.

    Attributes:
        rows: by number, the first row of the source that has this sequence; empty without a source.
        first: by number, the sequence as it came first.
        labels: the labels that were seen, by number.
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
        """Return the number of a sequence: a new one if none like it came before."""
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
        plain = np.asarray(sequence.labels)
        plain = plain.astype(np.int64) if plain.dtype.kind in "iub" else plain
        key = plain.tobytes() if plain.dtype != object else repr(plain.tolist()).encode()
        number = self._labels.setdefault(key, len(self.labels))
        if number == len(self.labels):
            self.labels.append(plain)
        return number

    def numbers(self, sequences: Iterable[OneSequence]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of sequences and of their labels."""
        held = list(sequences)
        return tuple(map(self.number, held)), tuple(map(self.label_number, held))

    def named(self, numbers: Sequence[int]) -> str:
        """Return some sequences by row, name and first tokens, such as "row 3 (7 8 9 …)"."""
        some = ", ".join(map(self._named, list(numbers)[:_SHOWN]))
        more = len(numbers) - _SHOWN
        return some + (f" and {more:,} more" if more > 0 else "")

    def _named(self, number: int) -> str:
        sequence = self.first[number]
        tokens = sequence.tokens[:_SHOWN_TOKENS].tolist()
        dots = " …" if len(sequence.tokens) > _SHOWN_TOKENS else ""
        begins = f"{' '.join(map(str, tokens))}{dots}"
        if number in self.rows:
            return f"row {self.rows[number]:,}" + f" ({begins})" * bool(begins)
        if sequence.name is not None:
            return f"id {one_line(sequence.name, 40)}"
        return f"({begins})" if begins else f"sample {number:,} of those that came"
