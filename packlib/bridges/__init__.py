"""Bridges to other people's trainers and models: packs for them, and transformers' own trainer on packs."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
