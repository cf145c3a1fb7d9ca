"""Functions compiled by Numba, at their first use or ahead of it (`packlib.packing.compile_ahead`).

Import this file late: loading Numba takes half a second.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numba
from numba.core import event


@cache
def compiled(function: Callable) -> Callable:
    """Compile at the first call; keep the machine code on disk if there is a folder that can be written to.

    The function is marked `no mutate`, since Numba cannot compile what `make mutants` puts around it.
    """
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return numba.njit(function)


@contextmanager
def announced(what: str, seconds: int) -> Iterator[None]:
    """Within, a line on stderr comes before anything of `what` is compiled, which may take so many seconds.

    Machine code that is on disk is loaded without a word. What other threads compile meanwhile is not looked at.
    """
    with event.install_listener("numba:compile", _Announcer(f"packlib: compiling {what}, about {seconds} s …")):
        yield


_said: set[str] = set()  # each line comes once


class _Announcer(event.Listener):
    def __init__(self, line: str) -> None:
        self.line, self.thread = line, threading.get_ident()

    def on_start(self, event: event.Event) -> None:
        if self.line not in _said and threading.get_ident() == self.thread:
            _said.add(self.line)
            print(self.line, file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        pass
