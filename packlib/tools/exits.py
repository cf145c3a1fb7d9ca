"""How a command ends: one sentence for what stopped it, and an exit code."""

import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class, shell_complete

from packlib.arguments import one_line
from packlib.files import named
from packlib.installed import MissingExtraError, needed_by


class NotebookFailedError(RuntimeError):
    """A cell of a notebook raised, or its kernel died; the message says which, and why."""


class Stopped(KeyboardInterrupt):
    """A signal arrived that ends the command: more than a KeyboardInterrupt, at which a search keeps its best plan.

    Args:
        obeyed: gets this, and forgets it once the command has ended, or whoever caught this goes on.
    """

    def __init__(self, obeyed: WeakSet) -> None:
        super().__init__()
        obeyed.add(self)


class Terminated(Stopped):
    """SIGTERM arrived: it ends a command as an interrupt does."""


def exit_code(command: Callable[[], int | None], program: str = "packlib") -> int:
    """Call `command` and say in one sentence what stopped it.

    Returns:
        What `command` returned, or 0; 1 if a notebook failed, 2 if the command was wrong, 130 if interrupted, 143 if
        terminated and 141 if nobody reads what it prints. Each leaves as little behind as an error does.
    """
    obeyed: WeakSet[Stopped] = WeakSet()
    ended = False

    def stop(number: int, _: object) -> None:
        if not obeyed and not ended:  # a second one would interrupt the cleaning
            logging.disable()  # libraries complain at length when they are stopped
            raise (Terminated if number == signal.SIGTERM else Stopped)(obeyed)

    def outcome() -> tuple[int, object]:
        """Return the exit code of the command, and what stopped it, or None."""
        nonlocal ended
        try:
            try:
                code = command() or 0
                sys.stdout.flush()  # a closed pipe is noticed here, and not at the end
                return code, None
            finally:
                ended = True  # here, since a signal may come while what an exception has held is freed
        except NotebookFailedError as error:
            return 1, error
        except BrokenPipeError:  # whoever read what we print, such as `head`, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE, None
        except (ValueError, TypeError, OSError, MissingExtraError) as error:
            return 2, error
        except MemoryError as error:
            enough = "more memory than there is" in str(error)
            return 2, error if enough else f"there is not enough memory. {error}"
        except KeyboardInterrupt as error:
            code, how = (143, "terminated") if isinstance(error, Terminated) else (130, "stopped")
            notes = getattr(error, "__notes__", [])  # what is there all the same
            return code, " ".join([f"{how}; of what had not ended, nothing was written.", *notes])

    ours = (signal.SIGINT, signal.SIGTERM) if _in_main_thread() else ()
    before = {number: signal.signal(number, stop) for number in ours}
    try:
        code, said = outcome()
        if said is not None:
            print(f"{program}: {sentence(said)}", file=sys.stderr)
        return code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was not Python that had set it


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let no signal end the command in here: its work is done, and only the answer is still to be said."""
    if not _in_main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def first_interrupt_raised() -> Iterator[None]:
    """Raise the first Ctrl-C in here as a KeyboardInterrupt, which a search may take for its own end.

    The next one ends the command, and so does the first if nobody takes it.
    """
    if not _in_main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def first(number: int, _: object) -> None:
        signal.signal(number, before)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread() -> bool:
    """Return True if signals arrive here."""
    return threading.current_thread() is threading.main_thread()


def sentence(said: object) -> str:
    """Say what stopped a command, on one line without escape sequences, and short whatever names are in it."""
    if isinstance(said, OSError) and said.strerror and isinstance(said.filename, str):
        said = f"{named(said.filename)}: {said.strerror}."  # as the system says it
    return one_line(str(said), 1000)


def in_shell(said: str, command: click.Command) -> str:
    """Return a sentence about parameters of Python, with the options of a command in their place.

    Names of what a file holds stay: they are quoted, or the sentence begins with the file.
    """
    options = {
        one.name: one.opts[-1]
        for one in command.params
        if isinstance(one, click.Option) and one.name and not one.opts[-1].startswith("--no-")
    }
    names = "|".join(options)

    def value(found: re.Match[str]) -> str:
        return f"{options[found[1]]} {found[2].replace(found[3], '')}"

    def option(found: re.Match[str]) -> str:
        return options[found[0]]

    # such as: pass overlong="truncate", "drop" or "split" (in the shell --overlong truncate)
    words = r"""(["'])\w+\3(?:(?:, | or )\3\w+\3)*"""
    said, times = re.subn(rf"\b({names})=({words})(?: \((?:in the shell )?--[^)]*\))?", value, said)
    begins = re.match(rf"(?:{names})\b(?= must | and \w+ must | \d| names )", said)
    if begins:
        said = re.sub(rf"^(?:{names})\b|(?<=^{re.escape(begins[0])} and )(?:{names})\b", option, said)
        listed = re.search(r" given with .*? or \w+", said)
        if listed:
            said = said.replace(listed[0], re.sub(rf"\b(?:{names})\b", option, listed[0]))
    if begins or times:
        of_python = "|".join(name for name in options if "_" in name)
        said = re.sub(rf"""(?<!["'\w-])(?:{of_python})(?!["'\w])""", option, said) if of_python else said
    return said


class Commands(click.Group):
    """Commands that help lists in the order in which they are defined, and that answer to `-h` too.

    Without any argument they show their help.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        options["context_settings"] = {"show_default": True, "help_option_names": ["-h", "--help"]}
        super().__init__(*args, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options, a command with its whole first sentence, which click cuts at 45 letters."""
        items = super().shell_complete(ctx, incomplete)
        for item in items:
            if item.value in self.commands:
                item.help = self.commands[item.value].get_short_help_str(limit=120)
        return items


class _Fish(FishComplete):
    """Completes in fish: click's script would end a description at its first comma."""

    source_template = FishComplete.source_template.replace('split ","', 'split --max 1 ","')


def call(program: click.Group, arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default what this process was given; return an exit code as `exit_code` does.

    A shell that asks for completions gets them: it sets a variable such as `_PACKLIB_COMPLETE`.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = program.name or "packlib"
    asked = f"_{name.upper()}_COMPLETE"
    if asked in os.environ:
        add_completion_class(_Fish)
        return shell_complete(program, {}, name, asked, os.environ[asked])
    return exit_code(lambda: _call(program, name, given or ["--help"]), name)


@contextmanager
def _naming_options(command: click.Command | None) -> Iterator[None]:
    """Let errors about parameters in here name the options of this command."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if command is None or type(error) not in (ValueError, TypeError):
            raise
        raise type(error)(in_shell(str(error), command)) from error


def _call(program: click.Group, name: str, given: list[str]) -> int | None:
    try:
        # Not `program.main`, which prints a line of its own when it is interrupted.
        context = program.make_context(name, given.copy(), obj=shlex.join([name, *given]))
        with needed_by(" ".join([name, *given[:1]])), context, _naming_options(program.commands.get(given[0])):
            return program.invoke(context)
    except click.exceptions.Exit as done:  # after --help or --version
        return done.exit_code
    except click.ClickException as error:
        raise ValueError(one_line(error.format_message(), 400)) from None
