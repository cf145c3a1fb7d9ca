"""The command `packlib`. It stands beside the package, so that Ctrl-C during its import ends in a sentence, too."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> int:
    """The command line; returns an exit code as `packlib.cli.main` does."""
    before = signal.signal(signal.SIGINT, _stop)
    keep_answers_apart()
    from packlib.cli import main as command

    signal.signal(signal.SIGINT, before)
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


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """End at once: nothing was begun, and some of what is imported turns an exception into another one."""
    print("packlib: stopped; nothing was written.", file=sys.stderr, flush=True)
    os._exit(128 + number)
