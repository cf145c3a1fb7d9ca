"""Read lengths from a user's own files in chunks: text, CSV, JSON lines, `.npy` and Parquet."""

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from packlib.arguments import listed, one_line, one_of, shown
from packlib.files import arrow_errors, enough_memory, named, naming, parse_json, regular_file
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH, Place

_ROWS = 1 << 16  # rows that are read at a time, at most
_NUMBERS = 1 << 19  # numbers in the rows of Parquet that are read at a time, about
_BUFFER = 1 << 18  # bytes of a column of Parquet that are read at a time
_BLOCK = 1_000_000  # characters of text that are read at a time; a line must be shorter
_LENGTH = r"^-?[0-9]{1,18}$"  # a whole number that fits in 64 bits
_THOUSANDS = r"[1-9][0-9]{0,2}(,[0-9]{3})+"  # a whole number with commas between its thousands
_NO_TEXT = "{} is no text file of lengths (.npy, .parquet and .jsonl files need their suffix)."
_PARQUET, _LINES = (".parquet", ".pq"), (".jsonl", ".ndjson")
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}  # of JSON lines, as Arrow names them
_MESSAGES = "{} holds lists of messages and no tokens: packlib report and packlib pack take them with --tokenizer."
_LENGTH_NAMES = ("length", "lengths", "len", "tokens", "num_tokens")  # headers of tables of counts, in small letters
_COUNT_NAMES = ("count", "counts", "freq", "frequency", "n", "num_sequences", "occurrences")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return `path` if it is a regular file that holds something.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: one sentence that names the path.
    """
    path = regular_file(path, "a file of lengths")
    if path.stat().st_size == 0:
        raise ValueError(f"{named(path)} is empty.")
    return path


def read_lengths(path: str | os.PathLike[str], column: str | None = None) -> tuple[Iterator[np.ndarray], Place]:
    """Open a file of lengths; the suffix tells its kind: `.npy`, `.parquet` or `.pq`, `.jsonl` or `.ndjson`, else text.

    JSON lines may be compressed: then `.gz` or `.zst` follows.

    Args:
        path: the file.
        column: which column of a Parquet file, of JSON lines, or of a CSV with a header, holds the lengths.
            Of a column of lists, such as token ids, the items of each list are counted.

    Returns:
        The lengths in chunks; and a function from the index of a length to the words for its place in an error.

    Raises:
        FileNotFoundError, TypeError, ValueError: naming the file, and the line or row that is wrong.
    """
    path = existing_file(path)
    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        chunks = _parquet_chunks(path, column)
        kind = "row"
        start = 0
    elif suffix == ".npy":
        chunks = _npy_chunks(path)
        kind = "position"
        start = 0
    elif is_json_lines(path):
        chunks = _json_chunks(path, column)
        kind = "row"
        start = 0
    else:
        chunks, start = _text_chunks(path, column)
        kind = "line"
    return _not_empty(chunks, path), lambda index: f"{kind} {start + index} of {named(path)}"


def _not_empty(chunks: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """Yield the chunks as they are; raise a ValueError at the end if they held no length."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        yield chunk
    if size == 0:
        raise ValueError(f"{named(path)} holds no length.")


def holds_counts(path: str | os.PathLike[str], column: str | None = None) -> bool:
    """Return whether a file is text with a length and a count on each line, by its suffix and its first line.

    Args:
        path: the file.
        column: the column that the caller wants lengths from, or None; in a file of counts it can only be that of the
            lengths.
    """
    path = existing_file(path)
    if path.suffix.lower() in (".npy", *_PARQUET) or is_json_lines(path):
        return False
    _, fields = _first_row(path)
    if len(fields) != 2:
        return False
    if column is None:
        return _is_counts_header(fields) or _is_number(fields[0])
    return _is_counts_header(fields) and column in fields and column.lower() in _LENGTH_NAMES


