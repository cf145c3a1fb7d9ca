"""The end of a search: so many seconds, rounds or steps."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from packlib.packing.search.master import MasterProblem

_STEPS_AN_ITERATION = 30_000  # of the simplex method, as far as they do not depend on the linear program
_STEPS_A_ROW = 8  # more in each iteration, for each row of the linear program


class Deadline:
    """So many seconds from now, so many rounds, and so many steps: the first that is used up ends the search.

    A round is a linear program, or as much work of another kind. A step is an addition of the exact knapsack, some two
    nanoseconds, or as much work of another kind. The plan of a search has as many packs on a busy machine as on an idle
    one if only rounds or steps end it.
    """

    def __init__(self, seconds: float = math.inf, rounds: float = math.inf, steps: float = math.inf) -> None:
        self.started, self._seconds = time.perf_counter(), seconds
        self._rounds, self._steps = rounds, steps

    def seconds(self) -> float:
        """Return the seconds since this deadline was made."""
        return time.perf_counter() - self.started

    def seconds_left(self) -> float:
        """Return the seconds that are left; 0 or less if the search must end."""
        if self._rounds <= 0 or self._steps <= 0:
            return 0.0
        left = math.inf if math.isinf(self._seconds) else self._seconds - self.seconds()
        if left <= 0:
            self.stop()
        return left

    def stop(self) -> None:
        """End the search: from now on nothing is left."""
        self._rounds = 0

    def allows(self, steps: float) -> bool:
        """Return whether that many steps are left."""
        return steps <= self._steps

    def spend(self, steps: float) -> None:
        """Count steps that were made."""
        self._steps -= steps

    @contextmanager
    def at_most(self, steps: float) -> Iterator[None]:
        """Allow a `with` block so many steps at most; after it, all others are there again."""
        steps_before = self._steps
        steps_of_block = min(steps, steps_before)
        self._steps = steps_of_block
        try:
            yield
        finally:
            self._steps += steps_before - steps_of_block

    def next_round(self) -> bool:
        """Count a round that solves no linear program; return False if there is no round or time left for it."""
        begins = self.seconds_left() > 0
        self._rounds -= 1
        return begins

    def solve(self, master: MasterProblem, counts: np.ndarray, reserve: float = 0.0) -> bool:
        """Solve the linear program for `counts`, which is a round; return whether it was solved to the end.

        It is not if seconds, rounds or steps are used up first.

        Args:
            counts: as of `MasterProblem.solve`.
            reserve: seconds that must be left after it.
        """
        if self._rounds <= 0 or self._steps <= 0:
            return False
        steps_an_iteration = _STEPS_AN_ITERATION + _STEPS_A_ROW * len(master.lengths)
        most_iterations = self._steps / steps_an_iteration
        solved = master.solve(counts, lambda: self.seconds_left() <= reserve, most_iterations)
        self.spend(master.iterations * steps_an_iteration)
        self._rounds -= 1
        return solved
