"""Scaling up: buckets of shapes and compiling, what a pod costs, pipelines, rings, sharded states."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
