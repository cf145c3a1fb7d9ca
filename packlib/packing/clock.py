"""How much time a search has: `optimal` sets a limit, and what takes long asks how much of it is left."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ends = ContextVar("ends", default=math.inf)


class NotCompiled(Exception):
    """A function would have to be compiled first, which may take longer than there is time."""


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Within, `seconds_left` counts down from so many seconds, or from what was left before if that is less.

    >>> with limited_to(60):
    ...     59 < seconds_left() <= 60
    True
    >>> seconds_left()
    inf
    """
    token = _ends.set(min(_ends.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def seconds_left() -> float:
    """Seconds until the limit that is set in this thread, or infinity."""
    return _ends.get() - time.perf_counter()
