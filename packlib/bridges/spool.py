"""A data set's columns on disk, laid end to end, so that any sequence can be taken at once and little is in memory."""

import hashlib
import os
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MADE = ("position_ids", "seq_lengths")  # columns of packed rows that no data set brings


class Column:
    """The values of one column, one after the other, in a file without a name: it is gone when the process is.

    Attributes:
        kind: the Arrow type of a value: of fixed width, or text.
        by_token: whether there is a value for each token, or for each sequence.
    """

    def __init__(self, kind: pa.DataType, by_token: bool, folder: Path) -> None:
        self.kind, self.by_token = kind, by_token
        self.stored = pa.uint8() if pa.types.is_boolean(kind) else pa.large_binary() if _is_text(kind) else kind
        self._file = tempfile.TemporaryFile(dir=folder)
        self._ends, self._count = [np.zeros(1, np.int64)], 0  # the ends are those of text, in bytes
        self._seen = hashlib.sha256()

    def add(self, values: pa.Array) -> None:
        values = values.cast(self.stored)
        self._count += len(values)
        if _is_text(self.kind):
            at = values.offset
            ends = np.frombuffer(values.buffers()[1], np.int64)[at : at + len(values) + 1]
            self._ends.append(ends[1:] - ends[0] + self._ends[-1][-1])
            plain = memoryview(values.buffers()[2] or b"")[ends[0] : ends[-1]]
        else:
            plain = values.view(f"uint{values.type.bit_width}").to_numpy().data
        self._file.write(plain)
        self._seen.update(plain)

    def digest(self) -> str:
        """The same for the same values, in whatever batches they came."""
        ends = hashlib.sha256(np.concatenate(self._ends).data).hexdigest()
        return f"{self.kind} {self.by_token} {ends} {self._seen.hexdigest()}"

    def take(self, places: np.ndarray) -> pa.Array:
        """The values at these places, read from disk. None are added any more."""
        return self._values.take(pa.array(places)).cast(self.kind)

    @cached_property
    def _values(self) -> pa.Array:
        self._file.flush()
        empty = os.fstat(self._file.fileno()).st_size == 0
        data = pa.py_buffer(b"" if empty else np.memmap(self._file, np.uint8, "r"))
        ends = [pa.py_buffer(np.concatenate(self._ends))] if _is_text(self.kind) else []
        return pa.Array.from_buffers(self.stored, self._count, [None, *ends, data])


class Spool:
    """Takes a data set in batches, tells which of its columns have a value a token, and keeps all on disk.

    Attributes:
        columns: by name. An `attention_mask` of ones is left out: it says nothing, and given to a model of transformers
            it switches off what finds the sequences of a pack.
    """

    def __init__(self, folder: Path) -> None:
        self.columns = dict[str, Column]()
        self._folder, self._names = folder, list[str]()
        self._lengths, self._rows = list[np.ndarray](), 0

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence; int64, shape (number of sequences,)."""
        return np.concatenate(self._lengths or [np.zeros(0, np.int64)])

    def digest(self) -> str:
        """The same for the same sequences with the same columns."""
        lengths = hashlib.sha256(self.lengths.data).hexdigest()
        return " ".join([lengths, *(f"{name!r} {column.digest()}" for name, column in self.columns.items())])

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep the next sequences.

        Raises:
            TypeError, ValueError: naming the column that no pack can carry, or the first row that is wrong.
        """
        names = batch.schema.names
        if "input_ids" not in names:
            raise ValueError(f"The data set has no column input_ids; it has {', '.join(names) or 'none'}.")
        if odd := set(self._names or names) ^ set(names):
            raise ValueError(f"The column {min(odd)!r} is in some rows only; all rows must have it, or none.")
        ids = batch.column("input_ids")
        if not (is_list(ids.type) and pa.types.is_integer(ids.type.value_type)):
            raise TypeError(f"The column 'input_ids' must hold lists of whole numbers, not {ids.type}.")
        lengths = self._lengths_of("input_ids", ids)
        if (lengths == 0).any():
            raise ValueError(f"Row {self._rows + int((lengths == 0).argmax())} of the data set has no token.")
        for name in names:
            values = self._checked(name, batch.column(name), lengths)
            if name == "attention_mask":
                if (hidden := np.asarray(values.cast(pa.int64())) != 1).any():
                    row = self._row(int(hidden.argmax()), lengths)
                    raise ValueError(f"attention_mask of row {row} hides tokens: give sequences without padding.")
            elif name not in self.columns:
                self.columns[name] = Column(values.type, is_list(batch.column(name).type), self._folder)
            if name in self.columns:
                self.columns[name].add(values)
        self._names = names
        self._lengths.append(lengths)
        self._rows += len(lengths)

    def _checked(self, name: str, column: pa.Array, lengths: np.ndarray) -> pa.Array:
        """The values of a column, one a token or one a sequence."""
        if name in MADE:
            raise ValueError(f"The column {name!r} is made by packing: is the data set packed? If not, remove it.")
        by_token = is_list(column.type)
        if name == "input_ids":
            try:
                column = column.cast(pa.list_(pa.int32()))  # as `datasets` has them, whatever they come in
            except pa.ArrowInvalid as error:
                raise ValueError(f"The column 'input_ids' must hold numbers of 32 bits: {error}") from None
        kind = column.type.value_type if by_token else column.type
        if not (pa.types.is_primitive(kind) or (_is_text(kind) and not by_token)):
            raise TypeError(f"The column {name!r} holds {column.type}, which no pack can carry: remove it.")
        if by_token and (other := (given := self._lengths_of(name, column)) != lengths).any():
            at = int(other.argmax())
            raise ValueError(
                f"The column {name!r} has {given[at]} values in row {self._rows + at}, which has {lengths[at]} tokens: "
                "give one for each token, or remove it."
            )
        known = self.columns.get(name)
        if known and (known.kind, known.by_token) != (kind, by_token):
            before = pa.list_(known.kind) if known.by_token else known.kind
            raise TypeError(
                f"The column {name!r} holds {before} at first, and {column.type} from row {self._rows} on."
            )
        values = column.flatten() if by_token else column
        if values.null_count:
            at = int(np.asarray(values.is_null()).argmax())
            raise ValueError(
                f"The column {name!r} has no value in row {self._row(at, lengths if by_token else None)}."
            )
        return values

    def _row(self, at: int, lengths: np.ndarray | None) -> int:
        """The row of a token of this batch, or of a sequence."""
        return self._rows + (at if lengths is None else int(np.searchsorted(np.cumsum(lengths), at, side="right")))

    def _lengths_of(self, name: str, column: pa.Array) -> np.ndarray:
        if column.null_count:
            at = int(np.asarray(column.is_null()).argmax())
            raise ValueError(f"The column {name!r} has no value in row {self._rows + at}.")
        return np.asarray(pc.list_value_length(column)).astype(np.int64)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)
