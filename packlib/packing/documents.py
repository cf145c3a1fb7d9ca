"""What becomes of documents in rows of a fixed length: which are cut, what is lost, and what their tokens still see.

Five rules are known from practice, and each is counted exactly:

- `wrapped`: all documents are laid end to end and cut at every row's end, whether a document ends there or not.
- `split`: only a document that is longer than a row is cut, into full rows and a rest; best fit packs the rests with
  the other documents (Ding and others, Fewer Truncations Improve Language Modeling, arXiv 2404.10830, section 3).
- `truncate`: a longer document keeps its first row, and the rest is lost.
- `drop`: a longer document is left out.
- `powers_of_two`: every document is cut into pieces whose lengths are powers of two, the longest first, so that
  batches need no padding and mix no documents (Pouransari and others, Dataset Decomposition, arXiv 2405.13226).

TRL calls the first three `wrapped`, `bfd_split` and `bfd`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from packlib.arguments import one_of, percent, whole_number
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH, as_int64, as_lengths
from packlib.lengths.overlong import CutRule
from packlib.packing.methods import plan
from packlib.packing.ragged import Ragged, ranges

Pieces = tuple[np.ndarray, np.ndarray, np.ndarray]  # of which document, from which of its tokens, and how many
CuttingRule = Literal["wrapped", CutRule, "powers_of_two"]


def wrapped(lengths: np.ndarray, max_length: int) -> Pieces:
    """Cut the documents, laid end to end, at every row's end; return the pieces in their order.

    Args:
        lengths: the tokens of each document; int64, shape (number of documents,).
        max_length: slots of a row.
    """
    ends = np.cumsum(lengths)
    begins = ends - lengths
    first = begins // max_length
    count = (ends - 1) // max_length - first + 1
    documents = np.repeat(np.arange(len(lengths)), count)
    rows = ranges(first, count)
    starts = np.maximum(rows * max_length, begins[documents])
    return documents, starts - begins[documents], np.minimum((rows + 1) * max_length, ends[documents]) - starts


def split(lengths: np.ndarray, max_length: int) -> Pieces:
    """Cut full rows and a rest of each document; arguments as in `wrapped`."""
    count = -(-lengths // max_length)
    documents = np.repeat(np.arange(len(lengths)), count)
    starts = ranges(np.zeros_like(count), count) * max_length
    return documents, starts, np.minimum(lengths[documents] - starts, max_length)


def truncate(lengths: np.ndarray, max_length: int) -> Pieces:
    """Keep the first tokens of each document, up to a full row; arguments as in `wrapped`."""
    return np.arange(len(lengths)), np.zeros_like(lengths), np.minimum(lengths, max_length)


def drop(lengths: np.ndarray, max_length: int) -> Pieces:
    """Keep the documents that fit into a row; arguments as in `wrapped`."""
    kept = np.flatnonzero(lengths <= max_length)
    return kept, np.zeros_like(kept), lengths[kept]


def powers_of_two(lengths: np.ndarray, max_length: int) -> Pieces:
    """Cut full rows, then powers of two that add up to the rest, longest first; arguments as in `wrapped`."""
    documents, starts, pieces = split(lengths - lengths % max_length, max_length)
    found = [(documents, starts, pieces)]
    power = max_length // 2
    while power:
        holding = np.flatnonzero(lengths & power)
        before = lengths[holding] - lengths[holding] % (2 * power)  # longer pieces come first
        found.append((holding, before, np.full_like(holding, power)))
        power //= 2
    documents, starts, pieces = (np.concatenate(column) for column in zip(*found, strict=True))
    return documents, starts, pieces


#: What may become of documents, by name.
CUTTING_RULES: dict[CuttingRule, Callable[[np.ndarray, int], Pieces]] = {
    "wrapped": wrapped, "split": split, "truncate": truncate, "drop": drop, "powers_of_two": powers_of_two,
}  # fmt: skip

#: Those that `overlong` takes.
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
    _called = "row", "rows"

    def __getitem__(self, index: int) -> np.ndarray:
        row = self._row(index)
        return np.stack([self.documents[row], self.starts[row], self.lengths[row]], axis=1)

    @cached_property
    def _pieces_of(self) -> np.ndarray:
        return np.bincount(self.documents, minlength=len(self.document_lengths))

    @cached_property
    def _kept_of(self) -> np.ndarray:
        kept = np.zeros_like(self.document_lengths)
        np.add.at(kept, self.documents, self.lengths)
        return kept

    @property
    def tokens(self) -> int:
        """Tokens that stand in a row."""
        return int(self.lengths.sum())

    @property
    def lost_tokens(self) -> int:
        """Tokens of all documents that stand in no row."""
        return int(self.document_lengths.sum()) - self.tokens

    @cached_property
    def cuts(self) -> int:
        """Places where a document is cut: between two of its pieces, even within one row, or before lost tokens."""
        shortened = (self._pieces_of > 0) & (self._kept_of < self.document_lengths)
        return len(self.documents) - int((self._pieces_of > 0).sum()) + int(shortened.sum())

    @property
    def cut_documents(self) -> int:
        """Documents with at least one cut."""
        return int(((self._pieces_of > 1) | ((self._pieces_of == 1) & (self._kept_of < self.document_lengths))).sum())

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return self.tokens / (len(self) * self.max_length)

    @cached_property
    def square_sum(self) -> int:
        """The sum of length² over the pieces, exactly: attention's work where no token sees another piece."""
        parts = (self.lengths[at : at + 1024] for at in range(0, len(self.lengths), 1024))
        return sum(int(part @ part) for part in parts)  # 1024 squares of at most 2^52 fit in 64 bits

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
    top = whole_number("max_length", max_length, 1, MAX_LENGTH)
    if rule == "powers_of_two" and top & (top - 1):
        raise ValueError(f'max_length must be a power of two for the rule "powers_of_two", not {top}.')
    lengths = _checked(lengths)
    pieces = CUTTING_RULES[rule](lengths, top)
    if not len(pieces[0]):
        raise ValueError(f"max_length must be at least {lengths.min()}, the shortest document, not {top}.")
    if rule in ("wrapped", "powers_of_two"):
        # As they come, no piece reaches over the end of a row: wrapped pieces are cut there, and powers of two that
        # never grow add up to each multiple of a power that comes.
        filled = np.cumsum(pieces[2])
        offsets = np.append(0, np.flatnonzero((filled % top == 0) | (filled == filled[-1])) + 1)
    else:
        packs = plan(pieces[2], top, "lpfhp").assign(pieces[2])
        pieces, offsets = tuple(column[packs.sample_ids] for column in pieces), packs.offsets
    return DocumentRows(*pieces, offsets, lengths, top, rule)


def least_cuts(lengths: Iterable[int], max_length: int) -> int:
    """Count the fewest cuts that keep every token: l tokens need ⌈l / max_length⌉ pieces, one more than cuts.

    `split` makes exactly these. Arguments and errors as in `document_rows`.

    >>> from packlib.packing import least_cuts
    >>> least_cuts([14, 7, 5, 2, 3], max_length=8)
    1
    """
    top = whole_number("max_length", max_length, 1, MAX_LENGTH)
    return int(((_checked(lengths) - 1) // top).sum())


def _checked(lengths: Iterable[int]) -> np.ndarray:
    """Return the lengths as int64, if they and their sum are allowed."""
    lengths = as_int64(as_lengths(lengths), "Length")
    total = int(lengths.max()) * len(lengths)
    if total > INT64_MAX and (total := sum(lengths.tolist())) > INT64_MAX:
        raise ValueError(f"The documents hold {total} tokens; at most {INT64_MAX} fit in 64 bits.")
    return lengths
