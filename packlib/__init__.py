"""packlib: train on sequences of different lengths without paying for padding.

The rooms, in the order of the story: `lengths`, `packing`, `distributed`, `batches`, `model`, `training`, `bridges`,
`advisor`, `workbook`. Each lists in its `__init__.pyi` what it offers. A name is loaded when it is first used, so
`import packlib` loads none of numpy, SciPy and torch.
"""

from packlib.installed import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
