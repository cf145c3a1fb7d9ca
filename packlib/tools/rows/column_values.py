"""Check the columns of a batch: values for tokens or for sequences, and errors that name the column and the row."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packlib.arguments import one_line, shown
from packlib.tools.rows.loss_masks import drop_option

_PAIRS = [f"{answer}{ending}" for answer in ("chosen", "rejected") for ending in ("", "_ids", "_input_ids")]
_IMAGES = ["image", "images", "video", "videos", "pixel_values", "pixel_values_videos", "image_grid_thw"]
# By column, what it belongs to, and why no pack can have that.
_REFUSED = dict.fromkeys(_PAIRS, "pairs of answers, which a pack cannot keep together")
_REFUSED |= dict.fromkeys(_IMAGES, "images, which a pack of tokens cannot carry")
_REFUSED["seq_start_id"] = "rows that were packed for NeMo, which must be packed from their sequences"


class ColumnValues(NamedTuple):
    """The values of a column.

    Attributes:
        values: those of all tokens, or of all sequences, end to end.
        by_token: whether each token has a value; else each sequence has one.
    """

    values: pa.Array
    by_token: bool


Columns: TypeAlias = dict[str, ColumnValues]


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of a batch, whose tokens are laid end to end and counted over the batch.

    Attributes:
        first_row: number of the first of them in the data set.
        lengths: tokens of each row; int64, shape (rows,).
    """

    first_row: int
    lengths: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:
        """The index of the first token of each row; int64, shape (rows,)."""
        return np.cumsum(self.lengths) - self.lengths

    def row_of(self, token: int) -> int:
        """Return the number, in the data set, of the row that has the token of this index."""
        return self.first_row + int(np.searchsorted(np.cumsum(self.lengths), token, side="right"))


class KnownColumns:
    """The names and types of columns in the batches until now; each later batch must have the same.

    Attributes:
        names: of the columns; empty before the first batch.
        kinds: their Arrow types by name.
    """

    def __init__(self) -> None:
        self.names = set[str]()
        self.kinds = dict[str, pa.DataType]()

    def refuse_other_names(self, names: set[str], first_row: int) -> None:
        """Raise a ValueError if a batch that begins with this row has other columns than the batches before."""
        in_some_rows = (self.names or names) ^ names
        if in_some_rows:
            name = min(in_some_rows)
            where = f"from row {first_row:,} on" if name in names else f"before row {first_row:,}"
            raise ValueError(
                f"The column {shown(name)} is in some rows only ({where}); all rows must have it, or none: "
                f"{drop_option(name)}."
            )
        self.names = names

    def refuse_another_kind(self, name: str, kind: pa.DataType, first_row: int) -> None:
        """Raise a TypeError if a column has another type, in a batch that begins with this row, than before."""
        if (known_kind := self.kinds.setdefault(name, kind)) != kind:
            raise TypeError(
                f"The column {shown(name)} holds {known_kind} at first, and {kind} from row {first_row} on."
            )

    def add(self, later: "KnownColumns", first_row: int) -> None:
        """Add the columns that another process has read of the rows from `first_row` on.

        Raises:
            TypeError, ValueError: naming a column that has another type there, or is in some rows only.
        """
        self.refuse_other_names(later.names, first_row)
        for name, kind in later.kinds.items():
            self.refuse_another_kind(name, kind, first_row)


def refuse_columns_of_others(names: Iterable[str]) -> None:
    """Raise a ValueError if a column says that rows hold more than sequences of tokens, such as images."""
    for name in names:
        if name in _REFUSED:
            raise ValueError(
                f"The column {shown(name)} belongs to {_REFUSED[name]}: {drop_option(name)}, or rename it if it holds "
                "something else."
            )


def refuse_rows_without_tokens(input_ids: pa.Array, first_row: int) -> None:
    """Raise a TypeError if `input_ids` are no lists of whole numbers, a ValueError if one of them is empty."""
    refuse_other_lists("input_ids", input_ids.type)
    is_empty = lengths_of("input_ids", input_ids, first_row) == 0
    if is_empty.any():
        raise ValueError(f"Row {first_row + int(is_empty.argmax())} of the data set has no token.")


def checked_values(name: str, column: pa.Array, rows: BatchRows, known: KnownColumns) -> ColumnValues:
    """Return the values of a column that a pack can carry.

    Raises:
        TypeError, ValueError: naming the column, and the first row whose value is missing or wrong.
    """
    column = _as_packed(name, column)
    by_token = is_list(column.type)
    _refuse_unpackable(name, column.type)
    if by_token:
        refuse_other_sizes(name, lengths_of(name, column, rows.first_row), rows)
    known.refuse_another_kind(name, column.type, rows.first_row)
    values = column.flatten() if by_token else column
    cure = "" if name == "input_ids" else f"; {drop_option(name)}"
    refuse_gaps(f"The column {shown(name)}", values, rows.first_row, rows.lengths if by_token else None, cure)
    if name == "input_ids":
        _refuse_negative_tokens(np.asarray(values), rows)
    return ColumnValues(values, by_token)


