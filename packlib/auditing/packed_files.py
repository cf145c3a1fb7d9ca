"""Packed data that others wrote, read in chunks: how long each sequence of each pack is, whatever the format.

What is known of the formats comes from the programs that write and read them:

- TRL's `pack_dataset` (trl/data_utils.py, 1.16) writes `input_ids` and `seq_lengths`; its strategy "wrapped" writes
  `input_ids` alone. transformers' `DataCollatorWithFlattening` and others mark a new sequence by `position_ids` that
  start again, or by `cu_seqlens`, the bounds from 0 to the last.
- NeMo (nemo/utils/sequence_packing_utils.py: `create_hist`, `fill_packing_strategy`) saves a list of `input_ids`,
  `loss_mask` and `seq_start_id` with `np.save`; Megatron Bridge (data/datasets/packed_parquet.py) has the same columns
  in Parquet. A sequence of n tokens fills n - 1 slots there, for the last one is only a label.
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

from packlib.arrays import map_arrays, npy_header, saved_kind
from packlib.checks import listed, shown
from packlib.lengths.own_files import parquet_batches, refuse_doubles
from packlib.markup import one_line
from packlib.packing.packs import Packs
from packlib.reading import arrow_errors, named, naming

NEMO, MEGATRON, PACKS = "seq_start_id", "Megatron's index", "packlib's packs"
KINDS = ("seq_lengths", "cu_seqlens", "cu_seq_lens_q", "cu_seq_lens", NEMO, "position_ids", "input_ids")
_ROWS = 1 << 16  # that are read at once
_STORE = (("input_ids", "token_type_ids", "offsets", "sequence_labels"), ("labels", "sample_ids"))
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}  # bytes of a token by Megatron's code of its dtype


class Rows(NamedTuple):
    """Some packs.

    Attributes:
        lengths: slots of each sequence, one pack after the other; None where they are not known.
        depths: sequences in each pack, shape (packs,).
        used, widths: slots that sequences fill, and all that the row has; shape (packs,).
        firsts: the position at which each sequence starts; None where there are no positions.
    """

    lengths: np.ndarray | None
    depths: np.ndarray
    used: np.ndarray
    widths: np.ndarray
    firsts: np.ndarray | None = None


class PackedData(NamedTuple):
    """What is audited: the `kind` tells where sequences begin; the last two are of packlib's own packs."""

    name: str
    kind: str
    num_rows: int
    rows: Iterator[Rows]
    sample_ids: np.ndarray | None = None
    max_length: int | None = None


def open_packed(data: Any) -> PackedData:
    """Open a file by its first bytes, or a `datasets.Dataset`; it is read when the rows are.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the file, and what is wrong with it.
    """
    if hasattr(data, "with_format") and isinstance(getattr(data, "num_rows", None), int):
        batches = data.with_format("arrow").iter(1000)
        return _columns("the data set", data.column_names, data.num_rows, lambda names: batches)
    if not isinstance(data, str | os.PathLike):
        raise TypeError(f"data must be the path of a file of packs or a datasets.Dataset, not {shown(data)}.")
    path = Path(data).expanduser()
    if path.suffix == ".bin" and path.with_suffix(".idx").is_file():
        path = path.with_suffix(".idx")
    with _naming(path), path.open("rb") as file:
        start = file.read(64)
        opens = next((opens for magic, opens in _MAGIC.items() if start.startswith(magic)), None)
        if opens is None:
            raise ValueError("it is neither Parquet, NeMo's .npy, Megatron's .idx, nor packlib's packs.")
        found = opens(path)
    return found._replace(rows=_named_rows(path, found.rows))


def _naming(path: Path) -> Any:
    return naming(path, "whole file of packs that can be audited")


def _named_rows(path: Path, rows: Iterator[Rows]) -> Iterator[Rows]:
    with _naming(path):
        yield from rows


def _columns(name: str, names: list[str], num_rows: int, batches: Callable) -> PackedData:
    kind = next((kind for kind in KINDS if kind in names), None)
    if kind is None or (kind == NEMO and "input_ids" not in names):
        raise ValueError(f"{name} must have one of {', '.join(KINDS)}, not {listed(names) or 'no column'}.")
    beside = ("input_ids", "attention_mask") if kind in ("position_ids", "input_ids") else ("input_ids",)
    wanted = list(dict.fromkeys([kind, *(other for other in beside if other in names)]))
    refuse_doubles(name, [other for other in names if other in wanted])
    return PackedData(name, kind, num_rows, _rows(kind, wanted, batches(wanted)))


def _parquet(path: Path) -> PackedData:
    import pyarrow.parquet as pq

    def batches(names: list[str]) -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            yield from parquet_batches(file, names)

    with arrow_errors(), pq.ParquetFile(path) as file:
        return _columns(named(path), file.schema_arrow.names, file.metadata.num_rows, batches)


