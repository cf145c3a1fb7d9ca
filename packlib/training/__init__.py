"""Training after packing: recipes and what to change in them, LAMB, schedules in sequences, one loop."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
