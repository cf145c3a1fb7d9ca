"""Batches: tokens, masking, collation and loading of packs; batches by tokens, curricula, variable rates."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
