"""Training after packing: recipes and what to change in them, LAMB, schedules in sequences, one loop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
