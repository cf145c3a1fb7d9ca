"""Read the data that advice is about: a data set by its name, a file of lengths, or rows of tokens in any files."""

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
_LOSS = ("labels", *LOSS_MASKS)  # columns that say which tokens are trained on
_BESIDE = (*BORDERS, "attention_mask")  # columns that say which of the tokens are sequences


class SecondAmounts(NamedTuple):
    """The amount that each sequence takes of a second budget, such as the patches of its images.

    Attributes:
        column: the column with the amounts.
        budget: the most that a pack may hold of it.
        lengths: tokens of each sequence; int64, shape (sequences,).
        amounts: what each sequence takes; same shape.
    """

    column: str
    budget: int
    lengths: np.ndarray
    amounts: np.ndarray


class Data(NamedTuple):
    """The sequences of a data set, before any is cut.

    Attributes:
        whole: their lengths.
        max_length: slots of the rows that the data set is used with; by default the longest length.
        labels: the tokens that are trained on, as labels and masks say; None where there are none.
        second: what each sequence takes of a second budget; None without one.
    """

    whole: LengthHistogram
    max_length: int
    labels: Labels | None = None
    second: SecondAmounts | None = None


def read_uncut(
    dataset: str | os.PathLike[str],
    column: str | None = None,
    progress: Callable[[str], None] | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    tokenizer: Any = None,
    second_budget: tuple[str, int] | None = None,
    *,
    argument: str = "dataset",
) -> Data:
    """Read the sequences of a data set, none of them cut, in batches small enough that memory is bounded.

    >>> from packlib.tools.advice.data import read_uncut
    >>> read_uncut("squad").whole.num_sequences
    88641

    Args:
        dataset: a name or a file of lengths, as `packlib.load` takes it; or rows of tokens as `packlib pack` takes
            them: Parquet, JSON lines, a folder or a pattern of such files, or what `save_to_disk` of datasets wrote.
        column: of the tokens or of the lengths; by default `input_ids`, or else the only one.
        progress: a function that is called with words about how many sequences were read.
        masks: which columns are masks of the loss, as in `pack_dataset`; only for rows of tokens.
        tokenizer: makes tokens of chats or texts, as in `pack_dataset`; only for rows.
        second_budget: as in `pack_dataset`; only for rows.
        argument: the name of the argument `dataset` in errors.

    Raises:
        OSError, TypeError, ValueError: naming the file, the column or the row that is wrong.
    """
    path = at_home(dataset)
    words_of_masks = mask_words(masks)
    if str(dataset) in available() or not _has_rows(path):
        if words_of_masks:
            raise ValueError(f"masks must be left out for {named(path)}, which has no rows of tokens.")
        if tokenizer is not None:
            raise ValueError(f"tokenizer must be left out for {named(path)}, which has no rows of chats or texts.")
        if second_budget is not None:
            raise ValueError(f"second_budget must be left out for {named(path)}, which has lengths alone.")
        lengths = load_argument(argument, dataset, column=column)
        return Data(load(dataset, _UNCUT) if lengths.truncated else lengths, lengths.max_length)
    rows = _Rows(path, column, words_of_masks, tokenizer, second_budget)
    whole = LengthHistogram.from_chunks(
        rows.lengths(progress or (lambda _: None)),
        place=lambda at: f"row {at} of {named(path)}",
        name=path.stem,
        source=path.name,
    )
    return Data(whole, whole.max_length, rows.labels, rows.second_amounts())


def _has_rows(path: Path) -> bool:
    """Return True if a path names rows with columns, and not a file of lengths."""
    is_pattern = glob.has_magic(str(path)) and not os.path.lexists(path)
    is_file_of_rows = (
        format_of(path) is not None and path.suffix.lower() != ".json" and not _begins_with_a_number(path)
    )
    return path.is_dir() or is_file_of_rows or is_pattern


def _begins_with_a_number(path: Path) -> bool:
    """Return True for a file of JSON lines whose first line is a whole number, as in a file of lengths."""
    if format_of(path) != "lines" or not path.is_file():
        return False
    with naming(path, "file of JSON lines") as path, arrow_errors(), open_lines(path) as file:
        return isinstance(next((row for _, row in json_rows(file)), None), int)


