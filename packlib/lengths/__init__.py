"""Lengths: histograms, where they come from, and what padding costs."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
