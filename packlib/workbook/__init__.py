"""The workbook: figures, explorers, exercises, parameters and the command line."""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
