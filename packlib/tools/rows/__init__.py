"""Packed rows for anyone's model: data sets in, packs out, and the collator that hands them to a model.

Read first `packed_rows.py`, `pack_dataset`: what a row of a packed data set holds; and `collator.py`: what the collator
makes of a row for an unmodified model. Rows come from `row_sources.py`; `row_columns.py` and `tokenizing.py` say what
their columns are to packing, and `stored_columns.py` keeps them while a plan is made. `parquet_packs.py` writes files
of packs, `row_stream.py` packs data sets that stream by, and `trees.py` lays sequences that share tokens into rows that
hold these once. `books.py` counts tokens and labels, before and after longer sequences are cut.
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
