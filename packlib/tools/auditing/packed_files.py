"""Packed data that others wrote, read in chunks: how long each sequence of each pack is, whatever the format.

What is known of the formats comes from the programs that write and read them:

- TRL's `pack_dataset` (trl/data_utils.py, 1.16) writes `input_ids` and `seq_lengths`; its strategy "wrapped" writes
  `input_ids` alone. transformers' `DataCollatorWithFlattening` and others mark a new sequence by `position_ids` that
  start again, or by `cu_seqlens`, the bounds from 0 to the last.
- NeMo (nemo/utils/sequence_packing_utils.py: `create_hist`, `fill_packing_strategy`) saves a list of `input_ids`,
  `loss_mask` and `seq_start_id` with `np.save`; Megatron Bridge (data/datasets/packed_parquet.py) has the same columns
  in Parquet. A sequence of n tokens fills n - 1 slots there, for the last one is only a label.
- Grain and MaxText (grain/_src/python/experimental/example_packing; MaxText/input_pipeline) number the sequences of a
  row by slot, from 1, in `inputs_segmentation` beside `inputs`, `inputs_position` and `targets`, the next tokens;
  seqio (seqio/feature_converters.py) does so in `encoder_segment_ids` or `decoder_segment_ids`, others in
  `segment_ids`, `document_ids` or `seq_idx`, and LLaMA-Factory in the `attention_mask` itself (1 1 2 2 0).
- torchtune (torchtune/datasets/_packed.py) has `tokens`, `labels`, `input_pos` and `seq_lens`, whose last is the
  padding; `input_pos` runs on over it.
- Megatron Core and Transformer Engine fill bounds up by repeating the last or by -1, and pad sequences one by one:
  `cu_seqlens_q_padded` beside `cu_seqlens_q`.
- Megatron Core (core/datasets/indexed_dataset.py) keeps sequences end to end in a `.bin`, their lengths in an
  `.idx`. They are not packed: `GPTDataset` shuffles and joins them, and cuts that every
  `sequence_length` tokens (core/datasets/helpers.cpp, `build_sample_idx`).
"""

import os
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packlib.arguments import listed, no_frame, one_line, shown
from packlib.files import at_home, named, naming
from packlib.lengths.own_files import npy_header, refuse_same_names
from packlib.tools.auditing.columns import Columns, MeasuredRows, read_rows
from packlib.tools.auditing.names import KINDS, MASKS, NEMO, TREES, WEIGHTS, names_in, without_borders
from packlib.tools.auditing.tables import Table, tables_of
from packlib.tools.rows.column_values import is_list, whole_numbers
from packlib.tools.rows.row_sources import as_data_set

MEGATRON = "Megatron's index"
_PACKS = "whole file of packs that can be audited"  # what a file should be, in words
_ROWS = 1 << 16  # that are read at once
_MEGATRON_MAGIC = b"MMIDIDX\0\0"  # the first bytes of its index
_HEAD = 34  # bytes: the magic, version, code of the dtype, and how many sequences and documents there are
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}  # bytes of a token by Megatron's code of its dtype


class PackedData(NamedTuple):
    """Packed data that is open, but not read yet.

    Attributes:
        name: what errors and the audit call it.
        kind: the column or format that tells where sequences begin; for "input_ids", nothing does.
        num_rows: its rows, or None where that takes reading them; for Megatron's index, its sequences.
        rows: reads the rows in chunks; its argument says whether to keep the contents of the sequences.
        tokens: whether the tokens of single sequences are known, so that they can be compared with a source.
        unread: columns that are not looked at.
        columns: packlib's name for each column that is read, and its name in the file.
    """

    name: str
    kind: str
    num_rows: int | None
    rows: Callable[[bool], Iterator[MeasuredRows]]
    tokens: bool = False
    unread: tuple[str, ...] = ()
    columns: Mapping[str, str] = {}


