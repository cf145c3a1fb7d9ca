"""A language that a small model learns in seconds: a sentence repeats two words in turn."""

import numpy as np
import torch
from transformers import BertConfig

from packlib.batches import MlmMasking, PackedBatch, PackingCollator, TokenStore, pack_lengths
from packlib.model import PackedBert

CLS, MASK, WORDS = 2, 4, 60  # ids of special tokens, and the number of words, whose ids follow MASK


def two_words(number: int, seed: int, lengths: np.ndarray | None = None) -> TokenStore:
    """Return sentences like [CLS] a b a b a b … A hidden word follows only from the other words of its sentence.

    Args:
        number: of sentences.
        lengths: tokens, from which the sentences' lengths are drawn; None draws 8 to 16 tokens.
    """
    rng, samples = np.random.default_rng(seed), []
    sentence_lengths = rng.integers(8, 17, number) if lengths is None else rng.choice(lengths, number)
    for length in sentence_lengths:
        two_ids = MASK + 1 + rng.choice(WORDS, 2, replace=False)
        words = two_ids[np.arange(length - 1) % 2]  # in turn
        samples.append({"input_ids": [CLS, *words.tolist()]})
    return TokenStore.from_samples(samples)


def two_word_batch(store: TokenStore, seed: int, slots: int = 64, packed: bool = True) -> PackedBatch:
    """Return all sentences of a store in one batch, with masked tokens; unpacked, there is one sentence in a row."""
    special_tokens = tuple(range(MASK + 1))
    collator = PackingCollator(slots, MlmMasking(seed, MASK, MASK + 1 + WORDS, special_tokens))
    depth = None if packed else 1
    packs = pack_lengths(store.lengths, slots, "lpfhp", max_sequences_per_pack=depth, seed=seed)
    epoch = 0  # of which the masked tokens are
    return collator([(epoch, store.take(sentences)) for sentences in packs])


def small_bert_of_words(seed: int, layers: int = 2) -> PackedBert:
    """Return a new BERT for this language; the same seed gives the same weights each time."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": MASK + 1 + WORDS, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return PackedBert(BertConfig(num_hidden_layers=layers, max_position_embeddings=128, **sizes, **off))
