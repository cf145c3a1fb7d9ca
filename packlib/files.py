"""Files that are whole or not there: written beside their place, then renamed."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from packlib.places import new_part, output_path


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
        yield beside
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o666 & ~umask)  # it was made for this user alone; a normal file follows the umask
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
        os.close(handle)


def save_arrays(path: str | os.PathLike, *arrays: np.ndarray) -> None:
    """Write one file: the arrays one after the other in NumPy's format, then their SHA-256."""
    with atomic_path(path) as beside, open(beside, "w+b") as file:
        for array in arrays:
            np.save(file, np.asarray(array))
        size = file.tell()
        file.write(_sha256(file, size))


def map_arrays(path: str | os.PathLike, number: int, verify: bool = True) -> list[np.ndarray]:
    """Map the arrays of a file that `save_arrays` wrote: they are read from disk where they are used.

    Args:
        number: how many arrays there are.
        verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

    Raises:
        FileNotFoundError, ValueError: if there is no such file, or it is not whole.
    """
    arrays = []
    with open(path, "rb") as file:
        for _ in range(number):
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            arrays.append(np.memmap(path, dtype, "r", file.tell(), shape))
            file.seek(arrays[-1].nbytes, os.SEEK_CUR)
        size = file.tell()
        if verify and file.read() != _sha256(file, size):
            raise ValueError("the checksum differs")
    return arrays


def _sha256(file: BinaryIO, size: int) -> bytes:
    """The checksum of the first `size` bytes; leaves the file there."""
    file.seek(0)
    seen = hashlib.sha256()
    while block := file.read(min(1 << 20, size - file.tell())):
        seen.update(block)
    return seen.digest()
