"""Count and make labels: the tokens that the model is trained to predict.

The first token of a sequence has no label, since no token before it predicts it; a masked model may have one there. The
sequences 7 8 6 and 4 5 have three labels if all of their tokens are trained on:

    input_ids     7    8    6    4    5
    labels     -100    8    6 -100    5
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from packlib.tools.rows.column_values import Columns, ColumnValues
from packlib.tools.rows.loss_masks import mask_option

IGNORED = -100  # the label of tokens that are not trained on; as in packlib.batches, which loads torch
TRAINED = "(trained)"  # the column, of bool, in place of all masks of the loss once they are read


class LabeledTokens:
    """Counts the labels in any pieces of the sequences of a batch, which are laid end to end.

    Args:
        is_labeled: whether each token has a label; bool, shape (tokens,). None: all tokens have one.
        first_label_counts: a function from the indices of the pieces' first tokens to whether a label there counts;
            bool, shape (pieces,). By default no label of a first token counts, since nothing predicts it.
    """

    def __init__(
        self, is_labeled: np.ndarray | None, first_label_counts: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        self._is_labeled = is_labeled
        self._first_label_counts = first_label_counts
        # before token i of the batch there are _labels_before[i] labels; shape (tokens + 1,)
        self._labels_before = None if is_labeled is None else np.append(0, np.cumsum(is_labeled))

    def any(self) -> bool:
        """Return True if a token has a label."""
        return self._is_labeled is None or bool(self._is_labeled.any())

    def count(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the number of labels in each piece; int64, shape (pieces,).

        Args:
            starts: the index of the first token of each piece.
            sizes: the number of tokens in each piece.
        """
        if self._is_labeled is None or self._labels_before is None:
            return sizes - 1
        is_uncounted = self._is_labeled[starts]  # the first token of a piece has a label that does not count
        if self._first_label_counts is not None:
            is_uncounted = is_uncounted & ~self._first_label_counts(starts)
        return self._labels_before[starts + sizes] - self._labels_before[starts] - is_uncounted


def labeled_tokens(columns: Columns, trained: np.ndarray | None, causal: bool) -> LabeledTokens | None:
    """Return which tokens have a label in packs of these columns, as a counter of the labels in any pieces.

    Args:
        trained: whether all masks of the loss let each token be trained on; bool, shape (tokens,). None: no mask.
        causal: whether labels are made where the data has none, and are those of a causal model.

    Returns:
        None if the packs have no labels, or one for each sequence.

    Raises:
        ValueError: if there is a mask, and labels are not by token.
    """
    if "labels" not in columns:  # they are made, or a mask alone says what is trained on
        return LabeledTokens(trained) if causal or trained is not None else None
    if not columns["labels"].by_token:
        if trained is not None:
            raise ValueError(
                "The column 'labels' must have a value for each token, beside a mask of the loss: leave it out by "
                f"masks={{'labels': 'drop'}} ({mask_option('labels', 'drop')})."
            )
        return None
    labels = columns["labels"].values.to_numpy()
    input_ids = columns["input_ids"].values.to_numpy()
    is_labeled = labels != IGNORED if trained is None else (labels != IGNORED) & trained
    if not causal:  # those of a masked model
        return LabeledTokens(is_labeled, lambda starts: np.ones(len(starts), bool))
    # a first label that differs from the token there is not one that a causal model shifts, so it counts
    return LabeledTokens(is_labeled, lambda starts: labels[starts] != input_ids[starts])


def with_labels(columns: Columns, starts: np.ndarray, labels: bool) -> Columns:
    """Return the columns with labels that are -100 where the masks say so, in place of the masks.

    If the columns have no labels, these are made: the tokens, and -100 for the first of each sequence, which nothing
    predicts. Where the data has labels, a first token keeps its own: `Handover` masks it for a causal model.

    Args:
        columns: with the masks of the loss as one column, `TRAINED`, if there are any.
        starts: the index of the first token of each sequence.
        labels: whether labels are made.
    """
    has_labels, has_masks = "labels" in columns, TRAINED in columns
    if not has_masks and (has_labels or not labels):
        return dict(columns)
    if has_labels:
        new_labels = columns["labels"].values.to_numpy().copy()
        if new_labels.dtype.kind == "u":  # unsigned numbers cannot hold -100
            new_labels = new_labels.astype(np.int64)
    else:
        new_labels = columns["input_ids"].values.to_numpy().copy()
        new_labels[starts] = IGNORED
    if has_masks:
        is_trained = columns[TRAINED].values.to_numpy(zero_copy_only=False)
        new_labels[~is_trained] = IGNORED
    other_columns = {name: column for name, column in columns.items() if name != TRAINED}
    return other_columns | {"labels": ColumnValues(pa.array(new_labels), by_token=True)}


def nemo_columns(columns: Columns, ends: np.ndarray) -> Columns:
    """Return the columns by token that NeMo and Megatron Bridge read from packed Parquet.

    Their `loss_mask` says of a token whether the next one is trained on, so it is 0 for the last of a sequence.

    Args:
        ends: the index behind the last token of each sequence.

    Raises:
        ValueError: if labels are other tokens than those of the row, which a mask cannot say.
    """
    input_ids = columns["input_ids"].values.to_numpy().astype(np.int64)
    labels = columns["labels"].values.to_numpy().astype(np.int64)
    is_trained = labels != IGNORED
    if (labels != input_ids)[is_trained].any():
        raise ValueError("labels must be the tokens of their row or -100 in the layout of NeMo, not other tokens.")
    loss_mask = np.append(is_trained[1:], False)  # for each token, whether the next one is trained on
    loss_mask[ends - 1] = False  # the next one is of another sequence
    return {
        "input_ids": ColumnValues(pa.array(input_ids, pa.int32()), by_token=True),
        "loss_mask": ColumnValues(pa.array(loss_mask.astype(np.int8)), by_token=True),
    }
