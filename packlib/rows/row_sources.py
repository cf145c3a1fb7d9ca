"""Where a data set comes from: Arrow, Parquet, JSON lines, folders of them, or rows of Python; and its batches."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packlib.checks import listed, shown
from packlib.lengths.own_files import parquet_batches
from packlib.markup import one_line
from packlib.reading import arrow_errors, named, naming
from packlib.strict_json import parse_json

_FILES = (".parquet", ".pq", ".jsonl", ".ndjson")  # of a folder; its other files are something else
_LINES = (".jsonl", ".ndjson", ".json")
_ROWS = 4096  # sequences that are read at once


def opened(dataset: Any) -> Any:
    """A data set, where a path or several name it: the files in their order, or what `save_to_disk` wrote.

    Raises:
        OSError, ValueError: naming what is not there, or what kind of file it is.
    """
    if isinstance(dataset, (list, tuple)) and dataset and all(isinstance(one, (str, os.PathLike)) for one in dataset):
        return [path for one in dataset for path in _files(one)]
    if not isinstance(dataset, (str, os.PathLike)):
        return dataset
    if (Path(dataset) / "dataset_dict.json").is_file() or (Path(dataset) / "state.json").is_file():
        import datasets

        with arrow_errors(f"{named(dataset)} is no whole data set: "):
            return datasets.load_from_disk(os.fspath(dataset))
    return _files(dataset)


def _files(path: str | os.PathLike) -> list[Path]:
    """The files that a path names: itself, those in a folder, or those that a pattern fits, by name."""
    if Path(path).is_dir():
        found = [one for one in Path(path).rglob("*") if one.suffix.lower() in _FILES and one.is_file()]
        where = f"The folder {named(path)} holds no .parquet and no .jsonl file, and save_to_disk did not write it."
    elif not os.path.lexists(path) and glob.has_magic(os.fspath(path)):
        found = [Path(one) for one in glob.glob(os.fspath(path), recursive=True)]
        where = f"No file fits {named(path)}."
    else:
        return [Path(path)]
    if not found:
        raise FileNotFoundError(where)
    return sorted(found)


def batches(dataset: Any) -> Iterator[pa.RecordBatch]:
    """The rows of what `opened` returned, so many at a time that memory is bounded."""
    if isinstance(dataset, list) and dataset and all(isinstance(one, Path) for one in dataset):
        for path in dataset:
            yield from _batches_of_file(path)
        return
    import datasets

    if isinstance(dataset, datasets.Dataset):
        for table in dataset.with_format("arrow").iter(_ROWS):
            # each selected row is a chunk by itself; others stay where they are
            yield from (table if dataset._indices is None else table.combine_chunks()).to_batches()
    elif not isinstance(dataset, Mapping) and (hasattr(dataset, "__iter__") or hasattr(dataset, "__getitem__")):
        rows = dataset if hasattr(dataset, "__iter__") else map(dataset.__getitem__, range(len(dataset)))
        yield from of_rows(rows, _ROWS)
    else:
        it = f"the splits {listed(dataset)}: pass one" if isinstance(dataset, Mapping) else shown(dataset)
        raise TypeError(
            "dataset must be a datasets.Dataset, the path of Parquet files, JSON lines or a folder, or an iterable of "
            f"mappings with input_ids, not {it}."
        )


def _batches_of_file(path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() in _LINES:
        with naming(path, "file of JSON lines") as path, path.open(encoding="utf-8") as file:
            lines = enumerate(file, start=1)
            yield from of_rows((_parsed(line, number) for number, line in lines if line.strip()), _ROWS)
        return
    with naming(path, "whole Parquet file of sequences") as path:
        with arrow_errors(), pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from parquet_batches(file, file.schema_arrow.names)


def _parsed(line: str, number: int) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise ValueError(f"Line {number}: {error}") from None


def of_rows(rows: Iterable[Any], at_once: int) -> Iterator[pa.RecordBatch]:
    """Rows of Python as batches of Arrow.

    Raises:
        TypeError, ValueError: naming the row or the column that does not fit the others.
    """
    numbered = enumerate(rows)
    while some := [_plain(row, number) for number, row in islice(numbered, at_once)]:
        for row in some:
            if odd := set(row) ^ set(some[0]):  # Arrow would leave them out
                raise ValueError(f"The column {shown(min(odd))} is in some rows only; all rows must have it, or none.")
        try:
            yield pa.RecordBatch.from_pylist(some)
        except pa.ArrowException as error:
            said = one_line(str(error), 200)
            raise TypeError(f"The rows of the data set do not fit together: {said}") from None


def _plain(row: Any, number: int) -> dict[str, Any]:
    """A row without tensors."""
    if not isinstance(row, Mapping):
        raise TypeError(f"Row {number} of the data set must be a mapping with input_ids, not {shown(row)}.")
    return {name: np.asarray(value) if hasattr(value, "__array__") else value for name, value in row.items()}
