"""WordNet as tokens: real sentence pairs for next-sentence prediction, cached after the first time."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from packlib.batches.tokens import TokenStore, tokenize
from packlib.checks import whole_number
from packlib.lengths.wordnet import data_path, tokenizer_path, wordnet_texts


def wordnet_tokenizer() -> Any:
    """The committed WordPiece tokenizer, a transformers `BertTokenizerFast` with 4,000 tokens.

    >>> wordnet_tokenizer()("a small dog")["input_ids"]
    [2, 43, 325, 1729, 3]
    """
    from transformers import BertTokenizerFast

    return BertTokenizerFast.from_pretrained(tokenizer_path())


def cache_folder() -> Path:
    """Where token stores are kept: $PACKLIB_CACHE, or else packlib/ in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PACKLIB_CACHE") or Path(home) / "packlib")


def sentence_pairs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Usage examples for WordNet's definitions, half of them another gloss's.

    Returns:
        The second sentences, str, "" for a gloss without an example; and the labels: 0 if the example is the
        gloss's own, 1 if it is another's, -100 if there is none. Every example is used exactly once.
    """
    examples = wordnet_texts().examples.copy()
    have = np.flatnonzero(examples != "")
    labels = np.full(len(examples), -100)
    labels[have] = 0
    others = np.random.default_rng([whole_number("seed", seed, 0), 1]).permutation(have)[: len(have) // 2]
    labels[others] = 1
    examples[others] = examples[np.roll(others, 1)]
    return examples, labels


def wordnet_store(seed: int = 0, max_length: int = 128, progress: bool = True) -> TokenStore:
    """The 117,659 glosses of WordNet as `[CLS] definition [SEP]`, or `[CLS] definition [SEP] examples [SEP]`.

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
