"""What was packed: its sequences with their tokens, and which of these are trained on; or their lengths alone."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from packlib.arguments import listed, no_frame, shown
from packlib.files import at_home, named
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import as_lengths
from packlib.lengths.overlong import CutRule
from packlib.lengths.sources import load_argument
from packlib.packing.documents import CUTS, Pieces
from packlib.packing.ragged import ranges
from packlib.tools.auditing.bare_rows import TokenCounts, first_tokens
from packlib.tools.auditing.columns import Columns, asked_labels, labels_trained, sums, trained_by_masks
from packlib.tools.auditing.contents import Chunk, Contents, chunk_of
from packlib.tools.auditing.names import MASKS, names_in
from packlib.tools.auditing.packed_files import columns_of, open_packed
from packlib.tools.auditing.tables import Table, tables_of
from packlib.tools.rows.column_values import is_list, lengths_of, refuse_gaps
from packlib.tools.rows.row_sources import as_data_set

_SEQUENCES = "whole file of sequences"  # what each file of a source should be, in words
_SHAPE = ("attention_mask", "seq_lengths")  # columns of padding and of sequences, and not of what is trained on


@dataclass(frozen=True)
class Cut:
    """Counts of sequences that were too long, by the rule that the caller meant for them.

    Attributes:
        rule: "split", "truncate" or "drop".
        max_length: tokens of the longest sequence that stays as it is.
        sequences: how many were longer.
        tokens: how many tokens of the source are in no pack then.
        labels: how many labels of the source are not trained on then: they are cut, or their token comes first in a
            piece, where nothing predicts it. None if the source does not say which tokens are trained on.
        unlabeled: how many sequences had a label before they were cut, and have none in what is left; None like labels.
    """

    rule: CutRule
    max_length: int
    sequences: int
    tokens: int
    labels: int | None
    unlabeled: int | None


@dataclass(frozen=True)
class ReadSource:
    """The sequences of a source that packs should hold.

    Attributes:
        sequences, tokens: how many the source itself has.
        lengths: of the sequences that packs should hold.
        contents: of these sequences; None if the source has no tokens.
        cut: what packs need not hold, since it was too long; None if no rule was meant for that.
        in_place, ahead: rows whose labels are their tokens, and rows whose labels are the next ones.
        token_counts: how often each token should be in the packs; None unless asked for.
    """

    sequences: int
    tokens: int
    lengths: LengthHistogram
    contents: Contents | None = None
    cut: Cut | None = None
    in_place: int = 0
    ahead: int = 0
    token_counts: TokenCounts | None = None


class OpenSource:
    """A source that is open, but not read yet.

    Args:
        source: as in `audit`.
        column: of the tokens or the lengths; by default `input_ids`, or what the packs call their tokens.
        columns, masks: as in `audit`.
        packs_columns: the columns of the packs: packlib's name for each, and its name in their file.

    Attributes:
        has_tokens: whether the tokens of each sequence are known.
        trained: the columns that say which tokens are trained on.
        unread: the columns that are not looked at.
        all_columns: the names of all columns of all files.

    Raises:
        OSError, TypeError, ValueError: naming the file, and what is wrong with it.
    """

    def __init__(
        self,
        source: Any,
        column: str | None,
        columns: Mapping[str, str],
        masks: Mapping[str, Any],
        packs_columns: Mapping[str, str],
    ) -> None:
        no_frame("source", source)
        source = as_data_set(source)
        self._source = source
        self._column = column
        self._words = {**MASKS, **masks}
        self._tables = _tables(source)
        self._names = dict[str, str]()  # packlib's name for each column that is read, and its name in the file
        self.unread = list[str]()
        for number, table in enumerate(self._tables):
            names = names_in(table.schema.names, columns, masks)
            tokens = column or names.get("input_ids") or packs_columns.get("input_ids", "input_ids")
            self._refuse_without(tokens, table)
            names = self._columns_to_read(table, tokens, names)
            if number > 0:
                self._refuse_others(names, table)
            self._names = names
            self.unread = [column_name for column_name in table.schema.names if column_name not in names.values()]
        self.has_tokens = bool(self._tables) and all(
            _holds_tokens(table, self._names["input_ids"]) for table in self._tables
        )
        trained = [name for name in self._names if name not in ("input_ids", *_SHAPE)]
        self.trained = trained if self.has_tokens else []
        self.all_columns = {name for table in self._tables for name in table.schema.names}

    def _refuse_without(self, tokens: str, table: Table) -> None:
        """Raise a ValueError if a table lacks the column of tokens, unless it may be a file of lengths alone."""
        may_be_lengths = len(self._tables) == 1 and table.path is not None and not _is_no_lengths(table)
        if tokens not in table.schema.names and not may_be_lengths:
            raise ValueError(
                f"{table.name} has no column {named(tokens)}; it has {listed(table.schema.names) or 'none'}: name "
                "that of the tokens, or of the lengths, by column (--column)."
            )

    def _columns_to_read(self, table: Table, tokens: str, names: Mapping[str, str]) -> dict[str, str]:
        """Choose the columns of a table that are read: tokens, and the lists of labels, masks, padding and sequences.

        Args:
            tokens: the column of tokens, or of lengths.
            names: the columns that are known, by packlib's names.
        """
        lists = {column_name for column_name in table.schema.names if is_list(table.schema.field(column_name).type)}
        others = {
            name: column_name
            for name, column_name in names.items()
            if column_name in lists and (name in ("labels", *_SHAPE) or name in self._words) and column_name != tokens
        }
        return {"input_ids": tokens} | others

    def _refuse_others(self, names: Mapping[str, str], table: Table) -> None:
        """Raise a ValueError if a later table has other columns to read than the first one."""
        if names != self._names:
            odd, _ = min(set(names.items()) ^ set(self._names.items()))
            has, lacks = (table, self._tables[0]) if odd in names else (self._tables[0], table)
            raise ValueError(f"{lacks.name} has no column {odd}, which {has.name} has: all need the same.")

    def read(self, keep_contents: bool, rule: CutRule | None, max_length: int, bare: bool = False) -> ReadSource:
        """Read all sequences.

        Args:
            keep_contents: whether to return their contents.
            bare: whether to keep what finds them in rows that do not tell where sequences begin.
            rule: what became of sequences longer than `max_length`; None if no rule was meant for them.
        """
        if not self.has_tokens:
            return _by_lengths(self._lengths(), rule, max_length)
        total = _Totals(counts=TokenCounts() if bare else None)
        chunks = list[Chunk]()
        lengths_by_batch = [np.empty(0, np.int64)]
        for columns in self._batches():
            sizes, ids = columns["input_ids"]
            trained = self._trained(columns, total)
            pieces = None if rule is None else CUTS[rule](sizes, max_length)
            lengths, chunk = self._chunk(sizes, ids, trained, pieces, max_length, total, keep_contents)
            lengths_by_batch.append(lengths)
            if keep_contents and chunk is not None:
                chunks.append(chunk)
        lengths = np.concatenate(lengths_by_batch)
        tokens_left_out = total.tokens - int(lengths.sum())
        return ReadSource(
            sequences=total.sequences,
            tokens=total.tokens,
            lengths=LengthHistogram.from_lengths(lengths),
            contents=Contents(chunks) if keep_contents else None,
            cut=None if rule is None else self._cut(rule, max_length, total, tokens_left_out),
            in_place=total.in_place,
            ahead=total.ahead,
            token_counts=total.counts,
        )

    def _batches(self) -> Iterator[Columns]:
        """Read the tables; yield the columns of some sequences at a time, by token."""
        for table in self._tables:
            name = table.name if len(self._tables) > 1 else "source"
            first_row = 0
            with table.naming():
                for batch in table.read(list(dict.fromkeys(self._names.values()))):
                    columns = columns_of(batch, self._names, self._words, first_row)
                    self._refuse_empty(columns["input_ids"][0], first_row, name)
                    yield self._sequences(columns, first_row)
                    first_row += batch.num_rows

    def _cut(self, rule: CutRule, max_length: int, total: "_Totals", tokens_left_out: int) -> Cut:
        """Return the counts of what a rule cut."""
        with_labels = bool(self.trained)
        return Cut(
            rule=rule,
            max_length=max_length,
            sequences=total.longer,
            tokens=tokens_left_out,
            labels=total.labels - total.labels_kept if with_labels else None,
            unlabeled=total.unlabeled if with_labels else None,
        )

    def _refuse_empty(self, sizes: np.ndarray, first_row: int, name: str) -> None:
        """Raise a ValueError that names the first row without tokens."""
        as_lengths(sizes, lambda i: f"row {first_row + i} of {name}")

    def _sequences(self, columns: Columns, first_row: int) -> Columns:
        """Return the columns by token, without padding, and with a size for each sequence in place of each row.

        A row with `seq_lengths` holds several sequences.
        """
        sizes, _ = columns["input_ids"]
        by_token = [name for name in columns if name != "seq_lengths"]
        for name in by_token:
            if (differs := columns[name][0] != sizes).any():
                row = int(differs.argmax())
                raise ValueError(
                    f"row {first_row + row} has {columns[name][0][row]} numbers in {name}, and {sizes[row]} tokens."
                )
        if "attention_mask" in columns and not (real := columns["attention_mask"][1] != 0).all():
            sizes = sums(real, sizes)
            columns = columns | {name: (sizes, columns[name][1][real]) for name in by_token}
        if "seq_lengths" in columns:
            depths, lengths = columns["seq_lengths"]
            if (differs := sums(lengths, depths) != sizes).any():
                raise ValueError(f"row {first_row + int(differs.argmax())} has other tokens than its seq_lengths say.")
            columns = columns | {name: (lengths.astype(np.int64), columns[name][1]) for name in by_token}
        return columns

    def _trained(self, columns: Columns, total: "_Totals") -> dict[str, np.ndarray]:
        """Mark the tokens that are trained on, by column; count in `total` where labels are."""
        sizes, _ = columns["input_ids"]
        starts = np.cumsum(sizes) - sizes
        trained = dict[str, np.ndarray]()
        if "labels" in columns:
            trained["labels"], numbers, _ = labels_trained(asked_labels(columns), columns, starts, starts + sizes - 1)
            total.in_place += numbers["in place"]
            total.ahead += numbers["ahead"]
        return trained | trained_by_masks(columns, self._words, starts)

    def _chunk(
        self,
        sizes: np.ndarray,
        ids: np.ndarray,
        trained: dict[str, np.ndarray],
        pieces: Pieces | None,
        max_length: int,
        total: "_Totals",
        keep_contents: bool,
    ) -> tuple[np.ndarray, Chunk | None]:
        """Return the lengths and the contents of what packs should hold of some sequences; add them to `total`.

        Args:
            sizes, ids, trained: tokens of each sequence, all tokens, and by column which of them are trained on.
            pieces: what the rule leaves of all these sequences, also of short ones: the sequence of each piece, its
                offset there, and its length. None without a rule.
        """
        first_sequence = total.sequences
        total.sequences += len(sizes)
        total.tokens += int(sizes.sum())
        longer = sizes > max_length
        if pieces is not None and longer.any():
            total.longer += int(longer.sum())
            documents, _, piece_lengths = pieces
            chunk = _chunk_of_pieces(sizes, ids, trained, pieces, total)
            return piece_lengths, chunk._replace(documents=first_sequence + documents)
        if not keep_contents and not (trained and pieces is not None):
            return sizes, None
        chunk = _chunk_with_ends(ids, sizes, trained, total.counts)
        if pieces is not None:
            labels = Contents([chunk]).trained().sum(dtype=np.int64) if trained else 0
            total.labels += int(labels)
            total.labels_kept += int(labels)
            chunk = chunk._replace(documents=np.arange(first_sequence, first_sequence + len(sizes)))
        return sizes, chunk

    def _lengths(self) -> LengthHistogram:
        """Return the lengths of a source without tokens."""
        source = self._source
        if isinstance(source, LengthHistogram):
            return source
        is_file_of_lengths = (
            len(self._tables) == 1 and isinstance(source, str | os.PathLike) and not _is_no_lengths(self._tables[0])
        )
        if self._tables and not is_file_of_lengths:
            return LengthHistogram.from_lengths(np.concatenate([*map(self._lengths_of_table, self._tables)]))
        if not isinstance(source, str | os.PathLike):
            return LengthHistogram.from_lengths(as_lengths(source, noun="Source length"))
        if at_home(source).suffix == ".idx":
            return LengthHistogram.from_lengths(
                np.concatenate([rows.used for rows in open_packed(source).rows(False)])
            )
        return load_argument("source", source, column=self._column)

    def _lengths_of_table(self, table: Table) -> np.ndarray:
        """Read the lengths in a table: of the lists in the column of tokens, or the whole numbers there; int64."""
        name = self._names["input_ids"]
        lengths_by_batch = [np.empty(0, np.int64)]
        first_row = 0
        with table.naming():
            for batch in table.read([name]):
                values = batch.column(name)
                if is_list(values.type):
                    lengths_by_batch.append(lengths_of(name, values, first_row))
                elif pa.types.is_integer(values.type):
                    refuse_gaps(f"The column {shown(name)}", values, first_row)
                    lengths_by_batch.append(values.to_numpy(zero_copy_only=False).astype(np.int64))
                else:
                    raise TypeError(f"The column {shown(name)} holds {values.type}; tokens or lengths are needed.")
                first_row += batch.num_rows
        return np.concatenate(lengths_by_batch)


def _chunk_of_pieces(
    sizes: np.ndarray, ids: np.ndarray, trained: Mapping[str, np.ndarray], pieces: Pieces, total: "_Totals"
) -> Chunk:
    """Return the contents of the pieces that a rule leaves of some sequences; count their labels in `total`."""
    documents, offsets, lengths = pieces
    starts = np.cumsum(sizes) - sizes
    slots = ranges(starts[documents] + offsets, lengths)
    trained_of_pieces = {name: bits[slots] for name, bits in trained.items()}
    chunk = _chunk_with_ends(ids[slots], lengths, trained_of_pieces, total.counts)
    if trained:
        labels_before = Contents([chunk_of(ids, sizes, trained)]).trained()  # of each sequence
        labels_of_pieces = Contents([chunk]).trained()
        labels_after = np.bincount(documents, labels_of_pieces, len(sizes))
        has_pieces = np.bincount(documents, minlength=len(sizes)) > 0
        total.labels += int(labels_before.sum(dtype=np.int64))
        total.labels_kept += int(labels_of_pieces.sum(dtype=np.int64))
        total.unlabeled += int(np.count_nonzero(has_pieces & (labels_before > 0) & (labels_after == 0)))
    return chunk


def _chunk_with_ends(
    ids: np.ndarray, lengths: np.ndarray, trained: Mapping[str, np.ndarray], counts: TokenCounts | None
) -> Chunk:
    """Return the contents of sequences, with the last token of each as `ends`.

    With `counts`, the tokens are counted there, and the contents have `begins`, which find sequences in bare rows.
    """
    last_tokens = ids[np.cumsum(lengths) - 1] if len(ids) else np.zeros(0, np.int64)
    chunk = chunk_of(ids, lengths, trained)._replace(ends=last_tokens)
    if counts is None:
        return chunk
    counts.add(ids, lengths, trained)
    return chunk._replace(begins=first_tokens(ids, lengths))


@dataclass
class _Totals:
    """Running totals of a source while it is read.

    Attributes:
        longer: sequences that were cut by the rule.
        labels, labels_kept: labels of the source, and of what the rule leaves of it.
        unlabeled, in_place, ahead, counts: as in `Cut` and `ReadSource`; counts is `token_counts` there.
    """

    sequences: int = 0
    tokens: int = 0
    longer: int = 0
    labels: int = 0
    labels_kept: int = 0
    unlabeled: int = 0
    in_place: int = 0
    ahead: int = 0
    counts: TokenCounts | None = None


def _tables(source: Any) -> list[Table]:
    """Return the tables of a source; none for lengths in Python, and for files of lengths alone."""
    if isinstance(source, LengthHistogram):
        return []
    if isinstance(source, str | os.PathLike):
        path = at_home(source)
        if path.is_dir() or any(mark in os.fspath(source) for mark in "*?[") or path.is_file():
            return tables_of(source, _SEQUENCES) or []
        return []
    are_several_files = (
        isinstance(source, list | tuple)
        and bool(source)
        and all(isinstance(part, str | os.PathLike) for part in source)
    )
    is_data_set = hasattr(source, "with_format")
    return (tables_of(source, _SEQUENCES) or []) if are_several_files or is_data_set else []


def _is_no_lengths(table: Table) -> bool:
    """Return True if `packlib.lengths.load` cannot read the file of a table."""
    return table.path is None or table.path.suffix.lower() not in (".parquet", ".pq", ".json")


def _holds_tokens(table: Table, column: str) -> bool:
    """Return True if a table has lists of whole numbers in a column."""
    if column not in table.schema.names:
        return False
    kind = table.schema.field(column).type
    return is_list(kind) and pa.types.is_integer(kind.value_type)


def _by_lengths(source: LengthHistogram, rule: CutRule | None, max_length: int) -> ReadSource:
    """Return a source without tokens, cut by a rule if one was meant."""
    if rule is None:
        return ReadSource(source.num_sequences, source.num_tokens, source)
    lengths = np.flatnonzero(source.counts)
    documents, _, piece_lengths = CUTS[rule](lengths, max_length)
    counts = np.zeros(max(int(piece_lengths.max(initial=0)), 1) + 1, np.int64)
    np.add.at(counts, piece_lengths, source.counts[lengths[documents]])
    lengths_left = LengthHistogram(counts)
    longer = int(source.counts[max_length + 1 :].sum())
    cut = Cut(rule, max_length, longer, source.num_tokens - lengths_left.num_tokens, None, None)
    return ReadSource(source.num_sequences, source.num_tokens, lengths_left, None, cut)
