"""A `datasets.IterableDataset` packed as it streams by: no second look, bounded memory, and it can be resumed."""

import copy
import numbers
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from packlib.checks import flag, listed, one_of, shown, whole_number
from packlib.packing import StreamPacker
from packlib.rows.spool import IGNORED, MADE, OVERLONG, Overlong

_FROM_THE_START: dict[str, Any] = {"source": None, "packs": 0}
_SETTING = ("max_length", "max_sequences_per_pack", "overlong", "window", "empty_every")  # what packs depend on


class PackedStream(IterableDataset):
    """Rows as `pack_dataset` makes them, of packs as a `StreamPacker` closes them.

    `state_dict()` is small: where the source was when no pack was open, how many packs have come since, and the
    setting that these depend on. A stream that loads it reads on from there and leaves out the packs that were handed
    out, so it goes on as if it had never stopped, if the source does (a `shuffle` of `datasets` fills its buffer anew).
    Ranks and the workers of a `DataLoader` share the source as `datasets` has it: give each rank its part with
    `datasets.distributed.split_dataset_by_node`.

    Args:
        dataset: a `datasets.IterableDataset` of tokenized sequences.
        max_length, max_sequences_per_pack, overlong, labels, window: as in `pack_dataset`.
        empty_every: sequences after which all open packs are closed, as at the end. A smaller number makes more packs,
            and resuming quicker.

    Raises:
        TypeError, ValueError: for bad arguments; as it streams, naming the column or the length that is wrong.
    """

    def __init__(
        self,
        dataset: Any,
        max_length: int,
        max_sequences_per_pack: int | None = None,
        overlong: Overlong = "error",
        labels: bool = True,
        window: int = 100,
        empty_every: int = 100_000,
    ) -> None:
        StreamPacker(max_length, window, max_sequences_per_pack)  # refuses bad arguments now
        self.dataset, self.max_length, self.window = dataset, max_length, window
        self.max_sequences_per_pack, self.labels = max_sequences_per_pack, flag("labels", labels)
        self.overlong = one_of("overlong", overlong, OVERLONG)
        self.empty_every = whole_number("empty_every", empty_every, 1)
        self._state = self._next = _FROM_THE_START

    def __iter__(self) -> Iterator[dict[str, list]]:
        start, self._next = self._next, _FROM_THE_START
        source = copy.copy(self.dataset)
        source.__dict__ = {**source.__dict__}  # which `datasets` shares among copies; a loaded state is for one pass
        if start["source"] is not None:
            source.load_state_dict(start["source"])
        origin, handed_out, rows = start["source"], start["packs"], iter(source)
        while some := list(islice(rows, 1)):
            packs = enumerate(self._packs(chain(some, islice(rows, self.empty_every - 1))), start=1)
            for number, pack in packs:
                self._state = {"source": origin, "packs": number}
                if number > handed_out:
                    yield pack
            origin, handed_out = source.state_dict(), 0

    def set_epoch(self, epoch: int) -> None:
        """Let the source shuffle for this epoch."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is, after the pack that it handed out last, and what its packs depend on."""
        return copy.deepcopy(self._state) | self._setting()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state` in the next pass.

        Raises:
            ValueError: if the state is of a stream with another setting, or of none.
        """
        if not isinstance(state, Mapping) or set(state) != {*_FROM_THE_START, *_SETTING}:
            raise ValueError(f"state must be what state_dict() of a PackedStream returned, not {shown(state)}.")
        for name, value in self._setting().items():
            if state[name] != value:
                raise ValueError(f"The state is of a stream with {name} {state[name]}; this one has {value}.")
        self._state = self._next = copy.deepcopy({name: state[name] for name in _FROM_THE_START})

    def _setting(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTING}

    def _packs(self, rows: Iterator[Mapping]) -> Iterator[dict[str, list]]:
        """Rows of packs; no pack is open before the first and after the last."""
        packer = StreamPacker(self.max_length, self.window, self.max_sequences_per_pack)
        waiting = dict[int, dict[str, list]]()
        for number, piece in enumerate(piece for row in rows for piece in self._pieces(row)):
            closed = packer.add(len(piece["input_ids"]))
            waiting[number] = piece
            yield from (_joined([waiting.pop(i) for i in ids]) for ids in closed)
        yield from (_joined([waiting.pop(i) for i in ids]) for ids in packer.flush())

    def _pieces(self, row: Mapping) -> Iterator[dict[str, list]]:
        """What is packed of a sequence: by column, a list with a value for each token, or with one for the sequence."""
        if "input_ids" not in row:
            raise ValueError(f"A row of the stream has no input_ids; it has {listed(row) or 'nothing'}.")
        length = len(row["input_ids"])
        if length > self.max_length and self.overlong in ("error", "drop"):
            if self.overlong == "drop":
                return
            raise ValueError(
                f"A row of the stream has {length} tokens; the maximum is {self.max_length}: pass a larger max_length, "
                'or overlong="truncate", "drop" or "split".'
            )
        _refuse_ids(row["input_ids"])
        by_token = {name: value for name, value in row.items() if _by_token(name, value, length)}
        others = {name: [value] for name, value in row.items() if name not in by_token}
        if set(by_token.pop("attention_mask", [1])) - {1}:
            raise ValueError("attention_mask of a row hides tokens: give sequences without padding.")
        for start in range(0, max(length, 1) if self.overlong == "split" else 1, self.max_length):
            piece = {name: list(values[start : start + self.max_length]) for name, values in by_token.items()}
            if self.labels and "labels" not in row:
                piece["labels"] = [IGNORED, *piece["input_ids"][1:]]
            count = len(piece["input_ids"])
            yield piece | others | {"position_ids": list(range(count)), "seq_lengths": [count]}


def _refuse_ids(given: Any) -> None:
    """A token is a whole number from 0 up that fits in 32 bits, as in `pack_dataset`."""
    ids = np.asarray(given)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(f"The column 'input_ids' must hold lists of whole numbers, not {shown(given)}.")
    if ids.size and not (0 <= ids.min() and ids.max() < 1 << 31):
        odd = ids.min() if ids.min() < 0 else ids.max()
        raise ValueError(f"The column 'input_ids' must hold numbers from 0 up, of 32 bits, not {odd}.")


def _by_token(name: str, value: Any, length: int) -> bool:
    """Whether a column has a value for each token, and not one for the sequence."""
    called = f"The column {shown(name)}"
    if name in MADE:
        raise ValueError(f"{called} is made by packing: is the data set packed? If not, remove it.")
    if isinstance(value, (str, bytes, numbers.Number)):
        return False
    if isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1:
        flat = not len(value) or isinstance(value[0], numbers.Number) or getattr(value[0], "ndim", 1) == 0
        if flat and len(value) == length:
            return True
        if flat:
            raise ValueError(
                f"{called} has {len(value)} values in a row of {length} tokens: give one for each token, or remove it."
            )
    raise TypeError(f"{called} holds {shown(value)}, which no pack can carry: remove it.")


def _joined(pieces: list[dict[str, list]]) -> dict[str, list]:
    """The row of a pack."""
    for piece in pieces:
        if odd := set(piece) ^ set(pieces[0]):
            raise ValueError(f"The column {shown(min(odd))} is in some rows only; all rows must have it, or none.")
    return {name: list(chain.from_iterable(piece[name] for piece in pieces)) for name in pieces[0]}
