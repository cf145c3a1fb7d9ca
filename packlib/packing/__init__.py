"""Packing: plans that put the lengths of a histogram together, and packs that put samples together."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
