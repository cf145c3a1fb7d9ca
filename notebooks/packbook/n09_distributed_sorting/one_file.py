"""Rows in the order of ranks in one NumPy file, which all ranks write together."""

import io
import os
from contextlib import ExitStack

import numpy as np
import torch.distributed as dist

from packlib.collectives import Collectives
from packlib.distributed.sorting import check_rows
from packlib.files import atomic_path


def write_ordered(path: str | os.PathLike, rows: np.ndarray, group: dist.ProcessGroup | None = None) -> None:
    """Write the rows of all ranks to one file, rank after rank; all write at the same time.

    The file does not depend on how many ranks wrote it: `np.save` of all rows writes the same bytes. It appears once it
    is complete; if a rank fails or dies before, there is no file. (If all die at once, a hidden file that ends in .part
    stays next to `path` until the next write there.) Every rank of the group calls it, and sees the same folder.

    Args:
        path: of the file; if ranks differ, rank 0's is taken.
        rows: whole numbers, shape (rows of this rank, columns), such as the rows of `exact_sort`.

    Raises:
        RankError: as in `exact_sort`, or if a rank cannot write, say because the disk is full (alone, its OSError).
    """
    ranks = Collectives(group)
    rows, sizes = check_rows(ranks, rows)
    head = io.BytesIO()
    shape = int(sizes.sum()), rows.shape[1]
    np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": shape})
    with ExitStack() as cleanup:
        unfinished = None  # the hidden file that all ranks write
        with ranks.agree_on_errors():
            if ranks.rank == 0:
                unfinished = cleanup.enter_context(atomic_path(path))
                unfinished.write_bytes(head.getvalue())
        unfinished = ranks.broadcast(unfinished)
        try:
            with ranks.agree_on_errors(), open(unfinished, "r+b") as file:
                # Not through a map: on a full disk the system would end the process, where `write` raises.
                rows_before = int(sizes[: ranks.rank].sum())  # those of lower ranks
                file.seek(len(head.getvalue()) + 8 * rows_before * rows.shape[1])
                file.write(np.ascontiguousarray(rows, "<i8").data)
            with ranks.agree_on_errors():
                cleanup.close()  # rank 0 gives the file its name
        except BaseException:
            unfinished.unlink(missing_ok=True)  # rank 0 does so too, unless it has died
            raise
