"""Scaling up: buckets of shapes and compiling, recomputation, and what a pod costs."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
