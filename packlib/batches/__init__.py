"""Batches: tokens, masking, collation and loading of packs."""

from packlib.batches.batch import IGNORED, PackedBatch
from packlib.batches.collate import PackingCollator, collate, pad
from packlib.batches.loader import PackDataset, PackLoader, PackSampler, pack_lengths, pack_loader
from packlib.batches.masking import MlmMasking
from packlib.batches.tokens import TokenStore, tokenize
from packlib.batches.wordnet import sentence_pairs, wordnet_store, wordnet_tokenizer

__all__ = [
    "IGNORED",
    "MlmMasking",
    "PackDataset",
    "PackLoader",
    "PackSampler",
    "PackedBatch",
    "PackingCollator",
    "TokenStore",
    "collate",
    "pack_lengths",
    "pack_loader",
    "pad",
    "sentence_pairs",
    "tokenize",
    "wordnet_store",
    "wordnet_tokenizer",
]