def open_packed(
    data: Any, columns: Mapping[str, str] | None = None, masks: Mapping[str, Any] | None = None
) -> PackedData:
    """Open files by their first bytes, or a `datasets.Dataset`, without reading their rows.

    Args:
        columns: names of columns in the file, by packlib's names for them.
        masks: for columns that are masks of the loss, or are not, the word of `pack_dataset` that says so.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the file, and what is wrong with it.
    """
    no_frame("data", data)
    data = as_data_set(data)
    if isinstance(data, str | os.PathLike):
        path = at_home(data)
        if path.suffix == ".bin" and path.with_suffix(".idx").is_file():
            path = path.with_suffix(".idx")
        if path.is_file() and (special := _special(path, columns or {}, masks or {})):
            return special
    elif not (hasattr(data, "with_format") or (isinstance(data, (list, tuple)) and data)):
        raise TypeError(f"data must be the path of a file of packs or a datasets.Dataset, not {shown(data)}.")
    tables = tables_of(data, _PACKS)
    if tables is None and isinstance(data, str | os.PathLike):
        raise ValueError(
            f"{named(path)} is no {_PACKS}: it is neither Parquet, JSON lines, Arrow, NeMo's .npy, nor Megatron's .idx."
        )
    if tables is None:
        raise TypeError(f"data must be the path of a file of packs or a datasets.Dataset, not {shown(data)}.")
    name = tables[0].name if len(tables) == 1 else f"{len(tables):,} files, {tables[0].name} to {tables[-1].name}"
    return _packed(name, tables, columns or {}, masks or {})


def _special(path: Path, columns: Mapping[str, str], masks: Mapping[str, Any]) -> PackedData | None:
    """Open a file in NeMo's or Megatron's own format; None for other files."""
    with naming(path, _PACKS), path.open("rb") as file:
        start = file.read(64)
        opens = next((opens for magic, opens in _MAGIC.items() if start.startswith(magic)), None)
        if opens is None:
            return None
        packed = opens(path, columns, masks)
    return packed._replace(rows=lambda keep_contents: _named_rows(path, packed.rows(keep_contents)))


def _named_rows(path: Path, rows: Iterator[MeasuredRows]) -> Iterator[MeasuredRows]:
    """Yield the rows; an error in reading them names the file."""
    with naming(path, _PACKS):
        yield from rows


def _packed(name: str, tables: list[Table], columns: Mapping[str, str], masks: Mapping[str, Any]) -> PackedData:
    """Open tables of packs, all of which must have the columns of the first."""
    if all(set(TREES) <= set(table.schema.names) for table in tables):
        return _trees(name, tables)
    names = _same_names(tables, columns, masks)
    words = {**MASKS, **masks}
    first = tables[0]
    if missing := [column for column in columns.values() if column not in first.schema.names]:
        columns_there = listed(first.schema.names)
        raise ValueError(f"columns names {shown(missing[0])}, which {first.name} has not; it has {columns_there}.")
    better_kinds = KINDS[: KINDS.index("attention_mask")]  # which tell more than an attention mask
    is_numbered = (
        "attention_mask" in names
        and not any(kind in names for kind in better_kinds)
        and _is_numbered(tables, names["attention_mask"])
    )
    kinds = [kind for kind in KINDS if kind in names and (kind != "attention_mask" or is_numbered)]
    if not kinds or (kinds[0] == NEMO and "input_ids" not in names):
        raise without_borders(first.name, first.schema.names)
    unread = tuple(dict.fromkeys(column for column in first.schema.names if column not in names.values()))
    loss_masks = {name: words[name] for name in names if name in words}

    def rows(keep_contents: bool) -> Iterator[MeasuredRows]:
        for table in tables:
            file, first_row = f" of {table.name}" * (len(tables) > 1), 0
            with table.naming():
                for batch in table.read(list(dict.fromkeys(names.values()))):
                    columns_read = columns_of(batch, names, loss_masks, first_row)
                    measured = read_rows(kinds, columns_read, first_row, loss_masks, keep_contents)
                    contents = measured.contents and measured.contents._replace(file=file)
                    bare = measured.bare and measured.bare._replace(file=file)
                    yield measured._replace(file=file, contents=contents, bare=bare)
                    first_row += batch.num_rows

    return PackedData(name, kinds[0], _total(tables), rows, "input_ids" in names, unread, names)


