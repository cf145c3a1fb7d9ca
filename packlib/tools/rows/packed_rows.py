"""`pack_dataset`: a data set of sequences becomes one of packs, with the columns that other people's trainers read."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, overload

import numpy as np
import pyarrow as pa

from packlib.arguments import depth_limit, flag, one_of, path_of, shown, whole_number
from packlib.bars import progress_bar, wanted
from packlib.files import atomic_path, make_folders, named, output_path
from packlib.installed import __version__, needed_by
from packlib.lengths import LengthHistogram
from packlib.lengths.overlong import OVERLONG, Overlong
from packlib.packing import Method, PackingPlan, Packs, PairPacks, StreamPacker, pack_pairs
from packlib.packing import plan as make_plan
from packlib.packing.methods import method_name
from packlib.packing.ragged import ranges
from packlib.tools.rows.column_values import ColumnValues
from packlib.tools.rows.loss_masks import MaskWord, mask_words
from packlib.tools.rows.row_columns import ColumnReader
from packlib.tools.rows.row_sources import Origin, RowsByNumber, StreamedRows, batches_with_origin, opened
from packlib.tools.rows.second_budget import column_and_budget
from packlib.tools.rows.stored_columns import Spool, StoredColumns
from packlib.tools.rows.token_labels import nemo_columns, with_labels

if TYPE_CHECKING:
    import datasets

    from packlib.tools.rows.row_stream import PackedStream

Layout = Literal["packlib", "nemo"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
_NEMO_READS = "input_ids", "labels"  # the columns, beside the masks of the loss, that the layout of NeMo keeps
_TOKENS_AT_ONCE = 1 << 19  # in a batch of rows that is written: half a million, so that little is in memory


@overload
def pack_dataset(
    dataset: StreamedRows,
    max_length: int,
    *,
    max_sequences_per_pack: int | None = None,
    overlong: Overlong = "error",
    labels: bool = True,
    tokenizer: Any = None,
    window: int | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    drop_unlabeled: bool = False,
) -> "PackedStream": ...


@overload
def pack_dataset(
    dataset: RowsByNumber | Iterable[Mapping[str, Any]] | str | os.PathLike[str],
    max_length: int,
    method: Method = "auto",
    max_sequences_per_pack: int | None = None,
    *,
    plan: PackingPlan | None = None,
    overlong: Overlong = "error",
    labels: bool = True,
    tokenizer: Any = None,
    seed: int | None = 0,
    window: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    drop_unlabeled: bool = False,
    second_budget: tuple[str, int] | None = None,
) -> "datasets.Dataset": ...


def pack_dataset(
    dataset: Any,
    max_length: int,
    method: Method = "auto",
    max_sequences_per_pack: int | None = None,
    *,
    plan: PackingPlan | None = None,
    overlong: Overlong = "error",
    labels: bool = True,
    tokenizer: Any = None,
    seed: int | None = 0,
    window: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    drop_unlabeled: bool = False,
    second_budget: tuple[str, int] | None = None,
) -> Any:
    """Pack a tokenized data set into rows that trainers of transformers models take, as a `datasets.Dataset`.

    Row `i` is a pack: `input_ids`, `labels` and every other column with a value for each token, laid end to end;
    `position_ids`, which restart at 0 with each sequence; and `seq_lengths`, the length of each. A column with one
    number or text for a sequence becomes a list with one for each. Labels are -100 where a mask of the loss says that
    a token is not trained on: where `loss_mask`, `completion_mask`, `assistant_masks`, `assistant_mask`,
    `response_mask` or `train_mask` is 0, or `prompt_mask` is 1. An `attention_mask` of ones is left out. Rows that hold
    several sequences, as `seq_lengths` or `position_ids` say, are taken apart. `info.description` is JSON with what
    became of each of the `columns`, and the `books`: the sequences, tokens and labels before and after the cut of
    longer sequences, the labels that each rule for these would keep, and how many sequences and packs have none.

    >>> from packlib import pack_dataset
    >>> rows = [{"input_ids": [7] * length, "source": name} for length, name in ((5, "a"), (3, "b"), (2, "c"))]
    >>> packed = pack_dataset(rows, max_length=8)
    >>> packed[:]["seq_lengths"], packed[:]["source"], packed[0]["position_ids"]
    ([[5, 3], [2]], [['a', 'b'], ['c']], [0, 1, 2, 3, 4, 0, 1, 2])

    The same data gives the same packs on every machine. They are in a file of the cache, named by the content of the
    data and the arguments, so that they are made once; the data itself is read and not held in memory.

    Args:
        dataset: a `datasets.Dataset`, or an iterable of mappings, each with `input_ids`; or the path of Parquet or
            Arrow, of JSON lines (also .gz or .zst), of a folder of these, or of what `save_to_disk` wrote, of a pattern
            such as `*.parquet`, or a list of paths. A `datasets.IterableDataset` is packed as it streams by, into a
            `PackedStream`.
        max_length: slots of a pack, in tokens.
        method: as in `packlib.packing.plan`, which makes the same plan for the same lengths; a stream has none.
        max_sequences_per_pack: the depth limit, or None.
        plan: a plan for exactly these lengths, such as the `plan.json` of a report, to be used as it is; `method` and
            `max_sequences_per_pack` are then left out.
        overlong: what to do with a sequence of more tokens: "error", "truncate" it, "drop" it, or "split" it into
            several sequences; what is kept for a sequence is kept for each of them.
        labels: where the data has none, make labels for a causal model, which shifts them itself: the tokens, and -100
            for the first of each sequence, which nothing predicts. False leaves them out, for masked models.
        tokenizer: a tokenizer of transformers for data without `input_ids`. It makes them of `messages` (and `tools`)
            or the `conversations` of ShareGPT, by a chat template that says which tokens are the assistant's; of
            `prompt` and `completion`, texts or messages, as TRL has them; or of `text`. What is text then ends with its
            `eos_token`.
        seed: draws which sequences of equal length share a pack, and the order of the packs; None keeps their order.
            It is 0, as in `pack_loader`, where an order for training is made; `assign` alone makes none, and draws
            nothing by default.
        window: pack in order by a `StreamPacker` with so many open packs, and draw nothing. With 1 the sequences keep
            their order. By default a stream has 100, and other data is packed by a plan.
        cache_dir: the folder of the file, by default that of `datasets`.
        progress: True for bars after a second, False for none; by default, a terminal gets them after two seconds.
        masks: what columns mean, by their names: "loss" where tokens with 1 are trained on, "prompt" where tokens with
            0 are, "next" where 1 says that the next token is (as in files that NeMo packed), "keep" for another mask,
            and "drop" to leave the column out. For a number for each sequence "loss" says that those with 1 are trained
            on, and "prompt" that it counts the first tokens, which are not. A column that may say what is trained on
            needs such a word, unless packlib knows its name. Where masks, or a mask and the labels, disagree about a
            token, they are refused, unless words are given for the masks: then what all of them train on is trained on.
        drop_unlabeled: leave out the sequences, or what a rule for longer ones leaves of them, that have no label, and
            so train on nothing.
        second_budget: a column with a whole number for each sequence, such as the patches of its images, and the most
            that a pack may hold of it, such as `("patches", 125)`. `packlib.packing.pack_pairs` then packs both
            budgets; `method`, `plan`, `window` and `max_sequences_per_pack` are left out, and longer sequences are
            not cut.

    Raises:
        TypeError, ValueError: naming the argument, the column that no pack can carry, the first row that is wrong, or
            what leaves no label in all of the data.
    """
    with needed_by("packlib.pack_dataset"):
        import datasets
    if isinstance(dataset, datasets.IterableDataset):
        from packlib.tools.rows.row_stream import PackedStream

        _refuse_for_a_stream(method, plan, second_budget)
        return PackedStream(
            dataset,
            max_length,
            max_sequences_per_pack,
            overlong,
            labels,
            100 if window is None else window,  # the default that the docstring names
            tokenizer=tokenizer,
            masks=masks,
            drop_unlabeled=drop_unlabeled,
        )
    packing = PackingOptions(
        max_length,
        method,
        max_sequences_per_pack,
        overlong,
        labels,
        seed,
        plan,
        window,
        masks=masks,
        drop_unlabeled=drop_unlabeled,
        second_budget=second_budget,
    )
    reader = packing.reader(tokenizer)
    if cache_dir is None:
        cache_dir = Path(datasets.config.HF_DATASETS_CACHE) / "packlib"
    folder = output_path(path_of("cache_dir", cache_dir), folder=True)
    make_folders(folder)
    spool = read_sequences(opened(dataset), folder, reader, wanted(progress))
    path = folder / f"{_cache_name(packing, spool, reader)}.arrow"
    if not path.exists():
        packing.write(StoredColumns([spool]), reader, path, pa.ipc.new_stream, progress)
    with pa.memory_map(str(path)) as file:
        description = pa.ipc.open_stream(file).schema.metadata[b"packlib"].decode()
    return datasets.Dataset.from_file(str(path), info=datasets.DatasetInfo(description=description))


def _refuse_for_a_stream(method: Any, plan: Any, second_budget: Any) -> None:
    """Raise a ValueError if an argument is given that a stream cannot have."""
    for name, value, default in (
        ("method", method, "auto"),
        ("plan", plan, None),
        ("second_budget", second_budget, None),
    ):
        if value != default:
            raise ValueError(f"{name} must be left out for a stream, not {shown(value)}: a StreamPacker packs it.")


def _cache_name(packing: "PackingOptions", spool: Spool, reader: ColumnReader) -> str:
    """Return the name in the cache of the packs of these sequences: a digest of all that they depend on."""
    options = asdict(replace(packing, plan=None))
    options["plan"] = packing.plan.to_json() if packing.plan else None
    # The books too: other data, cut, may be the same sequences.
    text = json.dumps([__version__, options, spool.digest, reader.finish(), reader.books.as_dict()])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_sequences(
    dataset: Any, folder: Path, reader: ColumnReader, progress: bool | None, shared: bool = False
) -> Spool:
    """Read all sequences of a data set into files.

    Args:
        dataset: as `opened` returns it.
        folder: where the files are written.
        shared: whether other processes read the files, too.
    """
    spool = Spool(folder, shared)
    has_several_files = isinstance(dataset, list) and len(dataset) > 1
    with progress_bar(progress=progress, desc="reading", unit=" sequences", delay=1) as bar:
        for origin, batch in batches_with_origin(dataset, leave_out=reader.leave_out):
            with _naming(origin if has_several_files else None):
                spool.add(reader.read(batch))
            bar.update(len(batch))
    spool.finish()
    return spool


@contextmanager
def _naming(origin: Origin | None) -> Iterator[None]:
    """Let an error about a row or a column name the file that it is in; nothing is added where `origin` is None."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if origin is None:
            raise
        begins = f", which begins with row {origin.first_row:,} of the data set" if origin.first_row else ""
        raise type(error)(f"In {named(origin.path)}{begins}: {error}") from None


