"""Batches: tokens, masking, collation and loading of packs; batches by tokens, curricula, variable rates.

Read first `flat.py`: sequences end to end and their bounds, which is all that a kernel for packs reads. `batch.py` has
the rectangle, a `PackedBatch`, a row for each pack; `collation.py` makes one, `loader.py` loads many. For rows of
`pack_dataset` and an unmodified model take `packlib.TransformersCollator`, which makes either. The `PackingCollator` of
this subpackage gives the `PackedBatch` itself: for `PackedBert`, for masking by sample and epoch, and to look into.
"""

from packlib.batches.batch import IGNORED, PackedBatch
from packlib.batches.collation import PackingCollator, collate, pad
from packlib.batches.curriculum import SequenceLengthWarmup, shorten, warm_memory
from packlib.batches.difficulty import difficulties
from packlib.batches.flat import FlatBatch, flatten_packs, flatten_rows
from packlib.batches.loader import PackDataset, PackLoader, pack_lengths, pack_loader
from packlib.batches.masking import MlmMasking
from packlib.batches.token_budget import TokenBatches, batch_by_tokens
from packlib.batches.tokens import TokenStore, tokenize, wordnet_tokenizer
from packlib.batches.variable_rate import VariableBatchLR, scale_learning_rate

__all__ = [
    "IGNORED",
    "FlatBatch",
    "MlmMasking",
    "PackDataset",
    "PackLoader",
    "PackedBatch",
    "PackingCollator",
    "SequenceLengthWarmup",
    "TokenBatches",
    "TokenStore",
    "VariableBatchLR",
    "batch_by_tokens",
    "collate",
    "difficulties",
    "flatten_packs",
    "flatten_rows",
    "pack_lengths",
    "pack_loader",
    "pad",
    "scale_learning_rate",
    "shorten",
    "tokenize",
    "warm_memory",
    "wordnet_tokenizer",
]
