"""`pack_dataset`: a data set of sequences becomes one of packs, with the columns that other people's trainers read."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm

from packlib.checks import depth_limit, flag, listed, one_of, shown, whole_number
from packlib.files import atomic_path
from packlib.installed import needed_by
from packlib.lengths import LengthHistogram
from packlib.lengths.own_files import parquet_batches
from packlib.markup import one_line
from packlib.packing import Method, PackingPlan, Packs
from packlib.packing import plan as make_plan
from packlib.packing.documents import split
from packlib.packing.methods import method_name
from packlib.places import output_path, room_for
from packlib.ragged import ranges
from packlib.reading import arrow_errors, enough_memory, naming
from packlib.rows.spool import IGNORED, OVERLONG, Overlong, Spool
from packlib.version import __version__

if TYPE_CHECKING:
    import datasets

    from packlib.rows.row_stream import PackedStream

_NEAR = 0.001  # of the fewest packs: a plan so near is good enough
_ROWS = 4096  # sequences that are read at once
_TOKENS = 1 << 19  # tokens that are written at once


class RowsByNumber(Protocol):
    """A data set that gives row `i` for `dataset[i]`, such as a `datasets.Dataset`, or one of PyTorch."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class RowsInPassing(Protocol):
    """A data set whose rows pass by: a `datasets.IterableDataset`."""

    def __iter__(self) -> Iterator[Any]: ...
    def set_epoch(self, epoch: int) -> None: ...


@overload
def pack_dataset(
    dataset: RowsInPassing,
    max_length: int,
    *,
    max_sequences_per_pack: int | None = None,
    overlong: Overlong = "error",
    labels: bool = True,
    window: int = 100,
) -> "PackedStream": ...


@overload
def pack_dataset(
    dataset: RowsByNumber | Iterable[Mapping[str, Any]] | str | os.PathLike,
    max_length: int,
    method: Method | None = None,
    max_sequences_per_pack: int | None = None,
    *,
    plan: PackingPlan | None = None,
    overlong: Overlong = "error",
    labels: bool = True,
    seed: int | None = 0,
    window: int = 100,
    cache_dir: str | os.PathLike | None = None,
    progress: bool = True,
) -> "datasets.Dataset": ...


