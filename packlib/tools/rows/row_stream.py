"""A `datasets.IterableDataset` packed as it streams by: no second look, bounded memory, and it can be resumed."""

import copy
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, cast

import numpy as np
import pyarrow as pa
from torch.utils.data import IterableDataset, get_worker_info

from packlib.arguments import flag, one_of, shown, whole_number
from packlib.collectives import Collectives
from packlib.lengths.overlong import OVERLONG, Overlong
from packlib.packing import StreamPacker
from packlib.tools.rows.books import Books
from packlib.tools.rows.loss_masks import MaskWord, mask_words
from packlib.tools.rows.row_columns import ColumnReader
from packlib.tools.rows.row_sources import StreamedRows, of_rows
from packlib.tools.rows.token_labels import with_labels

_ROWS_AT_ONCE = 100  # rows that are read in a batch
# The state before the first pack: that of the source when no pack was open, and the packs that have come since.
_FROM_THE_START: dict[str, Any] = {"source": None, "packs": 0}
_SETTING = (  # the attributes that packs depend on; a state is for a stream with the same
    "max_length", "max_sequences_per_pack", "overlong", "drop_unlabeled", "window", "empty_every",
)  # fmt: skip


class PackedStream(IterableDataset):
    """Rows as `pack_dataset` makes them, of packs as a `StreamPacker` closes them.

    `state_dict()` is small: the state of the source when no pack was open, how many packs have come since, and the
    setting that these depend on. A stream that loads it reads on from there and leaves out the packs that were handed
    out. So it goes on as if it had never stopped, if the source does (a `shuffle` of `datasets` fills its buffer anew).

    The workers of a `DataLoader` share the source as `datasets` divides it; give each rank its part with
    `datasets.distributed.split_dataset_by_node`. The parts make different numbers of packs, so that some ranks would
    wait in an update for others that have ended, unless the streams are `even`.

    Args:
        dataset: a `datasets.IterableDataset` of tokenized sequences.
        max_length, max_sequences_per_pack, overlong, labels, window, tokenizer, masks, drop_unlabeled: as in
            `pack_dataset`.
        empty_every: number of rows after which all open packs are closed, as at the end. A smaller number makes more
            packs, and resuming quicker.
        even: end a pass on all ranks of the process group when it ends on the first of them. The packs that the others
            still have are not handed out. All ranks take their packs together, each in its main process, without
            workers.

    Attributes:
        books: the sequences, tokens and labels that the last pass has read until now, and those that it packs of them.

    Raises:
        TypeError, ValueError: for bad arguments; as it streams, naming the column or the length that is wrong.
        RankError: the same on every rank, if it is wrong on one of several, and they are `even`.

    >>> from datasets import Dataset
    >>> from packlib import PackedStream
    >>> stream = Dataset.from_dict({"input_ids": [[7, 8, 6], [4], [5, 5]]}).to_iterable_dataset()
    >>> [pack["seq_lengths"] for pack in PackedStream(stream, max_length=4)]
    [[3, 1], [2]]
    """

    def __init__(
        self,
        dataset: StreamedRows,
        max_length: int,
        max_sequences_per_pack: int | None = None,
        overlong: Overlong = "error",
        labels: bool = True,
        window: int = 100,
        empty_every: int = 100_000,
        tokenizer: Any = None,
        even: bool = False,
        masks: Mapping[str, MaskWord] | None = None,
        drop_unlabeled: bool = False,
    ) -> None:
        if not (hasattr(dataset, "__iter__") and hasattr(dataset, "load_state_dict")):
            raise TypeError(f"dataset must be a datasets.IterableDataset, not {shown(dataset)}.")
        StreamPacker(max_length, window, max_sequences_per_pack)  # refuses bad arguments now
        self.dataset = dataset
        self.max_length = max_length
        self.window = window
        self.max_sequences_per_pack = max_sequences_per_pack
        self.labels = flag("labels", labels)
        self.overlong = one_of("overlong", overlong, OVERLONG)
        self.empty_every = whole_number("empty_every", empty_every, 1)
        self.tokenizer = tokenizer
        self.even = flag("even", even)
        self.masks = mask_words(masks)
        self.drop_unlabeled = flag("drop_unlabeled", drop_unlabeled)
        self.books: Books | None = None
        self._state = _FROM_THE_START  # behind the last pack that was handed out
        self._next_start = _FROM_THE_START  # the state from which the next pass goes on

    def __iter__(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the packs of a pass, each as a row."""
        return self._evenly() if self.even else self._stream()

    def _evenly(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the packs for as long as every rank has one."""
        if get_worker_info() is not None:
            raise ValueError("even must be False in the workers of a DataLoader, or num_workers 0.")
        ranks, packs = Collectives(), self._stream()
        while True:
            with ranks.agree_on_errors():
                pack = next(packs, None)
            if not ranks.minimum(np.array(pack is not None, np.int64)):
                return
            yield cast(dict[str, list[Any]], pack)

    def _stream(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the packs of a pass; after a loaded state, those behind the last one that was handed out."""
        start = self._next_start
        self._next_start = _FROM_THE_START
        source = copy.copy(self.dataset)
        source.__dict__ = {**source.__dict__}  # which `datasets` shares among copies; a loaded state is for one pass
        if start["source"] is not None:
            source.load_state_dict(start["source"])
        source_state = start["source"]  # when no pack was open
        num_handed_out = start["packs"]
        rows = iter(source)
        reader = ColumnReader(
            self.tokenizer, self.labels, self.max_length, self.overlong, self.masks, self.drop_unlabeled
        )
        self.books = reader.books
        while first_row := list(islice(rows, 1)):  # empty at the end of the source
            rows_until_empty = chain(first_row, islice(rows, self.empty_every - 1))
            for number, pack in enumerate(self._packs(rows_until_empty, reader), start=1):  # all again, to skip some
                self._state = {"source": source_state, "packs": number}
                if number > num_handed_out:
                    yield pack
            source_state = source.state_dict()
            num_handed_out = 0

    def set_epoch(self, epoch: int) -> None:
        """Let the source shuffle for this epoch."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state behind the last pack that was handed out, and the setting that its packs depend on."""
        return copy.deepcopy(self._state) | self._setting()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state` in the next pass.

        Raises:
            ValueError: if `state` is not what `state_dict` returned, or is of a stream with another setting.
        """
        if not isinstance(state, Mapping) or set(state) != {*_FROM_THE_START, *_SETTING}:
            raise ValueError(f"state must be what state_dict() of a PackedStream returned, not {shown(state)}.")
        for name, value in self._setting().items():
            if state[name] != value:
                raise ValueError(f"The state is of a stream with {name} {state[name]}; this one has {value}.")
        self._state = self._next_start = copy.deepcopy({name: state[name] for name in _FROM_THE_START})

    def _setting(self) -> dict[str, Any]:
        """Return the attributes that packs depend on, by name."""
        return {name: getattr(self, name) for name in _SETTING}

    def _packs(self, rows: Iterator[Mapping[str, Any]], reader: ColumnReader) -> Iterator[dict[str, list[Any]]]:
        """Yield packs, each as a row; no pack is open before the first and after the last."""
        packer = StreamPacker(self.max_length, self.window, self.max_sequences_per_pack)
        batches = of_rows(rows, _ROWS_AT_ONCE, leave_out=reader.leave_out)
        sequences = chain.from_iterable(self._sequences(batch, reader) for batch in batches)
        waiting = dict[int, dict[str, list[Any]]]()  # sequences in open packs, by the numbers that the packer gives
        for number, sequence in enumerate(sequences):
            closed_packs = packer.add(len(sequence["input_ids"]))
            waiting[number] = sequence
            yield from (_joined([waiting.pop(i) for i in numbers]) for numbers in closed_packs)
        yield from (_joined([waiting.pop(i) for i in numbers]) for numbers in packer.flush())

    def _sequences(self, batch: pa.RecordBatch, reader: ColumnReader) -> Iterator[dict[str, list[Any]]]:
        """Yield each sequence to pack, as a row of it alone would be.

        Each column is a list, with a value for each token or with one value for the sequence.
        """
        lengths, columns, _ = reader.read(batch)
        reader.ask()
        starts = np.cumsum(lengths) - lengths
        columns = with_labels(columns, starts, self.labels)
        lists = {name: (values.to_pylist(), by_token) for name, (values, by_token) in columns.items()}
        for number, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            sequence = {
                name: values[start : start + length] if by_token else [values[number]]
                for name, (values, by_token) in lists.items()
            }
            yield sequence | {"position_ids": list(range(length)), "seq_lengths": [length]}


def _joined(sequences: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """Return the row of a pack: each column of its sequences, end to end."""
    return {name: list(chain.from_iterable(sequence[name] for sequence in sequences)) for name in sequences[0]}
