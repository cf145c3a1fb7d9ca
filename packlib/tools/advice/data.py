"""What advice is asked about: lengths by the name of a data set, in a file of lengths, or of tokens in any files."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packlib.arguments import listed, one_line, one_of
from packlib.files import arrow_errors, at_home, named, naming
from packlib.lengths import LengthHistogram, available, load
from packlib.lengths.own_files import json_rows, open_lines, refuse_counts_beside
from packlib.lengths.sources import load_argument
from packlib.tools.advice.labels import Labels
from packlib.tools.rows.column_values import Columns, is_list, refuse_gaps
from packlib.tools.rows.loss_masks import LOSS_MASKS, MaskWord, mask_words, may_be_a_mask
from packlib.tools.rows.row_borders import BORDERS
from packlib.tools.rows.row_columns import ColumnReader
from packlib.tools.rows.row_sources import batches, format_of, opened
from packlib.tools.rows.second_budget import column_and_budget, refuse_above, refuse_other_numbers
from packlib.tools.rows.token_labels import IGNORED, with_labels
from packlib.tools.rows.tokenizing import SOURCES

_UNCUT = 1 << 20  # tokens: longer than any sequence of the data sets that come with the workbook
_TOKENS = "input_ids"
_LOSS = ("labels", *LOSS_MASKS)
_BESIDE = (*BORDERS, "attention_mask")  # columns that say which of the tokens are sequences


class Taken(NamedTuple):
    """Numbers of a second budget, such as the patches of images, with the tokens of each sequence.

    Attributes:
        column, budget: the column, and the most that a pack may hold of it.
        lengths, of_each: tokens of each sequence, and what it takes; int64, shape (number of sequences,).
    """

    column: str
    budget: int
    lengths: np.ndarray
    of_each: np.ndarray


class Data(NamedTuple):
    """The sequences of a data set, as they are.

    Attributes:
        whole: their lengths.
        max_length: that the data set is used with; by default the longest length.
        labels: the tokens that are trained on, as labels and masks say; None where there are none.
        second: what they take of a second budget, if one was asked about.
    """

    whole: LengthHistogram
    max_length: int
    labels: Labels | None = None
    second: Taken | None = None


def uncut(
    dataset: str | os.PathLike[str],
    column: str | None = None,
    progress: Callable[[str], None] | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    tokenizer: Any = None,
    second_budget: tuple[str, int] | None = None,
    *,
    argument: str = "dataset",
) -> Data:
    """Read the sequences of a data set as they are, so many rows at a time that memory is bounded.

    >>> from packlib.tools.advice.data import uncut
    >>> uncut("squad").whole.num_sequences
    88641

    Args:
        dataset: a name or a file of lengths, as `packlib.load` takes it; or rows of tokens as `packlib pack` takes
            them: Parquet, JSON lines, a folder or a pattern of such files, or what `save_to_disk` of datasets wrote.
        column: of the tokens or of the lengths; by default `input_ids`, or else the only one.
        progress: is told in words how many sequences were read.
        masks: which columns are masks of the loss, as in `pack_dataset`; only for rows of tokens.
        tokenizer: makes tokens of chats or texts, as in `pack_dataset`; only for rows.
        second_budget: as in `pack_dataset`; only for rows.
        argument: what an error calls `dataset`.

    Raises:
        OSError, TypeError, ValueError: naming the file, the column or the row that is wrong.
    """
    path, words = at_home(dataset), mask_words(masks)
    if str(dataset) in available() or not _has_rows(path):
        if words:
            raise ValueError(f"masks must be left out for {named(path)}, which has no rows of tokens.")
        if tokenizer is not None:
            raise ValueError(f"tokenizer must be left out for {named(path)}, which has no rows of chats or texts.")
        if second_budget is not None:
            raise ValueError(f"second_budget must be left out for {named(path)}, which has lengths alone.")
        lengths = load_argument(argument, dataset, column=column)
        return Data(load(dataset, _UNCUT) if lengths.truncated else lengths, lengths.max_length)
    rows = _Rows(path, column, words, tokenizer, second_budget)
    whole = LengthHistogram.from_chunks(
        rows.lengths(progress or (lambda _: None)),
        place=lambda at: f"row {at} of {named(path)}",
        name=path.stem,
        source=path.name,
    )
    return Data(whole, whole.max_length, rows.labels, rows.taken())


def _has_rows(path: Path) -> bool:
    """Return True if rows with columns are meant, and not a file of lengths."""
    is_pattern = glob.has_magic(str(path)) and not os.path.lexists(path)
    is_rows = format_of(path) is not None and path.suffix.lower() != ".json" and not _begins_with_a_number(path)
    return path.is_dir() or is_rows or is_pattern


def _begins_with_a_number(path: Path) -> bool:
    """Say whether the first of the lines of a file of JSON lines is a whole number, as in a file of lengths."""
    if format_of(path) != "lines" or not path.is_file():
        return False
    with naming(path, "file of JSON lines") as path, arrow_errors(), open_lines(path) as file:
        return isinstance(next((row for _, row in json_rows(file)), None), int)


class _Rows:
    """Reads the rows of files, and counts the tokens that are trained on, where columns say which.

    Attributes:
        labels: of the rows that were read; None without labels and masks.
    """

    def __init__(
        self,
        path: Path,
        column: str | None,
        masks: dict[str, MaskWord],
        tokenizer: Any,
        second_budget: tuple[str, int] | None,
    ) -> None:
        self._second_budget = None if second_budget is None else column_and_budget(second_budget)
        self._taken = list[tuple[np.ndarray, np.ndarray]]()  # lengths, and what they take of the second budget
        self._path = path
        self._rows = opened(path)
        self._masks = masks
        self._tokenizer = tokenizer
        if tokenizer is not None and column is not None:
            raise ValueError(f"column {column!r} must be left out with a tokenizer, which reads messages or text.")
        first = next(batches(self._rows), None)
        names = [] if first is None else first.schema.names
        self._column = _TOKENS if tokenizer is not None else _column(path, column, names)
        if first is not None and tokenizer is None and not is_list(first.schema.field(self._column).type):
            refuse_counts_beside(named(path), self._column, names)
        loss = {*_LOSS, *masks, *([] if tokenizer is not None else _like_masks(first, self._column))}
        about = {*_BESIDE, *loss} if self._column == _TOKENS else loss if _TOKENS not in names else set()
        if self._second_budget and first is not None:
            about.add(one_of(f"the column of the second budget of {named(path)}", self._second_budget[0], names))
        self._read = None if tokenizer is not None else {self._column, *about}
        unread = {name for name, word in masks.items() if word in ("keep", "drop")}
        says = about & {*_LOSS, *masks} & {*names} - unread or (tokenizer is not None and "messages" in names)
        self.labels = Labels() if says else None

    def lengths(self, progress: Callable[[str], None]) -> Iterator[np.ndarray]:
        columns = ColumnReader(self._tokenizer, masks=self._masks, second_budget=self._second_budget)
        path = self._path
        column = self._column
        rows = 0
        for batch in batches(self._rows, self._read):
            if self._tokenizer is not None:
                lengths = self._counted(*columns.read(batch))
            elif column not in batch.schema.names:
                raise ValueError(f"The column {named(column)} of {named(path)} is missing from row {rows} on.")
            elif is_list((values := batch.column(column)).type):
                renamed = [_TOKENS if name == column else name for name in batch.schema.names]
                lengths = self._counted(*columns.read(batch.rename_columns(renamed)))
            elif pa.types.is_integer(values.type):
                refuse_gaps(f"The column {named(column)} of {named(path)}", values, rows)
                lengths = values.to_numpy(zero_copy_only=False)
                self._take_beside(lengths, batch, rows)
            else:
                column_holds = f"The column {named(column)} of {named(path)} holds {one_line(str(values.type))}"
                raise TypeError(f"{column_holds}; lengths are integers or lists of tokens.")
            rows += len(lengths)
            progress(f"reading: {rows:,} sequences")
            yield lengths
        if not rows:
            raise ValueError(f"{named(path)} holds no sequence.")
        if self.labels and not self.labels.number and not columns.masks:
            raise ValueError(f"The labels of {named(path)} are {IGNORED} for all tokens, so that none is trained on.")
        columns.finish()

    def _counted(self, lengths: np.ndarray, read: Columns, *_: Any) -> np.ndarray:
        """Return the lengths of sequences; count their labels, and what they take of the second budget."""
        if self._second_budget:
            self._taken.append((lengths, read[self._second_budget[0]][0].to_numpy(zero_copy_only=False)))
        if self.labels is None:
            return lengths
        columns = with_labels(read, np.cumsum(lengths) - lengths, labels=True)
        labels, by_token = columns["labels"]
        if not by_token:
            raise TypeError("The column labels must have a value for each token.")
        values = labels.to_numpy(zero_copy_only=False)
        masked = values != columns[_TOKENS][0].to_numpy(zero_copy_only=False)
        self.labels.add(lengths, values != IGNORED, masked)
        return lengths

    def _take_beside(self, lengths: np.ndarray, batch: pa.RecordBatch, rows: int) -> None:
        """Keep what sequences take of the second budget where a column has their lengths."""
        if self._second_budget is None:
            return
        name, budget = self._second_budget
        values = batch.column(name)
        refuse_other_numbers(name, values.type)
        refuse_gaps(f"The column {named(name)} of {named(self._path)}", values, rows)
        of_each = values.to_numpy(zero_copy_only=False)
        refuse_above(name, budget, of_each, rows)
        self._taken.append((lengths, of_each))

    def taken(self) -> Taken | None:
        """Return each sequence's number of the second budget, after all were read; None without a second budget."""
        if self._second_budget is None:
            return None
        lengths, of_each = (np.concatenate(arrays).astype(np.int64) for arrays in zip(*self._taken, strict=True))
        return Taken(*self._second_budget, lengths, of_each)


