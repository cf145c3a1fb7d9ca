"""WordNet's glosses and sentence pairs as tokens, and in batches to train on."""

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


def tokenized(some: np.ndarray, seed: int, max_length: int) -> TokenStore:
    """Some of WordNet's glosses, given by their numbers, with usage examples where they have any."""
    texts, (examples, labels) = wordnet_texts(), sentence_pairs(seed)
    pairs = texts.definition[some], examples[some], labels[some]
    return tokenize(wordnet_tokenizer(), *pairs, max_length, overlong="truncate")


def tokenized_pairs(number: int, seed: int) -> TokenStore:
    """WordNet's sentence pairs, `number` at random, of at most 64 tokens."""
    paired = np.flatnonzero(wordnet_texts().examples != "")
    return tokenized(np.random.default_rng(seed).permutation(paired)[:number], seed, 64)


def pair_loaders(number: int, seed: int) -> tuple[dict[str, PackLoader], list[PackedBatch], float]:
    """WordNet's sentence pairs in rows of 64, 16 a batch: padded and packed to train on, and 400 held out.

    Returns:
        The loaders by name, the held-out batches with the same masked tokens for every model, and the packing factor.
    """
    store = tokenized_pairs(number + 400, seed)
    collator = PackingCollator(64, MlmMasking.for_tokenizer(wordnet_tokenizer(), seed))

    def loader(part: TokenStore, depth: int | None, **options) -> PackLoader:
        packs = pack_lengths(part.lengths, 64, "lpfhp", depth, seed=seed)
        return pack_loader(part, packs, collator, 16, seed=seed, **options)

    train, held_out = store.take(np.arange(number)), store.take(np.arange(number, number + 400))
    loaders = {"padded": loader(train, 1), "packed": loader(train, None)}
    return loaders, list(loader(held_out, None, shuffle=False)), number / len(loaders["packed"].dataset)
