"""A data set's columns, laid end to end, so that any sequence can be taken at once and little is in memory."""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packlib.checks import listed, shown
from packlib.lengths.own_files import refuse_doubles
from packlib.markup import one_line

Overlong = Literal["error", "truncate", "drop", "split"]
OVERLONG: tuple[Overlong, ...] = get_args(Overlong)
IGNORED = -100  # as in packlib.batches, which loads torch
MADE = ("position_ids", "seq_lengths")  # columns of packed rows that no data set brings


class Column:
    """The values of one column, which can be read again in any order and are not held in memory.

    Args:
        folder: where they are written to a file without a name, which is gone when the process is; None if what is
            added is a part of an Arrow file, which need not be written again.

    Attributes:
        kind: the Arrow type of a value: of fixed width, or text.
        by_token: whether there is a value for each token, or for each sequence.
    """

    def __init__(self, kind: pa.DataType, by_token: bool, folder: Path | None) -> None:
        self.kind, self.by_token, self._text = kind, by_token, _is_text(kind)
        self._stored = pa.uint8() if pa.types.is_boolean(kind) else pa.large_binary() if self._text else kind
        self._width = 1 if self._text else self._stored.bit_width // 8
        self._file, self._seen = folder and tempfile.TemporaryFile(dir=folder), hashlib.sha256()
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


class Spool:
    """Takes a data set in batches, finds which of its columns have a value a token, and can read all of it again.

    Args:
        folder: where a copy is written, on disk for as long as the process lives.
        kept: whether the batches outlive this without a copy, as parts of Arrow files do.

    Attributes:
        columns: by name. An `attention_mask` of ones is left out: it says nothing, and given to a model of transformers
            it switches off what finds the sequences of a pack.
    """

    def __init__(self, folder: Path, kept: bool) -> None:
        self.columns = dict[str, Column]()
        self._folder, self._kept, self._names = folder, kept, list[str]()
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
        refuse_doubles("The data set", names)
        if "input_ids" not in names:
            raise ValueError(f"The data set has no column input_ids; it has {listed(names) or 'none'}.")
        if odd := set(self._names or names) ^ set(names):
            raise ValueError(f"The column {shown(min(odd))} is in some rows only; all rows must have it, or none.")
        ids = batch.column("input_ids")
        if not (is_list(ids.type) and pa.types.is_integer(ids.type.value_type)):
            raise TypeError(f"The column 'input_ids' must hold lists of whole numbers, not {one_line(str(ids.type))}.")
        lengths = self._lengths_of("input_ids", ids)
        if (lengths == 0).any():
            raise ValueError(f"Row {self._rows + int((lengths == 0).argmax())} of the data set has no token.")
        for name in names:
            given = batch.column(name)
            values, by_token = self._checked(name, given, lengths), is_list(given.type)
            if name == "attention_mask":
                if not set(pc.min_max(values).as_py().values()) <= {1, None}:
                    row = self._row(int((np.asarray(values) != 1).argmax()), lengths)
                    raise ValueError(f"attention_mask of row {row} hides tokens: give sequences without padding.")
            elif name not in self.columns:
                as_given = (given.type.value_type if by_token else given.type) == values.type != pa.bool_()
                self.columns[name] = Column(values.type, by_token, None if self._kept and as_given else self._folder)
            if name in self.columns:
                self.columns[name].add(values)
        self._names = names
        self._lengths.append(lengths)
        self._rows += len(lengths)

    def _checked(self, name: str, column: pa.Array, lengths: np.ndarray) -> pa.Array:
        """The values of a column, one a token or one a sequence."""
        called = f"The column {shown(name)}"
        if name in MADE:
            raise ValueError(f"{called} is made by packing: is the data set packed? If not, remove it.")
        by_token = is_list(column.type)
        if name == "input_ids":
            try:
                column = column.cast(pa.list_(pa.int32()))  # as `datasets` has them, whatever they come in
            except pa.ArrowInvalid as error:
                said = one_line(str(error), 200)
                raise ValueError(f"{called} must hold numbers of 32 bits: {said}") from None
        kind = column.type.value_type if by_token else column.type
        if not (pa.types.is_primitive(kind) or (_is_text(kind) and not by_token)):
            raise TypeError(f"{called} holds {one_line(str(column.type))}, which no pack can carry: remove it.")
        if by_token and (other := (given := self._lengths_of(name, column)) != lengths).any():
            at = int(other.argmax())
            raise ValueError(
                f"{called} has {given[at]} values in row {self._rows + at}, which has {lengths[at]} tokens: "
                "give one for each token, or remove it."
            )
        known = self.columns.get(name)
        if known and (known.kind, known.by_token) != (kind, by_token):
            was = pa.list_(known.kind) if known.by_token else known.kind
            raise TypeError(f"{called} holds {was} at first, and {column.type} from row {self._rows} on.")
        values = column.flatten() if by_token else column
        if values.null_count:
            row = self._row(int(np.asarray(values.is_null()).argmax()), lengths if by_token else None)
            raise ValueError(f"{called} has no value in row {row}.")
        if name == "input_ids" and (negative := np.asarray(values) < 0).any():
            at = int(negative.argmax())
            raise ValueError(
                f"{called} must hold numbers from 0 up, not {values[at]} as in row {self._row(at, lengths)}."
            )
        return values

    def _row(self, at: int, lengths: np.ndarray | None) -> int:
        """The row of a token of this batch, or of a sequence."""
        return self._rows + (at if lengths is None else int(np.searchsorted(np.cumsum(lengths), at, side="right")))

    def _lengths_of(self, name: str, column: pa.Array) -> np.ndarray:
        if column.null_count:
            at = int(np.asarray(column.is_null()).argmax())
            raise ValueError(f"The column {shown(name)} has no value in row {self._rows + at}.")
        return np.asarray(pc.list_value_length(column)).astype(np.int64)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "binary", "large_binary")