@dataclass(frozen=True)
class PackingOptions:
    """Options of `pack_dataset`, checked together when they are made."""

    max_length: int
    method: Method = "auto"
    max_sequences_per_pack: int | None = None
    overlong: Overlong = "error"
    labels: bool = True
    seed: int | None = 0
    plan: PackingPlan | None = None
    window: int | None = None
    layout: Layout = "packlib"
    masks: Mapping[str, MaskWord] | None = None
    drop_unlabeled: bool = False
    second_budget: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        self._check_layout()
        one_of("overlong", self.overlong, OVERLONG)
        mask_words(self.masks)
        self._make_plain()
        self._check_window()
        self._check_plan()
        self._check_second_budget()

    def _make_plain(self) -> None:
        """Check the numbers and flags, and make them Python's own, which JSON holds."""
        plain = {
            "max_length": whole_number("max_length", self.max_length, 1),
            "max_sequences_per_pack": depth_limit(self.max_sequences_per_pack),
            "labels": flag("labels", self.labels),
            "drop_unlabeled": flag("drop_unlabeled", self.drop_unlabeled),
            "method": method_name(self.method),
            "seed": None if self.seed is None else whole_number("seed", self.seed, 0),
            "window": None if self.window is None else whole_number("window", self.window, 1),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def _check_layout(self) -> None:
        """Check the layout: NeMo's needs labels."""
        one_of("layout", self.layout, LAYOUTS)
        if self.layout == "nemo" and self.labels is False:
            raise ValueError("labels must be made for the layout of NeMo, whose loss_mask says what is trained on.")

    def _check_window(self) -> None:
        """Check that a window, which packs in order, has neither method nor plan."""
        if self.window is not None and (self.method != "auto" or self.plan is not None):
            raise ValueError("method and plan must be left out with a window, which packs in order.")

    def _check_second_budget(self) -> None:
        """Check a second budget, and that the other options fit it."""
        if self.second_budget is None:
            return
        column, budget = column_and_budget(self.second_budget)
        for name, default in (("method", "auto"), ("plan", None), ("window", None), ("max_sequences_per_pack", None)):
            if (value := getattr(self, name)) != default:
                raise ValueError(f"{name} must be left out with a second budget, not {shown(value)}.")
        if self.overlong not in ("error", "drop"):
            raise ValueError(
                f"overlong must be 'error' or 'drop' with a second budget, not {self.overlong!r}: what a piece of a "
                f"sequence takes of {shown(column)} is unknown."
            )
        if (word := dict(self.masks or {}).get(column, "keep")) != "keep":
            raise ValueError(f"masks must not say {word!r} of {shown(column)}, the column of the second budget.")
        object.__setattr__(self, "second_budget", (column, budget))

    def _check_plan(self) -> None:
        """Check that a plan is one, and that the other options leave its choices to it."""
        if self.plan is None:
            return
        if not isinstance(self.plan, PackingPlan):
            raise TypeError(f"plan must be a PackingPlan, not {shown(self.plan)}.")
        if (top := self.plan.histogram.max_length) != self.max_length:
            raise ValueError(f"max_length must be {top}, that of the plan, not {self.max_length}.")
        if self.method != "auto" or self.max_sequences_per_pack is not None:
            raise ValueError("method and max_sequences_per_pack must be left out with a plan, which has both.")

    def reader(self, tokenizer: Any) -> ColumnReader:
        """Return a reader that makes of a data set the sequences that are packed."""
        return ColumnReader(
            tokenizer,
            self.labels,
            self.max_length,
            self.overlong,
            self.masks,
            self.drop_unlabeled,
            self.second_budget,
        )

    def plan_of(self, stored: StoredColumns, progress: bool | None) -> PackingPlan | PairPacks:
        """Return the plan of the options, or else make one; with a second budget return the packs themselves."""
        if self.second_budget is not None:
            column, budget = self.second_budget
            return pack_pairs(stored.lengths, stored.numbers(column), self.max_length, budget)
        return self.plan or self._plan(LengthHistogram.from_lengths(stored.lengths, self.max_length), progress)

    def write(
        self,
        stored: StoredColumns,
        reader: ColumnReader,
        path: Path,
        open_file: Callable,
        progress: bool | None,
        new: bool = False,
    ) -> dict[str, Any]:
        """Plan all packs, and write them to one file; return the description that the file has.

        Args:
            reader: the one that read the sequences `stored`.
            open_file, new: as in `RowWriter.write`.
        """
        rows = self.row_writer(stored, self.plan_of(stored, progress), reader)
        with rows.bar(len(rows.order), progress) as bar:
            rows.write(rows.order, path, open_file, bar, new)
        return rows.description

    def row_writer(
        self, stored: StoredColumns, chosen_plan: PackingPlan | PairPacks, reader: ColumnReader
    ) -> "RowWriter":
        """Return the writer of the rows of all packs.

        Args:
            chosen_plan: what `plan_of` returned.
            reader: the one that read the sequences `stored`.
        """
        packs = self._packs(stored.lengths, chosen_plan)
        order = np.arange(len(packs))
        if self.seed is not None and not self.window:
            order = np.random.default_rng(self.seed).permutation(len(packs))
        description = self._description(stored, chosen_plan, packs, reader)
        return RowWriter(stored, packs, order, description, self.labels, self.layout)

    def _packs(self, lengths: np.ndarray, chosen_plan: PackingPlan | PairPacks) -> Packs:
        """Return which sequences are in which pack."""
        if isinstance(chosen_plan, PairPacks):
            return chosen_plan
        return self._packs_in_data_order(lengths) if self.window else chosen_plan.assign(lengths, self.seed)

    def _description(
        self, stored: StoredColumns, chosen_plan: PackingPlan | PairPacks, packs: Packs, reader: ColumnReader
    ) -> dict[str, Any]:
        """Return what users of the rows may want to know, as JSON has it."""
        became = reader.finish()
        if isinstance(chosen_plan, PairPacks):
            method, proof = "pack_pairs", chosen_plan.proven_by
        else:
            method = f"window {self.window}" if self.window else chosen_plan.method
            proof = str(chosen_plan.proof)
        label_counts = np.add.reduceat(stored.label_counts[packs.sample_ids], packs.offsets[:-1])  # of each pack
        books = replace(reader.books, packs_without_label=int(np.count_nonzero(label_counts == 0)))
        if self.layout == "nemo":
            nemo_reads = (*_NEMO_READS, *reader.masks)
            unread = {name: "left out, as NeMo reads it from no file" for name in became if name not in nemo_reads}
            became = became | unread
        description: dict[str, Any] = {
            "method": method,
            "num_packs": len(packs),
            "lower_bound": chosen_plan.lower_bound,
            "proof": proof,
            "max_length": self.max_length,
            "sequences": len(stored.lengths),
            "tokens": int(stored.lengths.sum()),
            "overlong_sequences": reader.overlong,
            "books": books.as_dict(),
            "columns": became,
        }
        if isinstance(chosen_plan, PairPacks) and self.second_budget is not None:
            description["second_budget"] = {
                "column": self.second_budget[0],
                "budget": chosen_plan.max_patches,
                "used": chosen_plan.patch_efficiency,
                "tokens_used": chosen_plan.efficiency,
                "at_least": chosen_plan.patch_bound,
                "tokens_at_least": chosen_plan.token_bound,
            }
        return description

    def _packs_in_data_order(self, lengths: np.ndarray) -> Packs:
        """Pack sequences in the order of the data, each into one of `window` open packs, in the order of closing."""
        packer = StreamPacker(self.max_length, cast(int, self.window), self.max_sequences_per_pack)
        ids_of_packs = list(packer.pack(lengths.tolist()))
        sample_ids = np.fromiter(chain.from_iterable(ids_of_packs), np.int64, len(lengths))
        return Packs(sample_ids, np.cumsum([0, *map(len, ids_of_packs)]), lengths[sample_ids], self.max_length)

    def _plan(self, histogram: LengthHistogram, progress: bool | None) -> PackingPlan:
        """Make a plan by the method of the options; with a window, one that only proves a lower bound."""
        depth = self.max_sequences_per_pack
        if self.window:  # the packs are those of `_packs_in_data_order`
            return make_plan(histogram, method="lpfhp", max_sequences_per_pack=depth)
        if self.method not in ("auto", "optimal"):
            return make_plan(histogram, method=self.method, max_sequences_per_pack=depth)
        with progress_bar(progress=progress, desc="planning", unit=" rounds", delay=1) as rounds:

            def show(progress_now: Any) -> None:  # after each round of the search
                rounds.set_postfix(packs=progress_now.num_packs, at_least=progress_now.lower_bound, refresh=False)
                rounds.update()

            return make_plan(
                histogram, method=self.method, max_sequences_per_pack=depth, progress=show, on_interrupt="raise"
            )


@dataclass(frozen=True, eq=False)
class RowWriter:
    """Writes packs as rows, any of them to any file.

    Attributes:
        stored: the sequences in the packs.
        order: the numbers of the packs in the order of their rows; int64, shape (packs,).
        description: what users of a file may want to know; the metadata of its schema has it as JSON.
        labels: whether labels are made where the data has none.
        layout: "packlib", or "nemo" for the columns that NeMo reads.
    """

    stored: StoredColumns
    packs: Packs
    order: np.ndarray
    description: dict[str, Any]
    labels: bool
    layout: Layout = "packlib"

    def bar(self, total: int, progress: bool | None) -> Any:
        """Return a progress bar that counts packs up to `total`."""
        return progress_bar(progress=progress, desc="packing", unit=" packs", total=total, delay=1)

    def write(self, order: np.ndarray, path: Path, open_file: Callable, bar: Any, new: bool = False) -> None:
        """Write the rows of some packs to a file, whole or not at all.

        Args:
            order: the numbers of these packs, row after row; at least one.
            open_file: `pyarrow.parquet.ParquetWriter` or `pyarrow.ipc.new_stream`.
            new: whether a file that is already there is an error; or else it is replaced.
        """
        batches = self._batches(order)
        first_batch = next(batches)  # the columns of the file are those that it has
        schema = first_batch.schema.with_metadata({"packlib": json.dumps(self.description)})
        with atomic_path(path, new) as partial, open_file(str(partial), schema) as file:
            for batch in chain([first_batch], batches):
                file.write_batch(batch.replace_schema_metadata(schema.metadata))
                bar.update(len(batch))

    def _batches(self, order: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield the packs of this order, about half a million tokens at a time."""
        packs_at_once = max(1, _TOKENS_AT_ONCE // self.packs.max_length)
        for at in range(0, len(order), packs_at_once):
            yield self._rows(order[at : at + packs_at_once])

    def _rows(self, pack_numbers: np.ndarray) -> pa.RecordBatch:
        """Return the rows of packs: the sequences of each laid end to end.

        For the packs with sequences of 5 and 3 tokens, and of 2 tokens, `starts` are 0, 5, 8 and `ends` 5, 8, 10.
        Row i has the sequences from `sequence_offsets[i]` to `sequence_offsets[i + 1]`, so these are 0, 2, 3; and the
        tokens from `token_offsets[i]` to `token_offsets[i + 1]`, so these are 0, 8, 10.
        """
        offsets = self.packs.offsets
        depths = offsets[pack_numbers + 1] - offsets[pack_numbers]  # sequences in each pack
        sequences = self.packs.sample_ids[ranges(offsets[pack_numbers], depths)]
        lengths = self.stored.lengths[sequences]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        sequence_offsets = np.append(0, np.cumsum(depths))
        token_offsets = np.append(0, ends)[sequence_offsets]

        columns = with_labels(self.stored.take(sequences), starts, self.labels)
        if self.layout == "nemo":
            columns = nemo_columns(columns, ends)
            starts_in_row = starts - np.repeat(token_offsets[:-1], depths)
            columns["seq_start_id"] = ColumnValues(pa.array(starts_in_row.astype(np.int32)), by_token=False)
        else:
            positions = np.arange(ends[-1], dtype=np.int32) - np.repeat(starts.astype(np.int32), lengths)
            position_type = np.int16 if self.packs.max_length < 1 << 15 else np.int32  # the smallest that holds them
            columns["position_ids"] = ColumnValues(pa.array(positions.astype(position_type)), by_token=True)
            columns["seq_lengths"] = ColumnValues(pa.array(lengths.astype(np.int32)), by_token=False)

        lists = {}
        for name, (values, by_token) in columns.items():
            row_offsets = token_offsets if by_token else sequence_offsets
            lists[name] = pa.ListArray.from_arrays(pa.array(row_offsets.astype(np.int32)), values)
        return pa.RecordBatch.from_pydict(lists)
