"""WordNet's sentence pairs to train on."""

import numpy as np

from packlib.batches import (
    MlmMasking,
    PackedBatch,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    sentence_pairs,
    tokenize,
    wordnet_tokenizer,
)
from packlib.lengths import wordnet_texts


def tokenized_pairs(number: int, seed: int, max_length: int = 64) -> TokenStore:
    """WordNet's sentence pairs as tokens, `number` at random."""
    examples, labels = sentence_pairs(seed)
    some = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))[:number]
    definitions = wordnet_texts().definition[some]
    return tokenize(wordnet_tokenizer(), definitions, examples[some], labels[some], max_length, "truncate")


def pair_loaders(number: int, seed: int) -> tuple[dict[str, PackLoader], list[PackedBatch], float]:
    """WordNet's sentence pairs in rows of 64, 16 a batch: padded and packed to train on, and 400 held out.

    Returns:
        The loaders by name, the held-out batches with the same masked tokens for every model, and the packing factor.
    """
    store = tokenized_pairs(number + 400, seed)
    collator = PackingCollator(64, MlmMasking.for_tokenizer(wordnet_tokenizer(), seed))

    def loader(part: TokenStore, depth: int | None, **options) -> PackLoader:
        packs = pack_lengths(part.lengths, 64, max_sequences_per_pack=depth, seed=seed)
        return pack_loader(part, packs, collator, 16, seed=seed, **options)

    train, held_out = store.take(np.arange(number)), store.take(np.arange(number, number + 400))
    loaders = {"padded": loader(train, 1), "packed": loader(train, None)}
    return loaders, list(loader(held_out, None, shuffle=False)), number / len(loaders["packed"].dataset)
