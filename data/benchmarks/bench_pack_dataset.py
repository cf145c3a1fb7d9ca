"""`pack_dataset` beside TRL's (best fit decreasing): packs and CPU seconds.

`python data/record.py pack_dataset` writes data/benchmarks/pack_dataset.csv. Both read a data set from disk, and
write their rows to disk. Each removes first what it wrote before: otherwise one writes into memory that is new to the
machine, which costs more than the copying, and the other into what the first one gave back.
"""

import shutil
import tempfile
import time
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa

from benchmarks.table import in_turn, record
from packlib import pack_dataset
from packlib.lengths import load, log_normal
from packlib.packing.search.sums import direct_bound


def data_set(lengths: np.ndarray, folder: Path) -> datasets.Dataset:
    """Return the sequences of these lengths in random order, with tokens and labels, on disk."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.permutation(lengths))]).astype(np.int32)
    column = pa.ListArray.from_arrays(offsets, pa.array(rng.integers(5, 30_000, offsets[-1], dtype=np.int32)))
    datasets.Dataset(pa.table({"input_ids": column, "labels": column})).save_to_disk(folder)
    return datasets.load_from_disk(folder)


def some_of(name: str, count: int) -> np.ndarray:
    """Return `count` sequences drawn from a histogram of the workbook."""
    counts = load(name).counts
    return np.random.default_rng(1).choice(len(counts), count, p=counts / counts.sum())


def cases() -> dict[tuple[str, int], np.ndarray]:
    return {
        ("100,000 log-normal", 2048): log_normal(100_000, 2048, 5.0, 1.0).expand(),
        ("30,000 log-normal", 8192): log_normal(30_000, 8192, 6.0, 1.2).expand(),
        ("300,000 of Wikipedia", 512): some_of("wikipedia", 300_000),
        ("80,000 of SQuAD", 384): some_of("squad", 80_000),
        ("500,000 log-normal", 128): log_normal(500_000, 128, 2.5, 0.5).expand(),
        ("60,000 log-normal, shuffled", 4096): log_normal(60_000, 4096, 5.0, 1.0).expand(),
        ("20,000 log-normal", 32_768): log_normal(20_000, 32_768, 5.5, 1.5).expand(),
    }


def beside_trl(name: str, max_length: int, lengths: np.ndarray) -> dict:
    import trl

    with tempfile.TemporaryDirectory() as place:
        dataset, written = data_set(lengths, Path(place, "data")), Path(place, "written")
        if name.endswith("shuffled"):
            dataset = dataset.shuffle(seed=0)

        def emptied(who: str) -> Path:
            shutil.rmtree(written / who, ignore_errors=True)
            (written / who).mkdir(parents=True)
            return written / who

        def ours() -> int:
            return len(pack_dataset(dataset, max_length, cache_dir=emptied("packlib"), progress=False))

        def theirs() -> int:
            file = emptied("trl") / "packed.arrow"
            return len(trl.pack_dataset(dataset, max_length, "bfd", {"cache_file_name": str(file)}))

        ours(), theirs()  # they load what they need
        seconds, packs = in_turn({"packlib": ours, "trl": theirs}, runs=5, clock=time.process_time)
    return {
        "work": f"{name} at {max_length}",
        "CPU seconds": f"{seconds['packlib']:.2f}",
        "TRL's CPU seconds": f"{seconds['trl']:.2f}",
        "times faster": f"{seconds['trl'] / seconds['packlib']:.1f}",
        "packs": packs["packlib"],
        "TRL's packs": packs["trl"],
        "bound": direct_bound(np.bincount(lengths, minlength=max_length + 1), None),
    }


def main() -> None:
    datasets.disable_progress_bars()
    rows = (beside_trl(*case, lengths) for case, lengths in cases().items())
    record("pack_dataset.csv", rows, "python data/record.py pack_dataset", ("datasets", "trl", "pyarrow"))