def _same_names(tables: list[Table], columns: Mapping[str, str], masks: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns that are read, by packlib's names for them; refuse tables that have not the same ones."""
    of_tables = [names_in(table.schema.names, columns, masks) for table in tables]
    names = of_tables[0]
    for table, names_of_table in zip(tables, of_tables, strict=True):
        refuse_same_names(table.name, [column for column in table.schema.names if column in names_of_table.values()])
        if odd := set(names_of_table.items()) ^ set(names.items()):
            odd_name, odd_column = min(odd)
            has, lacks = (table, tables[0]) if odd_name in names_of_table else (tables[0], table)
            raise ValueError(
                f"{lacks.name} has no column {named(odd_column)}, which {has.name} has: all need the same."
            )
    return names


def _trees(name_of_data: str, tables: list[Table]) -> PackedData:
    """Open rows whose sequences share tokens, as `lay_trees` makes them: each path is known by its last token's slot.

    Without shared tokens a path would have as many tokens as the position of its last one, plus 1.
    """

    def rows(keep_contents: bool) -> Iterator[MeasuredRows]:
        for table in tables:
            file, first_row = f" of {table.name}" * (len(tables) > 1), 0
            with table.naming():
                for batch in table.read(["input_ids", "position_ids", *TREES]):
                    columns = ("input_ids", "position_ids", *TREES)
                    (sizes, _), (_, positions), (seen_sizes, _), (path_counts, last_slots) = (
                        whole_numbers(column, batch.column(column), first_row) for column in columns
                    )
                    row_starts = np.repeat(np.cumsum(sizes) - sizes, path_counts)  # for each path
                    is_outside = (last_slots < 0) | (last_slots >= np.repeat(sizes, path_counts))
                    if len(positions) != sizes.sum() or (seen_sizes != sizes).any() or is_outside.any():
                        raise ValueError(
                            f"The rows from {first_row} on must have as many position_ids and {TREES[0]} as "
                            f"input_ids, and {TREES[1]} among their slots."
                        )
                    tokens_of_paths = int((positions[row_starts + last_slots] + 1).sum())
                    counts = {"tokens of paths": tokens_of_paths}
                    yield MeasuredRows(None, path_counts, sizes, sizes, counts=counts, file=file)
                    first_row += batch.num_rows

    return PackedData(name_of_data, TREES[1], _total(tables), rows)


def _total(tables: list[Table]) -> int | None:
    """Return the rows of all tables; None if one of them has to be read for that."""
    counts = [table.num_rows for table in tables]
    return None if None in counts else sum(count for count in counts if count is not None)


def _is_numbered(tables: list[Table], column: str) -> bool:
    """Return True if an attention mask counts the sequences of a row (1 1 2 2 0), and not only marks padding."""
    for table in tables:
        first_row = 0
        with table.naming():
            for batch in table.read([column]):
                _, values = whole_numbers(column, batch.column(column), first_row)
                if values.max(initial=0) > 1:
                    return True
                first_row += batch.num_rows
    return False


def columns_of(batch: pa.RecordBatch, names: Mapping[str, str], masks: Mapping[str, Any], first_row: int) -> Columns:
    """Return the columns of a batch by packlib's names, as whole numbers.

    Weights of a loss may be fractions: all but 0 are read as 1.

    Args:
        names: packlib's name for each column that is read, and its name in the file.
        masks: the columns that are masks of the loss, or weights.
        first_row: the number of the first row of the batch.
    """
    columns = {}
    for name, column in names.items():
        values = batch.column(column)
        if name in WEIGHTS and not is_list(values.type):
            continue  # one weight for each sequence
        if name in masks and is_list(values.type) and pa.types.is_floating(values.type.value_type):
            values = pc.cast(values, pa.large_list(pa.float64()))
            ones = pc.not_equal(values.flatten(), 0).cast(pa.int8())
            sizes = pc.list_value_length(values).fill_null(0)
            offsets = np.concatenate([[0], np.cumsum(sizes.to_numpy(zero_copy_only=False))]).astype(np.int64)
            values = pa.LargeListArray.from_arrays(pa.array(offsets), ones)
        columns[name] = whole_numbers(column, values, first_row)
    return columns


class _Plain:
    """Stand-in for NumPy's array and dtype in a pickle, which only keeps its state: no code of the pickle is run."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Lists(pickle.Unpickler):
    """A reader of pickles that hold lists, numbers and NumPy's arrays, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for NumPy's classes; raise a ValueError for all else, which would be run."""
        if module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return _Plain
        raise ValueError(f"it has a pickled {module}.{name}, which is never run.")


def _nemo(path: Path, columns: Mapping[str, str], masks: Mapping[str, Any]) -> PackedData:
    """Open NeMo's packs. All are read into memory, as NeMo does, since a pickle cannot be read in parts."""
    with path.open("rb") as file:
        _, dtype = npy_header(file)
        if not dtype.hasobject:
            raise ValueError(f"it is an array of {dtype}, and not the list of packs that NeMo saves.")
        try:
            packs = _Lists(file).load().state[-1]
            names = [NEMO, "input_ids", *["loss_mask"] * all("loss_mask" in pack for pack in packs)]
            lists = {name: [pack[name] for pack in packs] for name in names}
            _refuse_nested(chain.from_iterable(lists.values()), path.stat().st_size)
            table = pa.table(lists)
        except MemoryError:
            raise
        except Exception as error:  # what is damaged raises any of a dozen kinds
            raise ValueError(f"it is no list of packs as NeMo saves it: {one_line(str(error), 200)}") from None
    of_file = Table(named(path), table.schema, len(table), lambda names: table.select(names).to_batches(1000))
    return _packed(named(path), [of_file], columns, masks)


def _refuse_nested(lists: Iterable[Any], size: int) -> None:
    """Raise a ValueError for lists that a pickle holds once and refers to often, or that hold other lists.

    Such a small file could stand for any number of tokens. In a pickle without references each number takes a byte.

    Args:
        size: bytes of the file.
    """
    for row in lists:
        if not (isinstance(row, list) and all(type(item) in (int, bool, float) for item in row)):
            raise ValueError(f"{NEMO} and input_ids must be lists of whole numbers.")
        size -= len(row)
        if size < 0:
            raise ValueError("it repeats lists by reference, and stands for more numbers than it has bytes.")


def _megatron(path: Path, *_: Any) -> PackedData:
    """Open the lengths of the sequences in an index, each as a row of its own.

    Behind its head the index has for each sequence a length (4 bytes) and an address (8 bytes), for each document the
    number of its first sequence (8 bytes), and perhaps a byte for each sequence.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD).ljust(_HEAD, b"\0")
        version, code, count, documents = struct.unpack("<QBQQ", head[len(_MEGATRON_MAGIC) :])
    size_behind = path.stat().st_size - _HEAD - 12 * count - 8 * documents
    if version != 1 or code not in _SIZES or size_behind not in (0, count):
        raise ValueError("it is no whole index of Megatron's in version 1.")
    lengths = np.memmap(path, "<i4", "r", _HEAD, (count,)) if count else np.empty(0, np.int32)
    size, stored = int(lengths.sum(dtype=np.int64)) * _SIZES[code], path.with_suffix(".bin")
    if stored.exists() and stored.stat().st_size != size:
        raise ValueError(f"its tokens take {size:,} bytes, but {named(stored)} has {stored.stat().st_size:,}.")
    return PackedData(named(path), MEGATRON, count, lambda _: _alone(lengths))


def _alone(lengths: np.ndarray) -> Iterator[MeasuredRows]:
    """Yield sequences as rows of their own, some at a time."""
    for first_row in range(0, len(lengths), _ROWS):
        part = lengths[first_row : first_row + _ROWS].astype(np.int64)
        yield MeasuredRows(part, np.ones_like(part), part, part)


_MAGIC = {b"\x93NUMPY": _nemo, _MEGATRON_MAGIC.rstrip(b"\0"): _megatron}  # by the first bytes of a file
