"""Files: where one may be written, writing it whole or not at all, folders to work in, strict JSON, and reading.

Places are checked before any work is done, locked while it lasts, and cleaned of what a killed run left. What
is missing, special or damaged where one reads is one sentence that names the file.
"""

import difflib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock, Timeout

from packlib.arguments import one_line, one_of, path_of, shown

WORK = ".packlib.part"  # the hidden folder in which a run works, inside the folder that it writes to
LOCK = ".packlib.lock"  # held while a run works there
PATIENCE = 5.0  # seconds; a run that was told to end may need as long to clean up
_TOO_LONG = re.compile(r"integer string conversion: value has (\d+) digits")  # Python reads at most 4,300
_LONGEST_NAME = 240  # characters of a name in a sentence
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Read: TypeAlias = str | os.PathLike[str] | None  # the path of what a command reads, if it reads a file at all


def at_home(path: str | os.PathLike[str]) -> Path:
    """Return a path whose leading ~ is the home folder; pathlib raises a RuntimeError for a user that is not there."""
    return Path(os.path.expanduser(path_of("path", path)))


def output_path(
    path: str | os.PathLike[str], folder: bool = False, reads: Iterable[Read] = (), new: bool = False
) -> Path:
    """Return the absolute path, links followed, of a file to write, or of a folder; nothing is made yet.

    A path that begins with ~ is in the home folder, as it is where one reads.

    Args:
        folder: whether it is a folder that is to be written.
        reads: what the caller reads, and so must not replace: a file of any of these, by whatever link. A folder that
            is replaced as a whole must not hold any of them.
        new: whether a file that is there is refused.

    Raises:
        OSError: in one sentence that names `path`, if something else stands there (a device, a pipe), if a link
            leads nowhere, if this user may not write there, or if that would replace what is read.
        FileExistsError: if a file must be `new` and is there.
    """
    path = at_home(path)
    _refuse_what_is_read(path, folder, reads)
    name = shown(os.fspath(path))
    absolute = Path(path).absolute()
    nearest = absolute  # the path, or the nearest folder above it, that exists
    while not os.path.lexists(nearest):
        nearest = nearest.parent
    exists = nearest == absolute
    error = _not_writable(name, nearest, exists, "folder" if folder else "file")
    if error and not os.path.lexists(nearest):  # another run has just removed it
        return output_path(path, folder, reads, new)
    if error:
        raise error
    if new and exists and not folder:
        raise FileExistsError(f"{name} exists: choose another --out, or add --replace.")
    return Path(os.path.realpath(path))


def _not_writable(name: str, at: Path, exists: bool, wanted: str) -> OSError | None:
    """Return the error for a path that cannot be written, else None.

    Args:
        name: what an error calls the path.
        at: the path if it `exists`, else the nearest folder above it that does.
        wanted: "file" or "folder".
    """
    if at.is_symlink() and not at.exists():
        return FileNotFoundError(f"{name} cannot be written: the link {at} leads nowhere.")
    kind = "folder" if at.is_dir() else "file" if at.is_file() else "pipe, a socket or a device"
    if not exists and kind != "folder":
        return NotADirectoryError(f"{name} cannot be written: {at} is a {kind} and no folder.")
    if exists and kind != wanted:
        return FileExistsError(f"{name} is a {kind}; name a {wanted}.")
    if not os.access(at, os.W_OK) or not os.access(at if at.is_dir() else at.parent, os.W_OK | os.X_OK):
        return PermissionError(f"{name} cannot be written: there is no permission to change {at}.")
    return None


def _refuse_what_is_read(path: str | os.PathLike[str], folder: bool, reads: Iterable[Read]) -> None:
    """Raise a FileExistsError if writing `path` would replace what is read; arguments are as of `output_path`."""
    target = Path(os.path.realpath(path))
    for read in [Path(read) for read in reads if read]:
        source = Path(os.path.realpath(at_home(read)))
        if _same(target, source) or (folder and target in source.parents):
            would = f"{shown(os.fspath(path))} would replace {shown(str(read))}, which is read"
            raise FileExistsError(f"{would}: name another {'folder' if folder else 'file'}.")


