"""The command `packlib`. It stands beside the package, so that Ctrl-C during its import ends in a sentence, too."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> int:
    """The command line; returns an exit code as `packlib.tools.cli.main` does."""
    before = signal.signal(signal.SIGINT, _stop)
    from packlib.tools.cli import main as command

    signal.signal(signal.SIGINT, before)
    return command()


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """End at once: nothing was begun, and some of what is imported turns an exception into another one."""
    print("packlib: stopped; nothing was written.", file=sys.stderr, flush=True)
    os._exit(128 + number)
