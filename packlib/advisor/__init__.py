"""Advice for a histogram of lengths: what was tried, what was found, what to change. It needs no Jupyter."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
