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
        """Return the seconds since it was made."""
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
        """Allow the block so many steps at most; what it leaves of all steps is there again after it."""
        given, all_steps = min(steps, self._steps), self._steps
        self._steps = given
        try:
            yield
        finally:
            self._steps += all_steps - given

    def next_round(self) -> bool:
        """Begin a round that solves no linear program; False if there is no round or time left for it."""
        begins = self.seconds_left() > 0
        self._rounds -= 1
        return begins

    def solve(self, master: MasterProblem, counts: np.ndarray, kept: float = 0.0) -> bool:
        """Solve the linear program for `counts`, which is a round; False if seconds, rounds or steps are used up first.

        Args:
            kept: seconds that must be left after it.
        """
        if self._rounds <= 0 or self._steps <= 0:
            return False
        an_iteration = _STEPS_AN_ITERATION + _STEPS_A_ROW * len(master.lengths)
        solved = master.solve(counts, lambda: self.seconds_left() <= kept, self._steps / an_iteration)
        self.spend(master.iterations * an_iteration)
        self._rounds -= 1
        return solved
