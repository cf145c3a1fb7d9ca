"""`audit` of ten million packed sequences, beside pyarrow's own read of the same file in batches.

    python -m tests.benchmarks audit

prints the table and writes `data/benchmarks/audit.csv`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packlib.auditing import audit
from tests.benchmarks.table import in_turn, record, show

SEQUENCES, IN_A_PACK = 10_000_000, 50
GROWN = """
import sys
import pyarrow.parquet
from packlib.auditing import audit


def most():
    with open("/proc/self/status") as file:
        return int(next(line.split()[1] for line in file if line.startswith("VmHWM")))


before = most()
audit(sys.argv[1])
print((most() - before) // 1024)
"""  # the most memory in use, above that before the call, in MiB


def parts(kind: str, tokens: bool) -> Iterator[pa.Table]:
    """Packs of 50 sequences of 1 to 39 tokens."""
    rng = np.random.default_rng(0)
    for _ in range(SEQUENCES // IN_A_PACK // 20_000):
        lengths = rng.integers(1, 40, (20_000, IN_A_PACK), np.int32)
        bounds = np.cumsum(np.pad(lengths, ((0, 0), (1, 0))), 1, dtype=np.int32)
        rows = np.concatenate([[0], np.cumsum(bounds[:, -1])]).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(lengths.ravel())[:-1]])
        told = {
            "seq_lengths": (np.arange(0, lengths.size + 1, IN_A_PACK), lengths.ravel()),
            "cu_seqlens": (np.arange(0, bounds.size + 1, IN_A_PACK + 1), bounds.ravel()),
            "position_ids": (rows, np.arange(rows[-1]) - np.repeat(starts, lengths.ravel())),
        }[kind]
        columns = {kind: told, **({"input_ids": (rows, rng.integers(0, 30_000, rows[-1]))} if tokens else {})}
        yield pa.table(
            {
                name: pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values.astype(np.int32)))
                for name, (offsets, values) in columns.items()
            }
        )


def read(path: Path) -> None:
    with pq.ParquetFile(path) as file:
        for _ in file.iter_batches():
            pass


def row(kind: str, tokens: bool) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path, tables = Path(folder, "packed.parquet"), parts(kind, tokens)
        first = next(tables)
        with pq.ParquetWriter(path, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
        seconds = in_turn({"audit": lambda: audit(path), "pyarrow": lambda: read(path)}, runs=3)
        grown = subprocess.run([sys.executable, "-c", GROWN, path], capture_output=True, text=True, check=True).stdout
        size = path.stat().st_size >> 20
    return {
        "work": f"{SEQUENCES:,} sequences, {kind}{' and input_ids' * tokens}",
        "seconds": f"{seconds['audit']:.2f}",
        "pyarrow's read": f"{seconds['pyarrow']:.2f}",
        "times as long": f"{seconds['audit'] / seconds['pyarrow']:.2f}",
        "MiB of memory": int(grown),
        "MiB of the file": size,
        "must be": "at most 5",
    }


def main() -> None:
    rows = []
    for kind, tokens in (("seq_lengths", True), ("seq_lengths", False), ("cu_seqlens", True), ("position_ids", True)):
        rows.append(row(kind, tokens))
        show(rows[-1:])
    print(record("audit", rows, "python -m tests.benchmarks audit", packages=("numpy", "pyarrow")))
