"""Packed data that others wrote, read in chunks: how long each sequence of each pack is, whatever the format.

What is known of the formats comes from the programs that write and read them:

- TRL's `pack_dataset` (trl/data_utils.py, 1.16) writes `input_ids` and `seq_lengths`; its strategy "wrapped" writes
  `input_ids` alone. transformers' `DataCollatorWithFlattening` and others mark a new sequence by `position_ids` that
  start again, or by `cu_seqlens`, the bounds from 0 to the last.
- NeMo (nemo/utils/sequence_packing_utils.py: `create_hist`, `fill_packing_strategy`) saves a list of `input_ids`,
  `loss_mask` and `seq_start_id` with `np.save`; Megatron Bridge (data/datasets/packed_parquet.py) has the same columns
  in Parquet. A sequence of n tokens fills n - 1 slots there, for the last one is only a label.
- Grain and MaxText (`segment_ids`), and others (`document_ids`, `seq_idx`), number the sequences of a row by slot.
- Megatron Core (core/datasets/indexed_dataset.py) keeps sequences end to end in a `.bin`, their lengths in an
  `.idx`. They are not packed: `GPTDataset` shuffles and joins them, and cuts that every
  `sequence_length` tokens (core/datasets/helpers.cpp, `build_sample_idx`).
"""

import os
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from packlib.checks import listed, one_line, shown
from packlib.files import arrow_errors, at_home, named, naming
from packlib.lengths.own_files import npy_header, parquet_batches, parquet_file, refuse_doubles
from packlib.tools.auditing.columns import KINDS, NEMO, READ, Rows, read_rows
from packlib.tools.rows.row_columns import whole_numbers
from packlib.tools.rows.row_sources import batches

MEGATRON = "Megatron's index"
_ROWS = 1 << 16  # that are read at once
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}  # bytes of a token by Megatron's code of its dtype


class PackedData(NamedTuple):
    """Packed data that is open, but not read yet.

    Attributes:
        name: what errors and the audit call it.
        kind: the column or format that tells where sequences begin; for "input_ids", nothing does.
        num_rows: its rows; for Megatron's index, its sequences.
        rows: reads the rows in chunks; its argument says whether to hash the tokens of each sequence.
        tokens: whether the tokens of single sequences are known, so that they can be compared with a source.
        unread: columns that are not looked at.
    """

    name: str
    kind: str
    num_rows: int
    rows: Callable[[bool], Iterator[Rows]]
    tokens: bool = False
    unread: tuple[str, ...] = ()


def open_packed(data: Any) -> PackedData:
    """Open a file by its first bytes, or a `datasets.Dataset`; it is read when the rows are.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the file, and what is wrong with it.
    """
    if hasattr(data, "with_format") and isinstance(getattr(data, "num_rows", None), int):
        return _columns("the data set", data.column_names, data.num_rows, lambda names: batches(data, names))
    if not isinstance(data, str | os.PathLike):
        raise TypeError(f"data must be the path of a file of packs or a datasets.Dataset, not {shown(data)}.")
    path = at_home(data)
    if path.suffix == ".bin" and path.with_suffix(".idx").is_file():
        path = path.with_suffix(".idx")
    with _naming(path), path.open("rb") as file:
        start = file.read(64)
        opens = next((opens for magic, opens in _MAGIC.items() if start.startswith(magic)), None)
        if opens is None:
            raise ValueError("it is neither Parquet, NeMo's .npy, nor Megatron's .idx.")
        found = opens(path)
    return found._replace(rows=lambda hashed: _named_rows(path, found.rows(hashed)))


def _naming(path: Path) -> Any:
    return naming(path, "whole file of packs that can be audited")


def _named_rows(path: Path, rows: Iterator[Rows]) -> Iterator[Rows]:
    with _naming(path):
        yield from rows


def _columns(name: str, names: list[str], num_rows: int, read: Callable) -> PackedData:
    kind = next((kind for kind in KINDS if kind in names), None)
    if kind is None or (kind == NEMO and "input_ids" not in names):
        raise ValueError(f"{name} must have one of {', '.join(KINDS)}, not {listed(names) or 'no column'}.")
    wanted = [other for other in READ if other in names]
    refuse_doubles(name, [other for other in names if other in wanted])
    unread = tuple(dict.fromkeys(other for other in names if other not in wanted))

    def rows(hashed: bool) -> Iterator[Rows]:
        kinds, at = [kind for kind in KINDS if kind in names], 0
        with arrow_errors():
            for batch in read(wanted):
                columns = {name: whole_numbers(name, batch.column(name), at) for name in wanted}
                yield read_rows(kinds, columns, at, hashed)
                at += batch.num_rows

    return PackedData(name, kind, num_rows, rows, "input_ids" in names and kind != "input_ids", unread)


