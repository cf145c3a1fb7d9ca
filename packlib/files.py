"""Files that are whole or not there: written beside their place, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packlib.places import new_part, output_path, room_for


@contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, remove it if not.

    A reader never sees a half-written file, and an error leaves the old file as it was. What a killed process left
    beside `path` is removed by the next one that writes there.

    Raises:
        OSError: in one sentence, if `path` is no place for a file: see `output_path`.
    """
    path = output_path(path)
    handle, beside = new_part(path)
    try:
        with room_for(path):
            yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
        os.close(handle)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        OSError: as `atomic_path`.
    """
    with atomic_path(path) as beside:
        beside.write_text(text, encoding="utf-8")
