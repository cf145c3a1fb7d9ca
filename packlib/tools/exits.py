"""How a command ends: one sentence for what stopped it, and an exit code."""

import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence

import click

from packlib.checks import one_line
from packlib.files import named
from packlib.installed import MissingExtraError, needed_by


class NotebookFailedError(RuntimeError):
    """A cell of a notebook raised, or its kernel died; the message says which, and why."""


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: it ends a run as an interrupt does."""


def exit_code(command: Callable[[], int | None], program: str = "packlib") -> int:
    """Call `command` and say in one sentence what stopped it.

    Returns:
        What `command` returned, or 0; 1 if a notebook failed, 2 if the command was wrong, 130 if interrupted, 143 if
        terminated and 141 if nobody reads what it prints. Each leaves as little behind as an error does.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the cleaning
        logging.disable()  # libraries complain at length when they are stopped
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    ours = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    said: object
    before = {number: signal.signal(number, stop) for number in ours}
    try:
        code = command() or 0
        sys.stdout.flush()  # a closed pipe is noticed here, and not at the end
        return code
    except NotebookFailedError as error:
        code, said = 1, error
    except BrokenPipeError:  # whoever read what we print, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (ValueError, TypeError, OSError, MissingExtraError) as error:
        code, said = 2, error
    except MemoryError as error:
        code, said = 2, error if "more memory than there is" in str(error) else f"there is not enough memory. {error}"
    except KeyboardInterrupt as error:
        code, how = (143, "terminated") if isinstance(error, Terminated) else (130, "stopped")
        said = f"{how}; of what had not ended, nothing was written."
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was not Python that had set it
    print(f"{program}: {sentence(said)}", file=sys.stderr)
    return code


def sentence(said: object) -> str:
    """What stopped a command, on one line without escape sequences, and short whatever names are in it."""
    if isinstance(said, OSError) and said.strerror and isinstance(said.filename, str):
        said = f"{named(said.filename)}: {said.strerror}."  # as the system says it
    return one_line(str(said), 1000)


def call(program: click.Group, arguments: Sequence[str] | None = None) -> int:
    """A command line, by default what this process was given; returns an exit code as `exit_code` does."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = program.name or "packlib"
    return exit_code(lambda: _call(program, name, given), name)


def _call(program: click.Group, name: str, given: list[str]) -> int | None:
    try:
        # Not `program.main`, which prints a line of its own when it is interrupted.
        context = program.make_context(name, given.copy(), obj=shlex.join([name, *given]))
        with needed_by(" ".join([name, *given[:1]])), context:
            return program.invoke(context)
    except click.exceptions.Exit as done:  # after --help or --version
        return done.exit_code
    except click.ClickException as error:
        raise ValueError(one_line(error.format_message(), 400)) from None
