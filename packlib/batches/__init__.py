"""Batches: tokens, masking, collation and loading of packs; batches by tokens, curricula, variable rates."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
