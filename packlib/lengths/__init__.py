"""Lengths: histograms, where they come from, and what padding costs."""

from packlib.lengths.histogram import LengthHistogram
from packlib.lengths.wordnet import WordNetTexts, data_path, tokenizer_path, wordnet_texts

__all__ = ["LengthHistogram", "WordNetTexts", "data_path", "tokenizer_path", "wordnet_texts"]
