from .families import image_patch_like, log_normal, protein_like, two_humped, uniform
from .histogram import LengthHistogram
from .hub import from_hub
from .sources import available, data_path, load, tokenizer_path
from .waste import HABITS, PaddingWaste, padding_waste

__all__ = [
    "HABITS",
    "LengthHistogram",
    "PaddingWaste",
    "available",
    "data_path",
    "from_hub",
    "image_patch_like",
    "load",
    "log_normal",
    "padding_waste",
    "protein_like",
    "tokenizer_path",
    "two_humped",
    "uniform",
]
