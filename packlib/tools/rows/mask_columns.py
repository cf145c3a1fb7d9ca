"""Read the masks of the loss: which columns they are, and which tokens they let be trained on."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packlib.arguments import listed, percent, shown
from packlib.packing.ragged import ranges
from packlib.tools.rows.column_values import BatchRows, Columns, ColumnValues
from packlib.tools.rows.loss_masks import (
    LOSS_MASKS,
    UNTRAINED,
    MaskWord,
    ask_about_labels,
    ask_about_sequences,
    ask_about_weights,
    ask_for_a_word,
    first_disagreement,
    holds_weights,
    is_about_sequences,
    mask_option,
    may_be_a_mask,
    trained_tokens,
)
from packlib.tools.rows.token_labels import IGNORED, TRAINED

Trained = dict[str, np.ndarray]  # by mask, whether it lets each token be trained on; bool, shape (tokens,)


class MaskReader:
    """Reads the masks of the loss in the batches of a data set, and counts what they leave to be trained on.

    Args:
        named: by column, the caller's word for what it means.

    Attributes:
        words: by column, the word for what it means, the caller's or packlib's own.
    """

    def __init__(self, named: Mapping[str, MaskWord]) -> None:
        self._named = named
        self.words: dict[str, MaskWord] = LOSS_MASKS | dict(named)
        self._all_binary = dict[str, bool]()  # by column with an unknown meaning: was each value until now 0 or 1?
        self._prompt_lengths = set[str]()  # the masks with one number for each sequence, of its first tokens
        # By mask, and by TRAINED for all masks together: how many tokens it lets be trained on,
        self._trained_tokens = dict[str, int]()
        self._trained_packed = dict[str, int]()  # and how many of these are in the packs.

    @property
    def names(self) -> list[str]:
        """The columns that were read as masks."""
        return [name for name in self._trained_tokens if name != TRAINED]

    def is_mask(self, name: str) -> bool:
        """Return whether a column of this name is a mask of the loss, in packlib's or the caller's words."""
        return self.words.get(name, "keep") != "keep"

    def ask_about(self, name: str, column: ColumnValues) -> None:
        """Ask by a ValueError what a column means that is no mask, and may still say what is trained on.

        Its name, a -100 in it, or numbers other than 0 and 1 decide at once. A column of 0 and 1 is remembered until
        `ask`, since it may have other numbers in later rows.
        """
        kind = column.values.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if name in self._named or not is_number:
            return
        if not column.by_token:
            if is_about_sequences(name):
                raise ValueError(ask_about_sequences(name))
            return
        if name in ("input_ids", "labels") or not may_be_a_mask(name):
            return
        if self._all_binary.get(name, True):
            numbers = column.values.to_numpy(zero_copy_only=False)
            self._all_binary[name] = bool(((numbers == 0) | (numbers == 1)).all())
        if pa.types.is_integer(kind) and pc.any(pc.equal(column.values, IGNORED)).as_py():
            raise ValueError(ask_about_labels(name))
        if not self._all_binary[name] and holds_weights(name):
            raise ValueError(ask_about_weights(name))

    def ask(self) -> None:
        """Ask by a ValueError what a column is that was 0 and 1 for all tokens until now."""
        for name, all_binary in self._all_binary.items():
            if all_binary:
                raise ValueError(ask_for_a_word(name))

    def read(self, name: str, column: ColumnValues, rows: BatchRows, has_labels: bool) -> np.ndarray:
        """Return whether a mask lets each token of a batch be trained on; bool, shape (tokens,).

        Args:
            has_labels: whether the packs have labels, which the mask says something about.

        Raises:
            TypeError, ValueError: naming the column, and the first row that has another value than 0 and 1.
        """
        if not has_labels:
            raise ValueError(
                f"labels must be True with the column {shown(name)}, which says where they are; or leave that out by "
                f"masks={{{name!r}: 'drop'}} ({mask_option(name, 'drop')})."
            )
        if not column.by_token and name not in self._named:
            raise TypeError(f"The column {shown(name)} must hold lists of 0 and 1, not {column.values.type}.")
        mask = self._mask(name, column, rows)
        trained = trained_tokens(self.words[name], mask, rows.starts)
        self._trained_tokens[name] = self._trained_tokens.get(name, 0) + int(np.count_nonzero(trained))
        return trained

    def _mask(self, name: str, column: ColumnValues, rows: BatchRows) -> np.ndarray:
        """Return a mask as one value of 0 or 1 for each token; shape (tokens,)."""
        values = np.asarray(column.values)
        if values.dtype.kind not in "iubf":
            raise TypeError(f"The column {shown(name)} must hold 0 and 1, not {column.values.type}.")
        if self._named.get(name) == "prompt" and not column.by_token:
            _refuse_no_counts(name, values, rows)
            self._prompt_lengths.add(name)
            positions = ranges(np.zeros_like(rows.lengths), rows.lengths)  # 0, 1, … in each row
            return (positions < np.repeat(values, rows.lengths)).astype(np.int8)
        _refuse_not_binary(name, values, column.by_token, rows)
        if column.by_token:
            return values
        if self._named[name] == "next":
            raise ValueError(f"masks[{name!r}] must not be 'next': the column has one number for each sequence.")
        return np.repeat(values, rows.lengths)

    def agreed(self, trained: Trained, columns: Columns, rows: BatchRows) -> np.ndarray:
        """Return the tokens that all masks let be trained on; bool, shape (tokens,).

        Raises:
            ValueError: naming two masks, or a mask and the labels, that disagree, and the first token.
        """
        self._refuse_disagreement(trained, columns, rows)
        agreed = np.logical_and.reduce(list(trained.values()))
        self._trained_tokens[TRAINED] = self._trained_tokens.get(TRAINED, 0) + int(np.count_nonzero(agreed))
        return agreed

    def _refuse_disagreement(self, trained: Trained, columns: Columns, rows: BatchRows) -> None:
        """Raise a ValueError naming two masks, or a mask and the labels, that disagree, and the first token."""
        if "labels" in columns and columns["labels"].by_token:
            is_labeled = columns["labels"].values.to_numpy(zero_copy_only=False) != IGNORED
            trained = {"labels": is_labeled} | trained
        if disagreement := first_disagreement(trained, {*self._named, "labels"}, rows.starts):
            first_name, second_name, token = disagreement
            row = rows.row_of(token)
            position = token - rows.starts[row - rows.first_row]
            options = " ".join(
                mask_option(name, self.words[name]) for name in (first_name, second_name) if name != "labels"
            )
            raise ValueError(
                f"The columns {shown(first_name)} and {shown(second_name)} disagree in row {row} about token "
                f"{position}: one of them trains on it, the other does not. Leave one out by "
                f"masks={{{second_name!r}: 'drop'}} "
                f"({mask_option(second_name, 'drop')}), or say what each mask means ({options}) to train on what both "
                "train on."
            )

    def count_packed(self, trained: Trained, tokens: np.ndarray | None) -> None:
        """Count the tokens in the packs that each mask lets be trained on.

        Args:
            trained: by mask, and by TRAINED, which tokens of the batch it lets be trained on.
            tokens: the indices of the tokens of the batch that are packed; None if all are.
        """
        for name, is_trained in trained.items():
            packed = is_trained if tokens is None else is_trained[tokens]
            self._trained_packed[name] = self._trained_packed.get(name, 0) + int(np.count_nonzero(packed))

    def add(self, later: "MaskReader") -> None:
        """Add what another process has read of the masks in its part of the data."""
        self._prompt_lengths |= later._prompt_lengths
        for name, all_binary in later._all_binary.items():
            self._all_binary[name] = self._all_binary.get(name, True) and all_binary
        for counts, later_counts in (
            (self._trained_tokens, later._trained_tokens),
            (self._trained_packed, later._trained_packed),
        ):
            for name, tokens in later_counts.items():
                counts[name] = counts.get(name, 0) + tokens

    def finish(self, packed_tokens: int) -> dict[str, str]:
        """Return for each mask, in words, where labels are -100, and for which share of the tokens in the packs.

        Args:
            packed_tokens: number of tokens in the packs.

        Raises:
            ValueError: naming the mask, or the masks, that leave no token to be trained on.
        """
        became = {}
        for name in self.names:
            untrained_value = UNTRAINED[self.words[name]]
            if not self._trained_tokens[name]:
                raise ValueError(
                    f"The column {shown(name)} is {untrained_value} for all tokens, so that none would be trained on."
                )
            share = percent(1 - self._trained_packed[name] / max(1, packed_tokens))
            is_length = name in self._prompt_lengths
            where = "for the first tokens that it counts" if is_length else f"where it is {untrained_value}"
            became[name] = f"labels are -100 {where}, for {share} of the tokens"
        if self._trained_tokens.get(TRAINED) == 0:
            raise ValueError(f"No token is trained on by all of the columns {listed(self.names)}.")
        return became


def _refuse_no_counts(name: str, counts: np.ndarray, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row whose number is negative or not whole, so no number of tokens."""
    is_wrong = (counts < 0) | (counts != np.floor(counts))
    if is_wrong.any():
        at = int(is_wrong.argmax())
        raise ValueError(
            f"{name} must count the first tokens of each row, not be {counts[at]} as in row {rows.first_row + at}."
        )


def _refuse_not_binary(name: str, values: np.ndarray, by_token: bool, rows: BatchRows) -> None:
    """Raise a ValueError naming the first row with a value that is neither 0 nor 1."""
    is_wrong = (values != 0) & (values != 1)
    if is_wrong.any():
        at = int(is_wrong.argmax())  # the index of a token, or of a row
        row = rows.row_of(at) if by_token else rows.first_row + at
        raise ValueError(f"{name} must hold 0 and 1, not {values[at]} as in row {row}.")
