"""Compile the loops of packing and balancing ahead of their use, and keep the machine code on disk.

    python -m packlib.work.compile_ahead

does it, and `make setup` too. `packlib.batches.cutting` has one more loop, which is compiled, and kept likewise, when
it first cuts millions of rows: in a second or two.
"""

import numpy as np

from packlib.packing import packs
from packlib.packing.compiled import compiled
from packlib.packing.search import long_rows, swapping
from packlib.work.balancing import balance
from packlib.work.context_parallel import context_shards
from packlib.work.cost import Work


def main() -> None:
    """Run every compiled function once, on little."""
    long_rows.prepare()
    swapping.prepare()
    compiled(packs.swap)(np.arange(2, dtype=np.int32), np.array([1, 0]))
    made = balance(packs.Packs(np.arange(2), np.arange(3), np.ones(2, int), 1), [1, 1], ranks=2, work=Work(1, 1))
    context_shards(made, [1, 1], 2, "whole", work=made.work)


if __name__ == "__main__":
    main()
