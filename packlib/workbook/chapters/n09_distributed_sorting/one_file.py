"""Rows in the order of ranks in one file, which all ranks write together."""

import os
from contextlib import ExitStack

import numpy as np
import torch.distributed as dist

from packlib.arrays import checksum, header, map_arrays
from packlib.checks import whole_number
from packlib.distributed.collectives import Collectives
from packlib.distributed.sorting import check_rows
from packlib.files import atomic_path
from packlib.lengths.counting import INT64_MAX
from packlib.reading import naming

_INT64 = np.dtype("<i8")


def write_ordered(path: str | os.PathLike, rows: np.ndarray, group: dist.ProcessGroup | None = None) -> None:
    """Write the rows of all ranks to one file, rank after rank; all write at the same time.

    The file does not depend on how many ranks wrote it: it is what `packlib.arrays.save_arrays` writes of the whole. It
    is there once it is complete; if a rank fails or dies before, none is left. (If all die at once, what they wrote
    stays beside `path`, in a hidden file that ends in .part, until the next write there.) Every rank of the group
    calls it, and sees the same folder.

    Args:
        path: rank 0's counts.
        rows: whole numbers, shape (rows of this rank, columns), such as the rows of `exact_sort`.

    Raises:
        RankError: as in `exact_sort`, or if a rank cannot write, say because the disk is full (alone, its OSError).
    """
    ranks = Collectives(group)
    rows, sizes = check_rows(ranks, rows)
    columns = rows.shape[1]
    line = header("rows", {"columns": (_INT64, 1), "rows": (_INT64, int(sizes.sum()) * columns)})
    start = line + np.array([columns], _INT64).tobytes()
    with ExitStack() as cleanup:
        beside = None
        with ranks.agree_on_errors():
            if ranks.rank == 0:
                beside = cleanup.enter_context(atomic_path(path))
                beside.write_bytes(start)
        beside = ranks.broadcast(beside)
        try:
            with ranks.agree_on_errors(), open(beside, "r+b") as file:
                # Not through a map: on a full disk the system would end the process, where `write` raises.
                file.seek(len(start) + int(sizes[: ranks.rank].sum()) * columns * rows.itemsize)
                file.write(np.ascontiguousarray(rows, _INT64).data)
            with ranks.agree_on_errors():
                if ranks.rank == 0:
                    with open(beside, "r+b") as file:
                        file.write(checksum(file, os.path.getsize(beside)))
                cleanup.close()  # rank 0 gives the file its name
        except BaseException:
            beside.unlink(missing_ok=True)  # rank 0 does so too, unless it has died
            raise


def read_ordered(path: str | os.PathLike, verify: bool = True) -> np.ndarray:
    """Map a file that `write_ordered` wrote: int64, shape (rows, columns), read from disk where it is used.

    Args:
        verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

    Raises:
        FileNotFoundError, ValueError: if there is no such file, or it is no whole file of rows.
    """
    with naming(path, "whole file of rows") as file:
        arrays = map_arrays(file, "rows", ("columns", "rows"), verify=verify)
        columns = whole_number("columns", arrays["columns"].item(), 1, INT64_MAX)
        return arrays["rows"].astype(np.int64, copy=False).reshape(-1, columns)
