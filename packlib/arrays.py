"""Integer arrays in one file with a checksum: the format of packs, token stores and ordered rows.

A file starts with one line of text that gives its kind and the name, dtype and length of each array (`head -1` shows
it). The arrays follow, then the SHA-256 of all before it:

    packlib arrays 2 Packs sample_ids:<i4:6 offsets:<i8:4 lengths_used:<i4:3 max_length:<i8:1

Spaces fill the line up to a multiple of 64 bytes, and zeros each array to a multiple of 8. Nothing in a file is ever
run or unpickled, and its size is compared with the line before anything is mapped or allocated.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from packlib.files import atomic_path

_START = ("packlib", "arrays", "2")  # the last is the format's number
_LONGEST_LINE = 4096  # bytes
_DTYPES = {np.dtype(kind).newbyteorder("<").str for kind in np.typecodes["AllInteger"]}
_ARRAY = re.compile(r"([a-z_]+):([^:]+):([0-9]{1,18})")
_CHECKSUM = 32  # bytes

Place = tuple[int, int, np.dtype]  # of an array in a file: its first byte, the byte after its last, and its dtype


def header(kind: str, arrays: Mapping[str, tuple[np.dtype, int]]) -> bytes:
    """The first line of a file whose arrays have these dtypes and lengths."""
    for name, (dtype, _) in arrays.items():
        if dtype.newbyteorder("<").str not in _DTYPES:
            raise TypeError(f"{name} must be integers, not {dtype}.")
    entries = (f"{name}:{dtype.newbyteorder('<').str}:{length}" for name, (dtype, length) in arrays.items())
    line = " ".join((*_START, kind, *entries)).encode()
    return line + b" " * (-(len(line) + 1) % 64) + b"\n"


def save_arrays(path: str | os.PathLike, kind: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write one file, which is whole or not there.

    Args:
        kind: what the arrays are together, in one word; `map_arrays` asks for it.
        arrays: integers, shape (n,), by name.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_path(path) as beside, open(beside, "w+b") as file:
        file.write(header(kind, {name: (array.dtype, len(array)) for name, array in arrays.items()}))
        for array in arrays.values():
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
            file.write(bytes(-array.nbytes % 8))
        file.write(checksum(file, file.tell()))


def map_arrays(
    path: str | os.PathLike, kind: str, names: Sequence[str], optional: Sequence[str] = (), verify: bool = True
) -> dict[str, np.ndarray]:
    """Map the arrays of a file that `save_arrays` wrote: they are read from disk where they are used.

    Args:
        kind: as it was saved.
        names, optional: the arrays that must be there, and those that may be.
        verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

    Returns:
        By name, each of shape (n,), of one of the integer dtypes. What the numbers mean is the caller's to check.

    Raises:
        ValueError: if the file is not whole, or holds other arrays; it is for `packlib.reading.naming` to name it.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        places, end = _places(file.readline(_LONGEST_LINE), kind)
        if missing := [name for name in names if name not in places]:
            raise ValueError(f"it has no {' and no '.join(missing)}.")
        if unknown := [name for name in places if name not in (*names, *optional)]:
            raise ValueError(f"it has {' and '.join(unknown)}, which this version of packlib does not know.")
        if size != end + _CHECKSUM:
            raise ValueError(f"its arrays and checksum take {end + _CHECKSUM:,} bytes, but it has {size:,}.")
        if verify and checksum(file, end) != file.read():
            raise ValueError("the checksum differs.")
        whole = np.memmap(file, np.uint8, "r")
    return {name: whole[start:stop].view(dtype) for name, (start, stop, dtype) in places.items()}


def _places(line: bytes, kind: str) -> tuple[dict[str, Place], int]:
    """Where the arrays of a file are, by its first line, and where they end."""
    words = line.decode("ascii", "replace").split()
    if tuple(words[:2]) != _START[:2] or len(words) < 4 or not line.endswith(b"\n"):
        raise ValueError(f"it does not start with a line of {' '.join(_START[:2])}.")
    if words[2] != _START[2]:
        raise ValueError(f"it is in format {words[2][:20]}; this version of packlib reads format {_START[2]}.")
    if words[3] != kind:
        raise ValueError(f"it holds {words[3][:40]}, not {kind}.")
    places, end = {}, len(line)
    for word in words[4:]:
        found = _ARRAY.fullmatch(word)
        if not found or found[2] not in _DTYPES or found[1] in places:
            raise ValueError(f"its first line has {word[:80]!r}, which is no array of integers.")
        dtype, start = np.dtype(found[2]), end
        end += int(found[3]) * dtype.itemsize
        places[found[1]] = start, end, dtype
        end += -end % 8
    return places, end


def npy_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and the dtype of the `.npy` array that starts here; leaves the file at its first number.

    Raises:
        ValueError: whatever is wrong with the header, of which NumPy's reader raises a dozen kinds.
    """
    try:
        if np.lib.format.read_magic(file) != (1, 0):  # others may have headers of 4 gigabytes
            raise ValueError("an array of integers has format 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:
        raise ValueError(f"it has no header of NumPy's: {error}.") from None
    return shape, dtype


def checksum(file: BinaryIO, size: int) -> bytes:
    """The checksum of the first `size` bytes; leaves the file there."""
    file.seek(0)
    seen = hashlib.sha256()
    while block := file.read(min(1 << 20, size - file.tell())):
        seen.update(block)
    return seen.digest()