def _parquet(path: Path) -> PackedData:
    def rows(names: list[str]) -> Iterator[Any]:
        with parquet_file(path) as file:
            yield from parquet_batches(file, names)

    with arrow_errors(), parquet_file(path) as file:
        return _columns(named(path), file.schema_arrow.names, file.metadata.num_rows, rows)


def token_lists(source: Any, column: str | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """How many tokens each sequence of a source has, and all of them, in chunks; nothing if it holds no tokens.

    Args:
        source: a Parquet file or a `datasets.Dataset`; what is neither holds none.
        column: of the tokens; by default `input_ids`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, at, held = column or "input_ids", 0, source if hasattr(source, "with_format") else None
    if isinstance(source, Path) and source.suffix in (".parquet", ".pq") and source.is_file():
        with arrow_errors():
            schema = pq.read_schema(source)
        if name in schema.names and pa.types.is_integer(getattr(schema.field(name).type, "value_type", pa.null())):
            held = [source]
    for batch in () if held is None else batches(held, [name]):
        yield whole_numbers(name, batch.column(name), at)
        at += batch.num_rows


class _Plain:
    """Stands for NumPy's array and dtype in a pickle, so that nothing of it is ever run."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Lists(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return _Plain
        raise ValueError(f"it has a pickled {module}.{name}, which is never run.")


def _nemo(path: Path) -> PackedData:
    """All packs are in memory, as NeMo holds them too: a pickle cannot be read in parts."""
    import pyarrow as pa

    with path.open("rb") as file:
        _, dtype = npy_header(file)
        if not dtype.hasobject:
            raise ValueError(f"it is an array of {dtype}, and not the list of packs that NeMo saves.")
        try:
            packs = _Lists(file).load().state[-1]
            lists = {name: [pack[name] for pack in packs] for name in (NEMO, "input_ids")}
            _refuse_nested(chain.from_iterable(lists.values()), path.stat().st_size)
            table = pa.table(lists)
        except MemoryError:
            raise
        except Exception as error:  # what is damaged raises any of a dozen kinds
            raise ValueError(f"it is no list of packs as NeMo saves it: {one_line(str(error), 200)}") from None
    return _columns(named(path), table.column_names, len(table), lambda names: table.to_batches(1000))


def _refuse_nested(lists: Iterable[Any], size: int) -> None:
    """A pickle says a list once and refers to it often, so that a small file could stand for numbers without end.

    Args:
        size: bytes of the file, which are more than the numbers in it.
    """
    for one in lists:
        if not (isinstance(one, list) and all(type(item) is int for item in one)):
            raise ValueError(f"{NEMO} and input_ids must be lists of whole numbers.")
        size -= len(one)
        if size < 0:
            raise ValueError("it repeats lists by reference, and stands for more numbers than it has bytes.")


def _megatron(path: Path) -> PackedData:
    """The lengths of the sequences, each as a row of its own."""
    with path.open("rb") as file:
        head = file.read(34).ljust(34, b"\0")
        version, code, count, documents = struct.unpack("<QBQQ", head[9:])
    if version != 1 or code not in _SIZES or path.stat().st_size - 34 - 12 * count - 8 * documents not in (0, count):
        raise ValueError("it is no whole index of Megatron's in version 1.")
    lengths = np.memmap(path, "<i4", "r", 34, (count,)) if count else np.empty(0, np.int32)
    size, stored = int(lengths.sum(dtype=np.int64)) * _SIZES[code], path.with_suffix(".bin")
    if stored.exists() and stored.stat().st_size != size:
        raise ValueError(f"its tokens take {size:,} bytes, but {named(stored)} has {stored.stat().st_size:,}.")
    return PackedData(named(path), MEGATRON, count, lambda _: _alone(lengths))


def _alone(lengths: np.ndarray) -> Iterator[Rows]:
    for at in range(0, len(lengths), _ROWS):
        part = lengths[at : at + _ROWS].astype(np.int64)
        yield Rows(part, np.ones_like(part), part, part)


_MAGIC = {b"PAR1": _parquet, b"\x93NUMPY": _nemo, b"MMIDIDX": _megatron}
