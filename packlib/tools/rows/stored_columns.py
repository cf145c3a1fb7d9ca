"""Sequences with their columns in files, so that any of them can be taken at once and little is in memory."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from packlib.tools.rows.column_values import Columns, ColumnValues, is_text
from packlib.tools.rows.row_columns import Sequences


class ColumnFile:
    """Writes the values of one column end to end to a file, and maps the file as an Arrow array when it is finished.

    Args:
        kind: the Arrow type of a value: of fixed width, or text.
        by_token: whether there is a value for each token; else there is one for each sequence.
        folder: where the file is.
        name: of the file, by which other processes read it; None for a file without a name, which is gone when the
            process is.
    """

    def __init__(self, kind: pa.DataType, by_token: bool, folder: Path, name: str | None) -> None:
        self.kind = kind
        self.by_token = by_token
        self._path = folder / name if name else None
        self._in_file = _kind_in_file(kind)
        self._file: Any = self._path.open("wb") if self._path else tempfile.TemporaryFile(dir=folder)
        self._content_hash: Any = hashlib.sha256()
        self._text_offsets = [np.zeros(1, np.int64)]  # where each text begins, and behind the last one; in bytes
        self._num_bytes = 0  # of the texts until now

    def add(self, values: pa.Array) -> None:
        """Append values to the file."""
        values = values.cast(self._in_file)
        buffers = values.buffers()  # [validity, offsets of texts, data] or [validity, data], of more than `values`
        first, end = values.offset, values.offset + len(values)
        if is_text(self.kind):
            offsets = np.frombuffer(buffers[1], np.int64)[first : end + 1]
            first_byte, end_byte = int(offsets[0]), int(offsets[-1])
            self._text_offsets.append(offsets[1:] - first_byte + self._num_bytes)
            self._num_bytes += end_byte - first_byte
        else:
            width = self._in_file.bit_width // 8
            first_byte, end_byte = first * width, end * width
        content = np.frombuffer(buffers[-1] or b"", np.uint8)[first_byte:end_byte]
        self._content_hash.update(content.data)
        self._file.write(content)

    def finish(self) -> str:
        """End the file; return a digest, the same for the same values in whatever batches they came."""
        self._file.write(b".")  # for an empty file cannot be mapped
        self._file.flush()
        self._text_offsets = [np.concatenate(self._text_offsets)]
        digest = f"{self.kind} {self.by_token} {_digest(self._text_offsets[0])} {self._content_hash.hexdigest()}"
        self._content_hash = None  # it cannot be sent to another process
        if self._path:
            self._file = None  # nor can an open file: the other process opens it by its path
        return digest

    def array(self, lengths: np.ndarray) -> pa.Array:
        """Return the value of each sequence, or the list of the values for its tokens; all stay on disk.

        Args:
            lengths: tokens of each sequence.
        """
        content = pa.py_buffer(np.memmap(self._path or self._file, np.uint8, "r"))
        if is_text(self.kind):
            text_offsets = pa.py_buffer(self._text_offsets[0])
            return pa.Array.from_buffers(self._in_file, len(lengths), [None, text_offsets, content])
        token_offsets = np.append(0, np.cumsum(lengths))
        num_values = int(token_offsets[-1]) if self.by_token else len(lengths)
        values = pa.Array.from_buffers(self._in_file, num_values, [None, content])
        return pa.LargeListArray.from_arrays(pa.array(token_offsets), values) if self.by_token else values


def _kind_in_file(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are written: a byte for a bool, bytes for a text, and others as they are."""
    if pa.types.is_boolean(kind):
        return pa.uint8()
    return pa.large_binary() if is_text(kind) else kind


class Spool:
    """Takes sequences in batches, as `ColumnReader.read` returns them, and writes their columns to files in a folder.

    Args:
        shared: whether the files have names, since other processes, to which this object is sent, read them too.

    Attributes:
        columns: the file of each column, by name.
        lengths, label_counts: number of tokens and of labels of each sequence, once it is finished; int64, shape
            (sequences,).
        digest: the same for the same sequences with the same columns, once it is finished.
    """

    def __init__(self, folder: Path, shared: bool) -> None:
        self._folder = folder
        self._shared = shared
        self.columns = dict[str, ColumnFile]()
        self.digest = ""
        # by batch; a first one without a sequence, for data sets without one
        self._lengths = [np.zeros(0, np.int64)]
        self._label_counts = [np.zeros(0, np.int64)]

    def add(self, sequences: Sequences) -> None:
        """Write the next sequences."""
        for name, (values, by_token) in sequences.columns.items():
            if name not in self.columns:
                file_name = str(len(self.columns)) if self._shared else None
                self.columns[name] = ColumnFile(values.type, by_token, self._folder, file_name)
            self.columns[name].add(values)
        self._lengths.append(sequences.lengths)
        self._label_counts.append(sequences.label_counts)

    def finish(self) -> None:
        """End all files, and set the attributes that are there once it is finished."""
        self.lengths = np.concatenate(self._lengths)
        self.label_counts = np.concatenate(self._label_counts)
        self._lengths, self._label_counts = [], []
        column_digests = [f"{name!r} {column.finish()}" for name, column in self.columns.items()]
        self.digest = " ".join([_digest(self.lengths), *column_digests])


class StoredColumns:
    """The sequences of one spool, or of several: those of the first process, then those of the second, and so on.

    Sequences are numbered over all spools.

    Attributes:
        lengths, label_counts: number of tokens and of labels of each sequence; int64, shape (sequences,).
    """

    def __init__(self, spools: Sequence[Spool]) -> None:
        self.lengths = np.concatenate([spool.lengths for spool in spools])
        self.label_counts = np.concatenate([spool.label_counts for spool in spools])
        spools = [spool for spool in spools if len(spool.lengths)]
        if not spools:
            raise ValueError("The data set has no sequence to pack.")
        self._columns = spools[0].columns  # for the types: all spools have the same
        self._first_sequences = np.cumsum([0, *(len(spool.lengths) for spool in spools)])  # of each spool, and the end
        self._parts = [
            pa.record_batch({name: column.array(spool.lengths) for name, column in spool.columns.items()})
            for spool in spools
        ]

    def numbers(self, name: str) -> np.ndarray:
        """Return all values of a column that has a number for each sequence; shape (sequences,)."""
        return np.concatenate([part.column(name).to_numpy() for part in self._parts])

    def take(self, sequences: np.ndarray) -> Columns:
        """Return the columns of sequences, given by their numbers, in this order."""
        part_of = np.searchsorted(self._first_sequences, sequences, side="right") - 1
        rows_of_parts = [
            part.take(pa.array(sequences[part_of == number] - self._first_sequences[number]))
            for number, part in enumerate(self._parts)
        ]
        rows = rows_of_parts[0]
        if len(rows_of_parts) > 1:
            order_by_part = np.argsort(part_of, kind="stable")  # the order that the rows have once they are joined
            row_of_sequence = np.argsort(order_by_part)  # its inverse
            rows = pa.concat_batches(rows_of_parts).take(pa.array(row_of_sequence))
        columns = {}
        for name, column in self._columns.items():
            values = rows.column(name).flatten() if column.by_token else rows.column(name)
            columns[name] = ColumnValues(values.cast(column.kind), column.by_token)
        return columns


def _digest(values: np.ndarray) -> str:
    """Return the SHA-256 of an array's bytes."""
    return hashlib.sha256(values.data).hexdigest()
