"""Calls that cannot take longer than they may: in a process of their own, which is stopped when the time is up."""

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any


class TimeIsUpError(TimeoutError):
    """A call took longer than it may, and was stopped."""


class Bounded:
    """A process that answers one call after the other. Use it in a `with` block.

    Functions, arguments and results travel by pickle, so functions are those of a module. The process does not import
    the script that is running, as those of `multiprocessing` do, so a script needs no `if __name__ == "__main__":`.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def call(self, function: Callable, *arguments: Any, limit: float, **options: Any) -> tuple[Any, float]:
        """What `function(*arguments, **options)` returns, and the seconds it took.

        Raises:
            TimeIsUpError: after `limit` seconds.
            ChildProcessError: if the process ended, as it does where memory runs out.
            Exception: what the function raised.
        """
        asked = pickle.dumps((function, arguments, options))
        try:
            if self._process is None:
                self._start()
            self._pipe.send_bytes(asked)
            answer = self._pipe.recv_bytes() if self._pipe.poll(limit) else None
        except (EOFError, ConnectionError):
            self.close()
            raise ChildProcessError("Its process ended early; is there enough memory?") from None
        if answer is None:
            self.close()
            raise TimeIsUpError(f"It was stopped after {limit:g} seconds.")
        error, result = pickle.loads(answer)
        if error is not None:
            raise error
        return result

    def _start(self) -> None:
        self._pipe, theirs = Pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({theirs.fileno()})"
        # its own group of processes: the parent decides what an interrupt from the keyboard stops
        self._process = subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()], process_group=0)
        theirs.close()
        self._pipe.recv_bytes()  # it is ready; its start is not on the clock

    def close(self) -> None:
        """Stop the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
            self._process = None

    def __enter__(self) -> "Bounded":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(handle: int) -> None:
    """What the process does: answer the calls that come through a pipe, as long as somebody is at its other end."""
    pipe, calls = Connection(handle), queue.SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(pipe, calls), daemon=True).start()
    pipe.send_bytes(b"ready")
    while True:
        pipe.send_bytes(_answer(calls.get()))


def _receive(pipe: Connection, calls: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            calls.put(pipe.recv_bytes())
    except (EOFError, ConnectionError):  # the parent has ended, and nobody waits for an answer any more
        os._exit(1)


def _answer(call: bytes) -> bytes:
    """The error that was raised, or None; and the result with its seconds."""
    try:
        function, arguments, options = pickle.loads(call)
        started = time.perf_counter()
        return pickle.dumps((None, (function(*arguments, **options), time.perf_counter() - started)))
    except BaseException as error:
        error.add_note(traceback.format_exc())  # where it happened, which pickle leaves out
        return pickle.dumps((error, None))
