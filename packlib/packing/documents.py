"""Cut documents for rows of a fixed length; count which are cut, what is lost, and how much context tokens keep.

Five rules are known from practice, and for each the counts are exact:

- `wrapped`: all documents are laid end to end and cut at every row's end, whether a document ends there or not.
- `split`: only a document that is longer than a row is cut, into full rows and a remainder; best fit packs the
  remainders with the other documents (Ding and others, Fewer Truncations Improve Language Modeling, arXiv 2404.10830,
  section 3).
- `truncate`: a longer document keeps its first row of tokens, and the others are lost.
- `drop`: a longer document is left out.
- `powers_of_two`: every document is cut into pieces whose lengths are powers of two, the longest first, so that
  batches need no padding and mix no documents (Pouransari and others, Dataset Decomposition, arXiv 2405.13226).

TRL calls the first three `wrapped`, `bfd_split` and `bfd`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from packlib.arguments import one_of, percent, whole_number
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH, as_int64, as_lengths
from packlib.lengths.overlong import CutRule
from packlib.packing.methods import plan
from packlib.packing.ragged import Ragged, ranges

CuttingRule = Literal["wrapped", CutRule, "powers_of_two"]


class Pieces(NamedTuple):
    """Pieces of documents; each attribute has an entry for each piece.

    Attributes:
        documents: the number of the piece's document; int64, shape (number of pieces,).
        starts: the first token of the piece, counted from 0 in the document; same shape.
        lengths: tokens of the piece; same shape.
    """

    documents: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def wrapped(lengths: np.ndarray, max_length: int) -> Pieces:
    """Cut the documents, laid end to end, at every row's end; return the pieces in their order.

    >>> import numpy as np
    >>> from packlib.packing.documents import wrapped
    >>> pieces = wrapped(np.array([5, 6]), max_length=4)
    >>> pieces.documents.tolist(), pieces.starts.tolist(), pieces.lengths.tolist()
    ([0, 0, 1, 1], [0, 4, 0, 3], [4, 1, 3, 3])

    Args:
        lengths: the tokens of each document; int64, shape (number of documents,).
        max_length: slots of a row.
    """
    # where documents and pieces begin and end among all tokens laid end to end
    document_ends = np.cumsum(lengths)
    document_begins = document_ends - lengths
    first_row = document_begins // max_length
    num_pieces = (document_ends - 1) // max_length - first_row + 1
    documents = np.repeat(np.arange(len(lengths)), num_pieces)
    row_of_piece = ranges(first_row, num_pieces)
    begins = np.maximum(row_of_piece * max_length, document_begins[documents])
    ends = np.minimum((row_of_piece + 1) * max_length, document_ends[documents])
    return Pieces(documents, begins - document_begins[documents], ends - begins)


def split(lengths: np.ndarray, max_length: int) -> Pieces:
    """Cut each document into full rows and a remainder; arguments as in `wrapped`."""
    num_pieces = -(-lengths // max_length)  # minus a floor rounds up
    documents = np.repeat(np.arange(len(lengths)), num_pieces)
    starts = ranges(np.zeros_like(num_pieces), num_pieces) * max_length
    return Pieces(documents, starts, np.minimum(lengths[documents] - starts, max_length))


def truncate(lengths: np.ndarray, max_length: int) -> Pieces:
    """Keep the first tokens of each document, up to a full row; arguments as in `wrapped`."""
    return Pieces(np.arange(len(lengths)), np.zeros_like(lengths), np.minimum(lengths, max_length))


def drop(lengths: np.ndarray, max_length: int) -> Pieces:
    """Keep the documents that fit into a row; arguments as in `wrapped`."""
    documents = np.flatnonzero(lengths <= max_length)
    return Pieces(documents, np.zeros_like(documents), lengths[documents])


def powers_of_two(lengths: np.ndarray, max_length: int) -> Pieces:
    """Cut full rows, then powers of two that add up to the remainder; `max_length` must be a power of two.

    Pieces go from long to short, not from document to document. Arguments as in `wrapped`.

    >>> import numpy as np
    >>> from packlib.packing.documents import powers_of_two
    >>> pieces = powers_of_two(np.array([5, 7]), max_length=4)
    >>> pieces.documents.tolist(), pieces.starts.tolist(), pieces.lengths.tolist()
    ([0, 1, 1, 0, 1], [0, 0, 4, 4, 6], [4, 4, 2, 1, 1])
    """
    full_rows = split(lengths - lengths % max_length, max_length)
    pieces_by_length = [full_rows]
    power = max_length // 2
    while power:
        documents = np.flatnonzero(lengths & power)  # those whose lengths, as sums of powers of two, have this power
        starts = lengths[documents] - lengths[documents] % (2 * power)  # after the document's longer pieces
        pieces_by_length.append(Pieces(documents, starts, np.full_like(documents, power)))
        power //= 2
    return Pieces(*(np.concatenate(column) for column in zip(*pieces_by_length, strict=True)))


#: The rules that cut documents, by name.
CUTTING_RULES: dict[CuttingRule, Callable[[np.ndarray, int], Pieces]] = {
    "wrapped": wrapped, "split": split, "truncate": truncate, "drop": drop, "powers_of_two": powers_of_two,
}  # fmt: skip

#: Those rules that arguments named `overlong` take, see `packlib.lengths.overlong`.
CUTS: dict[CutRule, Callable[[np.ndarray, int], Pieces]] = {"split": split, "truncate": truncate, "drop": drop}


@dataclass(frozen=True, eq=False)
class DocumentRows(Ragged[np.ndarray]):
    """Pieces of documents in rows: row `i` holds pieces `offsets[i]` to `offsets[i + 1]`.

    `rows[i]` is row i as an array of shape (number of its pieces, 3): for each piece the document, the first token,
    counted from 0 in the document, and the number of tokens.

    Attributes:
        documents, starts, lengths: for each piece, as above; int64, shape (number of pieces,).
        offsets: int64, shape (number of rows + 1,).
        document_lengths: tokens of each document before it was cut; int64, shape (number of documents,).
        max_length: slots of a row.
        rule: the name of the rule that cut the documents.
    """

    documents: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    offsets: np.ndarray
    document_lengths: np.ndarray
    max_length: int
    rule: CuttingRule
    _nouns = "row", "rows"

    def __getitem__(self, index: int) -> np.ndarray:
        row = self._row(index)
        return np.stack([self.documents[row], self.starts[row], self.lengths[row]], axis=1)

    @cached_property
    def _num_pieces(self) -> np.ndarray:
        """Pieces of each document; int64, shape (number of documents,)."""
        return np.bincount(self.documents, minlength=len(self.document_lengths))

    @cached_property
    def _is_shortened(self) -> np.ndarray:
        """Return for each document whether some of its tokens are in a row, but not all; shape (documents,)."""
        tokens_in_rows = np.zeros_like(self.document_lengths)
        np.add.at(tokens_in_rows, self.documents, self.lengths)
        return (tokens_in_rows > 0) & (tokens_in_rows < self.document_lengths)

    @property
    def tokens(self) -> int:
        """Tokens in all rows."""
        return int(self.lengths.sum())

    @property
    def lost_tokens(self) -> int:
        """Tokens of all documents that are in no row."""
        return int(self.document_lengths.sum()) - self.tokens

    @cached_property
    def cuts(self) -> int:
        """Places where a document is cut: between two of its pieces, even within one row, or before lost tokens."""
        documents_in_rows = int((self._num_pieces > 0).sum())
        between_pieces = len(self.documents) - documents_in_rows
        return between_pieces + int(self._is_shortened.sum())

    @property
    def cut_documents(self) -> int:
        """Documents with at least one cut."""
        return int(((self._num_pieces > 1) | self._is_shortened).sum())

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return self.tokens / (len(self) * self.max_length)

    @cached_property
    def square_sum(self) -> int:
        """The sum of length² over the pieces, exactly: attention's work where no token sees another piece."""
        chunks = (self.lengths[at : at + 1024] for at in range(0, len(self.lengths), 1024))
        return sum(int(chunk @ chunk) for chunk in chunks)  # 1024 squares of at most 2^52 fit in 64 bits

    @property
    def mean_context(self) -> float:
        """Earlier tokens of its own document that a token sees, on average over the tokens that are kept.

        The i-th token of a piece, counted from 0, sees i of them: (Σ length² / Σ length − 1) / 2.
        """
        return (self.square_sum / self.tokens - 1) / 2

    def __repr__(self) -> str:
        return (
            f"DocumentRows({self.rule}: {len(self.document_lengths):,} documents in {len(self):,} rows of "
            f"{self.max_length}, {self.cut_documents:,} cut in {self.cuts:,} places, {self.lost_tokens:,} tokens lost, "
            f"{percent(self.efficiency, 3)} full, a token sees {self.mean_context:.1f} on average)"
        )


