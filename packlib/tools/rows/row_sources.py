"""Where a data set comes from: Arrow, Parquet, JSON lines, folders of them, or rows of Python; and its batches."""

import glob
import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from packlib.arguments import listed, no_frame, one_line, one_of, shown
from packlib.files import WORK, arrow_errors, at_home, named, naming, parse_json
from packlib.installed import needed_by
from packlib.lengths.own_files import json_rows, open_lines, parquet_batches, parquet_file, refuse_same_names
from packlib.tools.rows.loss_masks import drop_option

Format = Literal["lines", "arrow", "parquet"]
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow",
    ".jsonl": "lines", ".ndjson": "lines", ".json": "lines",
}  # fmt: skip
_COMPRESSED = (".gz", ".zst")  # endings behind that of JSON lines
_JSON = "file of JSON lines"  # how errors call such a file; the next two likewise
_PARQUET = "whole Parquet file of sequences"
_ARROW = "whole Arrow file of sequences"
_ROWS_AT_ONCE = 4096  # rows in a batch
_BYTES_AT_ONCE = 1 << 23  # of an Arrow file in a batch, since its rows may be long
_LENGTHS = (".csv", ".tsv", ".txt", ".npy", ".npz")  # endings of files of lengths, which have no sequences
_OTHER_DATA = {".json", ".gz", ".zst", ".bz2", ".xz", ".zip", ".pkl", ".pt", ".bin", *_LENGTHS}  # not read in folders


class RowsByNumber(Protocol):
    """A data set that gives row `i` for `dataset[i]`, such as a `datasets.Dataset`, or one of PyTorch."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class StreamedRows(Protocol):
    """A data set that streams by and can go on from a state: a `datasets.IterableDataset`, also where `datasets`,
    which has no types of its own, is Any to a type checker.
    """

    def __iter__(self) -> Iterator[Any]: ...
    def set_epoch(self, epoch: int, /) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> None: ...


class ArrowRows(Protocol):
    """A data set whose rows are in Arrow: a `datasets.Dataset`."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def with_format(self, type: str | None, /) -> Any: ...


