"""Functions compiled by Numba, ahead of their use if you like. Import late: loading Numba takes half a second.

    python -m packlib.packing.compiled

compiles all of this room and keeps the machine code on disk, which `make setup` does too. `packlib.batches.cutting` has
one more loop, which is compiled, and kept likewise, when it first cuts millions of rows: in a second or two.
"""

import warnings
from collections.abc import Callable
from functools import cache

import numba
from numba.core import event

from packlib.packing.clock import NotCompiled, seconds_left

_COMPILING = 10.0  # seconds that a function may take to compile on a slow machine


@cache
def compiled(function: Callable) -> Callable:
    """Compile at the first call; keep the machine code on disk if there is a folder that can be written to.

    Raises:
        NotCompiled: in the call, if there is no machine code yet and less time is left than compiling may take.
    """
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return numba.njit(function)


class _Clock(event.Listener):
    """Numba tells it before a function is compiled that was not on disk."""

    def on_start(self, event: event.Event) -> None:
        if seconds_left() < _COMPILING:
            said = "There is no time to compile a part of the search; python -m packlib.packing.compiled does it once."
            warnings.warn(said, RuntimeWarning, stacklevel=2)
            raise NotCompiled

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Clock())


def main() -> None:
    """Run every compiled function of this room once, on little."""
    import numpy as np

    from packlib.lengths.families import log_normal
    from packlib.packing import Work, balance, context_shards, long_rows, packs, relaxed_knapsack, swapping

    histogram = log_normal(3000, 512, 4.0, 1.2)
    long_rows.LongSearch(histogram, 6, None).run()
    relaxed_knapsack.relaxed_best(np.arange(histogram.max_length + 1), histogram.counts > 0, 6)
    swapping.swap_search(np.array([5, 4, 3, 3, 3, 2]), 10, 3, 2, 1, 0)
    compiled(packs.swap)(np.arange(2, dtype=np.int32), np.array([1, 0]))
    made = balance(packs.Packs(np.arange(2), np.arange(3), np.ones(2, int), 1), [1, 1], ranks=2, work=Work(1, 1))
    context_shards(made, [1, 1], 2, "whole", work=made.work)


if __name__ == "__main__":
    main()
