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
_NEMO_READS = "input_ids", "labels"  # and the masks of the loss
_TOKENS = 1 << 19  # tokens that are written at once


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
            100 if window is None else window,
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
    columns = packing.columns(tokenizer)
    if cache_dir is None:
        cache_dir = Path(datasets.config.HF_DATASETS_CACHE) / "packlib"
    folder = output_path(path_of("cache_dir", cache_dir), folder=True)
    make_folders(folder)
    spool = read(opened(dataset), folder, columns, wanted(progress))
    path = folder / f"{_name_of(packing, spool, columns)}.arrow"
    if not path.exists():
        packing.write(StoredColumns([spool]), columns, path, pa.ipc.new_stream, progress)
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


def _name_of(packing: "PackingOptions", spool: Spool, columns: ColumnReader) -> str:
    """Return the name in the cache of the packs of these sequences: a digest of all that they depend on."""
    options = asdict(replace(packing, plan=None)) | {"plan": packing.plan and packing.plan.to_json()}
    # The books too: other data, cut, may be the same sequences.
    text = json.dumps([__version__, options, spool.digest, columns.finish(), columns.books.as_dict()])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read(dataset: Any, folder: Path, columns: ColumnReader, progress: bool | None, shared: bool = False) -> Spool:
    """Return the sequences of what `opened` returned; `shared` says whether other processes read the `Spool` too."""
    spool = Spool(folder, shared)
    several = isinstance(dataset, list) and len(dataset) > 1
    with progress_bar(progress=progress, desc="reading", unit=" sequences", delay=1) as bar:
        for origin, batch in batches_with_origin(dataset, leave_out=columns.leave_out):
            with _naming(origin if several else None):
                spool.add(columns.read(batch))
            bar.update(len(batch))
    spool.finish()
    return spool


@contextmanager
def _naming(origin: Origin | None) -> Iterator[None]:
    """Let an error about a row or a column name the file of several that it is in."""
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
        one_of("layout", self.layout, LAYOUTS)
        if self.layout == "nemo" and self.labels is False:
            raise ValueError("labels must be made for the layout of NeMo, whose loss_mask says what is trained on.")

    def _check_window(self) -> None:
        if self.window is not None and (self.method != "auto" or self.plan is not None):
            raise ValueError("method and plan must be left out with a window, which packs in order.")

    def _check_second_budget(self) -> None:
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
        if self.plan is None:
            return
        if not isinstance(self.plan, PackingPlan):
            raise TypeError(f"plan must be a PackingPlan, not {shown(self.plan)}.")
        if (top := self.plan.histogram.max_length) != self.max_length:
            raise ValueError(f"max_length must be {top}, that of the plan, not {self.max_length}.")
        if self.method != "auto" or self.max_sequences_per_pack is not None:
            raise ValueError("method and max_sequences_per_pack must be left out with a plan, which has both.")

    def columns(self, tokenizer: Any) -> ColumnReader:
        """Make the reader of the sequences that are packed."""
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
        """Return the plan that was given, or one that is made; with a second budget the packs themselves."""
        if self.second_budget is not None:
            column, budget = self.second_budget
            return pack_pairs(stored.lengths, stored.numbers(column), self.max_length, budget)
        return self.plan or self._plan(LengthHistogram.from_lengths(stored.lengths, self.max_length), progress)

    def write(
        self,
        stored: StoredColumns,
        columns: ColumnReader,
        path: Path,
        writer: Callable,
        progress: bool | None,
        new: bool = False,
    ) -> dict:
        """Plan all, and write it to one file, as `RowWriter.write` does; returns the description of the rows."""
        rows = self.rows(stored, self.plan_of(stored, progress), columns)
        with rows.bar(len(rows.order), progress) as bar:
            rows.write(rows.order, path, writer, bar, new)
        return rows.description

    def rows(self, stored: StoredColumns, chosen_plan: PackingPlan | PairPacks, columns: ColumnReader) -> "RowWriter":
        """Return the rows of all packs, in their order."""
        packs = self._packs(stored.lengths, chosen_plan)
        order = np.arange(len(packs))
        if self.seed is not None and not self.window:
            order = np.random.default_rng(self.seed).permutation(len(packs))
        description = self._description(stored, chosen_plan, packs, columns)
        return RowWriter(stored, packs, order, description, self.labels, self.layout)

    def _packs(self, lengths: np.ndarray, chosen_plan: PackingPlan | PairPacks) -> Packs:
        if isinstance(chosen_plan, PairPacks):
            return chosen_plan
        return self._in_order(lengths) if self.window else chosen_plan.assign(lengths, self.seed)

    def _description(
        self, stored: StoredColumns, chosen_plan: PackingPlan | PairPacks, packs: Packs, columns: ColumnReader
    ) -> dict[str, Any]:
        """Return what a reader of the rows may want to know, as JSON has it."""
        became = columns.finish()
        if isinstance(chosen_plan, PairPacks):
            method, proof = "pack_pairs", chosen_plan.proven_by
        else:
            method = f"window {self.window}" if self.window else chosen_plan.method
            proof = str(chosen_plan.proof)
        labels_of_packs = np.add.reduceat(stored.labels[packs.sample_ids], packs.offsets[:-1])
        books = replace(columns.books, packs_without_label=int(np.count_nonzero(labels_of_packs == 0)))
        if self.layout == "nemo":
            nemo_reads = (*_NEMO_READS, *columns.masks)
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
            "overlong_sequences": columns.overlong,
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

    def _in_order(self, lengths: np.ndarray) -> Packs:
        """Return the packs as a `StreamPacker` closes them."""
        packer = StreamPacker(self.max_length, cast(int, self.window), self.max_sequences_per_pack)
        packed = list(packer.pack(lengths.tolist()))
        ids = np.fromiter(chain.from_iterable(packed), np.int64, len(lengths))
        return Packs(ids, np.cumsum([0, *map(len, packed)]), lengths[ids], self.max_length)

    def _plan(self, histogram: LengthHistogram, progress: bool | None) -> PackingPlan:
        depth = self.max_sequences_per_pack
        if self.window:  # the packs are those of `_in_order`: this plan only proves how few packs there can be
            return make_plan(histogram, method="lpfhp", max_sequences_per_pack=depth)
        if self.method not in ("auto", "optimal"):
            return make_plan(histogram, method=self.method, max_sequences_per_pack=depth)
        with progress_bar(progress=progress, desc="planning", unit=" rounds", delay=1) as rounds:

            def show(progress_now: Any) -> None:
                rounds.set_postfix(packs=progress_now.num_packs, at_least=progress_now.lower_bound, refresh=False)
                rounds.update()

            return make_plan(
                histogram, method=self.method, max_sequences_per_pack=depth, progress=show, on_interrupt="raise"
            )