def read_counts(path: str | os.PathLike[str]) -> np.ndarray:
    """Read lines of a length and a count.

    A header may put the count first; without a header the length is first. The file is refused if the first column may
    be an id, or if each line may be one length, such as 1,024.

    Returns:
        For each length from 0 to the largest in the file, its count; int64, shape (largest length + 1,).

    Raises:
        FileNotFoundError, ValueError: naming the file and the line that is wrong.
    """
    count_of: dict[int, int] = {}  # by length
    count_first = has_header = False
    may_be_thousands = True  # each line so far may be one length with commas between its thousands
    for at, (line, text, fields) in enumerate(_rows(existing_file(path))):
        if at == 0 and _is_counts_header(fields):
            count_first = fields[0].lower() in _COUNT_NAMES
            has_header = True
            continue
        length, count = _length_and_count(f"{named(path)}, line {line}", text, fields, count_first, count_of)
        count_of[length] = count
        may_be_thousands = may_be_thousands and re.fullmatch(_THOUSANDS, text) is not None
    if not count_of:
        raise ValueError(f"{named(path)} holds no length.")
    if not has_header:
        if may_be_thousands:
            raise ValueError(
                f"{named(path)}, line {line}: {text[:80]!r} may be one length, or a length and its count. Write "
                "lengths without commas, or a header, length,count."
            )
        _refuse_ids(path, list(count_of), list(count_of.values()))
    counts = np.zeros(max(count_of) + 1, np.int64)
    counts[list(count_of)] = list(count_of.values())
    return counts


def _length_and_count(
    place: str, text: str, fields: list[str], count_first: bool, lengths_before: Container[int]
) -> tuple[int, int]:
    """Return the length and the count of a line.

    Args:
        place: file and line, for errors.
        text, fields: the line, and what is between its commas.
        count_first: whether the count comes before the length.
        lengths_before: the lengths of earlier lines.

    Raises:
        ValueError: if the line has other fields, or a length that comes a second time.
    """
    if len(fields) != 2 or not all(re.fullmatch("-?[0-9]{1,4000}", field) for field in fields):
        raise ValueError(f'{place}: expected "length,count", not {text[:80]!r}.')
    length, count = map(int, reversed(fields) if count_first else fields)
    if not (1 <= length <= MAX_LENGTH and 0 <= count <= INT64_MAX) or length in lengths_before:
        hint = " If the first column is an id, write a header such as id,length, and name the column."
        raise ValueError(
            f"{place}: a length is from 1 to {MAX_LENGTH} and comes once, "
            f"a count is from 0 to {INT64_MAX}, not {text[:80]!r}.{hint if length == 0 else ''}"
        )
    return length, count


def _refuse_ids(path: str | os.PathLike[str], first_column: list[int], second_column: list[int]) -> None:
    """Raise a ValueError if a first column without a name counts up by one, as ids do beside lengths.

    Two lines are too few to tell. If a number in the second column is too large or small for a length, the second
    column has counts, and the first one lengths.
    """
    counts_up = len(first_column) > 2 and all(
        next_number == number + 1 for number, next_number in pairwise(first_column)
    )
    if counts_up and all(1 <= number <= MAX_LENGTH for number in second_column):
        raise ValueError(
            f"{named(path)} has no header, and its first column counts from {first_column[0]} to {first_column[-1]}, "
            "as lengths with their counts do, and ids with their lengths: a header, length,count or id,length, says "
            "which; then --column length takes the lengths (column in Python)."
        )


