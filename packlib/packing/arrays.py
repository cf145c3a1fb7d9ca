"""Integer arrays in one Arrow file with a checksum: the format of packs, schedules and token stores.

`pyarrow.ipc.open_file` reads such a file anywhere. Each array is a column of one row; the metadata of the schema give
the kind of the whole, and the SHA-256 of names, types and numbers.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from packlib.files import arrow_errors, atomic_path

_KIND, _CHECKSUM = b"packlib", b"sha256"


def save_arrays(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write integer arrays to one file, which is whole or not there.

    Args:
        path: the file, which is replaced if it exists.
        kind: what the arrays are together, in one word, such as "Packs"; `map_arrays` refuses a file of another kind.
        arrays: by name, each of integers, shape (n,); n may differ.
    """
    import pyarrow as pa

    columns = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integers, not {array.dtype}.")
        little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        columns[name] = pa.LargeListArray.from_arrays([0, len(array)], pa.array(little_endian))  # one row
    metadata = {_KIND: kind.encode(), _CHECKSUM: _checksum(kind, columns)}
    batch = pa.record_batch(columns).replace_schema_metadata(metadata)
    with (
        atomic_path(path) as partial,
        pa.OSFile(str(partial), "wb") as file,
        pa.ipc.new_file(file, batch.schema) as out,
    ):
        out.write_batch(batch)


def map_arrays(
    path: str | os.PathLike[str], kind: str, names: Sequence[str], optional: Sequence[str] = (), verify: bool = True
) -> dict[str, np.ndarray]:
    """Map the arrays of a file that `save_arrays` wrote: each part is read from disk when it is used.

    Args:
        path: the file.
        kind: the kind that the file must have.
        names, optional: the arrays that must be in the file, and those that may be.
        verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

    Returns:
        By name, each of shape (n,), of one of the integer dtypes. The caller must check what the numbers mean.

    Raises:
        ValueError: if the file is not whole, or holds other arrays; its message goes on after the name of the file,
            which `packlib.files.naming` adds.
    """
    import pyarrow as pa

    with arrow_errors():
        file = pa.ipc.open_file(pa.memory_map(os.fspath(path)))
        metadata = file.schema.metadata or {}
        _refuse_another_kind(metadata, kind)
        _refuse_other_columns(file.schema, names, optional)
        columns = _only_row(file)
        if verify and _checksum(kind, columns) != metadata.get(_CHECKSUM):
            raise ValueError("the checksum differs.")
        return {name: column.flatten().to_numpy(zero_copy_only=True) for name, column in columns.items()}


def _refuse_another_kind(metadata: Mapping[bytes, bytes], kind: str) -> None:
    """Raise a ValueError unless the metadata of a file give this kind."""
    kind_of_file = metadata.get(_KIND, b"nothing of packlib").decode(errors="replace")
    if kind_of_file != kind:
        raise ValueError(f"it holds {kind_of_file[:40]}, not {kind}.")


def _refuse_other_columns(schema: Any, names: Sequence[str], optional: Sequence[str]) -> None:
    """Raise a ValueError unless a file has the columns `names`, others among `optional`, and all hold integers."""
    import pyarrow as pa

    if missing := [name for name in names if name not in schema.names]:
        raise ValueError(f"it has no {' and no '.join(missing)}.")
    known = (*names, *optional)
    if unknown := [name for name in schema.names if name not in known]:
        raise ValueError(f"it has {' and '.join(unknown)[:200]}, which this version of packlib does not know.")
    are_integers = all(
        pa.types.is_large_list(field.type) and pa.types.is_integer(field.type.value_type) for field in schema
    )
    if not are_integers or len(set(schema.names)) < len(schema.names):
        raise ValueError("its columns are no lists of integers, each under a name of its own.")


def _only_row(file: Any) -> dict[str, Any]:
    """Return the columns of the one row of a file, by name; raise a ValueError if it has more, or lacks a number."""
    if file.num_record_batches != 1 or (batch := file.get_batch(0)).num_rows != 1:
        raise ValueError("it has more or less than one row.")
    batch.validate(full=True)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if any(column.null_count or column.flatten().null_count for column in columns.values()):
        raise ValueError("a number is missing.")
    return columns


def _checksum(kind: str, columns: Mapping) -> bytes:
    """Compute one checksum over the kind and each array's name, type, length and numbers."""
    digest = hashlib.sha256(kind.encode())
    for name, column in columns.items():
        values = column.flatten()
        digest.update(f" {name} {values.type} {len(values)} ".encode())
        digest.update(memoryview(values.to_numpy(zero_copy_only=True)).cast("B") if len(values) else b"")
    return digest.hexdigest().encode()
