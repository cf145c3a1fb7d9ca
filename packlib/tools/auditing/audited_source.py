"""What was packed: its sequences with their tokens, and which of these are trained on; or their lengths alone."""

import os
from collections.abc import Mapping
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

_SEQUENCES = "whole file of sequences"
_SHAPE = ("attention_mask", "seq_lengths")  # which tell padding and sequences, and not what is trained on


@dataclass(frozen=True)
class Cut:
    """Counts of sequences that were too long, by the rule that the caller meant for them.

    Attributes:
        rule: "split", "truncate" or "drop".
        max_length: tokens of the longest sequence that stays as it is.
        sequences: how many were longer.
        tokens: of the source that are then in no pack.
        labels: of the source that are then not trained on, since they are cut, or since their token comes first in a
            piece, where nothing predicts it; None if the source does not say which tokens are trained on.
        unlabeled: sequences that had a label, and of which what is left has none.
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
        sequences, tokens: of the source itself.
        lengths: of what the packs should hold.
        contents: of what the packs should hold; None where the source has no tokens.
        cut: what of the source they need not hold; None if nothing was said of that.
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
        packs_columns: what the columns of the packs are called here, with their names in the file.

    Attributes:
        has_tokens: whether the tokens of each sequence are known.
        trained: the columns that say which tokens are trained on.
        unread, there: the columns that are not looked at, and all.

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
        self._names = dict[str, str]()
        self.unread = list[str]()
        for number, table in enumerate(self._tables):
            names = names_in(table.schema.names, columns, masks)
            tokens = column or names.get("input_ids") or packs_columns.get("input_ids", "input_ids")
            lists = {
                column_name for column_name in table.schema.names if is_list(table.schema.field(column_name).type)
            }
            names = {
                name: column_name
                for name, column_name in names.items()
                if column_name in lists and (name in ("labels", *_SHAPE) or name in self._words)
            }
            names = {"input_ids": tokens} | {
                name: column_name for name, column_name in names.items() if column_name != tokens
            }
            if tokens not in table.schema.names and (
                len(self._tables) > 1 or table.path is None or _is_no_lengths(table)
            ):
                raise ValueError(
                    f"{table.name} has no column {named(tokens)}; it has {listed(table.schema.names) or 'none'}: name "
                    "that of the tokens, or of the lengths, by column (--column)."
                )
            if number and names != self._names:
                odd, _ = min(set(names.items()) ^ set(self._names.items()))
                has, lacks = (table, self._tables[0]) if odd in names else (self._tables[0], table)
                raise ValueError(f"{lacks.name} has no column {odd}, which {has.name} has: all need the same.")
            self._names = names
            self.unread = [column_name for column_name in table.schema.names if column_name not in names.values()]
        self.has_tokens = bool(self._tables) and all(
            _holds_tokens(table, self._names["input_ids"]) for table in self._tables
        )
        trained = [name for name in self._names if name not in ("input_ids", *_SHAPE)]
        self.trained = trained if self.has_tokens else []
        self.there = {name for table in self._tables for name in table.schema.names}

    def read(self, keep_contents: bool, rule: CutRule | None, max_length: int, bare: bool = False) -> ReadSource:
        """Read all sequences.

        Args:
            keep_contents: whether to return their contents.
            bare: whether to keep what finds them in rows that do not tell where sequences begin.
            rule, max_length: what became of longer sequences, and the tokens that a sequence may have; None if nothing
                is known of that.
        """
        if not self.has_tokens:
            return _by_lengths(self._lengths(), rule, max_length)
        total = _Totals(counts=TokenCounts() if bare else None)
        chunks = list[Chunk]()
        lengths_by_batch = [np.empty(0, np.int64)]
        for table in self._tables:
            first_row = 0
            with table.naming():
                for batch in table.read(list(dict.fromkeys(self._names.values()))):
                    columns = columns_of(batch, self._names, self._words, first_row)
                    self._refuse_empty(
                        columns["input_ids"][0], first_row, table.name if len(self._tables) > 1 else "source"
                    )
                    columns = self._sequences(columns, first_row)
                    sizes, ids = columns["input_ids"]
                    trained = self._trained(columns, total)
                    pieces = None if rule is None else CUTS[rule](sizes, max_length)
                    lengths, chunk = self._chunk(sizes, ids, trained, pieces, max_length, total, keep_contents)
                    lengths_by_batch.append(lengths)
                    if keep_contents and chunk is not None:
                        chunks.append(chunk)
                    first_row += batch.num_rows
        lengths = np.concatenate(lengths_by_batch)
        cut = None
        if rule is not None:
            with_labels = bool(self.trained)
            cut = Cut(
                rule, max_length, total.longer, total.tokens - int(lengths.sum()),
                total.labels - total.labels_kept if with_labels else None, total.unlabeled if with_labels else None,
            )  # fmt: skip
        histogram = LengthHistogram.from_lengths(lengths)
        contents = Contents(chunks) if keep_contents else None
        return ReadSource(
            total.sequences, total.tokens, histogram, contents, cut, total.in_place, total.ahead, total.counts
        )

    def _refuse_empty(self, sizes: np.ndarray, first_row: int, name: str) -> None:
        as_lengths(sizes, lambda i: f"row {first_row + i} of {name}")

    def _sequences(self, columns: Columns, first_row: int) -> Columns:
        """Return the columns by token, without padding; rows are taken apart where they hold several sequences."""
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
        """Mark the tokens that are trained on, by column."""
        sizes, _ = columns["input_ids"]
        starts, trained = np.cumsum(sizes) - sizes, dict[str, np.ndarray]()
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
        """Return the lengths and the contents of what packs should hold of some sequences."""
        first_sequence, starts = total.sequences, np.cumsum(sizes) - sizes
        total.sequences += len(sizes)
        total.tokens += int(sizes.sum())
        longer = sizes > max_length
        if pieces is None or not longer.any():
            chunk = (
                _chunk_with_ends(ids, sizes, trained, total.counts)
                if keep_contents or (trained and pieces is not None)
                else None
            )
            if chunk is not None and pieces is not None:
                labels = Contents([chunk]).trained().sum(dtype=np.int64) if trained else 0
                total.labels += int(labels)
                total.labels_kept += int(labels)
                chunk = chunk._replace(documents=np.arange(first_sequence, first_sequence + len(sizes)))
            return sizes, chunk
        documents, offsets, lengths = pieces
        slots = ranges(starts[documents] + offsets, lengths)
        of_pieces = {name: bits[slots] for name, bits in trained.items()}
        chunk = _chunk_with_ends(ids[slots], lengths, of_pieces, total.counts)
        total.longer += int(longer.sum())
        if trained:
            labels_of_source = Contents([chunk_of(ids, sizes, trained)]).trained()
            labels_of_pieces = Contents([chunk]).trained()
            of_documents = np.bincount(documents, labels_of_pieces, len(sizes))
            total.labels += int(labels_of_source.sum(dtype=np.int64))
            total.labels_kept += int(labels_of_pieces.sum(dtype=np.int64))
            is_there = np.bincount(documents, minlength=len(sizes)) > 0
            total.unlabeled += int(np.count_nonzero(is_there & (labels_of_source > 0) & (of_documents == 0)))
        return lengths, chunk._replace(documents=first_sequence + documents)

    def _lengths(self) -> LengthHistogram:
        """Return the lengths of a source without tokens."""
        source = self._source
        if isinstance(source, LengthHistogram):
            return source
        parquet = (
            len(self._tables) == 1 and isinstance(source, str | os.PathLike) and not _is_no_lengths(self._tables[0])
        )
        if self._tables and not parquet:
            return LengthHistogram.from_lengths(np.concatenate([*map(self._lengths_of_table, self._tables)]))
        if not isinstance(source, str | os.PathLike):
            return LengthHistogram.from_lengths(as_lengths(source, noun="Source length"))
        if at_home(source).suffix == ".idx":
            return LengthHistogram.from_lengths(
                np.concatenate([rows.used for rows in open_packed(source).rows(False)])
            )
        return load_argument("source", source, column=self._column)

    def _lengths_of_table(self, table: Table) -> np.ndarray:
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


def _chunk_with_ends(
    ids: np.ndarray, lengths: np.ndarray, trained: Mapping[str, np.ndarray], counts: TokenCounts | None
) -> Chunk:
    """Keep the contents and the last token of each sequence; with `counts`, also what finds it in bare rows."""
    last_tokens = ids[np.cumsum(lengths) - 1] if len(ids) else np.zeros(0, np.int64)
    chunk = chunk_of(ids, lengths, trained)._replace(ends=last_tokens)
    if counts is None:
        return chunk
    counts.add(ids, lengths, trained)
    return chunk._replace(begins=first_tokens(ids, lengths))


@dataclass
class _Totals:
    """Running totals of a source while it is read."""

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
    several = (
        isinstance(source, list | tuple)
        and bool(source)
        and all(isinstance(part, str | os.PathLike) for part in source)
    )
    return (tables_of(source, _SEQUENCES) or []) if several or hasattr(source, "with_format") else []


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
