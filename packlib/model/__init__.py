"""The packed model: attention within sequences, packed BERT, a causal twin, losses per sequence."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