def document_rows(lengths: Iterable[int], max_length: int, rule: CuttingRule = "split") -> DocumentRows:
    """Cut documents by a rule, and lay the pieces into rows.

    >>> from packlib.packing import document_rows
    >>> rows = document_rows([14, 7, 5, 2, 3], max_length=8)
    >>> len(rows), rows.cut_documents, rows.cuts, rows.lost_tokens
    (4, 1, 1, 0)
    >>> document_rows([14, 7, 5, 2, 3], 8, "wrapped").cut_documents
    3

    The pieces of `wrapped` are in the order of the documents, those of `powers_of_two` go from long to short; neither
    leaves a slot empty but at the end. Those of the other rules are packed by best-fit-decreasing.

    Args:
        lengths: the tokens of each document, 1 or more, in the order in which they are read.
        max_length: slots of a row.
        rule: a name in `CUTTING_RULES`.

    Raises:
        TypeError, ValueError: naming the first bad length, another value that is not allowed, or that no document is
            left.
    """
    one_of("rule", rule, CUTTING_RULES)
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    if rule == "powers_of_two" and max_length & (max_length - 1):
        raise ValueError(f'max_length must be a power of two for the rule "powers_of_two", not {max_length}.')
    lengths = _checked(lengths)
    pieces = CUTTING_RULES[rule](lengths, max_length)
    if not len(pieces.documents):
        raise ValueError(f"max_length must be at least {lengths.min()}, the shortest document, not {max_length}.")
    if rule in ("wrapped", "powers_of_two"):
        # In the order in which they come, no piece reaches over the end of a row. Wrapped pieces are cut there. Powers
        # of two from large to small add up to a multiple of each next power, so one of them ends where the row ends.
        ends = np.cumsum(pieces.lengths)
        is_last_of_row = (ends % max_length == 0) | (ends == ends[-1])
        offsets = np.append(0, np.flatnonzero(is_last_of_row) + 1)
    else:
        packs = plan(pieces.lengths, max_length, "lpfhp").assign(pieces.lengths)
        pieces = Pieces(*(column[packs.sample_ids] for column in pieces))
        offsets = packs.offsets
    return DocumentRows(*pieces, offsets, lengths, max_length, rule)


def least_cuts(lengths: Iterable[int], max_length: int) -> int:
    """Count the fewest cuts that keep every token: l tokens need ⌈l / max_length⌉ pieces, one more than cuts.

    `split` makes exactly these. Arguments and errors as in `document_rows`.

    >>> from packlib.packing import least_cuts
    >>> least_cuts([14, 7, 5, 2, 3], max_length=8)
    1
    """
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    return int(((_checked(lengths) - 1) // max_length).sum())


def _checked(lengths: Iterable[int]) -> np.ndarray:
    """Return the lengths as int64; raise a TypeError or ValueError if one of them or their sum is not allowed."""
    lengths = as_int64(as_lengths(lengths), "Length")
    may_overflow = int(lengths.max()) * len(lengths) > INT64_MAX
    if may_overflow and (total := sum(lengths.tolist())) > INT64_MAX:
        raise ValueError(f"The documents hold {total} tokens; at most {INT64_MAX} fit in 64 bits.")
    return lengths