def _like_masks(batch: pa.RecordBatch | None, tokens: str) -> list[str]:
    """Find columns that `pack_dataset` may ask about: a whole number or a truth for each token in all of these rows."""
    if batch is None or not is_list(batch.schema.field(tokens).type):
        return []
    sizes = pc.list_value_length(batch.column(tokens))
    names = []
    for field in batch.schema:
        is_one = is_list(field.type) and (
            pa.types.is_integer(field.type.value_type) or pa.types.is_boolean(field.type.value_type)
        )
        if is_one and may_be_a_mask(field.name) and pc.list_value_length(batch.column(field.name)).equals(sizes):
            names.append(field.name)
    return names


def _column(path: Path, column: str | None, names: list[str]) -> str:
    """Choose the column that holds the tokens, or the lengths."""
    if column is not None:
        column = one_of(f"the column of {named(path)}", column, names)
    elif _TOKENS in names:
        column = _TOKENS
    if column is not None and (count := names.count(column)) > 1:
        raise ValueError(f"{named(path)} has {count} columns named {column}; one is needed.")
    if column is not None:
        return column
    if len(names) == 1 and names[0] not in SOURCES:
        return names[0]
    if not names:
        raise ValueError(f"{named(path)} holds no sequence.")
    if {*names} & {*SOURCES}:
        raise ValueError(
            f"{named(path)} has no column {_TOKENS}; it has {listed(names)}: a tokenizer makes tokens of messages or "
            "text (--tokenizer)."
        )
    raise ValueError(
        f"{named(path)} has no column {_TOKENS}; it has {listed(names)}: name the one with lists of tokens "
        "or with lengths, by --column."
    )