@dataclass(frozen=True, eq=False)
class RowWriter:
    """Rows that can be written, any of them in any file.

    Attributes:
        order: the packs as the rows have them.
        description: what a reader of a file may want to know, which is in its schema.
    """

    stored: StoredColumns
    packs: Packs
    order: np.ndarray
    description: dict[str, Any]
    labels: bool
    layout: Layout = "packlib"

    def bar(self, total: int, progress: bool | None) -> Any:
        """Return a bar of packs."""
        return progress_bar(progress=progress, desc="packing", unit=" packs", total=total, delay=1)

    def write(self, order: np.ndarray, path: Path, writer: Callable, bar: Any, new: bool = False) -> None:
        """Write the rows of the packs of `order` to a file, whole or not at all.

        Args:
            new: whether a file that is already there is an error; or else it is replaced.
        """
        rows = self._batches(order)
        first_batch = next(rows)
        schema = first_batch.schema.with_metadata({"packlib": json.dumps(self.description)})
        with atomic_path(path, new) as partial, writer(str(partial), schema) as file:
            for batch in chain([first_batch], rows):
                file.write_batch(batch.replace_schema_metadata(schema.metadata))
                bar.update(len(batch))

    def _batches(self, order: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield the packs of this order, about half a million tokens at a time."""
        packs_at_once = max(1, _TOKENS // self.packs.max_length)
        for at in range(0, len(order), packs_at_once):
            yield self._rows(order[at : at + packs_at_once])

    def _rows(self, pack_numbers: np.ndarray) -> pa.RecordBatch:
        """Return the rows of packs: the sequences of each laid end to end."""
        first_samples = self.packs.offsets[pack_numbers]
        sizes = self.packs.offsets[pack_numbers + 1] - first_samples
        sequences = self.packs.sample_ids[ranges(first_samples, sizes)]
        lengths = self.stored.lengths[sequences]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        sequence_offsets = np.concatenate([[0], np.cumsum(sizes)])
        token_offsets = np.concatenate([[0], ends])[sequence_offsets]

        columns = with_labels(self.stored.take(sequences), starts, self.labels)
        if self.layout == "nemo":
            columns = nemo_columns(columns, ends)
            starts_in_row = starts - np.repeat(token_offsets[:-1], sizes)
            columns["seq_start_id"] = ColumnValues(pa.array(starts_in_row.astype(np.int32)), by_token=False)
        else:
            positions = np.arange(ends[-1], dtype=np.int32) - np.repeat(starts.astype(np.int32), lengths)
            position_type = np.int16 if self.packs.max_length < 1 << 15 else np.int32
            columns["position_ids"] = ColumnValues(pa.array(positions.astype(position_type)), by_token=True)
            columns["seq_lengths"] = ColumnValues(pa.array(lengths.astype(np.int32)), by_token=False)

        lists = {}
        for name, (values, by_token) in columns.items():
            offsets = token_offsets if by_token else sequence_offsets
            lists[name] = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
        return pa.RecordBatch.from_pydict(lists)
