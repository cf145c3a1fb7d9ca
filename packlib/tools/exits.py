"""The end of a command: an exit code, and one sentence about the error or signal that stopped it."""

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
    """Ends a command after a signal. At a plain KeyboardInterrupt, a search keeps its best plan instead.

    Args:
        alive: a set of the exceptions of this kind that are still being handled. This one is added; it disappears from
            the set when nobody holds it any more.
    """

    def __init__(self, alive: WeakSet) -> None:
        super().__init__()
        alive.add(self)


class Terminated(Stopped):
    """Ends a command after SIGTERM, as an interrupt does."""


def exit_code(command: Callable[[], int | None], program: str = "packlib") -> int:
    """Call `command`; if something stops it, print one sentence about that.

    Returns:
        What `command` returned, or 0; 1 if a notebook failed, 2 if the command was wrong, 130 if interrupted, 143 if
        terminated, and 141 if nobody reads what it prints. Whatever stops it, no half-written file stays.
    """
    alive: WeakSet[Stopped] = WeakSet()
    has_ended = False

    def stop(number: int, _frame: object) -> None:
        if not alive and not has_ended:  # a second signal would interrupt the cleaning
            logging.disable()  # libraries complain at length when they are stopped
            raise (Terminated if number == signal.SIGTERM else Stopped)(alive)

    def outcome() -> tuple[int, object]:
        """Return the exit code of the command; and the error that stopped it, or a sentence, or None."""
        nonlocal has_ended
        try:
            try:
                code = command() or 0
                sys.stdout.flush()  # a closed pipe is noticed here, and not at the end
                return code, None
            finally:
                has_ended = True  # here, since a signal may arrive while an exception and its frames are freed
        except NotebookFailedError as error:
            return 1, error
        except BrokenPipeError:  # the reader of our output, such as `head`, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE, None
        except (ValueError, TypeError, OSError, MissingExtraError) as error:
            return 2, error
        except MemoryError as error:
            says_enough = "more memory than there is" in str(error)
            return 2, error if says_enough else f"there is not enough memory. {error}"
        except KeyboardInterrupt as error:
            code, verb = (143, "terminated") if isinstance(error, Terminated) else (130, "stopped")
            notes = getattr(error, "__notes__", [])  # such as which files are whole
            return code, " ".join([f"{verb}; of what had not ended, nothing was written.", *notes])

    signals = (signal.SIGINT, signal.SIGTERM) if _in_main_thread() else ()
    handlers_before = {number: signal.signal(number, stop) for number in signals}
    try:
        code, reason = outcome()
        if reason is not None:
            print(f"{program}: {sentence(reason)}", file=sys.stderr)
        return code
    finally:
        _restore(handlers_before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    """Set the handlers of signals that were there before."""
    for number, handler in handlers.items():
        signal.signal(number, handler or signal.SIG_DFL)  # None: it was not Python that had set it


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore signals in a block of code, for the end of a command: its work is done, and its answer is printed."""
    if not _in_main_thread():
        yield
        return
    handlers_before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        _restore(handlers_before)


@contextmanager
def first_interrupt_raised() -> Iterator[None]:
    """Raise the first Ctrl-C in a block of code as a KeyboardInterrupt, at which a search may end with its best plan.

    The next Ctrl-C ends the command, and so does the first if nothing catches it.
    """
    if not _in_main_thread():
        yield
        return
    handler_before = signal.getsignal(signal.SIGINT)

    def raise_first(number: int, _frame: object) -> None:
        signal.signal(number, handler_before)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, raise_first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler_before)


@contextmanager
def signals_put_off(at_first: Callable[[], None]) -> Iterator[None]:
    """Put off signals in a block of code: the first one calls `at_first`, and is raised when the block has ended.

    For an event loop: an exception between two of its steps would lose what comes next, and one within a step would
    end the loop before its other tasks have cleaned up.
    """
    if not _in_main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        came.append(number)
        if len(came) == 1:
            at_first()

    handlers_before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        _restore(handlers_before)
        if came:
            signal.raise_signal(came[0])


def _in_main_thread() -> bool:
    """Return True in the main thread, where alone signals arrive."""
    return threading.current_thread() is threading.main_thread()


def sentence(reason: object) -> str:
    """Return an error as one line without escape sequences, of at most 1,000 characters."""
    if isinstance(reason, OSError) and reason.strerror and isinstance(reason.filename, str):
        reason = f"{named(reason.filename)}: {reason.strerror}."  # as the system says it
    return one_line(str(reason), 1000)


def in_shell(message: str, command: click.Command) -> str:
    """Return an error about parameters of a Python function, with the options of a command in their place.

    "max_length must be at least 1" becomes "--max-length must be at least 1". Only a message that begins with a
    parameter, or that gives one a value, is about parameters: other names in it may be those of columns.
    """
    options = {
        parameter.name: parameter.opts[-1]
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name and not parameter.opts[-1].startswith("--no-")
    }
    names = "|".join(options)

    def with_values(match: re.Match[str]) -> str:
        name, values, quote = match.groups()
        return f"{options[name]} {values.replace(quote, '')}"

    def as_option(match: re.Match[str]) -> str:
        return options[match[0]]

    # such as: pass overlong="truncate", "drop" or "split" (in the shell --overlong truncate)
    words = r"""(["'])\w+\3(?:(?:, | or )\3\w+\3)*"""
    value_pattern = rf"\b({names})=({words})(?: \((?:in the shell )?--[^)]*\))?"
    message, num_values = re.subn(value_pattern, with_values, message)
    # such as: ranks must be …; ranks and steps must be …; steps 3 …; second_budget names …
    first_name = re.match(rf"(?:{names})\b(?= must | and \w+ must | \d| names )", message)
    if first_name:
        second_name = rf"(?<=^{re.escape(first_name[0])} and )(?:{names})\b"
        message = re.sub(rf"^(?:{names})\b|{second_name}", as_option, message)
        list_of_names = re.search(r" given with .*? or \w+", message)  # such as: given with ranks or steps
        if list_of_names:
            as_options = re.sub(rf"\b(?:{names})\b", as_option, list_of_names[0])
            message = message.replace(list_of_names[0], as_options)
    # The others are replaced where no word of English can be meant: names with an underscore, out of quotes.
    underscored = "|".join(name for name in options if "_" in name)
    if underscored and (first_name or num_values):
        message = re.sub(rf"""(?<!["'\w-])(?:{underscored})(?!["'\w])""", as_option, message)
    return message


class Commands(click.Group):
    """Commands that help lists in the order in which they are defined, and that answer to `-h` too.

    Without any argument they show their help.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        options["context_settings"] = {"show_default": True, "help_option_names": ["-h", "--help"]}
        super().__init__(*args, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order in which they are defined; click sorts them."""
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
    """Run a command line; return an exit code as `exit_code` does.

    A shell that wants completions sets a variable such as `_PACKLIB_COMPLETE`: then these are printed instead.

    Args:
        arguments: what follows the program's name; by default that of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = program.name or "packlib"
    variable = f"_{name.upper()}_COMPLETE"
    if variable in os.environ:
        add_completion_class(_Fish)
        return shell_complete(program, {}, name, variable, os.environ[variable])
    return exit_code(lambda: _call(program, name, words or ["--help"]), name)


@contextmanager
def _naming_options(command: click.Command | None) -> Iterator[None]:
    """Let errors about parameters, in a block of code, name the options of this command; None changes nothing."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if command is None or type(error) not in (ValueError, TypeError):  # a kind of them may need more arguments
            raise
        raise type(error)(in_shell(str(error), command)) from error


def _call(program: click.Group, name: str, words: list[str]) -> int | None:
    """Run the command line that `words` follow the program's name in; return the exit code of its command, or None.

    Raises:
        ValueError: in one line, for a wrong command line.
    """
    try:
        # Not `program.main`, which prints a line of its own when it is interrupted.
        context = program.make_context(name, words.copy(), obj=shlex.join([name, *words]))
        with needed_by(" ".join([name, *words[:1]])), context, _naming_options(program.commands.get(words[0])):
            return program.invoke(context)
    except click.exceptions.Exit as ended:  # after --help or --version, or where a command raises it
        return ended.exit_code
    except click.ClickException as error:
        raise ValueError(one_line(error.format_message(), 400)) from None
