"""Reading files that others wrote: what is missing, special or damaged is one sentence that names the file."""

import difflib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from packlib.files import parse_json
from packlib.markup import one_line

_LONGEST_NAME = 240  # characters of a name in a sentence


def named(path: str | os.PathLike) -> str:
    """How a sentence names a file or a column: as it is, or quoted if a line break or the like is in its name.

    The middle of a very long name becomes "…".
    """
    text = os.fspath(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST_NAME else one_line(text, _LONGEST_NAME)


def regular_file(path: str | os.PathLike, needed: str) -> Path:
    """Return `path` if it is a regular file; reading a pipe or a device might never end.

    Args:
        needed: what should be there, in words, such as "a recipe".

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: one sentence that names the path.
    """
    path = Path(path)
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
def naming(path: str | os.PathLike, needed: str) -> Iterator[Path]:
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
def enough_memory(path: str | os.PathLike) -> Iterator[None]:
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
    """Let what Arrow finds wrong with a file be a ValueError; too little memory is no fault of the file.

    Args:
        begin: words that its sentence begins with.

    Raises:
        ValueError, MemoryError: with what Arrow says.
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


def read_json(path: str | os.PathLike, needed: str, constants: bool = False) -> dict[str, Any]:
    """Read a JSON file that holds one object; arguments and errors as in `naming` and `parse_json`."""
    with naming(path, needed) as path:
        values = parse_json(read_text(path), constants)
        if not isinstance(values, dict):
            raise ValueError("It must hold one JSON object.")
    return values
