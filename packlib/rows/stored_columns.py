"""A data set's columns, laid end to end, so that any sequence can be taken at once and little is in memory."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import pyarrow as pa

from packlib.packing.documents import drop, split, truncate
from packlib.rows.row_columns import is_text

Overlong = Literal["error", "truncate", "drop", "split"]
OVERLONG: tuple[Overlong, ...] = get_args(Overlong)
SharedColumn: TypeAlias = tuple[pa.DataType, bool, Path, np.ndarray]
SharedColumns: TypeAlias = tuple[np.ndarray, dict[str, SharedColumn]]
_CUTS = {"error": truncate, "truncate": truncate, "drop": drop, "split": split}


class Column:
    """The values of one column, which can be read again in any order and are not held in memory.

    Args:
        folder: where they are written to a file without a name, which is gone when the process is; None if what is
            added is a part of an Arrow file, which need not be written again.
        name: of the file, for other processes that read it.

    Attributes:
        kind: the Arrow type of a value: of fixed width, or text.
        by_token: whether there is a value for each token, or for each sequence.
    """

    def __init__(self, kind: pa.DataType, by_token: bool, folder: Path | None, name: str | None = None) -> None:
        self.kind, self.by_token, self._text = kind, by_token, is_text(kind)
        self._stored = pa.uint8() if pa.types.is_boolean(kind) else pa.large_binary() if self._text else kind
        self._width = 1 if self._text else self._stored.bit_width // 8
        self._path = folder / name if folder and name else None
        self._file: Any = self._path.open("w+b") if self._path else folder and tempfile.TemporaryFile(dir=folder)
        self._seen = hashlib.sha256()
        self._parts, self._ends = list[np.ndarray](), [np.zeros(1, np.int64)]  # in bytes; the ends are those of text
        self._finished: tuple[list[np.ndarray], np.ndarray, np.ndarray] | None = None
        self._keep: Callable = self._file.write if self._file else self._parts.append

    def add(self, values: pa.Array) -> None:
        values = values.cast(self._stored)
        first, last = values.offset, values.offset + len(values)
        if self._text:
            ends = np.frombuffer(values.buffers()[1], np.int64)[first : last + 1]
            self._ends.append(ends[1:] - ends[0] + self._ends[-1][-1])
            first, last = ends[0], ends[-1]
        part = np.frombuffer(values.buffers()[-1] or b"", np.uint8)[first * self._width : last * self._width]
        self._seen.update(part.data)
        self._keep(part)

    def shared(self) -> SharedColumn:
        """For `add_shared` of other processes; only with a name, and when all values were added."""
        self._file.write(b".")
        self._file.close()
        return self.kind, self.by_token, cast(Path, self._path), np.concatenate(self._ends)

    def add_shared(self, path: Path, ends: np.ndarray) -> None:
        """Add what another process has written."""
        self._parts.append(np.asarray(np.memmap(path, np.uint8, "r"))[:-1])
        if self._text:
            self._ends.append(ends[1:] + self._ends[-1][-1])

    def digest(self) -> str:
        """The same for the same values, in whatever batches they came."""
        ends = hashlib.sha256(np.concatenate(self._ends).data).hexdigest()
        return f"{self.kind} {self.by_token} {ends} {self._seen.hexdigest()}"

    def take(self, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        """The values from each of `starts` to its end, which came in one batch. None are added any more."""
        self._finished = self._finished or self._finish()
        parts, begins, text_ends = self._finished
        starts, ends = (text_ends[at] if self._text else at * self._width for at in (starts, ends))
        which = np.searchsorted(begins, starts, side="right") - 1
        cuts = zip(which.tolist(), (starts - begins[which]).tolist(), (ends - begins[which]).tolist(), strict=True)
        data = np.concatenate([parts[part][start:end] for part, start, end in cuts])
        offsets = [np.append(0, np.cumsum(ends - starts))] if self._text else []
        count, buffers = len(starts) if self._text else len(data) // self._width, map(pa.py_buffer, [*offsets, data])
        return pa.Array.from_buffers(self._stored, count, [None, *buffers]).cast(self.kind)

    def _finish(self) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """The parts, where each of them begins, and the ends of text."""
        if self._file:
            self._file.write(b".")  # for an empty file cannot be mapped
            self._file.flush()
            self._parts = [np.asarray(np.memmap(self._file, np.uint8, "r"))]
        return self._parts, np.cumsum([0, *map(len, self._parts)])[:-1], np.concatenate(self._ends)


class Pieces:
    """What is packed of each sequence: all of it, or what `overlong` makes of it.

    Attributes:
        sequences: int64, shape (number of pieces,): which sequence each is a piece of.
        starts: int64, as many: the first token of each, counted through the whole data set.
        lengths: int64, as many.
        overlong: how many sequences were too long.
    """

    def __init__(self, lengths: np.ndarray, max_length: int, overlong: str, first_row: int = 0) -> None:
        longer = lengths > max_length
        self.overlong = int(longer.sum())
        if self.overlong and overlong == "error":
            at, more = int(longer.argmax()), self.overlong - 1
            raise ValueError(
                f"Row {first_row + at} of the data set has {lengths[at]} tokens; the maximum is {max_length}"
                f"{f' ({more} more rows are too long)' if more else ''}: pass a larger max_length, or overlong="
                '"truncate", "drop" or "split".'
            )
        self.sequences, before, self.lengths = _CUTS[overlong](lengths, max_length)
        self.starts = (np.cumsum(lengths) - lengths)[self.sequences] + before


class StoredColumns:
    """Takes sequences in batches, and can read all of them again.

    Args:
        folder: where a copy is written, on disk for as long as the process lives.
        kept: whether the batches outlive this without a copy, as parts of Arrow files do.
        named: whether the copy is in files with names, for other processes.

    Attributes:
        columns: by name.
    """

    def __init__(self, folder: Path, kept: bool, named: bool = False) -> None:
        self.columns = dict[str, Column]()
        self._folder, self._kept, self._named, self._lengths = folder, kept, named, list[np.ndarray]()

    @classmethod
    def of_shared(cls, shares: Iterable[SharedColumns], folder: Path) -> "StoredColumns":
        """The sequences that several processes have read, one process after the other."""
        stored = cls(folder, kept=True)
        for lengths, columns in shares:
            stored._lengths.append(lengths)
            for name, (kind, by_token, path, ends) in columns.items():
                stored.columns.setdefault(name, Column(kind, by_token, None)).add_shared(path, ends)
        return stored

    def shared(self) -> SharedColumns:
        """For `of_shared` of other processes; only if it is named, and when all batches were added."""
        return self.lengths, {name: column.shared() for name, column in self.columns.items()}

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence; int64, shape (number of sequences,)."""
        return np.concatenate(self._lengths or [np.zeros(0, np.int64)])

    def digest(self) -> str:
        """The same for the same sequences with the same columns."""
        lengths = hashlib.sha256(self.lengths.data).hexdigest()
        return " ".join([lengths, *(f"{name!r} {column.digest()}" for name, column in self.columns.items())])

    def add(self, batch: pa.RecordBatch, lengths: np.ndarray, read: dict[str, tuple[pa.Array, bool]]) -> None:
        """Keep the next sequences, as `Columns.read` returned them for a batch."""
        for name, (values, by_token) in read.items():
            if name not in self.columns:
                given = batch.schema.field(name).type if name in batch.schema.names else None
                as_given = (given.value_type if given and by_token else given) == values.type != pa.bool_()
                folder = None if self._kept and as_given and not self._named else self._folder
                file = str(len(self.columns)) if self._named else None
                self.columns[name] = Column(values.type, by_token, folder, file)
            self.columns[name].add(values)
        self._lengths.append(lengths)
