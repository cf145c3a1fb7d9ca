"""The texts of the tour. Nothing here loads torch, so that the first page does not wait for it."""

import numpy as np

from packbook.shared.glosses import wordnet_texts
from packlib.lengths import tokenizer_path

TOPICS = (  # of WordNet's lexicographer files: gentle enough for a first page
    "noun.animal", "noun.food", "noun.object", "noun.phenomenon", "noun.shape", "verb.weather", "verb.motion",
)  # fmt: skip


def choose_texts(texts: str, number: int, max_length: int, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Choose some of WordNet's glosses in `TOPICS` at random.

    Args:
        texts: "wordnet" for definitions, "wordnet-pairs" for definitions with their usage examples.
        number: of texts.
        max_length: tokens to which longer texts are cut.

    Returns:
        The texts; their tokens, int64, shape (number,); and their indices in `wordnet_texts()`, shape (number,).
    """
    wordnet = wordnet_texts()
    paired = texts == "wordnet-pairs"
    tokens = wordnet.pair_tokens if paired else wordnet.definition_tokens  # 0 for a gloss without examples
    candidates = np.flatnonzero((tokens > 0) & np.isin(wordnet.lexname, TOPICS))
    chosen = np.random.default_rng(seed).choice(candidates, number, replace=False)
    words = wordnet.definition[chosen].tolist()
    if paired:
        examples = wordnet.examples[chosen].tolist()
        words = [f"{definition}; {example}" for definition, example in zip(words, examples, strict=True)]
    return words, np.minimum(tokens[chosen], max_length).astype(np.int64), chosen


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text as the model gets them, with [CLS] at the beginning and [SEP] at the end."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(tokenizer_path() / "tokenizer.json")).encode(text).tokens