def _as_packed(name: str, column: pa.Array) -> pa.Array:
    """Return a column in the type that packs have: no categories, and `input_ids` of 32 bits as `datasets` has them."""
    if pa.types.is_dictionary(column.type):  # texts that come again, as a category of pandas
        column = column.dictionary_decode()
    if name != "input_ids":
        return column
    try:
        return column.cast(pa.list_(pa.int32()))
    except pa.ArrowInvalid as error:
        reason = one_line(str(error), 200)
        raise ValueError(f"The column 'input_ids' must hold numbers of 32 bits: {reason}") from None


def _refuse_unpackable(name: str, kind: pa.DataType) -> None:
    """Raise a TypeError unless a column has numbers for tokens, or a number or text for each sequence."""
    value_kind = kind.value_type if is_list(kind) else kind
    if not (pa.types.is_primitive(value_kind) or (is_text(value_kind) and not is_list(kind))):
        raise TypeError(
            f"The column {shown(name)} holds {one_line(str(kind))}, which no pack can carry: {drop_option(name)}."
        )


def _refuse_negative_tokens(input_ids: np.ndarray, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row with a token below 0."""
    is_negative = input_ids < 0
    if is_negative.any():
        token = int(is_negative.argmax())
        raise ValueError(
            f"The column 'input_ids' must hold numbers from 0 up, not {input_ids[token]} as in row "
            f"{rows.row_of(token)}."
        )


def refuse_other_sizes(name: str, sizes: np.ndarray, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row whose list has another number of values than the row has tokens.

    Args:
        sizes: values in the list of each row; shape (rows,).
    """
    differ = sizes != rows.lengths
    if differ.any():
        at = int(differ.argmax())
        raise ValueError(
            f"The column {shown(name)} has {sizes[at]} values in row {rows.first_row + at}, which has "
            f"{rows.lengths[at]} tokens: give one for each token, or {drop_option(name)}."
        )


def refuse_hidden_tokens(attention_mask: pa.Array, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row whose `attention_mask` is not 1 for all tokens.

    Args:
        attention_mask: a value for each token of the batch.
    """
    if not set(pc.min_max(attention_mask).as_py().values()) <= {1, None}:  # None if the batch has no token
        row = rows.row_of(int((np.asarray(attention_mask) != 1).argmax()))
        raise ValueError(f"attention_mask of row {row} hides tokens: give sequences without padding.")


def refuse_other_lists(name: str, kind: pa.DataType) -> None:
    """Raise a TypeError unless a column of the Arrow type `kind` has lists of whole numbers; a mask may have bool."""
    may_be_bool = name not in ("input_ids", "labels")
    if not is_list(kind) or not (
        pa.types.is_integer(kind.value_type) or (may_be_bool and pa.types.is_boolean(kind.value_type))
    ):
        raise TypeError(f"The column {shown(name)} must hold lists of whole numbers, not {one_line(str(kind))}.")


def refuse_gaps(
    called: str, values: pa.Array, first_row: int, sizes: np.ndarray | None = None, cure: str = ""
) -> None:
    """Raise a ValueError that names the first row without a value, if a value is missing.

    Args:
        called: what has the values, at the beginning of the sentence, such as "The column 'score'".
        values: of all rows, end to end.
        sizes: how many values each row has; None if each has one.
        cure: what to do about it, at the end of the sentence.
    """
    if values.null_count:
        at = int(np.asarray(values.is_null()).argmax())
        row = at if sizes is None else int(np.searchsorted(np.cumsum(sizes), at, side="right"))
        raise ValueError(f"{called} has no value in row {first_row + row}{cure}.")


def lengths_of(name: str, column: pa.Array, first_row: int) -> np.ndarray:
    """Return the number of values in each row of a column of lists; int64, shape (rows,).

    Raises:
        ValueError: naming the first row without a list.
    """
    refuse_gaps(f"The column {shown(name)}", column, first_row)
    return np.asarray(pc.list_value_length(column)).astype(np.int64)


def whole_numbers(name: str, column: pa.Array, first_row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many numbers each row of a column of lists has, shape (rows,); and all numbers, end to end.

    Raises:
        TypeError, ValueError: naming the column, and the first row without a value.
    """
    refuse_other_lists(name, column.type)
    sizes = lengths_of(name, column, first_row)
    values = column.flatten()
    refuse_gaps(f"The column {shown(name)}", values, first_row, sizes)
    return sizes, values.to_numpy(zero_copy_only=False)


def with_one_kind_of_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose texts have the type `string`.

    Files of one data set may have different types of text: pandas writes `large_string`.
    """
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) or pa.types.is_string_view(field.type)
        else field
        for field in batch.schema
    ]  # fmt: skip
    return batch.cast(pa.schema(fields)) if fields != [*batch.schema] else batch


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of texts, or of bytes."""
    return str(kind) in ("string", "large_string", "binary", "large_binary")
