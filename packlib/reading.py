"""Reading files that others wrote: what is missing, special or damaged is one sentence that names the file."""

import difflib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from packlib.strict_json import parse_json

_LARGEST_JSON = 1 << 26  # bytes


def named(path: str | os.PathLike) -> str:
    """How a sentence names a file: as it is, or quoted if a line break or the like is in its name."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


def regular_file(path: str | os.PathLike, needed: str) -> Path:
    """Return `path` if it is a regular file; reading a pipe or a device might never end.

    Args:
        needed: what should be there, in words, such as "a recipe".

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: one sentence that names the path.
    """
    path = Path(path)
    if path.is_file():
        return path
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
        yield path
    except (ValueError, TypeError) as error:
        said = " ".join(str(error).split())
        said = said if len(said) <= 400 else f"{said[:400]} …"
        raise ValueError(f"{named(path)} is no {needed}: {said}") from None


def read_json(path: str | os.PathLike, needed: str) -> dict[str, Any]:
    """Read a JSON file that holds one object; arguments and errors as in `naming`."""
    with naming(path, needed) as path:
        if path.stat().st_size > _LARGEST_JSON:
            raise ValueError(f"It has {path.stat().st_size:,} bytes, too many.")
        values = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("It must hold one JSON object.")
    return values
