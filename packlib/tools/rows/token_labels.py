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

IGNORED = -100  # as in packlib.batches, which loads torch
TRAINED = "(trained)"  # the column that stands for all masks of the loss once they are read


class LabeledTokens:
    """Counts the labels in any pieces of sequences that are laid end to end.

    Args:
        labeled: whether each token has a label; bool, shape (tokens,). None: all tokens have one.
        predicted: a function that gets the places of the pieces' first tokens and returns for each whether its label
            counts; bool. By default no label of a first token counts, since nothing predicts it.
    """

    def __init__(
        self, labeled: np.ndarray | None, predicted: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        self._labeled = labeled
        self._predicted = predicted
        self._labels_before = None if labeled is None else np.concatenate([[0], np.cumsum(labeled)])

    def any(self) -> bool:
        """Return True if a token has a label."""
        return self._labeled is None or bool(self._labeled.any())

    def count(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Count the labels of pieces that begin at tokens `starts`, `sizes` tokens each; int64, shape (pieces,)."""
        if self._labeled is None or self._labels_before is None:
            return sizes - 1
        first_labels_not_counted = self._labeled[starts]
        if self._predicted is not None:
            first_labels_not_counted = first_labels_not_counted & ~self._predicted(starts)
        return self._labels_before[starts + sizes] - self._labels_before[starts] - first_labels_not_counted


def labeled_tokens(columns: Columns, trained: np.ndarray | None, causal: bool) -> LabeledTokens | None:
    """Find the tokens that have a label in packs of these columns.

    Args:
        trained: whether all masks of the loss let each token be trained on; bool, shape (tokens,). None: no mask.
        causal: whether labels are made where the data has none, and are those of a causal model.

    Returns:
        The tokens; None if the packs have no labels, or one for each sequence.

    Raises:
        ValueError: if there is a mask, and labels are not by token.
    """
    if "labels" not in columns:
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
    """Return the columns with what the masks leave of their labels, in place of the masks.

    Where there are no labels and some are asked for, they are the tokens, and -100 for the first of each sequence,
    which nothing predicts. Labels of the data keep their first tokens: a collator of packlib masks these.

    Args:
        starts: the first token of each sequence.
    """
    labeled_columns = {name: column for name, column in columns.items() if name != TRAINED}
    if TRAINED in columns or (labels and "labels" not in columns):
        new_labels = columns["labels" if "labels" in columns else "input_ids"].values.to_numpy().copy()
        if "labels" not in columns:
            new_labels[starts] = IGNORED
        elif new_labels.dtype.kind == "u":
            new_labels = new_labels.astype(np.int64)
        if TRAINED in columns:
            new_labels[~columns[TRAINED].values.to_numpy(zero_copy_only=False)] = IGNORED
        labeled_columns["labels"] = ColumnValues(pa.array(new_labels), by_token=True)
    return labeled_columns


def nemo_columns(columns: Columns, ends: np.ndarray) -> Columns:
    """Return the columns by token that NeMo and Megatron Bridge read from packed Parquet.

    Their `loss_mask` says of a token whether the next one is trained on, so it is 0 for the last of a sequence.

    Args:
        ends: behind the last token of each sequence.

    Raises:
        ValueError: if labels are other tokens than those of the row, which a mask cannot say.
    """
    input_ids = columns["input_ids"].values.to_numpy().astype(np.int64)
    labels = columns["labels"].values.to_numpy().astype(np.int64)
    is_trained = labels != IGNORED
    if (labels != input_ids)[is_trained].any():
        raise ValueError("labels must be the tokens of their row or -100 in the layout of NeMo, not other tokens.")
    loss_mask = np.append(is_trained[1:], False)
    loss_mask[ends - 1] = False
    return {
        "input_ids": ColumnValues(pa.array(input_ids, pa.int32()), by_token=True),
        "loss_mask": ColumnValues(pa.array(loss_mask.astype(np.int8)), by_token=True),
    }
