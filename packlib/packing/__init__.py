"""Packing: plans that put the lengths of a histogram together, and packs that put samples together."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
