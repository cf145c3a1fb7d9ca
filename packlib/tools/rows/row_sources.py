"""Where a data set comes from: Arrow, Parquet, JSON lines, folders of them, or rows of Python; and its batches."""

import glob
import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from packlib.checks import listed, one_line, one_of, shown
from packlib.files import WORK, arrow_errors, at_home, named, naming, parse_json
from packlib.installed import needed_by
from packlib.lengths.own_files import parquet_batches, parquet_file

FILES = (".parquet", ".pq", ".jsonl", ".ndjson")  # of a folder; its other files are something else
_LINES = (".jsonl", ".ndjson", ".json")
_JSON, _PARQUET = "file of JSON lines", "whole Parquet file of sequences"
_ROWS = 4096  # sequences that are read at once


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


def opened(dataset: Any, split: str | None = None, leave_out: Path | None = None) -> Any:
    """A data set, where a path or several name it: the files in their order, or what `save_to_disk` wrote.

    Args:
        split: of a data set with splits that `save_to_disk` wrote; or of the hub, if `dataset` is a name "owner/name"
            and no path. Without it the hub is not asked.
        leave_out: a folder whose files are not read, such as the one that is written to.

    Raises:
        OSError, ValueError: naming what is not there, or what kind of file it is.
    """
    several = isinstance(dataset, (list, tuple)) and bool(dataset)
    paths = dataset if several else [dataset]
    if not all(isinstance(one, (str, os.PathLike)) for one in paths):
        return dataset
    paths = [os.fspath(at_home(one)) for one in paths]
    dataset = paths if several else paths[0]
    there = os.path.lexists(paths[0])
    if split is not None and not (several or there) and _is_hub_name(os.fspath(dataset)):
        return _from_hub(os.fspath(dataset), split)
    if not several and any((Path(dataset) / name).is_file() for name in ("dataset_dict.json", "state.json")):
        import datasets

        with arrow_errors(f"{named(dataset)} is no whole data set: "):
            saved = datasets.load_from_disk(os.fspath(dataset))
        if split is None:
            return saved
        if isinstance(saved, Mapping):
            return saved[one_of("split", split, saved)]
    if split is not None and there:
        raise ValueError(f"split must be left out for {named(paths[0])}, which has no splits.")
    return [file for path in paths for file in _files(path, leave_out)]


def _is_hub_name(name: str) -> bool:
    return (
        re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) is not None
        and Path(name).suffix.lower() not in _LINES + FILES
    )


def _from_hub(name: str, split: str) -> Any:
    with needed_by("A data set of the hub"):
        import datasets
    try:
        return datasets.load_dataset(name, split=split)
    except MemoryError:
        raise
    except Exception as error:  # of the network, of the hub, or of what is there
        raise ValueError(f"The data set {name} of the hub cannot be loaded: {one_line(str(error), 300)}") from error


def _files(path: str | os.PathLike[str], leave_out: Path | None) -> list[Path]:
    """The files that a path names: itself, those in a folder, or those that a pattern fits, by name.

    Those in the folder `leave_out` are left out, and what a run has in its hidden folder of work.
    """
    if Path(path).is_dir():
        found = [one for one in Path(path).rglob("*") if one.suffix.lower() in FILES and one.is_file()]
        where = f"The folder {named(path)} holds no .parquet and no .jsonl file, and save_to_disk did not write it."
    elif not os.path.lexists(path) and glob.has_magic(os.fspath(path)):
        found = [Path(one) for one in glob.glob(os.fspath(path), recursive=True)]
        where = f"No file fits {named(path)}."
    else:
        return [Path(path)]
    found = [
        one for one in found if WORK not in one.parts and (leave_out is None or leave_out not in one.resolve().parents)
    ]
    if not found:
        raise FileNotFoundError(where)
    return sorted(found)


def part(dataset: Any, number: int, of: int) -> tuple[Any, str]:
    """The part of what `opened` returned that one of several processes reads: files in a row, or rows.

    Returns:
        The part, and where it begins, in words.
    """
    if of == 1 or isinstance(dataset, Mapping):  # splits are refused by `batches`
        return dataset, "the first"
    if isinstance(dataset, list):
        first, last = len(dataset) * number // of, len(dataset) * (number + 1) // of
        return dataset[first:last], named(dataset[min(first, len(dataset) - 1)])
    return dataset.shard(of, number, contiguous=True), f"part {number + 1} of {of}"


def batches(dataset: Any, only: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of what `opened` returned, so many at a time that memory is bounded.

    Args:
        only: the columns to read, where they are; by default all.
    """
    if isinstance(dataset, list) and dataset and all(isinstance(one, Path) for one in dataset):
        for path in dataset:
            yield from _batches_of_file(path, only)
        return
    import datasets

    if isinstance(dataset, datasets.Dataset):
        if only is not None:
            dataset = dataset.select_columns([name for name in dataset.column_names if name in only])
        for table in dataset.with_format("arrow").iter(_ROWS):
            yield from table.combine_chunks().to_batches()  # each row that was selected is a chunk by itself
    elif not isinstance(dataset, Mapping) and (hasattr(dataset, "__iter__") or hasattr(dataset, "__getitem__")):
        rows = dataset if hasattr(dataset, "__iter__") else map(dataset.__getitem__, range(len(dataset)))
        yield from of_rows(rows, _ROWS, only)
    else:
        it = f"the splits {listed(dataset)}: pass one" if isinstance(dataset, Mapping) else shown(dataset)
        raise TypeError(
            "dataset must be a datasets.Dataset, the path of Parquet files, JSON lines or a folder, or an iterable of "
            f"mappings with input_ids, not {it}."
        )


def _batches_of_file(path: Path, only: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() in _LINES:
        with naming(path, _JSON) as path, path.open(encoding="utf-8") as file:
            yield from of_rows(_rows(file), _ROWS, only)
        return
    with naming(path, _PARQUET) as path:
        with arrow_errors(), parquet_file(path) as file:
            there = file.schema_arrow.names
            names = there if only is None else [name for name in there if name in only]
            if not names:
                raise ValueError(f"it has {listed(there) or 'no column'}, and not the columns of the other files.")
            yield from parquet_batches(file, names)


def _rows(file: Iterable[str]) -> Iterator[Any]:
    """The rows of JSON lines; blank lines are none."""
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield parse_json(line)
            except ValueError as error:
                raise ValueError(f"Line {number}: {error}") from None


def of_rows(rows: Iterable[Any], at_once: int, only: Container[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of Python as batches of Arrow, of the columns in `only` or of all.

    Raises:
        TypeError, ValueError: naming the row or the column that does not fit the others.
    """
    numbered = enumerate(rows)
    while some := [_plain(row, number, only) for number, row in islice(numbered, at_once)]:
        for row in some:
            if odd := set(row) ^ set(some[0]):  # Arrow would leave them out
                raise ValueError(f"The column {shown(min(odd))} is in some rows only; all rows must have it, or none.")
        try:
            yield pa.RecordBatch.from_pylist(some)
        except (pa.ArrowException, OverflowError) as error:  # the latter of a number beyond 64 bits
            said = one_line(str(error), 200)
            raise TypeError(f"The rows of the data set do not fit together: {said}") from None


def _plain(row: Any, number: int, only: Container[str] | None = None) -> dict[str, Any]:
    """A row without tensors, of the columns in `only` or of all."""
    if not isinstance(row, Mapping):
        raise TypeError(f"Row {number} of the data set must be a mapping with input_ids, not {shown(row)}.")
    return {
        name: np.asarray(value) if hasattr(value, "__array__") else value
        for name, value in row.items()
        if only is None or name in only
    }