def _same(one: Path, other: Path) -> bool:
    """Return True if both are one file, be it under two names."""
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def room_for(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Name the file in the error of a full disk; the system's own error names none."""
    return _says_where(path, _FULL)


@contextmanager
def _says_where(path: str | os.PathLike[str], errors: Container[int] | None = None) -> Iterator[None]:
    """Turn the system's error, or only those of these numbers, into one sentence that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (errors is not None and error.errno not in errors):
            raise
        raise type(error)(f"{shown(os.fspath(path))} cannot be written: {os.strerror(error.errno)}.") from None


def make_folders(path: Path) -> None:
    """Make a folder and those that it is in, however many: `Path.mkdir` would fail, since it calls itself for each."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)


@contextmanager
def atomic_path(path: str | os.PathLike[str], new: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, remove it if not.

    A reader never sees a half-written file, and an error leaves the old file as it was. A process that is killed
    leaves its temporary file, a hidden one that ends in `.part`.

    Args:
        new: refuse to replace a file, also one that came while the block ran.

    Raises:
        OSError: in one sentence, if `path` is no place for a file: see `output_path`; or if it must be new and is not.
    """
    path = output_path(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with _says_where(path):
        make_folders(path.parent)
        beside.touch(exist_ok=False)
    try:
        with room_for(path):
            yield beside
        if new:
            _link(beside, path)
        else:
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _link(beside: Path, path: Path) -> None:
    """Give the file `beside` the name `path`, unless another file has it: a plain renaming would replace that one."""
    exists = FileExistsError(f"{shown(os.fspath(path))} exists: name another file.")
    try:
        os.link(beside, path)
    except FileExistsError:
        raise exists from None
    except OSError:  # some file systems have no links; then a file that comes between look and renaming is replaced
        if path.exists():
            raise exists from None
        beside.replace(path)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        OSError: as `atomic_path`.
    """
    with atomic_path(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def work_folder(out: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty hidden folder inside the folder `out`, in which one process works at a time.

    It is removed at the end, and `out` too if this made it and nothing was put there. What a killed process left is
    removed at the beginning.

    Raises:
        BlockingIOError: if another process works there.
        OSError: as in `output_path`.
    """
    out = output_path(out, folder=True)
    new, lock = not out.exists(), FileLock(out / LOCK, timeout=PATIENCE)
    work = out / WORK
    with _says_where(out):
        _acquire(lock, out)
    try:
        shutil.rmtree(work, ignore_errors=True)
        with _says_where(out):
            work.mkdir()
        with room_for(out):
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        (out / LOCK).unlink(missing_ok=True)  # before it is released: whoever waits for it then makes a new one
        lock.release()
        if new:
            with suppress(OSError):  # it is not empty
                out.rmdir()


def _acquire(lock: FileLock, out: Path) -> None:
    """Lock the folder `out`, and make it if need be; raise a BlockingIOError if another run has it for too long."""
    while not lock.is_locked:
        try:
            make_folders(out)
            lock.acquire()
        except (FileNotFoundError, FileExistsError):  # the process that had the lock made it, and has just removed it
            if out.is_file():
                raise
        except Timeout:
            raise BlockingIOError(
                f"Another run is writing to {out}: wait until it ends, or name another folder."
            ) from None


def parse_json(text: str, constants: bool = False) -> Any:
    """Parse JSON text.

    Args:
        constants: take NaN, Infinity and -Infinity for numbers, which Python writes and the standard does not know.

    Raises:
        ValueError: if it is no JSON, a name comes twice, a number is no number of JSON or has thousands of digits,
            or it is nested too deeply.
    """
    try:
        constant = float if constants else _refuse
        return json.loads(text, object_pairs_hook=_object, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"It is not JSON: {error}.") from None
    except ValueError as error:
        if found := _TOO_LONG.search(str(error)):
            raise ValueError(f"A number of {found[1]} digits is too long.") from None
        raise
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None


def parse_object(text: str, constants: bool = False) -> dict[str, Any]:
    """Parse JSON text that holds one object; arguments and errors as in `parse_json`."""
    values = parse_json(text, constants)
    if not isinstance(values, dict):
        raise ValueError("It must hold one JSON object.")
    return values


def has_exactly(raw: Any, what: str, names: set[str]) -> None:
    """Raise a TypeError or a ValueError unless `raw` is a JSON object with these names and no other."""
    if not isinstance(raw, dict):
        raise TypeError(f"{what} must be a JSON object, not {shown(raw)}.")
    for name in raw:
        one_of("a name in its JSON", name, sorted(names))
    if missing := sorted(names - raw.keys()):
        raise ValueError(f"{what} needs {', '.join(missing)}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of the names and values of a JSON object, and refuse a name that comes twice."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"The name {shown(name)} comes twice.")
        values[name] = value
    return values


def _refuse(constant: str) -> None:
    """Raise a ValueError for NaN, Infinity or -Infinity, which the standard of JSON does not know."""
    raise ValueError(f"{constant} is no number.")


def named(path: str | os.PathLike[str]) -> str:
    """Write the name of a file or a column for a sentence: quoted if a line break or the like is in it.

    The middle of a very long name becomes "…".
    """
    text = os.fspath(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST_NAME else one_line(text, _LONGEST_NAME)


def regular_file(path: str | os.PathLike[str], needed: str) -> Path:
    """Return `path` if it is a regular file; reading a pipe or a device might never end.

    Args:
        needed: what should be there, in words, such as "a recipe".

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: one sentence that names the path.
    """
    path = Path(path_of("path", path))
    try:
        if path.is_file():
            return path
    except OSError as error:  # its name is too long, say
        raise FileNotFoundError(f"There is no file {named(path)}: {error.strerror}.") from None
    if path.is_dir():
        raise IsADirectoryError(f"{named(path)} is a folder; {needed} is needed.")
    if path.exists():
        raise ValueError(f"{named(path)} is a pipe, a socket or a device; {needed} is needed.")
    beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    hint = f": did you mean {named(near[0])}?" if near else "."
    raise FileNotFoundError(f"There is no file {named(path)}{hint}")


@contextmanager
def naming(path: str | os.PathLike[str], needed: str) -> Iterator[Path]:
    """Yield `path` to be read; what is wrong with its content becomes one sentence that names it.

    Args:
        needed: what should be there, in words, such as "whole file of packs".

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: also as `regular_file`.
    """
    path = regular_file(path, f"a {needed}")
    try:
        with enough_memory(path):
            yield path
    except (ValueError, TypeError) as error:
        raise ValueError(f"{named(path)} is no {needed}: {one_line(str(error), 400)}") from None


@contextmanager
def naming_text(needed: str) -> Iterator[None]:
    """Let what is wrong with a text be one sentence that says what it should be, such as "packing plan".

    Raises:
        ValueError: in place of any ValueError or TypeError within.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"The text is no {needed}: {error}") from None


@contextmanager
def enough_memory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let the error of too little memory name the file whose content it was for.

    Raises:
        MemoryError: in one sentence, which is said once where such blocks are nested.
    """
    try:
        yield
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        begin, why = f"{named(path)} needs more memory than there is", str(getattr(error, "strerror", error))
        raise MemoryError(why if why.startswith(begin) else f"{begin}: {one_line(why, 200)}") from None


@contextmanager
def arrow_errors(begin: str = "") -> Iterator[None]:
    """Turn the errors that Arrow raises about a file into ValueErrors; those of too little memory pass.

    Args:
        begin: the words before what Arrow says.

    Raises:
        ValueError: with what Arrow says.
        MemoryError, OSError: as Arrow raised it, if there is too little memory; see `enough_memory`.
    """
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise
        raise ValueError(f"{begin}{one_line(str(error), 400)}") from None


def read_text(path: Path, most_bytes: int = 1 << 26) -> str:
    """Read a text file, unless it is far larger than any of its kind.

    Raises:
        ValueError: if it is, or holds no text.
    """
    if (size := path.stat().st_size) > most_bytes:
        raise ValueError(f"It has {size:,} bytes; at most {most_bytes:,} are read.")
    return path.read_text(encoding="utf-8")


def read_json(path: str | os.PathLike[str], needed: str, constants: bool = False) -> dict[str, Any]:
    """Read a JSON file that holds one object; arguments and errors as in `naming` and `parse_object`."""
    with naming(path, needed) as path:
        return parse_object(read_text(path), constants)


@contextmanager
def delivery(
    out: Path, reads: Iterable[Read] = (), names: Iterable[str] = (), replace: bool = False
) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a hidden folder in `out` to fill, and a list; at the end what is there moves to `out`, and is listed.

    If the block raises, nothing is left behind, and what was in `out` stays as it was.

    Args:
        reads: what is read to fill it, and so must not be replaced.
        names: files that will be there for certain; what can be refused of them is refused before the work.
        replace: whether files that are there are replaced; otherwise they are refused.

    Raises:
        OSError: one sentence, if another run writes there, if no folder can be there, or if a file is there already.
    """
    files: list[Path] = []
    reads = list(reads)
    for name in names:
        output_path(out / name, reads=reads, new=not replace)
    with work_folder(out) as work:
        yield work, files
        relative_paths = [path.relative_to(work) for path in sorted(work.rglob("*")) if path.is_file()]
        # all are asked before the first is replaced
        targets = [output_path(out / path, reads=reads, new=not replace) for path in relative_paths]
        for path, target in zip(relative_paths, targets, strict=True):
            make_folders(target.parent)
            (work / path).replace(target)
        files += targets
