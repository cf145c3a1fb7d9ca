"""What the collator makes of rows of `pack_dataset`: a batch for models of transformers as they are, unmodified.

A row with the sequences 7 8 6 and 4 5, that is with `seq_lengths` [3, 2], becomes, for a causal model:

    input_ids        7    8    6    4    5
    position_ids     0    1    2    0    1    they start again with each sequence
    labels        -100    8    6 -100    5    no token is asked for the first of the next sequence

and a mask or bounds that keep the two apart: see `packlib.model.unmodified`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from packlib.batches import PackingCollator
from packlib.model.unmodified import Form, Handover


class TransformersCollator:
    """A `collate_fn` or `data_collator` for rows of `pack_dataset`: `PackingCollator`, and then `for_transformers`.

    Columns of tokens that no model reads are refused by name (see `PackingCollator`). A `transformers.Trainer` takes
    them away before.

    Args:
        model, form: as in `for_transformers`. Only what must be known of the model is kept.
        pad_id: the token that fills dense rows.
    """

    def __init__(self, model: PreTrainedModel, form: Form = "auto", pad_id: int = 0) -> None:
        self.form, self.collator = Handover.of(model, form), PackingCollator(pad_id=pad_id)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self.form(self.collator(rows))
