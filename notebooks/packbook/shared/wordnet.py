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
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("PACKLIB_CACHE") or user_cache / "packlib")


def sentence_pairs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return usage examples for WordNet's definitions, of which half are another gloss's.

    Returns:
        The second sentences, str, "" for a gloss without an example; and the labels: 0 if the example is the
        gloss's own, 1 if it is another's, -100 if there is none. Every example is used exactly once.
    """
    examples = wordnet_texts().examples.copy()
    with_example = np.flatnonzero(examples != "")
    labels = np.full(len(examples), -100)
    labels[with_example] = 0
    shuffled = np.random.default_rng([whole_number("seed", seed, 0), 1]).permutation(with_example)
    swapped = shuffled[: len(with_example) // 2]
    labels[swapped] = 1
    examples[swapped] = examples[np.roll(swapped, 1)]  # each gets that of the one before, so none keeps its own
    return examples, labels


def wordnet_store(seed: int = 0, max_length: int = 128, progress: bool = True) -> TokenStore:
    """Return the 117,659 glosses of WordNet as tokens: `[CLS] definition [SEP]`, with examples `… examples [SEP]`.

    They are tokenized once, in some seconds, and later mapped from a file in `cache_folder()`, whose checksum is
    compared.

    Args:
        seed: chooses the glosses that get another gloss's examples (see `sentence_pairs`).
        max_length: the few longer sequences are truncated, the longer sentence first.
        progress: show a progress bar the first time.
    """
    # the file's name changes with the arguments, the texts and the tokenizer; the 1 is the version of its form
    key = hashlib.sha256(f"1 {whole_number('seed', seed, 0)} {whole_number('max_length', max_length, 5)}".encode())
    for path in (data_path("wordnet", "glosses.parquet"), tokenizer_path() / "tokenizer.json"):
        key.update(hashlib.sha256(path.read_bytes()).digest())
    path = cache_folder() / f"wordnet-{key.hexdigest()[:16]}.tokens"
    try:
        return TokenStore.load(path)
    except (FileNotFoundError, ValueError):
        path.unlink(missing_ok=True)  # a damaged file is made again
    pairs, labels = sentence_pairs(seed)
    store = tokenize(wordnet_tokenizer(), wordnet_texts().definition, pairs, labels, max_length, "truncate", progress)
    store.save(path)
    return TokenStore.load(path)


def tokenized(glosses: np.ndarray, seed: int, max_length: int) -> TokenStore:
    """Return some of WordNet's glosses as tokens, with usage examples where they have any.

    Args:
        glosses: indices in `wordnet_texts()`.
        seed: chooses the glosses that get another gloss's examples (see `sentence_pairs`).
    """
    definitions = wordnet_texts().definition[glosses]
    examples, labels = sentence_pairs(seed)
    tokenizer = wordnet_tokenizer()
    return tokenize(tokenizer, definitions, examples[glosses], labels[glosses], max_length, overlong="truncate")


def tokenized_pairs(number: int, seed: int) -> TokenStore:
    """Return `number` of WordNet's sentence pairs, drawn at random and cut to 64 tokens."""
    with_example = np.flatnonzero(wordnet_texts().examples != "")
    chosen = np.random.default_rng(seed).permutation(with_example)[:number]
    return tokenized(chosen, seed, max_length=64)


def pair_loaders(number: int, seed: int) -> tuple[dict[str, PackLoader], list[PackedBatch], float]:
    """Return loaders of WordNet's sentence pairs, with rows of 64 slots and 16 rows in a batch.

    Args:
        number: of pairs to train on; 400 further ones are held out.

    Returns:
        Loaders by "padded" and "packed"; the held-out batches, which have the same masked tokens for every model; and
        the packing factor.
    """
    held_out_pairs = 400
    store = tokenized_pairs(number + held_out_pairs, seed)
    collator = PackingCollator(64, MlmMasking.for_tokenizer(wordnet_tokenizer(), seed))

    def loader(part: TokenStore, depth: int | None, **options) -> PackLoader:
        packs = pack_lengths(part.lengths, 64, "lpfhp", depth, seed=seed)
        return pack_loader(part, packs, collator, 16, seed=seed, **options)

    train = store.take(np.arange(number))
    held_out = store.take(np.arange(number, number + held_out_pairs))
    loaders = {"padded": loader(train, 1), "packed": loader(train, None)}
    return loaders, list(loader(held_out, None, shuffle=False)), number / len(loaders["packed"].dataset)