def _rows(kind: str, names: list[str], batches: Iterator[Any]) -> Iterator[Rows]:
    at = 0
    with arrow_errors():
        for batch in batches:
            columns = {name: _flat(name, batch.column(name), at) for name in names}
            yield _bounds(kind, columns, at)
            at += batch.num_rows


def _flat(name: str, column: Any, at: int) -> tuple[np.ndarray, np.ndarray]:
    """How many numbers each row of a column has, and all of them one after the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = getattr(column.type, "value_type", pa.null())
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"the column {name} must hold lists of whole numbers, not {one_line(str(column.type))}.")
    values = column.flatten()
    if column.null_count or values.null_count:
        raise ValueError(f"the column {name} has no value somewhere in rows {at} to {at + len(column) - 1}.")
    sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes, np.empty(0) if name == "input_ids" else values.to_numpy(zero_copy_only=False)


def _sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sum of the first `sizes[0]` values, of the next `sizes[1]`, and so on."""
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[np.cumsum(sizes)], prepend=0)


def _bounds(kind: str, columns: dict, at: int) -> Rows:
    """The sequences of some rows, the first of which is row `at` of the file."""
    sizes, values = columns[kind]
    widths = columns["input_ids"][0] if "input_ids" in columns else None
    _refuse(
        sizes != widths if widths is not None and kind == "position_ids" else [], at, "has not as many input_ids as"
    )
    firsts = None
    if kind in ("position_ids", "input_ids"):
        widths = sizes
        if (mask := columns.get("attention_mask")) is not None:  # padding is left out
            _refuse(mask[0] != sizes, at, f"has not as many attention_mask as {kind}")
            sizes, values = _sums(mask[1] != 0, sizes), values[mask[1] != 0] if len(values) else values
        if kind == "input_ids":
            return Rows(None, np.zeros_like(sizes), sizes, widths)
        begins = np.ones(len(values), bool)
        np.not_equal(values[1:], values[:-1] + values.dtype.type(1), out=begins[1:])
        begins[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
        where = np.flatnonzero(begins)
        firsts, lengths, depths = values[where], np.diff(where, append=len(values)), _sums(begins, sizes)
    elif kind == "seq_lengths":
        lengths, depths = values, sizes
    else:
        lengths, depths = _between(kind, sizes, values.astype(np.int64), widths, at)
    if lengths.min(initial=1) < 1:
        _refuse(_sums(lengths < 0, depths) > 0, at, f"has a sequence of fewer than 0 tokens by its {kind}")
        lengths, depths = lengths[lengths > 0], _sums(lengths > 0, depths)
    used = _sums(lengths, depths)
    widths = used if kind == NEMO or widths is None else widths
    _refuse(used > widths, at, f"has more tokens by its {kind} than input_ids")
    return Rows(lengths, depths, used, widths, firsts)


def _between(kind: str, sizes: np.ndarray, values: np.ndarray, widths: np.ndarray | None, at: int) -> tuple:
    """Lengths between bounds: all are given, or where sequences start, and the row's end is the last."""
    ends = np.cumsum(sizes)
    _refuse(sizes < 1, at, f"has no {kind}")
    _refuse(values[ends - sizes] != 0, at, f"has {kind} that do not start at 0")
    if kind != NEMO:
        return np.delete(np.diff(values), ends[:-1] - 1), sizes - 1
    after = np.append(values[1:], 0)
    after[ends - 1] = widths
    return after - values - 1, sizes


def _refuse(wrong: Any, at: int, what: str) -> None:
    if np.any(wrong):
        raise ValueError(f"row {at + int(np.argmax(wrong))} {what}.")


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
    return PackedData(named(path), MEGATRON, count, _alone(lengths))


def _own(path: Path) -> PackedData:
    """Packs that `Packs.save` wrote, which do not know the lengths of their sequences; or a token store."""
    if is_store(path):
        offsets = map_arrays(path, "TokenStore", *_STORE)["offsets"]
        return PackedData(named(path), "packlib's token store", len(offsets) - 1, _alone(np.diff(offsets)))
    packs = Packs.load(path)
    rows = Rows(None, np.diff(packs.offsets), packs.lengths_used.astype(np.int64), packs.lengths_used)
    return PackedData(named(path), PACKS, len(packs), iter([rows]), packs.sample_ids, packs.max_length)


def is_store(path: Path) -> bool:
    """Whether a file holds the lengths of sequences in order: a token store, or Megatron's index."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(7) == b"MMIDIDX" or saved_kind(path) == "TokenStore"


def _alone(lengths: np.ndarray) -> Iterator[Rows]:
    for at in range(0, len(lengths), _ROWS):
        part = lengths[at : at + _ROWS].astype(np.int64)
        yield Rows(part, np.ones_like(part), part, part)


_MAGIC = {b"PAR1": _parquet, b"\x93NUMPY": _nemo, b"MMIDIDX": _megatron, b"ARROW1": _own}