def _rows(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the lines of a text file that are neither blank nor comments: number from 1, text and fields."""
    number = 0
    with path.open(encoding="utf-8-sig") as file:
        try:
            for number, line in enumerate(iter(lambda: file.readline(_BLOCK), ""), start=1):
                if len(line) == _BLOCK:
                    raise ValueError(f"{named(path)}, line {number}: it has {_BLOCK:,} characters or more.")
                if (text := line.strip()) and not text.startswith("#"):
                    yield number, text, [field.strip() for field in next(csv.reader([text]))]
        except UnicodeDecodeError:
            raise ValueError(_NO_TEXT.format(named(path))) from None
        except csv.Error as error:
            raise ValueError(f"{named(path)}, line {number}: {text[:80]!r} is no CSV: {error}.") from None


def _first_row(path: Path) -> tuple[int, list[str]]:
    """Return the number and the fields of the first line of `_rows`."""
    for number, _, fields in _rows(path):
        return number, fields
    raise ValueError(f"{named(path)} holds no length.")


def _is_counts_header(fields: list[str]) -> bool:
    """Return True if two columns are named as a length and a count, in either order."""
    names = {field.lower() for field in fields}
    return len(fields) == 2 and bool(names & {*_LENGTH_NAMES}) and bool(names & {*_COUNT_NAMES})


def refuse_counts_beside(holder: str, column: str, names: Iterable[str]) -> None:
    """Raise a ValueError if `holder` has a column named as a count beside its lengths, which would be ignored.

    Args:
        holder: the file or line, as an error names it.
        column: the column of the lengths.
        names: all its columns.
    """
    counts = [name for name in names if name.lower() in _COUNT_NAMES and name != column]
    if counts:
        raise ValueError(
            f"{holder} has the column {named(counts[0])} beside {named(column)}: if it says how many sequences have "
            "each length, write a CSV of these two columns alone, with the header length,count; if not, remove it."
        )


def _is_number(text: str) -> bool:
    """Return whether Python reads a text as a number, whole or not."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column_number(path: Path, column: str | None, names: list[str]) -> int:
    """Return the number of the lengths' column, from 0.

    Args:
        path: the file, for errors.
        column: the name of the column; None for the only one.
        names: all columns of the file.
    """
    if not names:
        raise ValueError(f"{named(path)} has no column.")
    if column is None and len(names) == 1:
        return 0
    if column is None:
        choice = f"choose one of {listed(names)} by column, or keep that one alone"
        raise ValueError(f"{named(path)} has {len(names)} columns: {choice}.")
    one_of(f"the column of {named(path)}", column, names)
    refuse_same_names(named(path), [name for name in names if name == column])
    return names.index(column)


def refuse_same_names(holder: str, names: Iterable[str]) -> None:
    """Raise a ValueError if two of these columns have the same name; `holder` is the file, as an error names it."""
    for name, times in Counter(names).most_common(1):
        if times > 1:
            raise ValueError(f"{holder} has {times} columns named {named(name)}; one is needed.")


def _text_chunks(path: Path, column: str | None) -> tuple[Iterator[np.ndarray], int]:
    """Read a text file with one length a line, or a column of a CSV.

    Returns:
        The lengths in chunks, and the number of the first line with a length.
    """
    first_line, fields = _first_row(path)
    if column is not None and all(map(_is_number, fields)):
        raise ValueError(
            f"{named(path)}, line {first_line} is no header, so no column is named {shown(column)}: write one."
        )
    column_number = _column_number(path, column, fields)
    refuse_counts_beside(named(path), fields[column_number], fields)
    is_header = column is not None or not (_is_number(fields[0]) or re.match("[-+]?[0-9]", fields[0]))
    start = first_line + 1 if is_header else first_line
    return _integers(path, start, column_number, len(fields)), start


@dataclass
class _SkippedLines:
    """Lines of a CSV that Arrow's reader hands over because they do not have as many fields as the others.

    Attributes:
        first_blank: the number of the first line that is blank; 0 if none is so far.
        first_odd: the number of the first line that has other fields, and words for it; None if none has so far.
    """

    first_blank: int = 0
    first_odd: tuple[int, str] | None = None

    def skip(self, row: Any) -> Literal["skip"]:
        """Note a line; `row` is Arrow's `InvalidRow`."""
        if not row.text.strip():
            self.first_blank = self.first_blank or row.number
        elif self.first_odd is None:
            self.first_odd = row.number, f"({row.actual_columns} fields instead of {row.expected_columns})"
        return "skip"


def _integers(path: Path, line: int, column_number: int, width: int) -> Iterator[np.ndarray]:
    """Yield the whole numbers in a column of a text file, in chunks; blank lines may only end the file.

    Args:
        path: the file.
        line: the number of the first line that is read.
        column_number: of the column, from 0.
        width: how many columns there are.

    Raises:
        ValueError: naming the first line that is wrong.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv

    skipped = _SkippedLines()
    names = [str(i) for i in range(width)]
    # one column may hold anything but the separator, so it gets one that no text file has
    kind = {"newlines_in_values": True} if width > 1 else {"delimiter": "\x1f", "quote_char": False}
    reading = pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK, skip_rows=line - 1, column_names=names)
    parsing = pa_csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skipped.skip, **kind)
    as_text = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    no_rows = [pa.nulls(0, pa.string())] * width  # a last block, so that lines skipped at the end are looked at, too
    try:
        for columns in chain(pa_csv.open_csv(path, reading, parsing, as_text), [no_rows]):
            cells = pc.ascii_trim_whitespace(columns[column_number])
            has_skipped = skipped.first_blank or skipped.first_odd
            if not has_skipped and pc.all(pc.match_substring_regex(cells, _LENGTH)).as_py():
                yield np.from_dlpack(pc.cast(cells, pa.int64()))  # to_numpy() loads pandas
            else:
                rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
                yield np.array(_integers_of_rows(path, line, column_number, rows, skipped), np.int64)
            line += len(cells)
    except pa.ArrowInvalid as error:
        if "straddling" in str(error):
            raise ValueError(f"{named(path)}, line {line}: it has {_BLOCK:,} characters or more.") from None
        raise ValueError(_NO_TEXT.format(named(path))) from None


def _integers_of_rows(
    path: Path, line: int, column_number: int, rows: list[tuple[str, ...]], skipped: _SkippedLines
) -> list[int]:
    """Return the whole numbers in a column of some rows, among which may be blank lines or wrong ones.

    Args:
        path, column_number: as of `_integers`.
        line: the number of the first row's line.
        rows: the fields of each line.
        skipped: the lines that are not among the rows; the first blank line is noted there.

    Raises:
        ValueError: naming the first line that is no number, or a blank line before a number.
    """
    texts = list[tuple[int, str]]()  # the number of each line, and its field; "" for a blank line
    for number, row in enumerate(rows, line):
        is_blank = not any(map(str.strip, row))
        texts.append((number, "" if is_blank else row[column_number].strip() or "(empty)"))
    if skipped.first_odd is not None:
        odd_line, _ = skipped.first_odd
        texts = [(number, text) for number, text in texts if number < odd_line] + [skipped.first_odd]
    for number, text in texts:
        if not text:
            skipped.first_blank = skipped.first_blank or number
        elif 0 < skipped.first_blank <= number:
            raise ValueError(f"{named(path)}, line {skipped.first_blank}: expected a whole number, not a blank.")
        elif not re.match(_LENGTH, text):
            raise ValueError(f"{named(path)}, line {number}: expected a whole number, not {text[:80]!r}.")
    return [int(text) for _, text in texts if text]


def _npy_chunks(path: Path) -> Iterator[np.ndarray]:
    """Yield the numbers of the array in chunks; only one chunk is in memory at a time."""
    with naming(path, "whole .npy file of lengths"), path.open("rb") as file:
        shape, dtype = npy_header(file)
        if len(shape) != 1:
            raise ValueError(f"it must hold one dimension, not the shape {shape}.")
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never unpickled.")
        whole_size = file.tell() + shape[0] * dtype.itemsize  # bytes
        is_possible = 0 <= shape[0] <= whole_size  # a dtype may have 0 bytes
        if not is_possible or whole_size > path.stat().st_size:
            raise ValueError(f"its header tells of {shape[0]} numbers, for which it is too short.")
        for start in range(0, shape[0], _ROWS):
            yield np.fromfile(file, dtype, min(_ROWS, shape[0] - start))


def parquet_file(path: Path) -> Any:
    """Open a Parquet file whose pages are read as they are needed; pyarrow would read whole row groups ahead."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)


def parquet_batches(file: Any, names: list[str]) -> Iterator[Any]:
    """Yield columns of an open Parquet file, some rows at a time, so that memory is bounded.

    Args:
        file: pyarrow's `ParquetFile`.
        names: of the columns.

    Yields:
        Record batches of at most `_ROWS` rows, with about `_NUMBERS` numbers in a column at most.
    """
    with suppress(ImportError):  # pyarrow would load it for the first array, and lose an interrupt meanwhile
        import pandas  # type: ignore[import-untyped] # noqa: F401
    paths = [file.metadata.schema.column(at).path for at in range(file.metadata.num_columns)]
    # A nested column "a.b" belongs to "a", and a name may itself have dots: each beginning of a path may be a name.
    column_numbers = [
        at for at, path in enumerate(paths) if not {*names}.isdisjoint(accumulate(path.split("."), "{}.{}".format))
    ]
    for group in range(file.num_row_groups):  # one at a time: pyarrow would read all groups ahead without a limit
        row_group = file.metadata.row_group(group)
        # reading one row raises an error if the group is damaged, where `row_group.column` would end the process
        next(file.iter_batches(1, [group], names), None)
        most_values = max(1, *(row_group.column(at).num_values for at in column_numbers))
        batch_size = max(1, min(_ROWS, _NUMBERS * row_group.num_rows // most_values))  # rows
        yield from file.iter_batches(batch_size, [group], names)


def _parquet_chunks(path: Path, column: str | None) -> Iterator[np.ndarray]:
    """Yield the lengths in a column of a Parquet file: its integers, or how many items each of its lists has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    broken = f"{named(path)} is no whole Parquet file: "
    with enough_memory(path), arrow_errors(broken), parquet_file(path) as file:
        names = file.schema_arrow.names
        column = names[_column_number(path, column, names)]
        column_type = file.schema_arrow.field(column).type
        place = f"The column {named(column)} of {named(path)}"
        is_list = (
            pa.types.is_list(column_type)
            or pa.types.is_large_list(column_type)
            or pa.types.is_fixed_size_list(column_type)
        )
        if not (is_list or pa.types.is_integer(column_type)):
            raise TypeError(f"{place} holds {one_line(str(column_type))}; lengths are integers or lists of tokens.")
        if is_list and pa.types.is_struct(column_type.value_type):
            raise TypeError(_MESSAGES.format(place))
        if not is_list:
            refuse_counts_beside(named(path), column, names)
        first_row = 0  # of the batch
        for values in (batch.column(column) for batch in parquet_batches(file, [column])):
            if values.null_count:
                at = pc.index(values.is_null(), True).as_py()
                raise ValueError(f"{place} has no value in row {first_row + at}.")
            yield (pc.list_value_length(values) if is_list else values).to_numpy(zero_copy_only=False)
            first_row += len(values)


def _json_chunks(path: Path, column: str | None) -> Iterator[np.ndarray]:
    """Yield a length from each JSON line: a whole number, the items of a list, or either in a named column."""
    with naming(path, "file of JSON lines of lengths") as path, arrow_errors(), open_lines(path) as file:
        chunk: list[int] = []
        for number, row in json_rows(file):
            chunk.append(_json_length(row, column, number))
            if len(chunk) == _ROWS:
                yield np.array(chunk, np.int64)
                chunk = []
        yield np.array(chunk, np.int64)


def _json_length(row: Any, column: str | None, line: int) -> int:
    """Return the length on one of the JSON lines.

    Args:
        row: the value on the line.
        column: the column that holds the length; None for the only one.
        line: the number of the line.
    """
    value = row
    place = f"line {line}"
    if isinstance(row, dict):
        name = _json_column(row, column, line)
        value = row[name]
        place = f"the column {named(name)} of line {line}"
        if not isinstance(value, list):
            refuse_counts_beside(f"line {line}", name, row)
    elif column is not None:
        raise ValueError(f"line {line} has no columns, and column {column!r} was asked for.")
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            raise TypeError(_MESSAGES.format(place))
        return len(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INT64_MAX:
        raise TypeError(f"{place} holds {shown(value)}; lengths are whole numbers or lists of tokens.")
    return value


def _json_column(row: dict[str, Any], column: str | None, line: int) -> str:
    """Return the name of the lengths' column on one of the JSON lines: `column`, or by default the only one."""
    if not row:
        raise ValueError(f"line {line} has no column.")
    if column is not None:
        return one_of(f"the column of line {line}", column, row)
    if len(row) > 1:
        raise ValueError(f"line {line} has {len(row)} columns: choose one of {listed(row)} by column.")
    return next(iter(row))


def is_json_lines(path: Path) -> bool:
    """Return whether a file has a suffix of JSON lines, before one of a compression if it is compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _LINES


def open_lines(path: Path) -> io.TextIOWrapper:
    """Open a text file; if its suffix is that of a compression, unpack it while it is read.

    Raises:
        ValueError: if this pyarrow cannot read the compression.
    """
    compression = _COMPRESSED.get(path.suffix.lower())
    if compression is None:
        return path.open(encoding="utf-8-sig")
    import pyarrow as pa

    if not pa.Codec.is_available(compression):
        raise ValueError(f"it is compressed by {compression}, which this pyarrow cannot read: unpack it.")
    return io.TextIOWrapper(pa.input_stream(str(path), compression=compression), encoding="utf-8-sig")


def json_rows(file: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield for each of the JSON lines that is not blank its number, from 1, and its value.

    Raises:
        ValueError: naming the line that is no JSON.
    """
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except ValueError as error:
                raise ValueError(f"Line {number}: {error}") from None


def npy_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
    """Read the shape and the dtype of the `.npy` array that starts here; leave the file at its first number.

    Raises:
        ValueError: whatever is wrong with the header, of which NumPy's reader raises a dozen kinds.
    """
    try:
        if np.lib.format.read_magic(file) != (1, 0):  # others may have headers of 4 gigabytes
            raise ValueError("an array of integers has format 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:
        raise ValueError(f"it has no header of NumPy's: {error}.") from None
    return shape, dtype
