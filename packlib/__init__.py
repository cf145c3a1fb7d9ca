"""packlib: train on sequences of different lengths without paying for padding.

The rooms, in the order of the story: `lengths`, `packing`, `batches`, `model`, `distributed`, `training`,
`workbook`. Importing `packlib` loads the first two; neither needs torch or SciPy before they are used.
"""

from packlib import lengths, packing

__all__ = ["lengths", "packing"]
