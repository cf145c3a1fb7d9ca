"""Lengths: histograms, where they come from, and what padding costs."""

from packlib.lengths.families import image_patch_like, log_normal, protein_like, two_humped, uniform
from packlib.lengths.histogram import LengthHistogram
from packlib.lengths.sources import available, load
from packlib.lengths.wordnet import WordNetTexts, data_path, tokenizer_path, wordnet_texts

__all__ = [
    "LengthHistogram",
    "WordNetTexts",
    "available",
    "data_path",
    "image_patch_like",
    "load",
    "log_normal",
    "protein_like",
    "tokenizer_path",
    "two_humped",
    "uniform",
    "wordnet_texts",
]
