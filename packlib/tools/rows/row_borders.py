"""Take rows apart that hold several sequences, as `seq_lengths` say, or `position_ids` that start again.

A row with the tokens 7 8 6 4 5, and seq_lengths 3 2 or position_ids 0 1 2 0 1, becomes the sequences 7 8 6 and 4 5.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from packlib.arguments import shown
from packlib.packing.ragged import ranges
from packlib.tools.rows.column_values import BatchRows, is_list, lengths_of, refuse_other_sizes, whole_numbers

BORDERS = ("seq_lengths", "position_ids")  # the columns that say where sequences end in a row


@dataclass(frozen=True, eq=False)
class SequencesInRows:
    """The sequences that the rows of a batch hold.

    Attributes:
        counts: sequences in each row; int64, shape (rows,).
        lengths: tokens of each sequence; int64, shape (sequences,).
    """

    counts: np.ndarray
    lengths: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        """The row of each sequence, by its index in the batch; int64, shape (sequences,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def taken_apart(batch: pa.RecordBatch, first_row: int, second_budget: str | None) -> pa.RecordBatch:
    """Return the sequences of a batch of rows, without the columns that say where they end.

    Args:
        first_row: number of the first row in the data set, for errors.
        second_budget: the column of the second budget, which must have a number for each sequence; None if there is
            none.

    Raises:
        TypeError, ValueError: naming the column, and the first row in which its values do not fit the tokens, or in
            which `seq_lengths` and `position_ids` disagree.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    borders = {name: columns.pop(name) for name in BORDERS if name in columns}
    if not borders:
        return batch
    rows, sequences = _sequences(borders, columns["input_ids"], first_row)
    if len(sequences.lengths) > len(rows.lengths):  # or else each row has one sequence, since none has no sequence
        for name, column in columns.items():
            if name == second_budget and not is_list(column.type):
                raise ValueError(
                    f"The column {shown(name)} of the second budget must have a list with a number for each sequence, "
                    "since rows hold several sequences."
                )
            columns[name] = _by_sequence(name, column, rows, sequences)
    return pa.RecordBatch.from_pydict(columns)


def _sequences(borders: dict[str, pa.Array], input_ids: pa.Array, first_row: int) -> tuple[BatchRows, SequencesInRows]:
    """Return the rows of a batch, and the sequences in them.

    Args:
        borders: those of the columns `BORDERS` that the batch has, one or both; if both, they must agree.
    """
    if "position_ids" in borders:
        _refuse_positions_of_several_axes(borders["position_ids"].type)
    numbers = {name: whole_numbers(name, column, first_row) for name, column in borders.items()}
    rows = BatchRows(first_row, lengths_of("input_ids", input_ids, first_row))
    if "position_ids" in numbers:
        sizes, positions = numbers["position_ids"]
        refuse_other_sizes("position_ids", sizes, rows)
    if "seq_lengths" in numbers:
        counts, lengths = numbers["seq_lengths"]
        sequences = SequencesInRows(counts, lengths.astype(np.int64))
        _refuse_other_lengths(sequences, borders["seq_lengths"], rows)
    else:
        sequences = _by_positions(positions, rows)
    if "position_ids" in numbers:
        _refuse_other_positions(positions, sequences, rows)
    return rows, sequences


def _refuse_other_lengths(sequences: SequencesInRows, seq_lengths: pa.Array, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row whose `seq_lengths` do not add up to its tokens, or are not positive."""
    is_wrong = np.bincount(sequences.rows, sequences.lengths, len(rows.lengths)) != rows.lengths
    is_wrong[sequences.rows[sequences.lengths < 1]] = True
    if is_wrong.any():
        at = int(is_wrong.argmax())
        raise ValueError(
            f"The seq_lengths of row {rows.first_row + at} must be from 1 up and add up to its {rows.lengths[at]} "
            f"tokens, not {shown(seq_lengths[at].as_py())}."
        )


def _by_positions(positions: np.ndarray, rows: BatchRows) -> SequencesInRows:
    """Return the sequences in rows: each begins where a position is 0, or where a row begins."""
    is_start = positions == 0
    is_start[rows.starts] = True
    starts = np.flatnonzero(is_start)
    row_of_sequence = np.searchsorted(np.cumsum(rows.lengths), starts, side="right")
    return SequencesInRows(np.bincount(row_of_sequence), np.diff(starts, append=len(positions)).astype(np.int64))


def _refuse_positions_of_several_axes(kind: pa.DataType) -> None:
    """Raise a TypeError if `kind`, the Arrow type of the positions, is one of lists in lists."""
    if is_list(kind) and pa.types.is_nested(kind.value_type):
        raise TypeError(
            "The column position_ids holds positions of several axes, as of images, which no pack can carry: "
            "remove it, and let your collator make them for each sequence."
        )


def _refuse_other_positions(positions: np.ndarray, sequences: SequencesInRows, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row whose positions do not count the tokens of each sequence."""
    is_wrong = positions != ranges(np.zeros_like(sequences.lengths), sequences.lengths)
    if is_wrong.any():
        row = rows.row_of(int(is_wrong.argmax()))
        raise ValueError(f"The position_ids of row {row} must count from 0 in each of its sequences.")


def _by_sequence(name: str, column: pa.Array, rows: BatchRows, sequences: SequencesInRows) -> pa.Array:
    """Return a column of rows as a column of sequences.

    A value of a row is that of each of its sequences. A list has a value for each sequence of the row, or for each of
    its tokens.
    """
    if not is_list(column.type):
        return column.take(pa.array(sequences.rows))
    sizes = lengths_of(name, column, rows.first_row)
    if (sizes == sequences.counts).all() and (sizes != rows.lengths).any():  # where both fit, values are for tokens
        return column.flatten()
    refuse_other_sizes(name, sizes, rows)
    offsets = pa.array(np.append(0, np.cumsum(sequences.lengths)), pa.int32())
    return pa.ListArray.from_arrays(offsets, column.flatten())
