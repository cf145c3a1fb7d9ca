"""Packed rows for anyone's model: data sets in, packs out, and the collator that hands them to a model.

Read first `packed_rows.py`, `pack_dataset`: what a row of a packed data set holds; and `collator.py`: what the collator
makes of a row for an unmodified model. A sequence of a Parquet file comes to the loss of a model in these steps:

1. `row_sources.py` opens the file and yields its rows in batches.
2. `ColumnReader.read` of `row_columns.py` makes sequences of each batch. Its steps are the functions of seven files:
   `tokenizing.py` makes tokens of texts and chats, `row_borders.py` takes rows apart that hold several sequences,
   `column_values.py` checks the columns, `mask_columns.py` reads the masks of the loss, `cutting.py` cuts what is too
   long, `token_labels.py` counts the labels of each sequence, and `books.py` adds up sequences, tokens and labels
   before and after the cut.
3. `stored_columns.py` keeps the sequences in files while a plan is made of their lengths.
4. `RowWriter` of `packed_rows.py` lays the sequences of each pack end to end, and writes the rows. `with_labels` of
   `token_labels.py` makes labels if the data has none: the tokens, and -100 for the first of each sequence. Labels that
   the data has are kept. In both it puts -100 where a mask of the loss says so.
5. `TransformersCollator` joins rows to a batch. Where sequences end it reads from `seq_lengths`, or from
   `position_ids` if a `Trainer` has removed that column. In the form "dense", that of a Llama without a flash kernel,
   `PackingCollator` of `packlib.batches.collation` makes a `PackedBatch`, with a row for each pack. In the form
   "padding_free", `flatten_rows` of `packlib.batches.flat` makes one row of all sequences.
6. `Handover` of `packlib.model.unmodified` makes the arguments of the model: positions that restart, a mask of pairs
   ("dense") or bounds ("padding_free"), `use_cache=False`, and the labels. The first label of each sequence becomes
   -100 here, also where the data has a token there. The model shifts the labels and computes the loss.

`parquet_packs.py` writes files of packs, `row_stream.py` packs data sets that stream by, and `trees.py` lays sequences
that share tokens into rows that hold these once.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.tools.rows.packed_rows import pack_dataset

if TYPE_CHECKING:
    from packlib.tools.rows.collator import TransformersCollator
    from packlib.tools.rows.row_stream import PackedStream
    from packlib.tools.rows.trees import TreeBatch, TreeCollator, lay_trees
else:  # they load torch
    __getattr__, __dir__ = late(
        __name__,
        {
            "packlib.tools.rows.collator": ["TransformersCollator"],
            "packlib.tools.rows.row_stream": ["PackedStream"],
            "packlib.tools.rows.trees": ["TreeBatch", "TreeCollator", "lay_trees"],
        },
    )

__all__ = [
    "PackedStream",
    "TransformersCollator",
    "TreeBatch",
    "TreeCollator",
    "lay_trees",
    "pack_dataset",
]
