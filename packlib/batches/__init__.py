"""Batches: tokens, masking, collation and loading of packs; batches by tokens, curricula, variable rates.

Read first `batch.py`: a `PackedBatch` is what a model of packs reads. `collation.py` makes one, `loader.py` loads many.
For rows of `pack_dataset` and an unmodified model take `packlib.tools.rows.TransformersCollator`. It calls the
`PackingCollator` of this room, which gives the `PackedBatch` itself: for `PackedBert`, for masking by sample and epoch,
and to look into.
"""

from packlib.batches.batch import IGNORED, PackedBatch
from packlib.batches.collation import PackingCollator, collate, pad
from packlib.batches.curriculum import SequenceLengthWarmup, shorten, warm_memory
from packlib.batches.difficulty import difficulties
from packlib.batches.loader import PackDataset, PackLoader, pack_lengths, pack_loader
from packlib.batches.masking import MlmMasking
from packlib.batches.token_budget import TokenBatches, batch_by_tokens
from packlib.batches.tokens import TokenStore, tokenize, wordnet_tokenizer
from packlib.batches.variable_rate import VariableBatchLR, scale_learning_rate

__all__ = [
    "IGNORED",
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
    "pack_lengths",
    "pack_loader",
    "pad",
    "scale_learning_rate",
    "shorten",
    "tokenize",
    "warm_memory",
    "wordnet_tokenizer",
]
