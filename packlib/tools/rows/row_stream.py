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

_ROWS = 100  # sequences that are read at once
_FROM_THE_START: dict[str, Any] = {"source": None, "packs": 0}  # the state before the first pack
_SETTING = (  # what packs depend on
    "max_length", "max_sequences_per_pack", "overlong", "drop_unlabeled", "window", "empty_every",
)  # fmt: skip


class PackedStream(IterableDataset):
    """Rows as `pack_dataset` makes them, of packs as a `StreamPacker` closes them.

    `state_dict()` is small: where the source was when no pack was open, how many packs have come since, and the
    setting that these depend on. A stream that loads it reads on from there and leaves out the packs that were handed
    out, so it goes on as if it had never stopped, if the source does (a `shuffle` of `datasets` fills its buffer anew).
    Ranks and the workers of a `DataLoader` share the source as `datasets` has it: give each rank its part with
    `datasets.distributed.split_dataset_by_node`. Their parts make different numbers of packs, so that some ranks would
    wait in an update for others that have ended, unless the streams are `even`.

    Args:
        dataset: a `datasets.IterableDataset` of tokenized sequences.
        max_length, max_sequences_per_pack, overlong, labels, window, tokenizer, masks, drop_unlabeled: as in
            `pack_dataset`.
        empty_every: sequences after which all open packs are closed, as at the end. A smaller number makes more packs,
            and resuming quicker.
        even: end a pass on all ranks of the process group when it ends on the first of them. What the others have left
            is not handed out. All ranks take their packs together, each in its main process, without workers.

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
        self.max_sequences_per_pack, self.labels = max_sequences_per_pack, flag("labels", labels)
        self.overlong = one_of("overlong", overlong, OVERLONG)
        self.empty_every = whole_number("empty_every", empty_every, 1)
        self.tokenizer, self.even = tokenizer, flag("even", even)
        self.masks, self.drop_unlabeled = mask_words(masks), flag("drop_unlabeled", drop_unlabeled)
        self.books: Books | None = None
        self._state = self._next = _FROM_THE_START

    def __iter__(self) -> Iterator[dict[str, list[Any]]]:
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
        start, self._next = self._next, _FROM_THE_START
        source = copy.copy(self.dataset)
        source.__dict__ = {**source.__dict__}  # which `datasets` shares among copies; a loaded state is for one pass
        if start["source"] is not None:
            source.load_state_dict(start["source"])
        origin = start["source"]
        handed_out = start["packs"]
        rows = iter(source)
        columns = ColumnReader(
            self.tokenizer, self.labels, self.max_length, self.overlong, self.masks, self.drop_unlabeled
        )
        self.books = columns.books
        while first_row := list(islice(rows, 1)):
            packs = enumerate(self._packs(chain(first_row, islice(rows, self.empty_every - 1)), columns), start=1)
            for number, pack in packs:
                self._state = {"source": origin, "packs": number}
                if number > handed_out:
                    yield pack
            origin, handed_out = source.state_dict(), 0

    def set_epoch(self, epoch: int) -> None:
        """Let the source shuffle for this epoch."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the place behind the last pack that was handed out, and the settings that its packs depend on."""
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
        self._state = self._next = copy.deepcopy({name: state[name] for name in _FROM_THE_START})

    def _setting(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTING}

    def _packs(self, rows: Iterator[Mapping[str, Any]], columns: ColumnReader) -> Iterator[dict[str, list[Any]]]:
        """Yield the rows of packs; no pack is open before the first and after the last."""
        packer = StreamPacker(self.max_length, self.window, self.max_sequences_per_pack)
        waiting = dict[int, dict[str, list[Any]]]()
        for number, piece in enumerate(
            piece
            for batch in of_rows(rows, _ROWS, leave_out=columns.leave_out)
            for piece in self._pieces(batch, columns)
        ):
            closed = packer.add(len(piece["input_ids"]))
            waiting[number] = piece
            yield from (_joined([waiting.pop(i) for i in ids]) for ids in closed)
        yield from (_joined([waiting.pop(i) for i in ids]) for ids in packer.flush())

    def _pieces(self, batch: pa.RecordBatch, columns: ColumnReader) -> Iterator[dict[str, list[Any]]]:
        """Yield each sequence to pack: by column, a list with a value for each token, or with one for the sequence."""
        lengths, read, _ = columns.read(batch)
        columns.ask()
        starts = np.cumsum(lengths) - lengths
        read = with_labels(read, starts, self.labels)
        lists = {name: (column.to_pylist(), by_token) for name, (column, by_token) in read.items()}
        for number, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            piece = {
                name: values[start : start + length] if by_token else [values[number]]
                for name, (values, by_token) in lists.items()
            }
            yield piece | {"position_ids": list(range(length)), "seq_lengths": [length]}


def _joined(pieces: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """Return the row of a pack."""
    return {name: list(chain.from_iterable(piece[name] for piece in pieces)) for name in pieces[0]}
