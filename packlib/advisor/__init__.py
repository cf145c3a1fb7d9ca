"""Advice for a histogram of lengths: what was tried, what was found, what to change. It needs no Jupyter."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
