"""The contents of many sequences, small enough to keep: a number for the tokens of each, and a bit for each token
that says whether it is trained on.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from packlib.packing.ragged import ranges
from packlib.tools.auditing.hashing import hashes, marks

TOGETHER = "(all)"  # what all columns of one side train on together


class Chunk(NamedTuple):
    """What is kept of some sequences; S of them.

    Attributes:
        lengths: tokens of each; int64, shape (S,).
        tokens: a number that stands for the tokens of each (`hashes`); uint64, shape (S,).
        marked: by column, a number that stands for which tokens of each are trained on (`marks`); uint64, shape (S,).
        bits: by column, whether each token is trained on, eight tokens to a byte. The first of a sequence never is.
        documents: the number of each sequence in its file, shape (S,); None if that is its place among all.
        starts: the slot in its row at which each begins, shape (S,); None for sequences that are in no row.
        depths: how many sequences each row has, shape (rows,); None for sequences that are in no row.
        first_row: the number of the first row in its file.
        file: its file in words; "" if there is only one.
        widths: the slots of each row, for sequences that go on in further rows; else None.
        ends: of a source, the last token of each sequence. Of packs whose labels are the next tokens, the label in its
            last slot, which is the token after it; -100 if that is not trained on. None if it is not needed.
        begins: a number for the first tokens of each (`first_tokens`); None if it is not needed.
    """

    lengths: np.ndarray
    tokens: np.ndarray
    marked: dict[str, np.ndarray]
    bits: dict[str, np.ndarray]
    documents: np.ndarray | None = None
    starts: np.ndarray | None = None
    depths: np.ndarray | None = None
    first_row: int = 0
    file: str = ""
    widths: np.ndarray | None = None
    ends: np.ndarray | None = None
    begins: np.ndarray | None = None


def chunk_of(ids: np.ndarray, lengths: np.ndarray, trained: Mapping[str, np.ndarray]) -> Chunk:
    """Return what is kept of sequences: numbers for their tokens, and which of these are trained on.

    With several columns, `TOGETHER` is one more: the tokens that all of them train on.

    Args:
        ids: the tokens of all, one sequence after the other.
        lengths: tokens of each sequence.
        trained: by column, whether each token is trained on. The first token of a sequence is left out of it, since
            nothing predicts it: packlib masks its label, and others let it stand.
    """
    trained = dict(trained)
    starts = (np.cumsum(lengths) - lengths)[lengths > 0]
    if len(trained) > 1:
        trained[TOGETHER] = np.logical_and.reduce(list(trained.values()))
    marked, bits = {}, {}
    for name, bits_of_column in trained.items():
        but_first = bits_of_column.copy()
        but_first[starts] = False
        marked[name], bits[name] = marks(but_first, lengths), np.packbits(but_first)
    return Chunk(lengths, hashes(ids, lengths), marked, bits)


class Contents:
    """All sequences of one side, in their order.

    Attributes:
        chunks: those with sequences.
        columns: those that say which tokens are trained on, if all chunks have them.
        tokens: the numbers for the tokens of all sequences; uint64.
    """

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = [chunk for chunk in chunks if len(chunk.lengths)]
        shared = set.intersection(*(set(chunk.bits) for chunk in self.chunks)) if self.chunks else set()
        self.columns = [name for name in (self.chunks[0].bits if self.chunks else ()) if name in shared - {TOGETHER}]
        self._together = TOGETHER if TOGETHER in shared else "".join(self.columns[:1])
        # the number of the first sequence of each chunk, and at the end of all sequences
        self._first_sequence = np.cumsum([0, *(len(chunk.lengths) for chunk in self.chunks)])
        self.tokens = self._joined([chunk.tokens for chunk in self.chunks], np.uint64)

    def __len__(self) -> int:
        return int(self._first_sequence[-1])

    @staticmethod
    def _joined(parts: list[np.ndarray], kind: type) -> np.ndarray:
        """Put arrays end to end; without any, return an empty one of this dtype."""
        return np.concatenate(parts) if parts else np.empty(0, kind)

    def _name(self, column: str) -> str:
        """Return the name of a column in the chunks; for `TOGETHER`, that of the only column if there is one alone."""
        return self._together if column == TOGETHER else column

    def marked(self, column: str) -> np.ndarray:
        """Return a number for the tokens of each sequence and which of them are trained on; uint64."""
        name = self._name(column)
        return self.tokens + self._joined([chunk.marked[name] for chunk in self.chunks], np.uint64)

    def ends(self) -> np.ndarray | None:
        """Return the `ends` of all chunks; None unless all have them. int64."""
        parts = [chunk.ends for chunk in self.chunks]
        of_chunks = [part for part in parts if part is not None]
        return self._joined(of_chunks, np.int64) if len(of_chunks) == len(parts) else None

    def begins(self) -> np.ndarray:
        """Return the `begins` of all chunks, where they were asked for; uint64."""
        return self._joined([chunk.begins for chunk in self.chunks if chunk.begins is not None], np.uint64)

    def trained(self, column: str = TOGETHER) -> np.ndarray:
        """Count the tokens of each sequence that are trained on; int64."""
        name = self._name(column)
        counts = []
        for chunk in self.chunks:
            trained_before = np.concatenate([[0], np.cumsum(np.unpackbits(chunk.bits[name]), dtype=np.int64)])
            sequence_ends = np.cumsum(chunk.lengths)
            counts.append(trained_before[sequence_ends] - trained_before[sequence_ends - chunk.lengths])
        return self._joined(counts, np.int64)

    def total(self, column: str) -> int:
        """Count the tokens of all sequences that are trained on."""
        name = self._name(column)
        return sum(int(np.bitwise_count(chunk.bits[name]).sum(dtype=np.int64)) for chunk in self.chunks)

    def lengths(self) -> np.ndarray:
        """Return the tokens of each sequence; int64."""
        return self._joined([chunk.lengths for chunk in self.chunks], np.int64)

    def bits(self, column: str, sequences: np.ndarray) -> np.ndarray:
        """Return whether each token of some sequences is trained on, one sequence after the other; bool."""
        name = self._name(column)
        all_bytes = self._joined([chunk.bits[name] for chunk in self.chunks], np.uint8)
        first_byte = np.cumsum([0, *(len(chunk.bits[name]) for chunk in self.chunks)])  # of each chunk
        lengths = self.lengths()
        first_token = np.cumsum(lengths) - lengths  # of each sequence, counted through all chunks
        chunk_of_sequence = np.searchsorted(self._first_sequence, sequences, side="right") - 1
        first_of_chunk = first_token[self._first_sequence[:-1]]
        tokens_before = first_token[sequences] - first_of_chunk[chunk_of_sequence]  # in the same chunk
        places = ranges(first_byte[chunk_of_sequence] * 8 + tokens_before, lengths[sequences])  # in bits
        bits = all_bytes[places // 8] >> (7 - places % 8).astype(np.uint8)  # the first token is the highest bit
        return (bits & 1).astype(bool)

    def document(self, sequence: int) -> int:
        """Return the number in its file of the document that a sequence is, or is a piece of."""
        chunk, number = self._chunk(sequence)
        return sequence if chunk.documents is None else int(chunk.documents[number])

    def place(self, sequence: int, token: int) -> tuple[str, int]:
        """Return the row of a token of a sequence, in words, and its slot there."""
        chunk, number = self._chunk(sequence)
        if chunk.starts is None or chunk.depths is None:
            return f"row {sequence}", token
        row = int(np.searchsorted(np.cumsum(chunk.depths), number, side="right"))
        slot = int(chunk.starts[number]) + token
        # a sequence may go on in the next rows
        while chunk.widths is not None and row + 1 < len(chunk.widths) and slot >= chunk.widths[row]:
            slot -= int(chunk.widths[row])
            row += 1
        return f"row {chunk.first_row + row}{chunk.file}", slot

    def in_further_rows(self) -> int:
        """Count the sequences that do not end in the row in which they begin."""
        count = 0
        for chunk in self.chunks:
            if chunk.widths is not None and chunk.starts is not None and chunk.depths is not None:
                count += int(np.count_nonzero(chunk.starts + chunk.lengths > np.repeat(chunk.widths, chunk.depths)))
        return count

    def _chunk(self, sequence: int) -> tuple[Chunk, int]:
        """Return the chunk that has a sequence, and the number of the sequence there."""
        number = int(np.searchsorted(self._first_sequence, sequence, side="right")) - 1
        return self.chunks[number], sequence - int(self._first_sequence[number])
