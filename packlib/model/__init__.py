"""The packed model: attention within sequences, packed BERT, a causal twin, losses per sequence."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
