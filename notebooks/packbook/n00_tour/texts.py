"""The texts of the tour. Nothing here loads torch, so that the first page does not wait for it."""

import numpy as np

from packbook.shared.glosses import wordnet_texts
from packlib.lengths import tokenizer_path

TOPICS = (  # of WordNet's lexicographer files: gentle enough for a first page
    "noun.animal", "noun.food", "noun.object", "noun.phenomenon", "noun.shape", "verb.weather", "verb.motion",
)  # fmt: skip


def choose_texts(texts: str, number: int, max_length: int, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return some of WordNet's definitions in `TOPICS`; "wordnet-pairs" has the usage examples too.

    Returns:
        The texts as they read; how many tokens each has, longer ones cut; and their numbers in WordNet.
    """
    wordnet, paired = wordnet_texts(), texts == "wordnet-pairs"
    tokens = wordnet.pair_tokens if paired else wordnet.definition_tokens
    there = np.flatnonzero((tokens > 0) & np.isin(wordnet.lexname, TOPICS))
    shown = np.random.default_rng(seed).choice(there, number, replace=False)
    words, examples = wordnet.definition[shown].tolist(), wordnet.examples[shown].tolist()
    if paired:
        words = [f"{a}; {b}" for a, b in zip(words, examples, strict=True)]
    return words, np.minimum(tokens[shown], max_length).astype(np.int64), shown


def tokens_of(text: str) -> list[str]:
    """Return a text as the model gets it, with the tokens that begin and end it."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(tokenizer_path() / "tokenizer.json")).encode(text).tokens
