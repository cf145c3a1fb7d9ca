"""What the columns of a data set are to packing: tokens, masks of the loss, borders, or one value for each sequence."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packlib.arguments import function, listed, one_line, percent, shown
from packlib.lengths.overlong import Overlong
from packlib.lengths.own_files import refuse_doubles
from packlib.packing.documents import CUTS
from packlib.packing.ragged import ranges
from packlib.tools.rows.books import Books, LabeledTokens
from packlib.tools.rows.loss_masks import (
    LOSS_MASKS,
    UNTRAINED,
    MaskWord,
    ask_about_labels,
    ask_about_sequences,
    ask_about_weights,
    ask_for_a_word,
    drop_option,
    first_disagreement,
    holds_weights,
    is_about_sequences,
    mask_option,
    mask_words,
    may_be_a_mask,
    trained_tokens,
    unknown_column,
)
from packlib.tools.rows.second_budget import refuse_above, refuse_other_numbers
from packlib.tools.rows.tokenizing import SOURCES, tokenized

Read: TypeAlias = dict[str, tuple[pa.Array, bool]]  # values laid end to end, and whether each token has one
IGNORED = -100  # as in packlib.batches, which loads torch
TRAINED = "(trained)"  # the column that stands for all masks of the loss once they are read
Layout = Literal["packlib", "nemo"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
NEMO_READS = "input_ids", "labels"  # and the masks of the loss
BORDERS = ("seq_lengths", "position_ids")  # of the sequences of a row
_PAIRS = [f"{which}{of}" for which in ("chosen", "rejected") for of in ("", "_ids", "_input_ids")]
_IMAGES = ["image", "images", "video", "videos", "pixel_values", "pixel_values_videos", "image_grid_thw"]
_REFUSED = dict.fromkeys(_PAIRS, "pairs of answers, which a pack cannot keep together")
_REFUSED |= dict.fromkeys(_IMAGES, "images, which a pack of tokens cannot carry")
_REFUSED["seq_start_id"] = "rows that were packed for NeMo, which must be packed from their sequences"


class Sequences(NamedTuple):
    """Sequences that were read.

    Attributes:
        lengths: tokens of each.
        columns: the values of each column laid end to end, with whether there is one for each token.
        labels: labels of each, the tokens that a model is trained to predict; 0 where there are none at all.
    """

    lengths: np.ndarray
    columns: Read
    labels: np.ndarray


class _Pieces(NamedTuple):
    """Pieces of sequences that are laid end to end: of which sequence, from which token on, and how many tokens."""

    sequences: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray


def _labels_of(pieces: _Pieces, labeled: LabeledTokens | None) -> np.ndarray:
    return np.zeros(len(pieces.sizes), np.int64) if labeled is None else labeled.of(pieces.starts, pieces.sizes)


class ColumnReader:
    """Reads the batches of a data set, one after the other, as sequences.

    Args:
        tokenizer: a tokenizer of transformers that makes tokens of `messages` or `text`, or None.
        labels: as in `pack_dataset`.
        max_length, overlong: as in `pack_dataset`; without a maximum all of each sequence is returned.
        masks, drop_unlabeled, second_budget: as in `pack_dataset`.

    Attributes:
        found: what became of each column, by name, in the order in which they came.
        rows: how many sequences were read.
        overlong: how many of them were too long.
        books: the sequences, tokens and labels that were read, and those that are packed.
        leave_out: the columns that `masks` drops, and whether each was found.
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
        self.found = dict[str, str]()
        self.overlong = 0
        self.books = Books()
        self._drop_unlabeled = drop_unlabeled
        self._tokenizer = (
            None if tokenizer is None else function("tokenizer", tokenizer, "a tokenizer of transformers")
        )
        self._labels = labels
        self._max_length = max_length
        self._how = overlong
        self._unread = set[str]()  # parts of messages
        self._names, self._kinds = set[str](), dict[str, pa.DataType]()
        self.rows = 0
        self._second_budget = second_budget
        self._named = mask_words(masks)
        if second_budget:
            self._named.setdefault(second_budget[0], "keep")  # so that nobody is asked what it is
        self.leave_out = {name: False for name, word in self._named.items() if word == "drop"}
        self._seen = set[str]()
        self._words: dict[str, MaskWord] = LOSS_MASKS | self._named
        self._binary = dict[str, bool]()  # of each unknown column with numbers for tokens: are all of them 0 and 1?
        self._trained = dict[str, int]()  # how many tokens a mask leaves to be trained on
        self._packed = dict[str, int]()  # how many of these are in the packs
        self._given_label = False  # whether the labels of the data set have one

    def read(self, batch: pa.RecordBatch) -> Sequences:
        """Return the next sequences. One column `TRAINED`, of bool, is in place of all masks of the loss.

        Raises:
            TypeError, ValueError: naming the column that no pack can carry, or the first row that is wrong.
        """
        names = batch.schema.names
        refuse_doubles("The data set", names)
        batch = _one_kind_of_text(self._without_dropped(batch))
        names = batch.schema.names
        self._same_names(set(names))
        if refused := [name for name in names if name in _REFUSED]:
            raise ValueError(
                f"The column {shown(refused[0])} belongs to {_REFUSED[refused[0]]}: {drop_option(refused[0])}, or "
                "rename it if it holds something else."
            )
        if self._tokenizer is not None:
            batch, said = tokenized(batch, self._tokenizer, self._labels, self.rows, self._unread)
            self.found = said | self.found | said  # first, and as the newest batch has it
        elif "input_ids" not in names:
            more = "; a tokenizer (--tokenizer) makes them of chats and texts" if set(names) & set(SOURCES) else ""
            raise ValueError(f"The data set has no column input_ids; it has {listed(names) or 'none'}{more}.")
        batch = self._without_dropped(batch)
        self._seen.update(batch.schema.names)
        refuse_other_lists("input_ids", batch.column("input_ids").type)
        if (empty := lengths_of("input_ids", batch.column("input_ids"), self.rows) == 0).any():
            raise ValueError(f"Row {self.rows + int(empty.argmax())} of the data set has no token.")
        batch = self._apart(batch)
        lengths = lengths_of("input_ids", batch.column("input_ids"), self.rows)
        begins = np.cumsum(lengths) - lengths
        read, trained = {}, {}
        for name in batch.schema.names:
            values, by_token = self._checked(name, batch.column(name), lengths), is_list(batch.column(name).type)
            if name == "attention_mask":
                if not set(pc.min_max(values).as_py().values()) <= {1, None}:
                    row = self._row(int((np.asarray(values) != 1).argmax()), lengths)
                    raise ValueError(f"attention_mask of row {row} hides tokens: give sequences without padding.")
                self.found[name] = "left out, since it is 1 for all tokens"
                continue
            word = self._words.get(name, "keep")
            if word != "keep":
                trained[name] = trained_tokens(word, self._mask(name, values, by_token, lengths), begins)
                self._trained[name] = self._trained.get(name, 0) + int(np.count_nonzero(trained[name]))
                continue
            if name not in self._named:
                self._ask_about(name, values, by_token)
            read[name] = values, by_token
            self.found.setdefault(name, f"a value for each {'token' if by_token else 'sequence'}")
        if self._second_budget:
            self._check_second_budget(read, *self._second_budget)
        together = self._agreed(trained, read, begins, lengths) if trained else None
        if together is not None:
            read[TRAINED] = pa.array(together), True
            trained[TRAINED] = together
        packed = self._packed_of(lengths, read, trained)
        self.rows += len(lengths)
        return packed

    def _check_second_budget(self, read: Read, name: str, budget: int) -> None:
        """Raise an error unless a column says what each sequence takes of the second budget, and each fits into it."""
        values, by_token = read.get(name, (None, False))
        if values is None:
            raise ValueError(
                f"second_budget names {shown(name)}, which must be a column with a whole number for each sequence; "
                f"the data set has {listed(read)}."
            )
        refuse_other_numbers(name, pa.list_(values.type) if by_token else values.type)
        refuse_above(name, budget, values.to_numpy(zero_copy_only=False), self.rows)

    def _packed_of(self, lengths: np.ndarray, read: Read, trained: dict[str, np.ndarray]) -> Sequences:
        """Cut, split or leave out the sequences that are too long or have no label; return those that are packed."""
        longer = lengths > self._max_length
        self.overlong += int(longer.sum())
        if self._how == "error" and longer.any():
            at = int(longer.argmax())
            raise ValueError(
                f"Row {self.rows + at} of the data set has {lengths[at]} tokens; the maximum is {self._max_length}: "
                'pass a larger max_length, or overlong="truncate", "drop" or "split".'
            )
        labeled, begins = self._labeled_tokens(read, trained), np.cumsum(lengths) - lengths
        self.books.labeled = labeled is not None
        uncut = _Pieces(np.arange(len(lengths)), begins, lengths)
        self.books.data.add(lengths, _labels_of(uncut, labeled))
        kept = uncut
        for rule, cut in CUTS.items():
            pieces = uncut
            if longer.any():
                sequences, before, sizes = cut(lengths, int(self._max_length))
                pieces = _Pieces(sequences, begins[sequences] + before, sizes)
            self.books.kept_by_rule[rule] += int(_labels_of(pieces, labeled).sum())
            if rule == self._how:
                kept = pieces
        labels = _labels_of(kept, labeled)
        if self._drop_unlabeled:
            if labeled is None:
                raise ValueError("drop_unlabeled must be False where there are no labels for tokens.")
            has_label = labels > 0
            self.books.left_out += int(np.count_nonzero(~has_label))
            kept, labels = _Pieces(*(column[has_label] for column in kept)), labels[has_label]
        self.books.packed.add(kept.sizes, labels)
        tokens: Any = slice(None)
        if not np.array_equal(kept.sizes, lengths):  # something was cut or left out
            tokens = ranges(kept.starts, kept.sizes)
            taken = {True: pa.array(tokens), False: pa.array(kept.sequences)}
            read = {name: (values.take(taken[by_token]), by_token) for name, (values, by_token) in read.items()}
        for name, mask in trained.items():
            self._packed[name] = self._packed.get(name, 0) + int(np.count_nonzero(mask[tokens]))
        return Sequences(kept.sizes, read, labels)

    def _labeled_tokens(self, read: Read, trained: dict[str, np.ndarray]) -> LabeledTokens | None:
        """Return the tokens that have a label; None if the packs have none, or one for each sequence."""
        mask, labels_read = trained.get(TRAINED), read.get("labels")
        if labels_read is None:
            are_made = self._labels or mask is not None
            return LabeledTokens(mask) if are_made else None
        if not labels_read[1]:
            if mask is not None:
                raise ValueError(
                    "The column 'labels' must have a value for each token, beside a mask of the loss: leave it out by "
                    f"masks={{'labels': 'drop'}} ({mask_option('labels', 'drop')})."
                )
            return None
        labels, ids = (read[name][0].to_numpy() for name in ("labels", "input_ids"))
        labeled = labels != IGNORED if mask is None else (labels != IGNORED) & mask
        self._given_label = self._given_label or bool(labeled.any())
        if not self._labels:  # those of a masked model
            return LabeledTokens(labeled, lambda starts: np.ones(len(starts), bool))
        return LabeledTokens(labeled, lambda starts: labels[starts] != ids[starts])  # where it is no token of the row

    def add(self, other: "ColumnReader") -> None:
        """Count what another process has read as what comes next.

        Raises:
            TypeError, ValueError: naming the column that is not as it was.
        """
        if not other.rows:
            return
        self._same_names(other._names)
        for name, kind in other._kinds.items():
            self._same_kind(name, kind)
        self.found |= other.found
        self.overlong += other.overlong
        self.rows += other.rows
        self.books.add(other.books)
        self._given_label |= other._given_label
        self._seen |= other._seen
        self.leave_out = {name: was_found or other.leave_out[name] for name, was_found in self.leave_out.items()}
        for name, binary in other._binary.items():
            self._binary[name] = self._binary.get(name, True) and binary
        for counts, more_counts in ((self._trained, other._trained), (self._packed, other._packed)):
            for name, trained in more_counts.items():
                counts[name] = counts.get(name, 0) + trained

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that another process needs for `add`."""
        return vars(self) | {"_tokenizer": None}

    def finish(self) -> dict[str, str]:
        """Say of each column what became of it.

        Raises:
            ValueError: naming the mask, the labels or the rule that leave no token to be trained on; or the column of
                0 and 1 that may be a mask.
        """
        self.ask()
        self.found |= {name: "left out, as you say" for name in self.leave_out}
        for name, trained in self._trained.items():
            if name == TRAINED:
                continue
            where = UNTRAINED[self._words[name]]
            if not trained:
                raise ValueError(
                    f"The column {shown(name)} is {where} for all tokens, so that none would be trained on."
                )
            share = percent(1 - self._packed[name] / max(1, self.books.packed.tokens))
            counted = self._words[name] == "prompt" and not is_list(self._kinds[name])
            at = "for the first tokens that it counts" if counted else f"where it is {where}"
            self.found[name] = f"labels are -100 {at}, for {share} of the tokens"
        if self._trained.get(TRAINED) == 0:
            raise ValueError(f"No token is trained on by all of the columns {listed(self.masks)}.")
        self._refuse_no_labels()
        if self._labels:
            self.found.setdefault("labels", "made for a causal model, with -100 for the first token of each sequence")
        return self.found

    def _refuse_no_labels(self) -> None:
        """Raise a ValueError if the data set says which tokens are trained on, and none is left."""
        data, packed = self.books.data, self.books.packed
        if not (self._labels and self.books.labeled and self.rows):
            return
        if not data.labels and self.masks:
            raise ValueError(
                f"The column {shown(self.masks[0])} lets only the first token of each sequence be trained on, which "
                "nothing predicts."
            )
        if not data.labels and "labels" in self._names:
            first = " but the first of each sequence, which nothing predicts" if self._given_label else ""
            raise ValueError(
                f"The column 'labels' is {IGNORED} for all tokens{first}, so that none would be trained on."
            )
        if data.labels and packed.sequences and not packed.labels:
            best = max(self.books.kept_by_rule, key=lambda rule: self.books.kept_by_rule[rule])
            raise ValueError(
                f'overlong="{self._how}" cuts away all {data.labels:,} labels: "{best}" keeps '
                f"{self.books.kept_by_rule[best]:,} of them."
            )

    @property
    def masks(self) -> list[str]:
        """The columns that were read as masks of the loss."""
        return [name for name in self._trained if name != TRAINED]

    def _without_dropped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns without those that `masks` drops."""
        dropped = [name for name in batch.schema.names if name in self.leave_out]
        self.leave_out |= dict.fromkeys(dropped, True)
        return batch.drop_columns(dropped) if dropped else batch

    def _ask_about(self, name: str, values: pa.Array, by_token: bool) -> None:
        """Raise a ValueError if a column may say what is trained on, by its name; remember it if by its values."""
        kind = values.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            return
        if not by_token:
            if is_about_sequences(name):
                raise ValueError(ask_about_sequences(name))
            return
        if name in ("input_ids", "labels") or not may_be_a_mask(name):
            return
        if self._binary.get(name, True):
            numbers = values.to_numpy(zero_copy_only=False)
            self._binary[name] = bool(((numbers == 0) | (numbers == 1)).all())
        if pa.types.is_integer(kind) and pc.any(pc.equal(values, IGNORED)).as_py():
            raise ValueError(ask_about_labels(name))
        if not self._binary[name] and holds_weights(name):
            raise ValueError(ask_about_weights(name))

    def ask(self) -> None:
        """Raise a ValueError if a column may be a mask of the loss, as all that was read of it is 0 and 1; or if
        `masks` names one that is not there.
        """
        columns_there = self._seen | {name for name, is_there in self.leave_out.items() if is_there}
        if self.rows and (missing := [name for name in self._named if name not in columns_there]):
            raise unknown_column(missing[0], self._named[missing[0]], "the data set", sorted(columns_there))
        for name, binary in self._binary.items():
            if binary:
                raise ValueError(ask_for_a_word(name))

    def _agreed(
        self, trained: dict[str, np.ndarray], read: Read, begins: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """Return the mask of the tokens that all masks and the labels train on."""
        together = np.logical_and.reduce(list(trained.values()))
        self._trained[TRAINED] = self._trained.get(TRAINED, 0) + int(np.count_nonzero(together))
        named = {*self._named, "labels"}
        if "labels" in read and read["labels"][1]:
            trained = {"labels": read["labels"][0].to_numpy(zero_copy_only=False) != IGNORED} | trained
        if differ := first_disagreement(trained, named, begins):
            first_name, second_name, slot = differ
            row = self._row(slot, lengths)
            options = " ".join(
                mask_option(name, self._words[name]) for name in (first_name, second_name) if name != "labels"
            )
            token = slot - begins[np.searchsorted(begins, slot, side="right") - 1]
            raise ValueError(
                f"The columns {shown(first_name)} and {shown(second_name)} disagree in row {row} about token {token}: "
                f"one of them trains on it, the other does not. Leave one out by masks={{{second_name!r}: 'drop'}} "
                f"({mask_option(second_name, 'drop')}), or say what each mask means ({options}) to train on what both "
                "train on."
            )
        return together

    def _apart(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the sequences of rows that hold several, as `seq_lengths` say, or `position_ids` that start again."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        borders = {name: columns.pop(name) for name in BORDERS if name in columns}
        if not borders:
            return batch
        places = borders.get("position_ids")
        if places is not None and is_list(places.type) and pa.types.is_nested(places.type.value_type):
            raise TypeError(
                "The column position_ids holds positions of several axes, as of images, which no pack can carry: "
                "remove it, and let your collator make them for each sequence."
            )
        read = {name: whole_numbers(name, column, self.rows) for name, column in borders.items()}
        tokens = lengths_of("input_ids", columns["input_ids"], self.rows)
        if "position_ids" in read:
            self._same_lengths("position_ids", read["position_ids"][0], tokens)
        if "seq_lengths" in read:
            inside, lengths = read["seq_lengths"]
            row_of = np.repeat(np.arange(len(tokens)), inside)
            wrong = np.bincount(row_of, lengths, len(tokens)) != tokens
            wrong[row_of[lengths < 1]] = True
            if wrong.any():
                at = int(wrong.argmax())
                raise ValueError(
                    f"The seq_lengths of row {self.rows + at} must be from 1 up and add up to its {tokens[at]} tokens, "
                    f"not {shown(borders['seq_lengths'][at].as_py())}."
                )
        else:
            begins = read["position_ids"][1] == 0
            begins[np.cumsum(tokens) - tokens] = True
            starts = np.flatnonzero(begins)
            lengths = np.diff(starts, append=len(begins))
            row_of = np.searchsorted(np.cumsum(tokens), starts, side="right")
            inside = np.bincount(row_of)
        lengths = lengths.astype(np.int64)
        if "position_ids" in read and (wrong := read["position_ids"][1] != ranges(0 * lengths, lengths)).any():
            row = self._row(int(wrong.argmax()), tokens)
            raise ValueError(f"The position_ids of row {row} must count from 0 in each of its sequences.")
        self.found |= dict.fromkeys(borders, "says where the sequences of a row end, and is made anew")
        if len(lengths) > len(tokens):  # each row has one at least
            for name, column in columns.items():
                columns[name] = self._regrouped(name, column, tokens, inside, lengths, row_of)
        return pa.RecordBatch.from_pydict(columns)

    def _regrouped(
        self,
        name: str,
        column: pa.Array,
        tokens: np.ndarray,
        inside: np.ndarray,
        lengths: np.ndarray,
        row_of: np.ndarray,
    ) -> pa.Array:
        """Return a column of rows with `inside` sequences each, as one of sequences."""
        if not is_list(column.type):
            if self._second_budget and name == self._second_budget[0]:
                raise ValueError(
                    f"The column {shown(name)} of the second budget must have a list with a number for each sequence, "
                    "since rows hold several sequences."
                )
            return column.take(pa.array(row_of))
        sizes = lengths_of(name, column, self.rows)
        if (sizes == inside).all() and (sizes != tokens).any():
            return column.flatten()
        self._same_lengths(name, sizes, tokens)
        return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), column.flatten())

    def _mask(self, name: str, values: pa.Array, by_token: bool, lengths: np.ndarray) -> np.ndarray:
        """Return the values of a mask of the loss, all of them 0 or 1."""
        mask_values = np.asarray(values)
        if not (self._labels or ("labels" in self._names and self._named.get("labels") != "drop")):
            raise ValueError(
                f"labels must be True with the column {shown(name)}, which says where they are; or leave that out by "
                f"masks={{{name!r}: 'drop'}} ({mask_option(name, 'drop')})."
            )
        if not by_token and name not in self._named:
            raise TypeError(f"The column {shown(name)} must hold lists of 0 and 1, not {values.type}.")
        if mask_values.dtype.kind not in "iubf":
            raise TypeError(f"The column {shown(name)} must hold 0 and 1, not {values.type}.")
        if not by_token and self._named[name] == "prompt":
            return self._first_tokens(name, mask_values, lengths)
        if (odd := (mask_values != 0) & (mask_values != 1)).any():
            at = int(odd.argmax())
            row = self._row(at, lengths) if by_token else self.rows + at
            raise ValueError(f"{name} must hold 0 and 1, not {mask_values[at]} as in row {row}.")
        if by_token:
            return mask_values
        if self._named[name] == "next":
            raise ValueError(f"masks[{name!r}] must not be 'next': the column has one number for each sequence.")
        return np.repeat(mask_values, lengths)

    def _first_tokens(self, name: str, count: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return a mask that is 1 for the first `count` tokens of each sequence."""
        if (odd := (count < 0) | (count != np.floor(count))).any():
            at = int(odd.argmax())
            raise ValueError(
                f"{name} must count the first tokens of each row, not be {count[at]} as in row {self.rows + at}."
            )
        return (ranges(np.zeros_like(lengths), lengths) < np.repeat(count, lengths)).astype(np.int8)

    def _checked(self, name: str, column: pa.Array, lengths: np.ndarray) -> pa.Array:
        """Return the values of a column, one a token or one a sequence."""
        called = f"The column {shown(name)}"
        if pa.types.is_dictionary(column.type):  # texts that come again, as a category of pandas
            column = column.dictionary_decode()
        by_token = is_list(column.type)
        if name == "input_ids":
            try:
                column = column.cast(pa.list_(pa.int32()))  # as `datasets` has them, whatever they come in
            except pa.ArrowInvalid as error:
                said = one_line(str(error), 200)
                raise ValueError(f"{called} must hold numbers of 32 bits: {said}") from None
        kind = column.type.value_type if by_token else column.type
        if not (pa.types.is_primitive(kind) or (is_text(kind) and not by_token)):
            raise TypeError(
                f"{called} holds {one_line(str(column.type))}, which no pack can carry: {drop_option(name)}."
            )
        if by_token:
            self._same_lengths(name, lengths_of(name, column, self.rows), lengths)
        self._same_kind(name, column.type)
        values = column.flatten() if by_token else column
        cure = "" if name == "input_ids" else f"; {drop_option(name)}"
        refuse_gaps(called, values, self.rows, lengths if by_token else None, cure)
        if name == "input_ids" and (negative := np.asarray(values) < 0).any():
            at = int(negative.argmax())
            raise ValueError(
                f"{called} must hold numbers from 0 up, not {values[at]} as in row {self._row(at, lengths)}."
            )
        return values

    def _row(self, at: int, lengths: np.ndarray) -> int:
        """Return the row of a token of this batch."""
        return self.rows + int(np.searchsorted(np.cumsum(lengths), at, side="right"))

    def _same_names(self, names: set[str]) -> None:
        if odd := (self._names or names) ^ names:
            where = f"from row {self.rows:,} on" if min(odd) in names else f"before row {self.rows:,}"
            raise ValueError(
                f"The column {shown(min(odd))} is in some rows only ({where}); all rows must have it, or none: "
                f"{drop_option(min(odd))}."
            )
        self._names = names

    def _same_kind(self, name: str, kind: pa.DataType) -> None:
        if (known := self._kinds.setdefault(name, kind)) != kind:
            raise TypeError(f"The column {shown(name)} holds {known} at first, and {kind} from row {self.rows} on.")

    def _same_lengths(self, name: str, sizes: np.ndarray, tokens: np.ndarray) -> None:
        if (differ := sizes != tokens).any():
            at = int(differ.argmax())
            raise ValueError(
                f"The column {shown(name)} has {sizes[at]} values in row {self.rows + at}, which has {tokens[at]} "
                f"tokens: give one for each token, or {drop_option(name)}."
            )


def _one_kind_of_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make texts what Arrow has by default: pandas writes large ones, and other files of a data set need not."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) or pa.types.is_string_view(field.type)
        else field
        for field in batch.schema
    ]  # fmt: skip
    return batch.cast(pa.schema(fields)) if fields != [*batch.schema] else batch


def with_labels(read: Read, begins: np.ndarray, labels: bool) -> Read:
    """Return the columns with what the masks leave of their labels, in place of the masks.

    Where there are no labels and some are asked for, they are the tokens, and -100 for the first of each sequence,
    which nothing predicts. Labels of the data keep their first tokens: a collator of packlib masks these.

    Args:
        begins: the first token of each sequence.
    """
    columns = {name: values for name, values in read.items() if name != TRAINED}
    if TRAINED in read or (labels and "labels" not in columns):
        new_labels = columns.get("labels", columns["input_ids"])[0].to_numpy().copy()
        if "labels" not in columns:
            new_labels[begins] = IGNORED
        elif new_labels.dtype.kind == "u":
            new_labels = new_labels.astype(np.int64)
        if TRAINED in read:
            new_labels[~read[TRAINED][0].to_numpy(zero_copy_only=False)] = IGNORED
        columns["labels"] = pa.array(new_labels), True
    return columns


def nemo_columns(columns: Read, ends: np.ndarray) -> Read:
    """Return the columns by token that NeMo and Megatron Bridge read from packed Parquet.

    Their `loss_mask` says of a token whether the next one is trained on, so it is 0 for the last of a sequence.

    Args:
        ends: behind the last token of each sequence.

    Raises:
        ValueError: if labels are other tokens than those of the row, which a mask cannot say.
    """
    ids, labels = (columns[name][0].to_numpy().astype(np.int64) for name in ("input_ids", "labels"))
    trained = labels != IGNORED
    if (labels != ids)[trained].any():
        raise ValueError("labels must be the tokens of their row or -100 in the layout of NeMo, not other tokens.")
    mask = np.append(trained[1:], False)
    mask[ends - 1] = False
    return {"input_ids": (pa.array(ids, pa.int32()), True), "loss_mask": (pa.array(mask.astype(np.int8)), True)}


def refuse_other_lists(name: str, kind: pa.DataType) -> None:
    """Raise a TypeError unless a column of this type has lists of whole numbers; a mask of bool is one too."""
    may_be_bool = name not in ("input_ids", "labels")
    if not is_list(kind) or not (
        pa.types.is_integer(kind.value_type) or (may_be_bool and pa.types.is_boolean(kind.value_type))
    ):
        raise TypeError(f"The column {shown(name)} must hold lists of whole numbers, not {one_line(str(kind))}.")


def refuse_gaps(
    called: str, values: pa.Array, first_row: int, sizes: np.ndarray | None = None, cure: str = ""
) -> None:
    """Raise a ValueError that names the first row without a value; a row has one, or as many as `sizes` says."""
    if values.null_count:
        at = int(np.asarray(values.is_null()).argmax())
        row = at if sizes is None else int(np.searchsorted(np.cumsum(sizes), at, side="right"))
        raise ValueError(f"{called} has no value in row {first_row + row}{cure}.")


def lengths_of(name: str, column: pa.Array, first_row: int) -> np.ndarray:
    """Return the number of values in each row of a column of lists.

    Raises:
        ValueError: naming the first row without a list.
    """
    refuse_gaps(f"The column {shown(name)}", column, first_row)
    return np.asarray(pc.list_value_length(column)).astype(np.int64)


def whole_numbers(name: str, column: pa.Array, first_row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the count of numbers in each row of a column, and all numbers one after the other.

    Raises:
        TypeError, ValueError: naming the column, and the first row without a value.
    """
    refuse_other_lists(name, column.type)
    sizes, values = lengths_of(name, column, first_row), column.flatten()
    refuse_gaps(f"The column {shown(name)}", values, first_row, sizes)
    return sizes, values.to_numpy(zero_copy_only=False)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "binary", "large_binary")
