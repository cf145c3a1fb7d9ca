"""`audit` of ten million packed sequences, beside pyarrow's own read of the same file in batches.

`python data/record.py audit` writes data/benchmarks/audit.csv.
"""

import itertools
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table import in_new_process, in_turn, memory_of, record
from packlib.tools.auditing import audit

SEQUENCES, IN_A_PACK, PACKS_OF_A_TABLE = 10_000_000, 50, 20_000


def tables(kind: str, tokens: bool) -> Iterator[pa.Table]:
    """Yield the packs of 50 sequences of 1 to 39 tokens."""
    rng = np.random.default_rng(0)
    for _ in range(SEQUENCES // IN_A_PACK // PACKS_OF_A_TABLE):
        lengths = rng.integers(1, 40, (PACKS_OF_A_TABLE, IN_A_PACK), np.int32)
        bounds = np.cumsum(np.pad(lengths, ((0, 0), (1, 0))), 1, dtype=np.int32)
        rows = np.concatenate([[0], np.cumsum(bounds[:, -1])])
        starts = np.concatenate([[0], np.cumsum(lengths.ravel())[:-1]])
        columns = {
            kind: {
                "seq_lengths": (np.arange(0, lengths.size + 1, IN_A_PACK), lengths.ravel()),
                "cu_seqlens": (np.arange(0, bounds.size + 1, IN_A_PACK + 1), bounds.ravel()),
                "position_ids": (rows, np.arange(rows[-1]) - np.repeat(starts, lengths.ravel())),
            }[kind]
        }
        if tokens:
            columns["input_ids"] = rows, rng.integers(0, 30_000, rows[-1])
        arrays = [
            pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values.astype(np.int32)))
            for offsets, values in columns.values()
        ]
        yield pa.table(arrays, list(columns))


def read(path: Path) -> None:
    with pq.ParquetFile(path) as file:
        for _ in file.iter_batches():
            pass


def measured() -> Iterator[dict]:
    for kind, tokens in (("seq_lengths", True), ("seq_lengths", False), ("cu_seqlens", True), ("position_ids", True)):
        with tempfile.TemporaryDirectory() as folder:
            path, made = Path(folder, "packed.parquet"), tables(kind, tokens)
            first = next(made)
            with pq.ParquetWriter(path, first.schema) as writer:
                for table in itertools.chain([first], made):
                    writer.write_table(table)
            seconds, _ = in_turn({"audit": partial(audit, path), "pyarrow": partial(read, path)}, runs=3)
            yield {
                "work": f"{SEQUENCES:,} sequences, {kind}{' and input_ids' * tokens}",
                "seconds": f"{seconds['audit']:.2f}",
                "pyarrow's read": f"{seconds['pyarrow']:.2f}",
                "times as long": f"{seconds['audit'] / seconds['pyarrow']:.2f}",
                "MiB of memory": in_new_process(memory_of, audit, path),
                "MiB of the file": path.stat().st_size >> 20,
            }


def main() -> None:
    record("audit.csv", measured(), "python data/record.py audit", ("numpy", "pyarrow"))
