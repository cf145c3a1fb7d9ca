from .families import image_patch_like, log_normal, protein_like, two_humped, uniform
from .histogram import LengthHistogram
from .hub import from_hub
from .sources import available, load
from .waste import HABITS, PaddingWaste, make_batches, padding_waste
from .wordnet import WordNetTexts, data_path, tokenizer_path, wordnet_texts

__all__ = [
    "HABITS",
    "LengthHistogram",
    "PaddingWaste",
    "WordNetTexts",
    "available",
    "data_path",
    "from_hub",
    "image_patch_like",
    "load",
    "log_normal",
    "make_batches",
    "padding_waste",
    "protein_like",
    "tokenizer_path",
    "two_humped",
    "uniform",
    "wordnet_texts",
]
