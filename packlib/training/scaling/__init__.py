"""Scaling up: buckets of shapes and compiling, what a pod costs, pipelines, recomputation."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
