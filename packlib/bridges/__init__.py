"""Bridges to other people's trainers: transformers' own, on packs."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
