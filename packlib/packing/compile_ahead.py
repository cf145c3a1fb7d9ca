"""Compile the loops of packing ahead of their use, and keep the machine code on disk.

    python -m packlib.packing.compile_ahead

does it, and `make setup` too. `packlib.batches.cutting` has one more loop, which is compiled, and kept likewise, when
it first cuts millions of rows: in a second or two.
"""

import numpy as np

from packlib.packing.assigning import swap
from packlib.packing.compiled import compiled
from packlib.packing.search import group_bound, long_rows, swapping


def main() -> None:
    """Run every compiled function once, on little."""
    group_bound.prepare()
    long_rows.prepare()
    swapping.prepare()
    compiled(swap)(np.arange(2, dtype=np.int32), np.array([1, 0]))


if __name__ == "__main__":
    main()
