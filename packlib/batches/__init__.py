"""Batches: tokens, masking, collation and loading of packs; batches by tokens, curricula, variable rates."""

from packlib.installed import needed_by

with needed_by(__name__):
    from packlib.batches.batch import IGNORED, PackedBatch
    from packlib.batches.collation import PackingCollator, collate, pad
    from packlib.batches.curriculum import SequenceLengthWarmup, shorten, warm_memory
    from packlib.batches.difficulty import difficulties
    from packlib.batches.loader import PackBatchSampler, PackDataset, PackLoader, pack_lengths, pack_loader
    from packlib.batches.masking import MlmMasking
    from packlib.batches.token_budget import TokenBatches, batch_by_tokens
    from packlib.batches.token_loading import (
        MicroBatch,
        PaddedSamples,
        TokenBatchSampler,
        TokenLoader,
        token_loader,
    )
    from packlib.batches.tokens import TokenStore, tokenize
    from packlib.batches.variable_rate import VariableBatchLR, scale_learning_rate
    from packlib.batches.wordnet import sentence_pairs, wordnet_store, wordnet_tokenizer

__all__ = [
    "IGNORED",
    "MicroBatch",
    "MlmMasking",
    "PackBatchSampler",
    "PackDataset",
    "PackLoader",
    "PackedBatch",
    "PackingCollator",
    "PaddedSamples",
    "SequenceLengthWarmup",
    "TokenBatchSampler",
    "TokenBatches",
    "TokenLoader",
    "TokenStore",
    "VariableBatchLR",
    "batch_by_tokens",
    "collate",
    "difficulties",
    "pack_lengths",
    "pack_loader",
    "pad",
    "scale_learning_rate",
    "sentence_pairs",
    "shorten",
    "token_loader",
    "tokenize",
    "warm_memory",
    "wordnet_store",
    "wordnet_tokenizer",
]
