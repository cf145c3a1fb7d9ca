"""The commands `packlib` and `packbook`: Ctrl-C ends in a sentence also while their packages are imported."""

import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> int:
    """Run the command line of packlib; return an exit code as `packlib.tools.cli.main` does."""
    return _call("packlib", "packlib.tools.cli")


def packbook() -> int:
    """Run the command line of the notebooks; return an exit code as `packbook.cli.main` does."""
    return _call("packbook", "packbook.cli")


def _call(program: str, module: str) -> int:
    def stop(number: int, frame: FrameType | None) -> NoReturn:
        """End at once: nothing was begun, and some of what is imported turns an exception into another one."""
        print(f"{program}: stopped; nothing was written.", file=sys.stderr, flush=True)
        os._exit(128 + number)

    signal.signal(signal.SIGINT, stop)
    keep_answers_apart()
    command = importlib.import_module(module).main
    for number in (signal.SIGINT, signal.SIGTERM):
        # The command listens to both. Once it has ended, all is written, or it has said what is not; while Python ends,
        # a signal would be a traceback, or an exit code that says that the command had not ended.
        signal.signal(number, signal.SIG_IGN)
    return command()


def keep_answers_apart() -> None:
    """From here on only what Python prints reaches standard output; what compiled code prints goes to standard error.

    Solvers and drivers print names and warnings of their own, and a script reads our answer as JSON.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who called us
            setattr(sys, name, open(os.devnull, "w"))
    ours = sys.stdout
    ours.flush()
    answers = open(os.dup(ours.fileno()), "w", 1 if ours.isatty() else -1, encoding=ours.encoding, errors=ours.errors)
    os.dup2(sys.stderr.fileno(), 1)
    sys.stdout = answers