class Origin(NamedTuple):
    """The file that a batch comes from.

    Attributes:
        first_row: number in the data set of the file's first row.
    """

    path: Path
    first_row: int


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """Return the format of a file of sequences, by the ending of its name; None for other endings."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        inner_suffix = suffixes[-2] if len(suffixes) > 1 else ""
        return "lines" if _FORMATS.get(inner_suffix) == "lines" else None
    return _FORMATS.get(suffixes[-1] if suffixes else "")


def opened(dataset: Any, split: str | None = None, leave_out: Path | None = None) -> Any:
    """Open the data set that a path or several name; return anything else as it is.

    Args:
        dataset: a path, a pattern, or a list of these; a name of the hub; or a data set.
        split: of a data set with splits that `save_to_disk` wrote; or of the hub, if `dataset` is a name "owner/name"
            and no path. Without it the hub is not asked.
        leave_out: a folder whose files are not read, such as the one that is written to.

    Returns:
        The files in their order, or the `datasets.Dataset` that `save_to_disk` wrote or the hub has (by split, if
        `save_to_disk` wrote several and none is named).

    Raises:
        OSError, ValueError: naming what is not there, or what kind of file it is.
    """
    dataset = as_data_set(dataset)
    is_list = isinstance(dataset, (list, tuple)) and bool(dataset)
    items = dataset if is_list else [dataset]
    if not all(isinstance(item, (str, os.PathLike)) for item in items):
        return dataset
    paths = [os.fspath(at_home(item)) for item in items]
    is_there = os.path.lexists(paths[0])
    if not is_list:
        if split is not None and not is_there and _is_hub_name(paths[0]):
            return _from_hub(paths[0], split)
        if _was_saved(Path(paths[0])):
            saved = _load_saved(paths[0])
            if split is None:
                return saved
            if isinstance(saved, Mapping):
                return saved[one_of("split", split, saved)]
    if split is not None and is_there:
        raise ValueError(f"split must be left out for {named(paths[0])}, which has no splits.")
    return [file for path in paths for file in _files(path, leave_out)]


def _load_saved(path: str) -> Any:
    """Return the data set that `save_to_disk` of datasets wrote, a mapping by split if it wrote several."""
    import datasets

    with arrow_errors(f"{named(path)} is no whole data set: "):
        return datasets.load_from_disk(path)


def as_data_set(value: Any) -> Any:
    """Return a table of Arrow as a data set; anything else as it is.

    Raises:
        ValueError: if two columns of the table have one name.
    """
    if not isinstance(value, pa.Table | pa.RecordBatch):
        return value
    refuse_same_names("The data set", value.schema.names)
    import datasets

    return datasets.Dataset(value if isinstance(value, pa.Table) else pa.Table.from_batches([value]))


def _is_hub_name(name: str) -> bool:
    """Return whether a name is written as "owner/name", and not as that of a file of sequences."""
    return re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) is not None and format_of(name) is None


def _from_hub(name: str, split: str) -> Any:
    """Load a split of a data set of the hub; raise a ValueError that names it if that fails."""
    with needed_by("A data set of the hub"):
        import datasets
    try:
        return datasets.load_dataset(name, split=split)
    except MemoryError:
        raise
    except Exception as error:  # of the network, of the hub, or of what is there
        raise ValueError(f"The data set {name} of the hub cannot be loaded: {one_line(str(error), 300)}") from error


def _files(path: str | os.PathLike[str], leave_out: Path | None) -> list[Path]:
    """Return the files that a path names, sorted by name: itself, those in a folder, or those that fit a pattern.

    Files in the folder `leave_out` are left out, and those in the hidden folder where a run works.

    Raises:
        FileNotFoundError: if there is none.
    """
    if Path(path).is_dir():
        data_names = [file for file in Path(path).rglob("*") if _is_data(file)]
        _refuse_broken_links(data_names)
        files = [file for file in data_names if file.is_file()]
        _refuse_partitions(Path(path), files)
        complaint = (
            f"The folder {named(path)} holds no .parquet, no .jsonl and no .arrow file, and save_to_disk did not write "
            "it."
        )
    elif not os.path.lexists(path) and glob.has_magic(os.fspath(path)):
        files = [Path(file) for file in glob.glob(os.fspath(path), recursive=True)]
        complaint = f"No file fits {named(path)}."
    else:
        return [Path(path)]
    files = [
        file
        for file in files
        if WORK not in file.parts and (leave_out is None or leave_out not in file.resolve().parents)
    ]
    if not files:
        raise FileNotFoundError(complaint)
    return sorted(files)


def _refuse_broken_links(files: Iterable[Path]) -> None:
    """Raise a FileNotFoundError for a link that leads nowhere: the rows of its file would be missing unseen."""
    for file in files:
        if file.is_symlink() and not file.exists():
            raise FileNotFoundError(f"{named(file)} is a link that leads nowhere.")


def _refuse_partitions(folder: Path, files: Iterable[Path]) -> None:
    """Raise a ValueError if folders are named as Hive and Spark name them, `split=train`: no file has that column."""
    for file in files:
        parts = file.relative_to(folder).parts[:-1]
        if partition := next((part for part in parts if re.fullmatch(r"\w+=.*", part)), None):
            column = partition.partition("=")[0]
            has = f"The folder {named(folder)} has parts such as {named(partition)}"
            raise ValueError(
                f"{has}, and no file has the column {column}. "
                f"Name one part, or the files of all by a pattern such as '{named(folder)}/**/*.parquet'."
            )


def left_out_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files in those of these paths that are folders, that may hold data and that `opened` leaves out."""
    unread_files = []
    folders = [path for path in map(at_home, paths) if path.is_dir() and not _was_saved(path)]
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
            if {*file.suffixes} & _OTHER_DATA and not _is_data(file) and not is_hidden and file.is_file():
                unread_files.append(file)
    return unread_files


def _was_saved(path: Path) -> bool:
    """Return True if `save_to_disk` of datasets wrote this folder."""
    return any((path / name).is_file() for name in ("dataset_dict.json", "state.json"))


def _is_data(path: Path) -> bool:
    """Return True if a file of a folder holds sequences; .json is mostly something else there."""
    return format_of(path) is not None and path.suffix.lower() != ".json"


def part_of_process(dataset: Any, number: int, num_parts: int) -> tuple[Any, str]:
    """Return the part of what `opened` returned that process `number` of `num_parts` reads: some files, or some rows.

    Returns:
        The part, and where it begins, in words. Parts are in the order of the data, and may have no file or row.
    """
    if num_parts == 1 or isinstance(dataset, Mapping):  # splits are refused by `batches`
        return dataset, "the first"
    if isinstance(dataset, list):
        start, end = len(dataset) * number // num_parts, len(dataset) * (number + 1) // num_parts
        return dataset[start:end], named(dataset[min(start, len(dataset) - 1)])
    return dataset.shard(num_parts, number, contiguous=True), f"part {number + 1} of {num_parts}"


