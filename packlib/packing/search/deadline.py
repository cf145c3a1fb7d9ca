"""How long a search may go on."""

import math
import time

import numpy as np

from packlib.packing.search.master import MasterProblem


class Deadline:
    """So many seconds from now, and so many rounds: linear programs, or as much work of another kind.

    The plan of a search has as many packs on a busy machine as on an idle one if only rounds end it.
    """

    def __init__(self, seconds: float = math.inf, rounds: float = math.inf) -> None:
        self.started, self._seconds, self._rounds = time.perf_counter(), seconds, rounds

    def seconds(self) -> float:
        """Since it was made."""
        return time.perf_counter() - self.started

    def seconds_left(self) -> float:
        """0 or less if the search must end."""
        if self._rounds <= 0:
            return 0.0
        left = math.inf if math.isinf(self._seconds) else self._seconds - self.seconds()
        if left <= 0:
            self.stop()
        return left

    def stop(self) -> None:
        """Let it be now."""
        self._rounds = 0

    def next_round(self) -> bool:
        """Begin a round that solves no linear program; False if there is no round or time left for it."""
        begins = self.seconds_left() > 0
        self._rounds -= 1
        return begins

    def solve(self, master: MasterProblem, counts: np.ndarray, kept: float = 0.0) -> bool:
        """Solve the linear program for `counts`, which is a round; False if there is no round or time left for it.

        Args:
            kept: seconds that must be left then.
        """
        solved = self._rounds > 0 and master.solve(counts, self.seconds_left() - kept)
        self._rounds -= 1
        return solved
