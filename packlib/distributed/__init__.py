"""Many ranks: starting them from a notebook or with torchrun, agreeing on errors, sorting and packing across them."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
