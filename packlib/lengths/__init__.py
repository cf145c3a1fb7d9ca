"""Sequence lengths: where they come from, and what padding them costs.

Read first `histogram.py`: a `LengthHistogram` is how often each length occurs, and all that planning needs.
`sources.py` loads the shipped sets and your own files, `waste.py` counts what each way to batch pads.
"""

from packlib.lengths.histogram import LengthHistogram
from packlib.lengths.sources import available, data_path, load, tokenizer_path
from packlib.lengths.synthetic import image_patch_like, log_normal, protein_like, two_humped, uniform
from packlib.lengths.waste import HABITS, PaddingWaste, padding_waste

__all__ = [
    "HABITS",
    "LengthHistogram",
    "PaddingWaste",
    "available",
    "data_path",
    "image_patch_like",
    "load",
    "log_normal",
    "padding_waste",
    "protein_like",
    "tokenizer_path",
    "two_humped",
    "uniform",
]
