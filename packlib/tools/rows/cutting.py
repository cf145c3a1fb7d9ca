"""Cut sequences that are too long into pieces, by each of the rules that `overlong` names."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from packlib.lengths.overlong import CutRule
from packlib.packing.documents import CUTS
from packlib.packing.ragged import ranges
from packlib.tools.rows.column_values import BatchRows, Columns, ColumnValues


class Pieces(NamedTuple):
    """Pieces of the sequences of a batch. The sequences are laid end to end, and tokens are counted over the batch.

    Attributes:
        sequences: the sequence that each piece is cut from, by its index in the batch; int64, shape (pieces,).
        starts: the first token of each piece; int64, shape (pieces,).
        sizes: the number of tokens in each piece; int64, shape (pieces,).
    """

    sequences: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @property
    def tokens(self) -> np.ndarray:
        """The indices of all tokens in the pieces, piece by piece; int64, shape (tokens in pieces,)."""
        return ranges(self.starts, self.sizes)

    def chosen(self, is_chosen: np.ndarray) -> "Pieces":
        """Return some of the pieces; `is_chosen` is bool, shape (pieces,)."""
        return Pieces(self.sequences[is_chosen], self.starts[is_chosen], self.sizes[is_chosen])


def uncut_pieces(rows: BatchRows) -> Pieces:
    """Return each sequence as one piece."""
    return Pieces(np.arange(len(rows.lengths)), rows.starts, rows.lengths)


def pieces_by_rule(rows: BatchRows, max_length: float) -> dict[CutRule, Pieces]:
    """Return the pieces that each rule makes of the sequences; each is whole if none has over `max_length` tokens.

    Args:
        max_length: a whole number, or infinity.
    """
    if not (rows.lengths > max_length).any():
        return dict.fromkeys(CUTS, uncut_pieces(rows))
    pieces = {}
    for rule, cut in CUTS.items():
        sequences, tokens_before, sizes = cut(rows.lengths, int(max_length))
        pieces[rule] = Pieces(sequences, rows.starts[sequences] + tokens_before, sizes)
    return pieces


def columns_of(pieces: Pieces, columns: Columns) -> Columns:
    """Return the columns of pieces: the values of their tokens, and for each piece the value of its sequence."""
    tokens = pa.array(pieces.tokens)
    sequences = pa.array(pieces.sequences)
    return {
        name: ColumnValues(values.take(tokens if by_token else sequences), by_token)
        for name, (values, by_token) in columns.items()
    }
