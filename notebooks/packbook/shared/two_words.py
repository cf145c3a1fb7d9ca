"""A language that a small model learns in seconds: a sentence draws two words and repeats them in turn."""

import numpy as np
import torch
from transformers import BertConfig

from packlib.batches import MlmMasking, PackedBatch, PackingCollator, TokenStore, pack_lengths
from packlib.model import PackedBert

CLS, MASK, WORDS = 2, 4, 60  # its words come after the five special tokens


def two_words(number: int, seed: int, lengths: np.ndarray | None = None) -> TokenStore:
    """Return the sentences like [CLS] a b a b a b … A hidden word is known only from the words of its sentence.

    Their lengths are drawn from `lengths`; without it they have 8 to 16 tokens.
    """
    rng, samples = np.random.default_rng(seed), []
    for length in rng.integers(8, 17, number) if lengths is None else rng.choice(lengths, number):
        words = MASK + 1 + rng.choice(WORDS, 2, replace=False)
        samples.append({"input_ids": [CLS, *words[np.arange(length - 1) % 2].tolist()]})
    return TokenStore.from_samples(samples)


def two_word_batch(store: TokenStore, seed: int, slots: int = 64, packed: bool = True) -> PackedBatch:
    """Return all of them in one batch, with masked tokens; unpacked, each sentence has a row of its own."""
    collator = PackingCollator(slots, MlmMasking(seed, MASK, MASK + 1 + WORDS, tuple(range(MASK + 1))))
    depth = None if packed else 1
    packs = pack_lengths(store.lengths, slots, "lpfhp", max_sequences_per_pack=depth, seed=seed)
    return collator([(0, store.take(ids)) for ids in packs])


def small_bert_of_words(seed: int, layers: int = 2) -> PackedBert:
    """Return a BERT for this language that has learned nothing yet; the same seed gives the same weights."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": MASK + 1 + WORDS, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return PackedBert(BertConfig(num_hidden_layers=layers, max_position_embeddings=128, **sizes, **off))
