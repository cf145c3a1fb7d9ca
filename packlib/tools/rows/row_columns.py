"""`ColumnReader`: sequences of the batches of a data set, with their columns, masks of the loss and labels.

Each step has a file of its own: `tokenizing.py` makes tokens of texts, `row_borders.py` takes rows
apart that hold several sequences, `column_values.py` checks columns, `mask_columns.py` reads masks of the loss,
`cutting.py` cuts what is too long, `token_labels.py` counts the labels, and `books.py` adds all of these up.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from packlib.arguments import function, listed, shown
from packlib.lengths.overlong import Overlong
from packlib.lengths.own_files import refuse_same_names
from packlib.tools.rows.books import Books
from packlib.tools.rows.column_values import (
    BatchRows,
    Columns,
    ColumnValues,
    KnownColumns,
    checked_values,
    lengths_of,
    refuse_columns_of_others,
    refuse_hidden_tokens,
    refuse_rows_without_tokens,
    with_one_kind_of_text,
)
from packlib.tools.rows.cutting import Pieces, columns_of, pieces_by_rule, uncut_pieces
from packlib.tools.rows.loss_masks import MaskWord, unknown_column
from packlib.tools.rows.mask_columns import MaskReader, Trained
from packlib.tools.rows.row_borders import BORDERS, taken_apart
from packlib.tools.rows.second_budget import refuse_over_budget
from packlib.tools.rows.token_labels import IGNORED, TRAINED, LabeledTokens, labeled_tokens
from packlib.tools.rows.tokenizing import SOURCES, tokenized


class Sequences(NamedTuple):
    """Sequences that were read from a batch.

    Attributes:
        lengths: tokens of each; int64, shape (sequences,).
        columns: their columns; one column `TRAINED`, of bool, is in place of all masks of the loss.
        label_counts: for each sequence how many of its tokens a model is trained to predict; int64, shape
            (sequences,). 0 if the packs have no labels.
    """

    lengths: np.ndarray
    columns: Columns
    label_counts: np.ndarray


class ColumnReader:
    """Reads the batches of a data set, one after the other, as sequences.

    The reader checks the data and the `tokenizer`; its callers have checked the other arguments.

    Args:
        tokenizer: a tokenizer of transformers that makes tokens of `messages` or `text`, or None.
        labels: as in `pack_dataset`.
        max_length, overlong: as in `pack_dataset`; without a maximum all of each sequence is returned.
        masks, drop_unlabeled, second_budget: as in `pack_dataset`.

    Attributes:
        became: what became of each column, in words, by name, in the order in which the columns came.
        rows: number of sequences that were read, before any is cut or left out.
        overlong: how many of them were too long.
        books: the sequences, tokens and labels that were read, and those that are packed.
        leave_out: the columns that `masks` drops, and whether each was seen in the data.
    """

    def __init__(
        self,
        tokenizer: Any = None,
        labels: bool = True,
        max_length: float = math.inf,
        overlong: Overlong = "error",
        masks: Mapping[str, MaskWord] | None = None,
        drop_unlabeled: bool = False,
        second_budget: tuple[str, int] | None = None,
    ) -> None:
        self._tokenizer = (
            None if tokenizer is None else function("tokenizer", tokenizer, "a tokenizer of transformers")
        )
        self._labels = labels
        self._max_length = max_length
        self._overlong_rule = overlong
        self._drop_unlabeled = drop_unlabeled
        self._second_budget = second_budget
        self._named = dict(masks or {})
        if second_budget:
            self._named.setdefault(second_budget[0], "keep")  # so that no error asks whether it is a mask

        self.became = dict[str, str]()
        self.rows = 0
        self.overlong = 0
        self.books = Books()
        self.leave_out = {name: False for name, word in self._named.items() if word == "drop"}
        self._known = KnownColumns()  # the columns of the data set, before tokens are made of texts
        self._read_names = set[str]()  # the columns once tokens are made, among them those that a tokenizer adds
        self._unread_fields = set[str]()  # of messages: those that the chat template does not name
        self._masks = MaskReader(self._named)
        self._data_has_label = False  # whether a token has a label in a column 'labels' of the data set

    @property
    def masks(self) -> list[str]:
        """The columns that were read as masks of the loss."""
        return self._masks.names

    def read(self, batch: pa.RecordBatch) -> Sequences:
        """Return the sequences of the next batch.

        Raises:
            TypeError, ValueError: naming the column that no pack can carry, or the first row that is wrong.
        """
        batch = self._checked_names(batch)
        batch = self._with_tokens(batch)
        batch = self._taken_apart(batch)
        rows = BatchRows(self.rows, lengths_of("input_ids", batch.column("input_ids"), self.rows))
        columns, trained = self._columns_and_masks(batch, rows)
        pieces, label_counts = self._cut(rows, columns, trained)
        is_whole = np.array_equal(pieces.sizes, rows.lengths)  # nothing was cut or left out
        self._masks.count_packed(trained, None if is_whole else pieces.tokens)
        self.rows += len(rows.lengths)
        return Sequences(pieces.sizes, columns if is_whole else columns_of(pieces, columns), label_counts)

    def _checked_names(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the columns that `masks` drops, and with one type of text.

        Raises:
            ValueError: naming a column that is there twice, is not in all batches, or that no pack can carry.
        """
        refuse_same_names("The data set", batch.schema.names)
        batch = with_one_kind_of_text(self._without_dropped(batch))
        self._known.refuse_other_names(set(batch.schema.names), self.rows)
        refuse_columns_of_others(batch.schema.names)
        return batch

    def _without_dropped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the columns that `masks` drops; note in `leave_out` which of them it had."""
        dropped = [name for name in batch.schema.names if name in self.leave_out]
        self.leave_out |= dict.fromkeys(dropped, True)
        return batch.drop_columns(dropped) if dropped else batch

    def _with_tokens(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with `input_ids`, made of texts or chats if there is a tokenizer."""
        names = batch.schema.names
        if self._tokenizer is not None:
            batch, sources_became = tokenized(batch, self._tokenizer, self._labels, self.rows, self._unread_fields)
            # the sources first, and with the words about the newest batch: it may have parts that others have not
            self.became = sources_became | self.became | sources_became
        elif "input_ids" not in names:
            cure = "; a tokenizer (--tokenizer) makes them of chats and texts" if set(names) & set(SOURCES) else ""
            raise ValueError(f"The data set has no column input_ids; it has {listed(names) or 'none'}{cure}.")
        batch = self._without_dropped(batch)  # again: a mask that the tokenizer has made may be one to drop
        self._read_names.update(batch.schema.names)
        refuse_rows_without_tokens(batch.column("input_ids"), self.rows)
        return batch

    def _taken_apart(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with one sequence in each row, whatever number of sequences its rows have now."""
        for name in BORDERS:
            if name in batch.schema.names:
                self.became[name] = "says where the sequences of a row end, and is made anew"
        budget_column = self._second_budget[0] if self._second_budget else None
        return taken_apart(batch, self.rows, budget_column)

    def _columns_and_masks(self, batch: pa.RecordBatch, rows: BatchRows) -> tuple[Columns, Trained]:
        """Return the columns that packs have, and the masks of the loss.

        If there are masks, both have `TRAINED` too: whether all masks let a token be trained on.
        """
        columns: Columns = {}
        trained: Trained = {}
        has_labels = self._labels or "labels" in batch.schema.names
        for name in batch.schema.names:
            column = checked_values(name, batch.column(name), rows, self._known)
            if name == "attention_mask":
                refuse_hidden_tokens(column.values, rows)
                self.became[name] = "left out, since it is 1 for all tokens"
            elif self._masks.is_mask(name):
                trained[name] = self._masks.read(name, column, rows, has_labels)
            else:
                self._masks.ask_about(name, column)
                columns[name] = column
                self.became.setdefault(name, f"a value for each {'token' if column.by_token else 'sequence'}")
        if self._second_budget:
            refuse_over_budget(*self._second_budget, columns, self.rows)
        if trained:
            trained[TRAINED] = self._masks.agreed(trained, columns, rows)
            columns[TRAINED] = ColumnValues(pa.array(trained[TRAINED]), by_token=True)
        return columns, trained

    def _cut(self, rows: BatchRows, columns: Columns, trained: Trained) -> tuple[Pieces, np.ndarray]:
        """Return the pieces of sequences that are packed, and how many labels each has; enter both in the books."""
        self._refuse_overlong(rows)
        labeled = labeled_tokens(columns, trained.get(TRAINED), self._labels)
        if labeled is not None and "labels" in columns:
            self._data_has_label |= labeled.any()

        packed = uncut_pieces(rows)
        label_counts = _label_counts(packed, labeled)
        self.books.labeled = labeled is not None
        self.books.data.add(rows.lengths, label_counts)
        for rule, pieces in pieces_by_rule(rows, self._max_length).items():  # each rule, to compare what they keep
            counts_by_rule = _label_counts(pieces, labeled)
            self.books.labels_kept_by_rule[rule] += int(counts_by_rule.sum())
            if rule == self._overlong_rule:
                packed, label_counts = pieces, counts_by_rule
        if self._drop_unlabeled:
            if labeled is None:
                raise ValueError("drop_unlabeled must be False where there are no labels for tokens.")
            has_label = label_counts > 0
            self.books.left_out += int(np.count_nonzero(~has_label))
            packed, label_counts = packed.chosen(has_label), label_counts[has_label]
        self.books.packed.add(packed.sizes, label_counts)
        return packed, label_counts

    def _refuse_overlong(self, rows: BatchRows) -> None:
        """Count the sequences that are too long; raise a ValueError naming the first, unless a rule says what to do."""
        is_overlong = rows.lengths > self._max_length
        self.overlong += int(is_overlong.sum())
        if self._overlong_rule == "error" and is_overlong.any():
            row = int(is_overlong.argmax())
            raise ValueError(
                f"Row {self.rows + row} of the data set has {rows.lengths[row]} tokens; the maximum is "
                f'{self._max_length}: pass a larger max_length, or overlong="truncate", "drop" or "split".'
            )

    def add(self, later: "ColumnReader") -> None:
        """Add what another process has read to what this one has, as the part of the data that comes next.

        Raises:
            TypeError, ValueError: naming the column that has another type there, or is in one part only.
        """
        if not later.rows:
            return
        self._known.add(later._known, self.rows)
        self.became |= later.became
        self.overlong += later.overlong
        self.rows += later.rows
        self.books.add(later.books)
        self._masks.add(later._masks)
        self._data_has_label |= later._data_has_label
        self._read_names |= later._read_names
        self.leave_out = {name: was_found or later.leave_out[name] for name, was_found in self.leave_out.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that another process needs for `add`, so not the tokenizer."""
        return vars(self) | {"_tokenizer": None}

    def ask(self) -> None:
        """Ask by a ValueError what a column means that may be a mask of the loss, as it was 0 and 1 until now.

        A name in `masks` that no column has is a ValueError, too.
        """
        names_there = self._read_names | {name for name, was_found in self.leave_out.items() if was_found}
        missing = [name for name in self._named if name not in names_there]
        if self.rows and missing:
            raise unknown_column(missing[0], self._named[missing[0]], "the data set", sorted(names_there))
        self._masks.ask()

    def finish(self) -> dict[str, str]:
        """Return what became of each column, in words, by name.

        Raises:
            ValueError: naming the mask, the labels or the rule that leave no token to be trained on; or the column of
                0 and 1 that may be a mask.
        """
        self.ask()
        self.became |= {name: "left out, as you say" for name in self.leave_out}
        self.became |= self._masks.finish(self.books.packed.tokens)
        if self._labels:
            if self.books.labeled and self.rows:
                self._refuse_no_labels()
            self.became.setdefault("labels", "made for a causal model, with -100 for the first token of each sequence")
        return self.became

    def _refuse_no_labels(self) -> None:
        """Raise a ValueError if the data set says which tokens are trained on, and none is left."""
        data, packed = self.books.data, self.books.packed
        if not data.labels and self.masks:
            raise ValueError(
                f"The column {shown(self.masks[0])} lets only the first token of each sequence be trained on, which "
                "nothing predicts."
            )
        if not data.labels and "labels" in self._known.names:
            but_the_first = " but the first of each sequence, which nothing predicts" if self._data_has_label else ""
            raise ValueError(
                f"The column 'labels' is {IGNORED} for all tokens{but_the_first}, so that none would be trained on."
            )
        if data.labels and packed.sequences and not packed.labels:
            labels_kept = self.books.labels_kept_by_rule
            best_rule = max(labels_kept, key=lambda rule: labels_kept[rule])
            raise ValueError(
                f'overlong="{self._overlong_rule}" cuts away all {data.labels:,} labels: "{best_rule}" keeps '
                f"{labels_kept[best_rule]:,} of them."
            )


def _label_counts(pieces: Pieces, labeled: LabeledTokens | None) -> np.ndarray:
    """Return the number of labels in each piece; int64, shape (pieces,). All are 0 where `labeled` is None."""
    if labeled is None:
        return np.zeros(len(pieces.sizes), np.int64)
    return labeled.count(pieces.starts, pieces.sizes)
