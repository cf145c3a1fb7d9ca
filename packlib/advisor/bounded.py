"""Calls that cannot take longer than they may: in a process of their own, which is stopped when the time is up."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_START = 120  # seconds that a busy machine may take to start a process


class TimeIsUpError(TimeoutError):
    """A call took longer than it may, and was stopped."""


class Bounded:
    """A process that answers one call after the other. Use it in a `with` block.

    Functions, arguments and results travel by pickle, so functions are those of a module.
    """

    def __init__(self) -> None:
        self._process: multiprocessing.process.BaseProcess | None = None

    def call(self, function: Callable, *arguments: Any, limit: float, **options: Any) -> tuple[Any, float]:
        """What `function(*arguments, **options)` returns, and the seconds it took.

        Raises:
            TimeIsUpError: after `limit` seconds.
            ChildProcessError: if the process ended, as it does where memory runs out.
            Exception: what the function raised.
        """
        if self._process is None:
            self._start()
        try:
            self._pipe.send((function, arguments, options))
            answer = self._pipe.recv() if self._pipe.poll(limit) else None
        except (EOFError, ConnectionError):
            self.close()
            raise ChildProcessError("Its process ended early; is there enough memory?") from None
        if answer is None:
            self.close()
            raise TimeIsUpError(f"It was stopped after {limit:g} seconds.")
        error, result, seconds = answer
        if error is not None:
            raise error
        return result, seconds

    def _start(self) -> None:
        context = multiprocessing.get_context(
            "spawn"
        )  # a copy of a notebook's kernel would hold its threads' locks
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START):
            self.close()
            raise ChildProcessError(f"A process did not start within {_START} seconds.")
        self._pipe.recv()

    def close(self) -> None:
        """Stop the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def __enter__(self) -> "Bounded":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt stops
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe.send("ready")
    while True:
        try:
            function, arguments, options = pipe.recv()
        except EOFError:  # the parent is gone
            return
        started = time.perf_counter()
        try:
            answer: tuple = None, function(*arguments, **options), time.perf_counter() - started
        except Exception as error:
            answer = error, None, 0.0
        pipe.send(answer)


def _end_with_parent() -> None:
    """A parent that is killed stops nothing, and nobody waits for the answer any more."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
