"""What advice is asked about: lengths by the name of a data set, in a file of lengths, or of tokens in any files."""

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from packlib.checks import listed, one_line, one_of
from packlib.files import at_home, named
from packlib.lengths import LengthHistogram, available, load
from packlib.lengths.own_files import refuse_counts_beside
from packlib.tools.rows.loss_masks import LOSS_MASKS, MaskWord, mask_words
from packlib.tools.rows.row_columns import BORDERS, IGNORED, Columns, is_list, refuse_gaps, with_labels
from packlib.tools.rows.row_sources import batches, format_of, opened

_UNCUT = 1 << 20  # tokens: longer than any sequence of the data sets that come with the workbook
_TOKENS = "input_ids"
_LOSS = ("labels", *LOSS_MASKS)
_BESIDE = (*BORDERS, "attention_mask")  # columns that say which of the tokens are sequences


class Data(NamedTuple):
    """The sequences of a data set, as they are.

    Attributes:
        whole: their lengths.
        max_length: that the data set is used with; by default the longest length.
        trained: tokens that are trained on, as labels and masks say; None where there are none.
    """

    whole: LengthHistogram
    max_length: int
    trained: int | None = None


def uncut(
    dataset: str | os.PathLike[str],
    column: str | None = None,
    progress: Callable[[str], None] | None = None,
    masks: Mapping[str, MaskWord] | None = None,
) -> Data:
    """The sequences of a data set as they are, read so many rows at a time that memory is bounded.

    >>> from packlib.tools.advice.data import uncut
    >>> uncut("squad").whole.num_sequences
    88641

    Args:
        dataset: a name or a file of lengths, as `packlib.load` takes it; or rows of tokens as `packlib pack` takes
            them: Parquet, JSON lines, a folder or a pattern of such files, or what `save_to_disk` of datasets wrote.
        column: of the tokens or of the lengths; by default `input_ids`, or else the only one.
        progress: is told in words how many sequences were read.
        masks: which columns are masks of the loss, as in `pack_dataset`; only for rows of tokens.

    Raises:
        OSError, TypeError, ValueError: naming the file, the column or the row that is wrong.
    """
    path, words = at_home(dataset), mask_words(masks)
    if str(dataset) in available() or not _has_rows(path):
        if words:
            raise ValueError(f"masks must be left out for {named(path)}, which has no rows of tokens.")
        own = load(dataset, column=column)
        return Data(load(dataset, _UNCUT) if own.truncated else own, own.max_length)
    rows = _Rows(path, column, words)
    whole = LengthHistogram.from_chunks(
        rows.lengths(progress or (lambda _: None)),
        place=lambda at: f"row {at} of {named(path)}",
        name=path.stem,
        source=path.name,
    )
    return Data(whole, whole.max_length, rows.trained)


def _has_rows(path: Path) -> bool:
    """Whether rows with columns are meant, and not a file of lengths."""
    is_pattern = glob.has_magic(str(path)) and not os.path.lexists(path)
    is_rows = format_of(path) is not None and path.suffix.lower() != ".json"
    return path.is_dir() or is_rows or is_pattern


class _Rows:
    """Reads the rows of files, and counts the tokens that are trained on, where columns say which.

    Attributes:
        trained: so many of those that were read; None without labels and masks.
    """

    def __init__(self, path: Path, column: str | None, masks: dict[str, MaskWord]) -> None:
        self._path, self._rows, self._masks = path, opened(path), masks
        first = next(batches(self._rows), None)
        names = [] if first is None else first.schema.names
        self._column = _column(path, column, names)
        if first is not None and not is_list(first.schema.field(self._column).type):
            refuse_counts_beside(named(path), self._column, names)
        loss = {*_LOSS, *masks}
        about = {*_BESIDE, *loss} if self._column == _TOKENS else loss if _TOKENS not in names else set()
        self._read = {self._column, *about}
        unread = {name for name, word in masks.items() if word in ("keep", "drop")}
        self.trained = 0 if about & loss & {*names} - unread else None

    def lengths(self, progress: Callable[[str], None]) -> Iterator[np.ndarray]:
        columns, path, column, rows = Columns(masks=self._masks), self._path, self._column, 0
        for batch in batches(self._rows, self._read):
            if column not in batch.schema.names:
                raise ValueError(f"The column {named(column)} of {named(path)} is missing from row {rows} on.")
            values = batch.column(column)
            if is_list(values.type):
                renamed = [_TOKENS if name == column else name for name in batch.schema.names]
                lengths, read, _ = columns.read(batch.rename_columns(renamed))
                if self.trained is not None:
                    self.trained += _count_trained(lengths, read)
            elif pa.types.is_integer(values.type):
                refuse_gaps(f"The column {named(column)} of {named(path)}", values, rows)
                lengths = values.to_numpy(zero_copy_only=False)
            else:
                what = f"The column {named(column)} of {named(path)} holds {one_line(str(values.type))}"
                raise TypeError(f"{what}; lengths are integers or lists of tokens.")
            rows += len(lengths)
            progress(f"reading: {rows:,} sequences")
            yield lengths
        if not rows:
            raise ValueError(f"{named(path)} holds no sequence.")
        if self.trained == 0 and not columns.masks:
            raise ValueError(f"The labels of {named(path)} are {IGNORED} for all tokens, so that none is trained on.")
        columns.finish()


def _count_trained(lengths: np.ndarray, read: dict[str, tuple[pa.Array, bool]]) -> int:
    """Tokens that have a label; the first of a sequence is predicted from nothing, and never counts."""
    begins = np.cumsum(lengths) - lengths
    labels, by_token = with_labels(read, begins, labels=True)["labels"]
    if not by_token:
        raise TypeError("The column labels must have a value for each token.")
    trained = labels.to_numpy(zero_copy_only=False) != IGNORED
    return int(np.count_nonzero(trained) - np.count_nonzero(trained[begins]))


def _column(path: Path, column: str | None, names: list[str]) -> str:
    """The column that holds the tokens, or the lengths."""
    if column is not None:
        return one_of(f"the column of {named(path)}", column, names)
    if _TOKENS in names:
        return _TOKENS
    if len(names) == 1:
        return names[0]
    if not names:
        raise ValueError(f"{named(path)} holds no sequence.")
    raise ValueError(
        f"{named(path)} has no column {_TOKENS}; it has {listed(names)}: name the one with lists of tokens "
        "or with lengths, by --column."
    )
