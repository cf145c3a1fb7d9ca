"""Run a call in a child process, and kill the child if it is stuck.

While compiled code holds the interpreter of a process, neither its signal handlers nor its threads run. So another
process watches it.
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

GRACE = 5.0  # seconds that the child has, after its own time limit, to report by itself what hangs
_SECONDS_TO_END = 5.0  # that the child has once it has answered; a thread that hangs may hold it
# The child's program. `multiprocessing` would import the caller's script again.
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from packlib.tools.watched import serve; serve(int(sys.argv[1]))"
_Waiting = tuple[str, float]  # what the child waits for, and how many seconds that may take


class StuckError(TimeoutError):
    """The call did not go on within its time limit, and could not be interrupted."""


def watched(command: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Call a function in a child process, and return its answer.

    Args:
        command: the command of the user, such as "packlib check", for errors.
        function: "module:name". It also gets the keyword argument `tell`, a function that it calls with what it waits
            for and how many seconds that may take, and with None once the wait is over.
        arguments, options: of the function; these and its answer must be picklable.

    Raises:
        StuckError: if a wait takes `GRACE` seconds longer than it may; the child has been killed.
        ValueError: with the sentence of a ValueError, TypeError or OSError of the function; or if the child died.
    """
    messages, childs_end = Pipe()
    descriptor = childs_end.fileno()
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(descriptor), *sys.path],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=2,  # the code under check prints to standard error, since standard output is for the answer
        start_new_session=True,  # a group that can be killed as a whole; and an interrupt is for the parent
    )
    childs_end.close()
    try:
        messages.send((command, function, arguments, options))
        return _answer(child, messages)
    finally:
        _kill(child)


def _answer(child: "subprocess.Popen[bytes]", messages: Connection) -> Any:
    """Receive messages of the child up to its answer, and return that; raise the errors of `watched`."""
    waiting: _Waiting | None = None
    while True:
        if waiting:
            awaited, seconds = waiting
            if not messages.poll(seconds + GRACE):
                raise StuckError(
                    f"{awaited} did not come within {seconds:g} seconds and could not be interrupted: compiled code "
                    "hangs that the loader calls. See --time-limit."
                )
        try:
            kind, value = messages.recv()
        except (EOFError, ConnectionResetError):
            raise ValueError(_death(child.wait(), waiting)) from None
        if kind == "answer":
            with suppress(subprocess.TimeoutExpired):
                child.wait(_SECONDS_TO_END)
            return value
        if kind == "sentence":
            raise ValueError(value)
        if kind == "traceback":
            raise RuntimeError(f"the checking process failed:\n{value}")
        waiting = value  # the message is of the kind "waiting"; None once the wait is over


def _death(code: int, waiting: _Waiting | None) -> str:
    """Say how a child died without an answer; a negative code is that of a signal."""
    cause = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
    occasion = f" while it waited for this: {waiting[0]}" if waiting else ""
    return f"The process of the loader {cause}{occasion}."


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """Kill a child that has not ended, and all processes that it has started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def serve(descriptor: int) -> None:
    """Receive a function from the parent, call it, and send back the answer or an error; this runs in the child.

    Args:
        descriptor: of the child's end of the pipe.
    """
    messages = Connection(descriptor)
    os.set_inheritable(descriptor, False)  # what the function starts must not hold the pipe open
    command, function, arguments, options = messages.recv()

    def tell(doing: str | None, seconds: float = 0.0) -> None:
        messages.send(("waiting", None if doing is None else (doing, seconds)))

    module, _, name = function.rpartition(":")
    try:
        with needed_by(command):
            answer = getattr(importlib.import_module(module), name)(*arguments, tell=tell, **options)
    except (ValueError, TypeError, OSError, MissingExtraError, MemoryError) as error:
        messages.send(("sentence", sentence(error)))
    except Exception:
        messages.send(("traceback", traceback.format_exc()))
    else:
        messages.send(("answer", answer))
    sys.stdout.flush()
    sys.stderr.flush()