def pack_dataset(
    dataset: Any,
    max_length: int,
    method: Method | None = None,
    max_sequences_per_pack: int | None = None,
    *,
    plan: PackingPlan | None = None,
    overlong: Overlong = "error",
    labels: bool = True,
    seed: int | None = 0,
    window: int = 100,
    cache_dir: str | os.PathLike | None = None,
    progress: bool = True,
) -> Any:
    """Pack a tokenized data set into rows that trainers of transformers models take, as a `datasets.Dataset`.

    Row `i` is a pack: `input_ids`, `labels` and every other column with a value for each token, laid end to end;
    `position_ids`, which restart at 0 with each sequence; and `seq_lengths`, the length of each. A column with one
    number or text for a sequence becomes a list with one for each. An `attention_mask` of ones is left out.

    >>> from packlib.rows import pack_dataset
    >>> rows = [{"input_ids": [7] * length, "source": name} for length, name in ((5, "a"), (3, "b"), (2, "c"))]
    >>> packed = pack_dataset(rows, max_length=8)
    >>> packed[:]["seq_lengths"], packed[:]["source"], packed[0]["position_ids"]
    ([[5, 3], [2]], [['a', 'b'], ['c']], [0, 1, 2, 3, 4, 0, 1, 2])

    The same data gives the same packs on every machine. They are in a file of the cache, named by the content of the
    data and the arguments, so that they are made once; the data itself is read and not held in memory.

    Args:
        dataset: a `datasets.Dataset`, the path of a Parquet file, or an iterable of mappings, each with `input_ids`. A
            `datasets.IterableDataset` is packed as it streams by, into a `PackedStream`.
        max_length: slots of a pack, in tokens.
        method: as in `packlib.packing.plan`; a stream has none. By default "lpfhp", and "optimal" unless that is proven
            to be within 0.1 % of the fewest packs.
        max_sequences_per_pack: the depth limit, or None.
        plan: a plan for exactly these lengths, such as the `plan.json` of a report, to be used as it is; `method` and
            `max_sequences_per_pack` are then left out.
        overlong: what to do with a sequence of more tokens: "error", "truncate" it, "drop" it, or "split" it into
            several sequences; what is kept for a sequence is kept for each of them.
        labels: where the data has none, make labels for a causal model, which shifts them itself: the tokens, and -100
            for the first of each sequence, which nothing predicts. False leaves them out, for masked models.
        seed: draws which sequences of equal length share a pack, and the order of the packs; None keeps their order.
        window: open packs, for a stream only.
        cache_dir: the folder of the file, by default that of `datasets`.
        progress: show bars.

    Raises:
        TypeError, ValueError: naming the argument, the column that no pack can carry, or the first row that is wrong.
    """
    with needed_by("packlib.pack_dataset"):
        import datasets
    if isinstance(dataset, datasets.IterableDataset):
        from packlib.rows.row_stream import PackedStream

        for name, value in (("method", method), ("plan", plan)):
            if value is not None:
                raise ValueError(f"{name} must be left out for a stream, not {shown(value)}: a StreamPacker packs it.")
        return PackedStream(dataset, max_length, max_sequences_per_pack, overlong, labels, window)
    packing = _Packing(max_length, method, max_sequences_per_pack, overlong, labels, seed, plan)
    folder = output_path(cache_dir or Path(datasets.config.HF_DATASETS_CACHE) / "packlib", folder=True)
    folder.mkdir(parents=True, exist_ok=True)
    spool = _read(dataset, folder, flag("progress", progress))
    asked = asdict(replace(packing, plan=None)) | {"plan": plan and plan.to_json()}
    text = json.dumps([__version__, asked, spool.digest()])
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.arrow"
    if not path.exists():
        packing.write(spool, path, pa.ipc.new_stream, progress)
    with pa.memory_map(str(path)) as file:
        found = pa.ipc.open_stream(file).schema.metadata[b"packlib"].decode()
    return datasets.Dataset.from_file(str(path), info=datasets.DatasetInfo(description=found))


def pack_parquet(
    data: str | os.PathLike, out: str | os.PathLike, max_length: int, progress: bool = True, **asked: Any
) -> dict[str, Any]:
    """From one Parquet file to another, without a cache: the rows of `pack_dataset`, in a file that is whole or absent.

    Args:
        asked: as in `pack_dataset`: `method`, `plan`, `max_sequences_per_pack`, `overlong`, `labels`, `seed`.

    Returns:
        The number of packs, the proven `lower_bound` of it, the `sequences` and `tokens` in them, and the `method`.

    Raises:
        OSError: if nothing can be written at `out`, or that would replace `data`.
        TypeError, ValueError: as `pack_dataset`.
        MemoryError: naming `data`.
    """
    out = output_path(out, reads=[data])
    packing = _Packing(max_length, **asked)
    beside = next(folder for folder in out.parents if folder.exists())
    with enough_memory(data), room_for(out):
        return packing.write(_read(data, beside, flag("progress", progress)), out, pq.ParquetWriter, progress)


def _read(dataset: Any, folder: Path, progress: bool) -> Spool:
    in_order = getattr(dataset, "_indices", dataset) is None  # of a `datasets.Dataset`: not shuffled, nothing selected
    spool = Spool(folder, kept=in_order)
    with tqdm(desc="reading", unit=" sequences", disable=not progress, delay=1) as bar:
        for batch in _batches(dataset):
            spool.add(batch)
            bar.update(len(batch))
    return spool


