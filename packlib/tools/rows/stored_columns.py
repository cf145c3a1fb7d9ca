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
    """The values of one column, end to end in a file.

    Args:
        kind: the Arrow type of a value: of fixed width, or text.
        by_token: whether there is a value for each token, or for each sequence.
        folder: of the file.
        name: of the file, for other processes that read it; without one it is gone when the process is.
    """

    def __init__(self, kind: pa.DataType, by_token: bool, folder: Path, name: str | None) -> None:
        self.kind = kind
        self.by_token = by_token
        self._path = folder / name if name else None
        self._in_file = pa.uint8() if pa.types.is_boolean(kind) else pa.large_binary() if is_text(kind) else kind
        self._file: Any = self._path.open("wb") if self._path else tempfile.TemporaryFile(dir=folder)
        self._seen: Any = hashlib.sha256()
        self._ends = [np.zeros(1, np.int64)]  # of texts, in bytes
        self._num_bytes = 0  # of the texts until now

    def add(self, values: pa.Array) -> None:
        values = values.cast(self._in_file)
        first = values.offset
        last = values.offset + len(values)
        width = 1
        if is_text(self.kind):
            ends = np.frombuffer(values.buffers()[1], np.int64)[first : last + 1]
            first, last = int(ends[0]), int(ends[-1])
            self._ends.append(ends[1:] - first + self._num_bytes)
            self._num_bytes += last - first
        else:
            width = self._in_file.bit_width // 8
        data = np.frombuffer(values.buffers()[-1] or b"", np.uint8)[first * width : last * width]
        self._seen.update(data.data)
        self._file.write(data)

    def finish(self) -> str:
        """End the file; returns a digest, the same for the same values in whatever batches they came."""
        self._file.write(b".")  # for an empty file cannot be mapped
        self._file.flush()
        self._ends = [np.concatenate(self._ends)]
        digest = f"{self.kind} {self.by_token} {_digest(self._ends[0])} {self._seen.hexdigest()}"
        self._seen, self._file = None, None if self._path else self._file  # others open it by its path
        return digest

    def array(self, lengths: np.ndarray) -> pa.Array:
        """Return the value of each sequence, or the list of those for its tokens; they stay on disk."""
        data = pa.py_buffer(np.memmap(self._path or self._file, np.uint8, "r"))
        if is_text(self.kind):
            return pa.Array.from_buffers(self._in_file, len(lengths), [None, pa.py_buffer(self._ends[0]), data])
        offsets = np.append(0, np.cumsum(lengths))
        count = int(offsets[-1]) if self.by_token else len(lengths)
        values = pa.Array.from_buffers(self._in_file, count, [None, data])
        return pa.LargeListArray.from_arrays(pa.array(offsets), values) if self.by_token else values


class Spool:
    """Takes sequences in batches, as `ColumnReader.read` returns them, and writes their columns to files in a folder.

    Args:
        named: whether other processes, to which this is sent, read them too.

    Attributes:
        columns: by name.
        lengths, labels: of each sequence, when it is finished; int64, shape (number of sequences,).
        digest: the same for the same sequences with the same columns, when it is finished.
    """

    def __init__(self, folder: Path, named: bool) -> None:
        self._folder, self._named = folder, named
        self.columns, self.digest = dict[str, ColumnFile](), ""
        self._lengths, self._labels = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]

    def add(self, read: Sequences) -> None:
        for name, (values, by_token) in read.columns.items():
            if name not in self.columns:
                file = str(len(self.columns)) if self._named else None
                self.columns[name] = ColumnFile(values.type, by_token, self._folder, file)
            self.columns[name].add(values)
        self._lengths.append(read.lengths)
        self._labels.append(read.labels)

    def finish(self) -> None:
        self.lengths, self.labels = np.concatenate(self._lengths), np.concatenate(self._labels)
        self._lengths, self._labels = [], []
        digests = [f"{name!r} {column.finish()}" for name, column in self.columns.items()]
        self.digest = " ".join([_digest(self.lengths), *digests])


class StoredColumns:
    """The sequences that one process or several have read, one process after the other.

    Attributes:
        lengths, labels: of each sequence; int64, shape (number of sequences,).
    """

    def __init__(self, spools: Sequence[Spool]) -> None:
        self.lengths = np.concatenate([spool.lengths for spool in spools])
        self.labels = np.concatenate([spool.labels for spool in spools])
        spools = [spool for spool in spools if len(spool.lengths)]
        if not spools:
            raise ValueError("The data set has no sequence to pack.")
        self._columns = spools[0].columns
        self._begins = np.cumsum([0, *(len(spool.lengths) for spool in spools)])
        self._parts = [
            pa.record_batch({name: column.array(spool.lengths) for name, column in spool.columns.items()})
            for spool in spools
        ]

    def numbers(self, name: str) -> np.ndarray:
        """Return the numbers of a column with one for each sequence; shape (number of sequences,)."""
        return np.concatenate([part.column(name).to_numpy() for part in self._parts])

    def take(self, sequences: np.ndarray) -> Columns:
        """Return the columns of sequences, by their numbers."""
        part_of = np.searchsorted(self._begins, sequences, side="right") - 1
        parts = [
            part.take(pa.array(sequences[part_of == number] - self._begins[number]))
            for number, part in enumerate(self._parts)
        ]
        rows = parts[0]
        if len(parts) > 1:
            rows = pa.concat_batches(parts).take(pa.array(np.argsort(np.argsort(part_of, kind="stable"))))
        columns = {}
        for name, column in self._columns.items():
            values = rows.column(name).flatten() if column.by_token else rows.column(name)
            columns[name] = ColumnValues(values.cast(column.kind), column.by_token)
        return columns


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(values.data).hexdigest()
