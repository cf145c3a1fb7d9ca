"""WordNet's glosses and sentence pairs as tokens, cached after the first time, and in batches to train on."""

import hashlib
import os
from pathlib import Path

import numpy as np

from packbook.shared.glosses import wordnet_texts
from packlib.arguments import whole_number
from packlib.batches import (
    MlmMasking,
    PackedBatch,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    tokenize,
    wordnet_tokenizer,
)
from packlib.lengths import data_path, tokenizer_path


def cache_folder() -> Path:
    """Return the folder of token stores: $PACKLIB_CACHE, or else packlib/ in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PACKLIB_CACHE") or Path(home) / "packlib")


def sentence_pairs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return usage examples for WordNet's definitions, half of them another gloss's.

    Returns:
        The second sentences, str, "" for a gloss without an example; and the labels: 0 if the example is the
        gloss's own, 1 if it is another's, -100 if there is none. Every example is used exactly once.
    """
    examples = wordnet_texts().examples.copy()
    have = np.flatnonzero(examples != "")
    labels = np.full(len(examples), -100)
    labels[have] = 0
    swapped = np.random.default_rng([whole_number("seed", seed, 0), 1]).permutation(have)[: len(have) // 2]
    labels[swapped] = 1
    examples[swapped] = examples[np.roll(swapped, 1)]
    return examples, labels


def wordnet_store(seed: int = 0, max_length: int = 128, progress: bool = True) -> TokenStore:
    """Return the 117,659 glosses of WordNet as `[CLS] definition [SEP]`, or `[CLS] definition [SEP] examples [SEP]`.

    Tokenized once (some seconds), then mapped from a file in `cache_folder()`, whose checksum is compared.

    Args:
        seed: chooses the glosses that get another gloss's examples (see `sentence_pairs`).
        max_length: the few longer sequences are truncated, the longer sentence first.
        progress: show a progress bar the first time.
    """
    key = hashlib.sha256(f"1 {whole_number('seed', seed, 0)} {whole_number('max_length', max_length, 5)}".encode())
    for path in (data_path("wordnet", "glosses.parquet"), tokenizer_path() / "tokenizer.json"):
        key.update(hashlib.sha256(path.read_bytes()).digest())
    path = cache_folder() / f"wordnet-{key.hexdigest()[:16]}.tokens"
    try:
        return TokenStore.load(path)
    except (FileNotFoundError, ValueError):
        path.unlink(missing_ok=True)  # damaged ones are made again
    pairs, labels = sentence_pairs(seed)
    store = tokenize(wordnet_tokenizer(), wordnet_texts().definition, pairs, labels, max_length, "truncate", progress)
    store.save(path)
    return TokenStore.load(path)


def tokenized(glosses: np.ndarray, seed: int, max_length: int) -> TokenStore:
    """Return some of WordNet's glosses, given by their numbers, with usage examples where they have any."""
    texts, (examples, labels) = wordnet_texts(), sentence_pairs(seed)
    pairs = texts.definition[glosses], examples[glosses], labels[glosses]
    return tokenize(wordnet_tokenizer(), *pairs, max_length, overlong="truncate")


def tokenized_pairs(number: int, seed: int) -> TokenStore:
    """Return WordNet's sentence pairs, `number` at random, of at most 64 tokens."""
    paired = np.flatnonzero(wordnet_texts().examples != "")
    return tokenized(np.random.default_rng(seed).permutation(paired)[:number], seed, 64)


def pair_loaders(number: int, seed: int) -> tuple[dict[str, PackLoader], list[PackedBatch], float]:
    """Return WordNet's sentence pairs in rows of 64, 16 a batch: padded and packed to train on, and 400 held out.

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