class _Rows:
    """Reads the rows of files: the lengths of sequences, and what other columns say about these.

    Args:
        path, column, masks, tokenizer, second_budget: as in `read_uncut`.

    Attributes:
        labels: which tokens are trained on, in the rows that `lengths` has yielded; None without labels and masks.
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
        self._second_amounts = list[tuple[np.ndarray, np.ndarray]]()  # of each batch: lengths, and amounts
        self._path = path
        self._rows = opened(path)
        self._masks = masks
        self._tokenizer = tokenizer
        if tokenizer is not None and column is not None:
            raise ValueError(f"column {column!r} must be left out with a tokenizer, which reads messages or text.")
        first_batch = next(batches(self._rows), None)
        names = [] if first_batch is None else first_batch.schema.names
        self._column = _TOKENS if tokenizer is not None else _column(path, column, names)
        if first_batch is not None and tokenizer is None and not is_list(first_batch.schema.field(self._column).type):
            refuse_counts_beside(named(path), self._column, names)

        loss_columns = {*_LOSS, *masks}
        if tokenizer is None:
            loss_columns.update(_like_masks(first_batch, self._column))
        other_columns = set[str]()  # those that are read beside the tokens, if they are there
        if self._column == _TOKENS:
            other_columns = {*_BESIDE, *loss_columns}
        elif _TOKENS not in names:  # or else they are about the tokens in `input_ids`
            other_columns = loss_columns
        if self._second_budget and first_batch is not None:
            other_columns.add(
                one_of(f"the column of the second budget of {named(path)}", self._second_budget[0], names)
            )
        self._read_columns = None if tokenizer is not None else {self._column, *other_columns}  # None: all

        # columns that are there and say what is trained on, without those that only may be masks
        columns_of_loss = other_columns & {*_LOSS, *masks} & {*names}
        columns_of_loss -= {name for name, word in masks.items() if word in ("keep", "drop")}
        makes_mask = tokenizer is not None and "messages" in names
        self.labels = Labels() if columns_of_loss or makes_mask else None

    def lengths(self, progress: Callable[[str], None]) -> Iterator[np.ndarray]:
        """Yield the lengths of the sequences of each batch; count their labels and their amounts of a second budget."""
        reader = ColumnReader(self._tokenizer, masks=self._masks, second_budget=self._second_budget)
        path = self._path
        column = self._column
        num_sequences = 0
        for batch in batches(self._rows, self._read_columns):
            if self._tokenizer is not None:
                sequences = reader.read(batch)
                lengths = sequences.lengths
                self._count(lengths, sequences.columns)
            elif column not in batch.schema.names:
                raise ValueError(
                    f"The column {named(column)} of {named(path)} is missing from row {num_sequences} on."
                )
            elif is_list((values := batch.column(column)).type):
                renamed = [_TOKENS if name == column else name for name in batch.schema.names]
                sequences = reader.read(batch.rename_columns(renamed))
                lengths = sequences.lengths
                self._count(lengths, sequences.columns)
            elif pa.types.is_integer(values.type):
                refuse_gaps(f"The column {named(column)} of {named(path)}", values, num_sequences)
                lengths = values.to_numpy(zero_copy_only=False)
                self._note_amounts(lengths, batch, num_sequences)
            else:
                column_holds = f"The column {named(column)} of {named(path)} holds {one_line(str(values.type))}"
                raise TypeError(f"{column_holds}; lengths are integers or lists of tokens.")
            num_sequences += len(lengths)
            progress(f"reading: {num_sequences:,} sequences")
            yield lengths
        if not num_sequences:
            raise ValueError(f"{named(path)} holds no sequence.")
        if self.labels and not self.labels.number and not reader.masks:
            raise ValueError(f"The labels of {named(path)} are {IGNORED} for all tokens, so that none is trained on.")
        reader.finish()  # it raises what is wrong with the data as a whole

    def _count(self, lengths: np.ndarray, columns: Columns) -> None:
        """Count the labels of sequences that were read, and note their amounts of the second budget."""
        if self._second_budget:
            amounts = columns[self._second_budget[0]].values.to_numpy(zero_copy_only=False)
            self._second_amounts.append((lengths, amounts))
        if self.labels is None:
            return
        starts = np.cumsum(lengths) - lengths
        labels, by_token = with_labels(columns, starts, labels=True)["labels"]
        if not by_token:
            raise TypeError("The column labels must have a value for each token.")
        values = labels.to_numpy(zero_copy_only=False)
        is_other_token = values != columns[_TOKENS].values.to_numpy(zero_copy_only=False)
        self.labels.add(lengths, values != IGNORED, is_other_token)

    def _note_amounts(self, lengths: np.ndarray, batch: pa.RecordBatch, first_row: int) -> None:
        """Note the amounts of the second budget, where a column has the lengths of sequences and not their tokens."""
        if self._second_budget is None:
            return
        name, budget = self._second_budget
        values = batch.column(name)
        refuse_other_numbers(name, values.type)
        refuse_gaps(f"The column {named(name)} of {named(self._path)}", values, first_row)
        amounts = values.to_numpy(zero_copy_only=False)
        refuse_above(name, budget, amounts, first_row)
        self._second_amounts.append((lengths, amounts))

    def second_amounts(self) -> SecondAmounts | None:
        """Return the amounts of the second budget, after `lengths` has yielded all; None without a second budget."""
        if self._second_budget is None:
            return None
        lengths, amounts = (
            np.concatenate(arrays).astype(np.int64) for arrays in zip(*self._second_amounts, strict=True)
        )
        return SecondAmounts(*self._second_budget, lengths, amounts)


def _like_masks(batch: pa.RecordBatch | None, tokens: str) -> list[str]:
    """Return the columns that may be masks of the loss, about which `pack_dataset` may ask.

    They have a whole number or a truth value for each token of these rows.

    Args:
        tokens: the column of tokens; if it has lengths instead, none is returned.
    """
    if batch is None or not is_list(batch.schema.field(tokens).type):
        return []
    sizes = pc.list_value_length(batch.column(tokens))
    names = []
    for field in batch.schema:
        has_numbers = is_list(field.type) and (
            pa.types.is_integer(field.type.value_type) or pa.types.is_boolean(field.type.value_type)
        )
        if has_numbers and may_be_a_mask(field.name) and pc.list_value_length(batch.column(field.name)).equals(sizes):
            names.append(field.name)
    return names


def _column(path: Path, column: str | None, names: list[str]) -> str:
    """Return the name of the column with the tokens or the lengths.

    Args:
        column: the caller's choice; by default `input_ids`, or the only column.
        names: of all columns.

    Raises:
        ValueError: if there is no such column, or several.
    """
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
