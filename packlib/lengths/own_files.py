"""Lengths from a user's own files: text, CSV, `.npy` and Parquet, read in chunks."""

import csv
import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from packlib.checks import one_of
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH

_ROWS = 1 << 16  # rows read at a time


@dataclass(frozen=True)
class LengthStream:
    """Lengths in chunks, and how to name one: `where`, filled in with its place counted from `start`."""

    chunks: Iterable[np.ndarray]
    where: str
    start: int


def existing_file(path: str | os.PathLike) -> Path:
    """Return `path` if it is a file that holds something.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: one sentence that names the path.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; a file of lengths is needed.")
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        raise FileNotFoundError(f"There is no file {path}{f': did you mean {near[0]}?' if near else '.'}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return path


def read_lengths(path: str | os.PathLike, column: str | None = None) -> LengthStream:
    """Open a file of lengths; the suffix tells its kind: `.npy`, `.parquet` or `.pq`, and else text.

    Args:
        column: which column of a Parquet file, or of a CSV with a header, holds the lengths.
            A Parquet column of lists, such as token ids, counts the items of each.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the file, and the line or row that is wrong.
    """
    path = existing_file(path)
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        stream = LengthStream(_parquet_chunks(path, column), f"row {{}} of {path}", 0)
    elif suffix == ".npy":
        stream = LengthStream([_npy_array(path)], f"position {{}} of {path}", 0)
    else:
        stream = _text_stream(path, column)
    return replace(stream, chunks=_not_empty(stream.chunks, path))


def _not_empty(chunks: Iterable[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        yield chunk
    if size == 0:
        raise ValueError(f"{path} holds no length.")


def holds_counts(path: str | os.PathLike) -> bool:
    """Whether a text file holds `length,count` lines, told by its first line."""
    fields = _first_line(existing_file(path))[1]
    return len(fields) == 2 and (_is_counts_header(fields) or _is_number(fields[0]))


def read_counts(path: str | os.PathLike) -> np.ndarray:
    """Read `length,count` lines; int64, up to the largest length that is written.

    Raises:
        FileNotFoundError, ValueError: naming the file and the line that is wrong.
    """
    rows: dict[int, int] = {}
    started = False
    for number, line in _lines(existing_file(path)):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        fields = _fields(text)
        if not started and _is_counts_header(fields):
            started = True
            continue
        started = True
        try:
            length, count = map(int, fields)
        except ValueError:
            raise ValueError(f'{path}, line {number}: expected "length,count", not {text[:80]!r}.') from None
        if not (1 <= length <= MAX_LENGTH and 0 <= count <= INT64_MAX) or length in rows:
            raise ValueError(
                f"{path}, line {number}: a length is from 1 to {MAX_LENGTH} and comes once, "
                f"a count is from 0 to {INT64_MAX}, not {text[:80]!r}."
            )
        rows[length] = count
    if not rows:
        raise ValueError(f"{path} holds no length.")
    counts = np.zeros(max(rows) + 1, np.int64)
    counts[list(rows)] = list(rows.values())
    return counts


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, from 1."""
    with path.open(encoding="utf-8-sig") as file:
        try:
            yield from enumerate(file, start=1)
        except UnicodeDecodeError:
            raise ValueError(
                f"{path} is no text file of lengths (.npy and .parquet files need their suffix)."
            ) from None


def _fields(line: str) -> list[str]:
    try:
        return [field.strip() for field in next(csv.reader([line]))]
    except csv.Error as error:
        raise ValueError(f"The line {line[:80]!r} is no CSV: {error}.") from None


def _first_line(path: Path) -> tuple[int, list[str]]:
    """The number and the fields of the first line that is neither blank nor a comment."""
    for number, line in _lines(path):
        if line.strip() and not line.startswith("#"):
            return number, _fields(line)
    raise ValueError(f"{path} holds no length.")


def _is_counts_header(fields: list[str]) -> bool:
    return [field.lower() for field in fields] == ["length", "count"]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_stream(path: Path, column: str | None) -> LengthStream:
    """One length a line, or the named column of a CSV."""
    first, fields = _first_line(path)
    if column is not None:
        one_of(f"the column of {path}", column, fields)
    elif len(fields) > 1:
        raise _many_columns(path, fields)
    start = first + (column is not None or not _is_number(fields[0]))  # after the header, if there is one
    cells = (line for number, line in _lines(path) if number >= start)
    if len(fields) > 1:
        cells = (_cell(row, fields.index(column), len(fields)) for row in csv.reader(cells))
    return LengthStream(_integers(cells, path, start), f"line {{}} of {path}", start)


def _many_columns(path: Path, names: list[str]) -> ValueError:
    shown = [name[:30] for name in names[:10]] + ["…"] * (len(names) > 10)
    return ValueError(f"{path} has {len(names)} columns: pass column= with one of {', '.join(shown)}.")


def _cell(row: list[str], at: int, size: int) -> str:
    """The field of a CSV row; "" stands for a blank line, so a field that is missing says so."""
    if len(row) < 2 and not "".join(row).strip():
        return ""
    return (row[at].strip() or "(empty)") if len(row) == size else f"({len(row)} fields instead of {size})"


def _integers(cells: Iterator[str], path: Path, line: int) -> Iterator[np.ndarray]:
    """Turn cells into arrays; blank lines may only end the file, for elsewhere a length is missing."""
    while block := list(islice(cells, _ROWS)):
        try:
            yield np.array(list(map(int, block)), np.int64)
        except (ValueError, OverflowError):
            at, text = next((i, text.strip()) for i, text in enumerate(block) if not _is_length(text))
            if text or any(rest.strip() for rest in chain(block[at:], cells)):
                shown = repr(text[:80]) if text else "a blank"
                raise ValueError(f"{path}, line {line + at}: expected a whole number, not {shown}.") from None
            yield np.array(list(map(int, block[:at])), np.int64)
            return
        line += len(block)


def _is_length(text: str) -> bool:
    try:
        return abs(int(text)) <= INT64_MAX
    except ValueError:
        return False


def _npy_array(path: Path) -> np.ndarray:
    """A view of the file, so that only the chunk that is counted is in memory."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is no whole .npy file of lengths: {error}") from None
    if array.ndim != 1:
        raise ValueError(f"{path} must hold one dimension, not the shape {array.shape}.")
    return array


def _parquet_chunks(path: Path, column: str | None) -> Iterator[np.ndarray]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if column is None and len(names) > 1:
                raise _many_columns(path, names)
            column = one_of(f"the column of {path}", column, names) if column is not None else names[0]
            kind = file.schema_arrow.field(column).type
            is_list = (
                pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
            )
            if not (is_list or pa.types.is_integer(kind)):
                raise TypeError(
                    f"The column {column} of {path} holds {kind}; lengths are integers or lists of tokens."
                )
            row = 0
            for batch in file.iter_batches(_ROWS, columns=[column]):
                values = batch.column(0)
                if values.null_count:
                    at = pc.index(values.is_null(), True).as_py()
                    raise ValueError(f"The column {column} of {path} has no value in row {row + at}.")
                yield (pc.list_value_length(values) if is_list else values).to_numpy(zero_copy_only=False)
                row += len(values)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is no whole Parquet file: {' '.join(str(error).split())}") from None
