"""The files of packs or of a source, as tables that are read in batches: Parquet, JSON lines, Arrow, or a data set."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from packlib.files import arrow_errors, named, naming
from packlib.lengths.own_files import json_rows, parquet_batches, parquet_file
from packlib.tools.rows.row_sources import batches, of_rows, opened

_ROWS = 4096  # of JSON lines that are read at once
# the first bytes of files
_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x50\x2a\x4d\x18": "zstd"}  # the last by pzstd
_LINES = (".jsonl", ".ndjson")


class Table(NamedTuple):
    """One file, or a data set.

    Attributes:
        name: what errors call it.
        schema: its columns with their types.
        num_rows: None if it has to be read for that.
        read: reads the columns of these names, in batches.
        path: of its file; None for a data set.
        needed: what the file should be, in words.
    """

    name: str
    schema: pa.Schema
    num_rows: int | None
    read: Callable[[list[str]], Iterator[pa.RecordBatch]]
    path: Path | None = None
    needed: str = ""

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Turn an error in the block into one sentence that names the file."""
        with nullcontext() if self.path is None else naming(self.path, self.needed), arrow_errors():
            yield


def tables_of(data: Any, needed: str) -> list[Table] | None:
    """Return the tables that `data` is: a data set, files, a folder of files, or a pattern that files fit.

    Args:
        needed: what each file should be, in words, such as "whole file of packs".

    Returns:
        The tables; None if `data` is one file of another kind, or no file at all.

    Raises:
        OSError, ValueError: naming the file, and what is wrong with it.
    """
    if isinstance(data, (str, os.PathLike, list, tuple)):
        data = opened(data)
    if isinstance(data, list) and all(isinstance(path, Path) for path in data):
        tables = [_table(path, needed) for path in data]
        if len(tables) == 1:
            return None if tables[0] is None else [tables[0]]
        for path, table in zip(data, tables, strict=True):
            if table is None:
                raise ValueError(
                    f"{named(path)} is no {needed}: of several files, each is Parquet, JSON lines or Arrow."
                )
        return [table for table in tables if table is not None]
    if hasattr(data, "with_format") and isinstance(getattr(data, "num_rows", None), int):
        return [_data_set(data)]
    return None


def _data_set(data: Any) -> Table:
    """Return a `datasets.Dataset` as a table; without rows its columns have no type."""
    schema = (
        data.with_format("arrow")[:1].schema
        if data.num_rows
        else pa.schema([(name, pa.null()) for name in data.column_names])
    )
    return Table("the data set", schema, data.num_rows, lambda names: batches(data, names))


def _table(path: Path, needed: str) -> Table | None:
    """Return the table in a file, by its first bytes and its suffix; None if it is of another kind."""
    with naming(path, needed) as path:
        with path.open("rb") as file:
            start = file.read(8)
            first_line = start + file.readline() if start.lstrip().startswith(b"{") else b""
        compression = next((name for magic, name in _COMPRESSED.items() if start.startswith(magic)), None)
        is_lines = path.suffix.lower() in _LINES or first_line.rstrip().endswith(b"}")
        with arrow_errors():
            if start.startswith(_PARQUET):
                table = _parquet(path)
            elif start.startswith((_ARROW_FILE, _ARROW_STREAM)):
                table = _arrow(path)
            elif compression or is_lines:
                table = _json_lines(path, compression)
            else:
                return None
    return table._replace(path=path, needed=needed)


def _parquet(path: Path) -> Table:
    """Return a file of Parquet as a table."""

    def read(names: list[str]) -> Iterator[pa.RecordBatch]:
        with parquet_file(path) as file:
            yield from parquet_batches(file, names)

    with parquet_file(path) as file:
        return Table(named(path), file.schema_arrow, file.metadata.num_rows, read)


def _arrow(path: Path) -> Table:
    """Return a file of Arrow, or a stream of Arrow in a file, as a table."""

    def all_batches() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(os.fspath(path)) as file:
            try:
                arrow_file = pa.ipc.open_file(file)
            except pa.ArrowInvalid:  # what `datasets` writes is a stream, which does not say how long it is
                yield from pa.ipc.open_stream(file)
            else:
                yield from map(arrow_file.get_batch, range(arrow_file.num_record_batches))

    def read(names: list[str]) -> Iterator[pa.RecordBatch]:
        return (batch.select(names) for batch in all_batches())

    with pa.memory_map(os.fspath(path)) as file:
        try:
            schema = pa.ipc.open_file(file).schema
        except pa.ArrowInvalid:
            schema = pa.ipc.open_stream(file).schema
    return Table(named(path), schema, None, read)


def _json_lines(path: Path, compression: str | None) -> Table:
    """Return a file of JSON lines as a table; its columns are those of the first rows."""

    def read(names: list[str] | None) -> Iterator[pa.RecordBatch]:
        with TextIOWrapper(pa.input_stream(os.fspath(path), compression), encoding="utf-8-sig") as file:
            yield from of_rows((row for _, row in json_rows(file)), _ROWS, names)

    first = next(read(None), None)
    return Table(named(path), pa.schema([]) if first is None else first.schema, None, read)