def _batches(dataset: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(dataset, (str, os.PathLike)):
        with naming(dataset, "whole Parquet file of sequences") as path:
            with arrow_errors(), pq.ParquetFile(path, page_checksum_verification=True) as file:
                yield from parquet_batches(file, file.schema_arrow.names)
        return
    import datasets

    if isinstance(dataset, datasets.Dataset):
        for table in dataset.with_format("arrow").iter(_ROWS):
            # each selected row is a chunk by itself; others stay where they are
            yield from (table if dataset._indices is None else table.combine_chunks()).to_batches()
    elif not isinstance(dataset, Mapping) and (hasattr(dataset, "__iter__") or hasattr(dataset, "__getitem__")):
        rows = enumerate(dataset if hasattr(dataset, "__iter__") else map(dataset.__getitem__, range(len(dataset))))
        while some := [_plain(row, number) for number, row in islice(rows, _ROWS)]:
            try:
                yield pa.RecordBatch.from_pylist(some)
            except pa.ArrowException as error:
                said = one_line(str(error), 200)
                raise TypeError(f"The rows of the data set do not fit together: {said}") from None
    else:
        it = f"the splits {listed(dataset)}: pass one" if isinstance(dataset, Mapping) else shown(dataset)
        raise TypeError(
            "dataset must be a datasets.Dataset, the path of a Parquet file, or an iterable of mappings with "
            f"input_ids, not {it}."
        )


def _plain(row: Any, number: int) -> dict[str, Any]:
    """A row without tensors."""
    if not isinstance(row, Mapping):
        raise TypeError(f"Row {number} of the data set must be a mapping with input_ids, not {shown(row)}.")
    return {name: np.asarray(value) if hasattr(value, "__array__") else value for name, value in row.items()}


class Pieces:
    """What is packed of each sequence: all of it, or what `overlong` makes of it.

    Attributes:
        sequences: int64, shape (number of pieces,): which sequence each is a piece of.
        starts: int64, as many: the first token of each, counted through the whole data set.
        lengths: int64, as many.
        overlong: how many sequences were too long.
    """

    def __init__(self, lengths: np.ndarray, max_length: int, overlong: str) -> None:
        self.sequences = np.arange(len(lengths))
        self.starts, self.lengths = np.cumsum(lengths) - lengths, lengths
        longer = lengths > max_length
        self.overlong = int(longer.sum())
        if self.overlong:
            if overlong == "error":
                at, more = int(longer.argmax()), self.overlong - 1
                raise ValueError(
                    f"Row {at} of the data set has {lengths[at]} tokens; the maximum is {max_length}"
                    f"{f' ({more} more rows are too long)' if more else ''}: pass a larger max_length, or overlong="
                    '"truncate", "drop" or "split".'
                )
            if overlong == "split":
                self.sequences, before, self.lengths = split(lengths, max_length)
                self.starts = self.starts[self.sequences] + before
            if overlong == "drop":
                self.sequences = np.flatnonzero(~longer)
                self.starts, self.lengths = self.starts[~longer], lengths[~longer]
            self.lengths = self.lengths.clip(max=max_length)
        if not len(self.lengths):
            raise ValueError("The data set has no sequence to pack.")


@dataclass(frozen=True)
class _Packing:
    """What is asked for: see `pack_dataset`."""

    max_length: int
    method: Method | None = None
    max_sequences_per_pack: int | None = None
    overlong: Overlong = "error"
    labels: bool = True
    seed: int | None = 0
    plan: PackingPlan | None = None

    def __post_init__(self) -> None:
        whole_number("max_length", self.max_length, 1)
        one_of("overlong", self.overlong, OVERLONG)
        flag("labels", self.labels)
        depth_limit(self.max_sequences_per_pack)
        if self.method is not None:
            object.__setattr__(self, "method", method_name(self.method))
        if self.seed is not None:
            whole_number("seed", self.seed, 0)
        if self.plan is not None:
            self._check_plan()

    def _check_plan(self) -> None:
        if not isinstance(self.plan, PackingPlan):
            raise TypeError(f"plan must be a PackingPlan, not {shown(self.plan)}.")
        if (top := self.plan.histogram.max_length) != self.max_length:
            raise ValueError(f"max_length must be {top}, that of the plan, not {self.max_length}.")
        if self.method is not None or self.max_sequences_per_pack is not None:
            raise ValueError("method and max_sequences_per_pack must be left out with a plan, which has both.")

    def write(self, spool: Spool, path: Path, writer: Callable, progress: bool) -> dict[str, Any]:
        """Pack what was read into a file; returns what a reader of it may want to know, which stands in its schema."""
        pieces = Pieces(spool.lengths, self.max_length, self.overlong)
        made = self._plan(LengthHistogram.from_lengths(pieces.lengths, self.max_length), progress)
        packs = made.assign(pieces.lengths, self.seed)
        found = {name: getattr(made, name) for name in ("method", "num_packs", "lower_bound")}
        found |= {"max_length": self.max_length, "sequences": len(pieces.lengths), "tokens": int(pieces.lengths.sum())}
        found |= {"overlong_sequences": pieces.overlong}
        rows = self._rows(spool, pieces, packs)
        first = next(rows)
        schema = first.schema.with_metadata({"packlib": json.dumps(found)})
        with (
            atomic_path(path) as beside,
            writer(str(beside), schema) as file,
            tqdm(desc="packing", unit=" packs", total=len(packs), disable=not progress, delay=1) as bar,
        ):
            for batch in chain([first], rows):
                file.write_batch(batch.replace_schema_metadata(schema.metadata))
                bar.update(len(batch))
        return found

    def _plan(self, histogram: LengthHistogram, progress: bool) -> PackingPlan:
        if self.plan:
            return self.plan
        depth = self.max_sequences_per_pack
        if self.method != "optimal":
            made = make_plan(histogram, method=self.method or "lpfhp", max_sequences_per_pack=depth)
            if self.method or made.gap <= _NEAR * made.lower_bound:
                return made
        with tqdm(desc="planning", unit=" rounds", disable=not progress, delay=1) as bar:

            def show(now: Any) -> None:
                bar.set_postfix(packs=now.num_packs, at_least=now.lower_bound, refresh=False)
                bar.update()

            return make_plan(histogram, method="optimal", max_sequences_per_pack=depth, progress=show)

    def _rows(self, spool: Spool, pieces: Pieces, packs: Packs) -> Iterator[pa.RecordBatch]:
        """The packs, about a million tokens at a time."""
        order, sizes = np.arange(len(packs)), np.diff(packs.offsets)
        if self.seed is not None:
            order = np.random.default_rng(self.seed).permutation(len(packs))
        step, small = max(1, _TOKENS // packs.max_length), np.int16 if packs.max_length < 1 << 15 else np.int32
        for some in (order[at : at + step] for at in range(0, len(order), step)):
            mine = packs.sample_ids[ranges(packs.offsets[some], sizes[some])]
            ends = np.cumsum(lengths := pieces.lengths[mine])
            positions = np.arange(ends[-1], dtype=np.int32) - np.repeat((ends - lengths).astype(np.int32), lengths)
            sequences, starts = pieces.sequences[mine], pieces.starts[mine]
            by_sequence = np.concatenate([[0], np.cumsum(sizes[some])])
            by_token = np.concatenate([[0], ends])[by_sequence]
            row = {}
            for name, column in spool.columns.items():
                span = (starts, starts + lengths) if column.by_token else (sequences, sequences + 1)
                row[name] = _lists(by_token if column.by_token else by_sequence, column.take(*span))
            if self.labels and "labels" not in row:
                made = row["input_ids"].values.to_numpy().copy()
                made[ends - lengths] = IGNORED
                row["labels"] = _lists(by_token, pa.array(made))
            row["position_ids"] = _lists(by_token, pa.array(positions.astype(small)))
            row["seq_lengths"] = _lists(by_sequence, pa.array(lengths.astype(np.int32)))
            yield pa.RecordBatch.from_pydict(row)


def _lists(offsets: np.ndarray, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
