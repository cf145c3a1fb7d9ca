"""Many ranks: starting them from a notebook or with torchrun, agreeing on errors, sorting and packing across them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