def batches(dataset: Any, only: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of what `opened` returned in batches, small enough that memory is bounded.

    Args:
        only: the columns to read, of those that are there; by default all.
    """
    for _, batch in batches_with_origin(dataset, only):
        yield batch


def batches_with_origin(
    dataset: Any, only: Collection[str] | None = None, leave_out: dict[str, bool] | None = None
) -> Iterator[tuple[Origin | None, pa.RecordBatch]]:
    """Yield the same batches as `batches`, each with the file that it comes from, or None if it comes from no file.

    Args:
        leave_out: columns that are left out of rows of Python and of JSON lines, which may have them or not; the value
            of each that a row has is set to True.
    """
    if isinstance(dataset, list) and dataset and all(isinstance(path, Path) for path in dataset):
        next_row = 0
        for path in dataset:
            origin = Origin(path, next_row)
            for batch in _batches_of_file(path, only, leave_out):
                yield origin, batch
                next_row += len(batch)
        return
    no_frame("dataset", dataset)
    import datasets

    if isinstance(dataset, datasets.Dataset):
        if only is not None:
            dataset = dataset.select_columns([name for name in dataset.column_names if name in only])
        for table in dataset.with_format("arrow").iter(_ROWS_AT_ONCE):
            for batch in table.combine_chunks().to_batches():  # each row that was selected is a chunk by itself
                yield None, batch
    elif not isinstance(dataset, Mapping) and (hasattr(dataset, "__iter__") or hasattr(dataset, "__getitem__")):
        rows = dataset if hasattr(dataset, "__iter__") else map(dataset.__getitem__, range(len(dataset)))
        for batch in of_rows(rows, _ROWS_AT_ONCE, only, leave_out=leave_out):
            yield None, batch
    else:
        dataset_in_words = (
            f"the splits {listed(dataset)}: pass one" if isinstance(dataset, Mapping) else shown(dataset)
        )
        raise TypeError(
            "dataset must be a datasets.Dataset, the path of Parquet files, JSON lines or a folder, or an iterable of "
            f"mappings with input_ids, not {dataset_in_words}."
        )


def _batches_of_file(
    path: Path, only: Collection[str] | None, leave_out: dict[str, bool] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches, as `batches_with_origin` does; raise an error that names the file."""
    file_format = format_of(path)
    if file_format == "lines":
        yield from of_rows(_lines(path), _ROWS_AT_ONCE, only, named(path), leave_out)
    elif file_format == "arrow":
        with naming(path, _ARROW) as path, arrow_errors():
            yield from _arrow_batches(path, only)
    elif path.suffix.lower() in _LENGTHS and path.is_file():
        raise ValueError(
            f"{named(path)} is no file of sequences: a {path.suffix} file holds lengths, or texts without columns. "
            "Sequences are in Parquet, Arrow or JSON lines."
        )
    elif path.suffix.lower() in _COMPRESSED and path.is_file():
        raise ValueError(
            f"{named(path)} is compressed, and only JSON lines are read so (.jsonl.gz, .jsonl.zst): unpack it."
        )
    else:
        with naming(path, _PARQUET) as path, arrow_errors(), parquet_file(path) as file:
            yield from parquet_batches(file, _read_columns(file.schema_arrow.names, only))


def _read_columns(columns_there: list[str], only: Collection[str] | None) -> list[str]:
    """Return the columns of a file that are read; raise a ValueError if there are none."""
    names = columns_there if only is None else [name for name in columns_there if name in only]
    if not names:
        raise ValueError(f"it has {listed(columns_there) or 'no column'}, and not the columns of the other files.")
    return names


def _arrow_batches(path: Path, only: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file or stream, some rows at a time, so that memory is bounded."""
    magic = path.open("rb").read(6)
    if magic.startswith(b"FEA1"):
        raise ValueError("it is Feather of version 1: write it again with version 2.")
    with pa.memory_map(str(path)) as source:
        is_file = magic == b"ARROW1"  # a stream has no such bytes
        reader: Any = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        names = _read_columns(reader.schema.names, only)
        stored_batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        for batch in stored_batches:
            batch.validate()
            rows_in_bytes = _BYTES_AT_ONCE * len(batch) // max(1, batch.nbytes)
            step = max(1, min(_ROWS_AT_ONCE, rows_in_bytes))
            for first in range(0, len(batch), step):
                yield batch.slice(first, step).select(names)


def _lines(path: Path) -> Iterator[Any]:
    """Yield the rows of a file of JSON lines, which may be compressed."""
    with naming(path, _JSON) as path, arrow_errors(), open_lines(path) as file:
        for _, row in json_rows(_lines_without_list(file)):
            yield row


def _lines_without_list(lines: Iterable[str]) -> Iterator[str]:
    """Yield the same lines; raise a ValueError at the first that begins a JSON list."""
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("["):
            _refuse_list(line, number)
        yield line


def _refuse_list(line: str, number: int) -> None:
    """Raise a ValueError about a line that begins a JSON list, with the command that makes rows of it."""
    if name := _turns_column(line):
        raise ValueError(
            f'Line {number} is a list of turns, and a chat needs a name for it: {{"{name}": [...]}}, as '
            f"jq -c '{{{name}: .}}' writes it."
        )
    raise ValueError(
        f"Line {number} begins a JSON list, where an object for one row is needed on each line, as "
        "jq -c '.[]' makes them of a list."
    )


def _turns_column(line: str) -> str:
    """Return the name that a column must have for the turns of a chat in a line; empty if the line has no turns."""
    try:
        turns = parse_json(line)
    except ValueError:  # such as a list over several lines
        return ""
    keys = turns[0].keys() if isinstance(turns, list) and turns and isinstance(turns[0], dict) else ()
    if "role" in keys:
        return "messages"
    return "conversations" if "from" in keys else ""


def of_rows(
    rows: Iterable[Any],
    at_once: int,
    only: Container[str] | None = None,
    holder: str = "the data set",
    leave_out: dict[str, bool] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of Python as batches of Arrow, of the columns in `only` or of all.

    Args:
        at_once: rows in a batch.
        holder: the name, in errors, of what has the rows.
        leave_out: as in `batches_with_origin`.

    Raises:
        TypeError, ValueError: naming the row or the column that does not fit the others.
    """
    numbered = enumerate(rows)
    leave_out = {} if leave_out is None else leave_out
    first_row = 0
    while block := [_plain(row, number, only, holder, leave_out) for number, row in islice(numbered, at_once)]:
        _refuse_other_names(block, first_row, holder)
        yield _batch_of(block, holder)
        first_row += len(block)


def _refuse_other_names(block: list[dict[str, Any]], first_row: int, holder: str) -> None:
    """Raise a ValueError if rows have other columns than the first of them: Arrow would leave these out.

    Args:
        first_row: number of the first row in the data set.
    """
    for number, row in enumerate(block, start=first_row):
        in_some_rows = set(row) ^ set(block[0])
        if in_some_rows:
            name = min(in_some_rows)
            has, lacks = (number, first_row) if name in row else (first_row, number)
            raise ValueError(
                f"The column {shown(name)} is in some rows only: row {has} of {holder} has it, row {lacks} "
                f"does not; all rows must have it, or none: {drop_option(name)}."
            )


def _batch_of(block: list[dict[str, Any]], holder: str) -> pa.RecordBatch:
    """Return rows as a batch of Arrow.

    Raises:
        TypeError, ValueError: naming the column whose values do not fit together, or with a text that is no Unicode.
    """
    try:
        return pa.RecordBatch.from_pylist(block)
    except UnicodeEncodeError as error:  # half of a pair of surrogates, which JSON can hold
        name = next(name for name in block[0] if not _fits(block, name))
        reason = one_line(str(error), 200)
        raise ValueError(f"{holder} has a text in the column {shown(name)} that is no Unicode: {reason}.") from None
    except (pa.ArrowException, OverflowError) as error:  # the latter of a number beyond 64 bits
        reason = one_line(str(error), 200)
        where = next((f" in the column {shown(name)}" for name in block[0] if not _fits(block, name)), "")
        cure = "; each content must be a text, and no list of parts" if _has_parts(block) else ""
        raise TypeError(f"The rows of {holder} do not fit together{where}: {reason}{cure}.") from None


def _fits(rows: list[dict[str, Any]], name: str) -> bool:
    """Return True if the values of a column fit into one Arrow array."""
    try:
        pa.array([row[name] for row in rows])
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return False
    return True


def _has_parts(rows: list[dict[str, Any]]) -> bool:
    """Return True if the content of a chat's message is a list of parts, such as texts and images."""
    chats = (value for row in rows for value in row.values() if isinstance(value, list))
    return any(
        isinstance(message, dict) and isinstance(message.get("content"), list) for chat in chats for message in chat
    )


def _plain(
    row: Any, number: int, only: Container[str] | None, holder: str, leave_out: dict[str, bool]
) -> dict[str, Any]:
    """Return a row with NumPy arrays in place of tensors, of the columns in `only` or of all.

    Args:
        number: of the row, for errors.
        holder, leave_out: as in `of_rows`.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"Row {number} of {holder} must be a mapping with input_ids, not {shown(row)}.")
    for name in leave_out:
        leave_out[name] = leave_out[name] or name in row
    return {
        name: np.asarray(value) if hasattr(value, "__array__") else value
        for name, value in row.items()
        if (only is None or name in only) and name not in leave_out
    }
