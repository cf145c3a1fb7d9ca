from .batch import IGNORED, PackedBatch
from .collation import PackingCollator, collate, pad
from .curriculum import SequenceLengthWarmup, shorten, warm_memory
from .difficulty import difficulties
from .loader import PackBatchSampler, PackDataset, PackLoader, pack_lengths, pack_loader
from .masking import MlmMasking
from .schedule_sampler import ScheduleSampler
from .token_budget import TokenBatches, batch_by_tokens
from .token_loading import MicroBatch, PaddedSamples, TokenBatchSampler, token_loader
from .tokens import TokenStore, tokenize, wordnet_tokenizer
from .variable_rate import VariableBatchLR, scale_learning_rate

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
    "ScheduleSampler",
    "SequenceLengthWarmup",
    "TokenBatchSampler",
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
    "token_loader",
    "tokenize",
    "warm_memory",
    "wordnet_tokenizer",
]
