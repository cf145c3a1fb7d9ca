"""Run a call in a child process, and end that where it is stuck.

No signal and no thread of a process gets a turn while compiled code holds its interpreter. Another process does.
"""

import importlib
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from packlib.installed import MissingExtraError, needed_by
from packlib.tools.exits import sentence

GRACE = 5.0  # seconds that the child has, after its own time limit, to say itself what hangs
_END = 5.0  # seconds that the child has to end once it has answered; a thread that hangs may hold it
# Not by `multiprocessing`, which would import the caller's script again
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from packlib.tools.watched import serve; serve(int(sys.argv[1]))"
_Waiting = tuple[str, float]  # what the child waits for, and how many seconds that may take


class StuckError(TimeoutError):
    """The call did not go on within its time limit, and could not be interrupted."""


def watched(command: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Call a function in a child process, and return its answer.

    Args:
        command: what the user called, such as "packlib check", for errors.
        function: "module:name". It is called with `tell` besides, a function that takes what it now waits for and how
            many seconds that may take, or None once that came.
        arguments, options: that can be pickled, as the answer can.

    Raises:
        StuckError: if what it waits for takes `GRACE` seconds longer than it may; the child has been ended.
        ValueError: with the sentence of a ValueError, TypeError or OSError of the function; or if the child was ended.
    """
    ours, theirs = Pipe()
    end = theirs.fileno()
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(end), *sys.path],
        pass_fds=[end],
        stdin=subprocess.DEVNULL,
        stdout=2,  # what the code under check prints is no answer
        start_new_session=True,  # a group that can be ended as a whole; and an interrupt is for the parent
    )
    theirs.close()
    try:
        ours.send((command, function, arguments, options))
        return _answer(child, ours)
    finally:
        _end(child)


def _answer(child: "subprocess.Popen[bytes]", messages: Connection) -> Any:
    """Return the answer that the child gives in the end."""
    waiting: _Waiting | None = None
    while True:
        if waiting and not messages.poll(waiting[1] + GRACE):
            raise StuckError(
                f"{waiting[0]} did not come within {waiting[1]:g} seconds and could not be interrupted: compiled code "
                "hangs that the loader calls. See --time-limit."
            )
        try:
            kind, value = messages.recv()
        except (EOFError, ConnectionResetError):
            raise ValueError(_death(child.wait(), waiting)) from None
        if kind == "answer":
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END)
            return value
        if kind == "sentence":
            raise ValueError(value)
        if kind == "traceback":
            raise RuntimeError(f"the checking process failed:\n{value}")
        waiting = value


def _death(code: int, waiting: _Waiting | None) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
    while_what = f" while it waited for this: {waiting[0]}" if waiting else ""
    return f"The process of the loader {how}{while_what}."


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a child that has not ended, and all that it has started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def serve(end: int) -> None:
    """Call, in the child, the function that the parent sends to this end of a pipe, and send it the answer."""
    messages = Connection(end)
    os.set_inheritable(end, False)
    command, function, arguments, options = messages.recv()

    def tell(doing: str | None, seconds: float = 0.0) -> None:
        messages.send(("waiting", None if doing is None else (doing, seconds)))

    module, _, name = function.rpartition(":")
    try:
        with needed_by(command):
            found = getattr(importlib.import_module(module), name)(*arguments, tell=tell, **options)
    except (ValueError, TypeError, OSError, MissingExtraError, MemoryError) as error:
        messages.send(("sentence", sentence(error)))
    except Exception:
        messages.send(("traceback", traceback.format_exc()))
    else:
        messages.send(("answer", found))
    sys.stdout.flush()
    sys.stderr.flush()
