"""What the collator makes of rows of `pack_dataset`: a batch for models of transformers as they are, unmodified.

A row with the sequences 7 8 6 and 4 5, that is with `seq_lengths` [3, 2], becomes, for a causal model:

    input_ids        7    8    6    4    5
    position_ids     0    1    2    0    1    they start again with each sequence
    labels        -100    8    6 -100    5    no token is asked for the first of the next sequence

and a mask or bounds that keep the two apart: see `packlib.model.unmodified`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from packlib.batches import IGNORED, PackedBatch, TokenStore, collate
from packlib.checks import shown, whole_number
from packlib.model.unmodified import Form, Handover


class TransformersCollator:
    """A `collate_fn` or `data_collator` for the rows of `pack_dataset`: what `for_transformers` returns.

    Columns that no model reads are refused by name, since a mask of losses, say, would be ignored: `labels` must be
    -100 there. A `transformers.Trainer` takes such columns away before.

    Args:
        model, form: as in `for_transformers`. Only what must be known of the model is kept.
        pad_id: the token that fills dense rows.
    """

    def __init__(self, model: PreTrainedModel, form: Form = "auto", pad_id: int = 0) -> None:
        self.form, self.pad_id = Handover.of(model, form), whole_number("pad_id", pad_id, 0)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self.form(packed_batch(rows, self.pad_id))


def packed_batch(rows: Sequence[Mapping[str, Any]], pad_id: int = 0) -> PackedBatch:
    """The batch of some rows of `pack_dataset`, as long as the longest; without labels if they have none.

    Raises:
        ValueError: if a row has a column that no model reads, or does not say where its sequences end.
    """
    if not rows:
        raise ValueError("A batch needs at least one row; this one has none.")
    columns: dict[str, list] = {name: [] for name in ("input_ids", "labels", "token_type_ids", "lengths")}
    sizes = []
    for row in rows:
        lengths = _lengths(row)
        sizes.append(len(lengths))
        columns["lengths"].append(lengths)
        for name in row:
            if name in columns:
                columns[name].append(np.asarray(row[name]))
            elif (
                name not in ("position_ids", "seq_lengths")
                and np.ndim(row[name]) == 1
                and len(row[name]) != len(lengths)
            ):
                raise ValueError(f"The rows have the column {shown(name)}, which no model reads: remove it.")
    lengths = np.concatenate(columns["lengths"])
    used = [len(ids) for ids in columns["input_ids"]]
    tokens = {
        name: np.concatenate(columns[name]) for name in ("input_ids", "labels", "token_type_ids") if columns[name]
    }
    tokens.setdefault("token_type_ids", np.zeros(sum(used), np.uint8))
    store = TokenStore(
        **tokens, offsets=np.concatenate([[0], np.cumsum(lengths)]), sequence_labels=np.full(len(lengths), IGNORED)
    )
    return collate(store, sizes, max(used), pad_id=pad_id)


def _lengths(row: Mapping[str, Any]) -> np.ndarray:
    """Tokens of each sequence of a row, by `seq_lengths`, or else by the positions that restart at 0."""
    tokens = len(row["input_ids"])
    if "seq_lengths" in row:
        lengths = np.asarray(row["seq_lengths"], np.int64)
        if lengths.sum() != tokens:
            raise ValueError(f"The seq_lengths of a row add up to {lengths.sum()}; it has {tokens} input_ids.")
        return lengths
    if "position_ids" not in row:
        raise ValueError(
            "A row has neither seq_lengths nor position_ids, so nothing says where its sequences end (a Trainer keeps "
            "them with remove_unused_columns=False)."
        )
    positions = np.asarray(row["position_ids"])
    starts = np.flatnonzero(positions == 0)
    lengths = np.diff(starts, append=tokens)
    if (
        len(positions) != tokens
        or lengths.sum() != tokens
        or (positions != np.arange(tokens) - np.repeat(starts, lengths)).any()
    ):
        raise ValueError("The position_ids of a row must count from 0 in each of its sequences.")
    return lengths
