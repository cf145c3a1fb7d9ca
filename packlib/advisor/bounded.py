"""Calls that cannot take longer than they may: in a process of their own, which is stopped when the time is up."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any


class TimeIsUpError(TimeoutError):
    """A call took longer than it may, and was stopped."""


class Bounded:
    """A process that answers one call after the other. Use it in a `with` block.

    Functions, arguments and results travel by pickle, so functions are those of a module.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def call(self, function: Callable, *arguments: Any, limit: float, **options: Any) -> tuple[Any, float]:
        """What `function(*arguments, **options)` returns, and the seconds it took.

        Raises:
            TimeIsUpError: after `limit` seconds.
            ChildProcessError: if the process ended, as it does where memory runs out.
            Exception: what the function raised.
        """
        try:
            if self._pool is None:
                # a copy of a notebook's kernel would hold its threads' locks, so none is forked
                pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
                self._pid = pool.submit(os.getpid).result()  # its start is not on the clock
                self._pool = pool
            answer = self._pool.submit(_timed, function, arguments, options)
            if wait([answer], limit).done:
                return answer.result()
        except BrokenProcessPool:
            self.close()
            raise ChildProcessError("Its process ended early; is there enough memory?") from None
        self.close()
        raise TimeIsUpError(f"It was stopped after {limit:g} seconds.")

    def close(self) -> None:
        """Stop the process, whatever it does."""
        if self._pool is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> "Bounded":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _timed(function: Callable, arguments: tuple, options: dict) -> tuple[Any, float]:
    started = time.perf_counter()
    return function(*arguments, **options), time.perf_counter() - started


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt stops
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed stops nothing, and nobody waits for the answer any more."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
