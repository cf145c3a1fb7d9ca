"""The sequences of a batch, whatever a loader hands out: tensors, mappings, lists of samples, rows of packs.

A batch becomes one or several **parts**: some of its rows, by column. Each row of a part is a **sample** or a pack, and
its **slots** hold the tokens of one sequence or several, and padding.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from packlib.arguments import listed, shown
from packlib.batches.batch import IGNORED
from packlib.tools.auditing.columns import Columns, read_rows
from packlib.tools.auditing.names import SEGMENTS
from packlib.tools.rows.loss_masks import LOSS_MASKS, trained_tokens

TOKENS = ("input_ids", "tokens", "inputs")  # what others call the column of tokens
LABELS = ("labels", "label")
_LABELS_OF_SEQUENCES = (*LABELS, "sequence_labels", "next_sentence_label", "sentence_order_label")
# The columns that say where the sequences of a row begin: by a length or bound for each sequence,
_BOUNDS = ("seq_lengths", "cu_seqlens", "cu_seq_lens_q", "cu_seq_lens")
_BY_SLOT = (*SEGMENTS, "position_ids")  # and by a number for each slot.
_MASK = "attention_mask"
_ROWS_AT_ONCE = 4096  # samples of a source in a batch that is taken apart

Part = dict[str, Any]  # by column, an array or a list with an item for each row; or a flat array that is one row


class OneSequence(NamedTuple):
    """A sequence as a batch has it.

    Attributes:
        content: bytes, the same for equal sequences alone.
        tokens: its tokens, shape (tokens,); empty where a sample is something else, such as an image.
        labels: a label for each token, or one for the sequence, shape (1,); None where the batch has none.
        name: the value of the id column as text; None without one.
    """

    content: bytes
    tokens: np.ndarray
    labels: np.ndarray | None
    name: str | None


class _Piece(NamedTuple):
    """The place of a sequence in a part: its row, and the indices of its slots among the slots of all rows."""

    row: int
    slots: np.ndarray


class BatchReader:
    """Takes batches apart into sequences, without the padding.

    Args:
        id_column: the column that names a sequence, for loaders that change tokens; None if its tokens tell.

    Attributes:
        pad_ids: by column of whole numbers, the number in slots of padding; `look` finds it. It is for columns where no
            mask and no borders of sequences say what is padding.
        from_one: columns of segment ids whose first sequence has a number above 0, so that rows of 0 alone are padding.
    """

    def __init__(self, id_column: str | None = None) -> None:
        self.id_column = id_column
        self.pad_ids: dict[str, int] = {}
        self.from_one: set[str] = set()

    def look(self, batches: Iterable[Any]) -> None:
        """Find the number that fills the rows of each column: it most often fills two slots at an end of a row.

        If none does, as where rows of a batch have nearly one length, it is the number that most often begins or ends a
        row, if it is at more than 5 % of all ends. A wrong number does no harm to the counts: it is left out of equal
        sequences everywhere.
        """
        in_two_slots: dict[str, Counter[int]] = {}  # by column, how many ends of rows each number fills
        in_one_slot: dict[str, Counter[int]] = {}
        for batch in batches:
            for part in _parts(batch):
                self._note_numbering(part)
                for name, value in part.items():
                    has_known_padding = name == _token_column(part) and not _is_bare(part)
                    is_matrix = isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "iub"
                    if is_matrix and not has_known_padding:
                        in_two_slots.setdefault(name, Counter()).update(_fills(value, 2))
                        in_one_slot.setdefault(name, Counter()).update(_fills(value, 1))
        self.pad_ids = {}
        for name, counts in in_two_slots.items():
            if not counts:
                ends = in_one_slot[name]
                least = max(1, ends.total() // 20)
                counts = Counter({number: count for number, count in ends.items() if count > least})
            if counts:
                self.pad_ids[name] = counts.most_common(1)[0][0]

    def sequences(self, batch: Any) -> list[OneSequence]:
        """Return the sequences of a batch in their order.

        Raises:
            ValueError: if the batch does not have the id column, or its borders cannot be right.
        """
        return [sequence for part in _parts(batch) for sequence in self._sequences_of_part(part)]

    def is_blank(self, batch: Any) -> bool:
        """Return True if a batch without sequences has rows, which are then padding; a pipeline's last batch may."""
        return any(len(value) > 0 for part in _parts(batch) for value in part.values() if np.ndim(value) > 1)

    def of_source(self, rows: Iterable[Any]) -> Iterable[OneSequence]:
        """Yield the sequences of a data set, given as its samples."""
        block: list[Any] = []
        for row in rows:
            block.append(row)
            if len(block) == _ROWS_AT_ONCE:
                yield from self.sequences(block)
                block = []
        if block:
            yield from self.sequences(block)

    def _sequences_of_part(self, part: Part) -> list[OneSequence]:
        """Return the sequences of a part."""
        token_column = _token_column(part)
        if token_column is None:
            return self._samples_without_tokens(part)
        self._note_numbering(part)
        if self._has_padding_alone(part):
            return []
        rows = _rows(part[token_column])
        sizes = np.array([len(row) for row in rows], np.int64)
        slot_tokens = np.concatenate(rows) if rows else np.empty(0, np.int64)
        pieces = _pieces(part, sizes, slot_tokens)
        slot_labels = _labels_by_slot(part, sizes, slot_tokens)
        sequence_labels = _labels_by_sequence(part, len(pieces)) if slot_labels is None else None
        names = self._names(part, sizes, pieces)
        sequences = []
        for number, (_, slots) in enumerate(pieces):
            if _is_bare(part):
                slots = slots[self._unpadded(token_column, slot_tokens[slots])]
            labels = None
            if slot_labels is not None:
                labels = slot_labels[slots]
            elif sequence_labels is not None:
                labels = sequence_labels[number : number + 1]
            tokens = slot_tokens[slots]
            sequences.append(OneSequence(_bytes(tokens), tokens, labels, None if names is None else names[number]))
        return sequences

    def _note_numbering(self, part: Part) -> None:
        """Note in `from_one` the columns of segment ids that number the first sequence of a row above 0."""
        for name in SEGMENTS:
            if name in part and any(np.max(np.ravel(row)[:1], initial=0) > 0 for row in part[name]):
                self.from_one.add(name)

    def _has_padding_alone(self, part: Part) -> bool:
        """Return True if the column of borders has zeros alone, where a loader numbers its sequences from 1."""
        border_column = _border_column(part)
        if border_column not in self.from_one or _MASK in part:
            return False
        return not any(np.any(row) for row in part[border_column])

    def _unpadded(self, column: str, values: np.ndarray) -> slice:
        """Return the slots of a row between the padding at its two ends; all of them if nothing else is there."""
        if column not in self.pad_ids or values.ndim != 1:
            return slice(None)
        real_slots = np.flatnonzero(values != self.pad_ids[column])
        return slice(int(real_slots[0]), int(real_slots[-1]) + 1) if len(real_slots) else slice(None)

    def _samples_without_tokens(self, part: Part) -> list[OneSequence]:
        """Return each row of a part without tokens, such as images, as a sequence.

        Two are equal if all of their columns but labels are equal.
        """
        columns = {
            name: value
            for name, value in part.items()
            if name not in LABELS and name != self.id_column and not name.endswith(_MASK)
        }
        if not columns:
            columns = dict(part)
        row_counts = {len(value) for value in columns.values()}
        if len(row_counts) != 1:
            raise ValueError(f"A batch has columns of different lengths, {listed(columns)}, and none named input_ids.")
        num_rows = row_counts.pop()
        labels = _labels_by_sequence(part, num_rows)
        pieces = [_Piece(row, np.array([row])) for row in range(num_rows)]  # each row is as one slot
        names = self._names(part, np.ones(num_rows, np.int64), pieces)
        return [
            OneSequence(
                b"|".join(self._content(part, name, row) for name in columns),
                np.empty(0, np.int64),
                None if labels is None else labels[row : row + 1],
                None if names is None else names[row],
            )
            for row in range(num_rows)
        ]

    def _content(self, part: Part, column: str, row: int) -> bytes:
        """Return a row of a column without its padding, as bytes."""
        values = np.asarray(part[column][row])
        mask = part.get(f"{column.removesuffix('input_ids')}{_MASK}")  # such as query_attention_mask
        if values.ndim and mask is not None and np.shape(mask[row]) == values.shape:
            return _bytes(values[np.asarray(mask[row]) != 0])
        return _bytes(values[self._unpadded(column, values)] if values.ndim else values)

    def _names(self, part: Part, sizes: np.ndarray, pieces: list[_Piece]) -> list[str] | None:
        """Return the name of each sequence from the id column, which has one by slot, by sequence or by row.

        Args:
            sizes: slots of each row.
        """
        if self.id_column is None:
            return None
        if self.id_column not in part:
            raise ValueError(
                f"The id column must be one of the batch's columns, {listed(part)}, not {self.id_column}."
            )
        rows = [np.asarray(row).ravel() for row in part[self.id_column]]
        values = np.concatenate(rows) if rows else np.empty(0)
        if len(rows) == len(sizes) and all(len(row) == size for row, size in zip(rows, sizes, strict=True)):
            return [str(values[piece.slots][0]) for piece in pieces]  # by slot
        if len(rows) == len(pieces) == len(sizes):
            return ["-".join(map(str, row.tolist())) for row in rows]  # by row, which is one sequence
        if len(values) >= len(pieces) != len(sizes) or len(values) == len(pieces):
            return [str(value) for value in values[: len(pieces)].tolist()]  # by sequence; more values are padding
        if len(rows) == len(sizes):
            return ["-".join(map(str, rows[piece.row].tolist())) for piece in pieces]  # by row of several sequences
        raise ValueError(
            f"The id column {self.id_column} has {len(values)} values for {len(pieces)} sequences in {len(sizes)} rows."
        )


def _parts(batch: Any) -> list[Part]:
    """Return a batch as parts: one for all of it, or one for each sample of a list.

    Raises:
        TypeError: if nothing tells what the batch holds.
    """
    if isinstance(batch, Mapping):
        return [_columns_of(batch)]
    if isinstance(batch, (str, bytes)):
        return [{"sample": np.array([batch])}]
    if isinstance(batch, (list, tuple)):
        return _parts_of_list(batch)
    plain = _plain(batch)
    if not isinstance(plain, np.ndarray) or plain.dtype == object:
        raise TypeError(f"A batch must be a tensor, a mapping or a list of samples, not {shown(batch)}.")
    if plain.ndim < 2:
        return [{"sample": np.atleast_1d(plain)}]  # each number is a sample
    return [{"input_ids" if plain.ndim == 2 and plain.dtype.kind in "iu" else "sample": plain}]


def _columns_of(batch: Mapping[str, Any]) -> Part:
    """Return the columns of a mapping, and those of mappings in it.

    A column of an inner mapping whose name is there already gets the name of that mapping before it, with a dot.
    """
    columns: dict[str, Any] = {}
    for name, value in batch.items():
        if isinstance(value, Mapping):
            inner = _columns_of(value)
            columns |= {
                key if key not in columns else f"{name}.{key}": inner_value for key, inner_value in inner.items()
            }
        elif value is not None:
            columns[name] = _plain(value)
    return columns


def _parts_of_list(batch: Sequence[Any]) -> list[Part]:
    """Return the parts of a list: of inputs and targets, of samples, or of columns without names."""
    if len(batch) == 2 and isinstance(batch[0], Mapping) and not isinstance(batch[1], Mapping):
        return [{**_parts(batch[0])[0], "labels": _plain(batch[1])}]  # inputs and targets
    if all(isinstance(sample, Mapping) for sample in batch):
        return [_as_one_row(sample) for sample in batch]
    values = [_plain(sample) for sample in batch]
    if values and all(isinstance(value, np.ndarray) and value.ndim for value in values):
        if _are_columns(values):
            return [_with_names(values)]
        if all(value.ndim == 1 for value in values):
            return [{"input_ids": [value]} for value in values]
    if all(isinstance(sample, (list, tuple)) for sample in batch):
        if all(isinstance(item, (int, np.integer)) for sample in batch for item in sample):
            return [{"input_ids": [np.asarray(sample, np.int64)]} for sample in batch]
        return [part for sample in batch for part in _parts([_plain(item)[None] for item in sample])]
    if any(not isinstance(value, np.ndarray) or value.dtype == object for value in values):
        raise TypeError(f"A batch must be a tensor, a mapping or a list of samples, not {shown(batch)}.")
    return [{"sample": value[None]} for value in values]


def _are_columns(values: list[np.ndarray]) -> bool:
    """Return True if a list has the columns of a batch, as of a `TensorDataset`; False for samples, such as images.

    Columns have the same number of rows. Samples do, too, if they are of one shape and type: arrays of whole numbers
    are then taken for columns, and others for samples.
    """
    has_same_rows = len({len(value) for value in values}) == 1 and any(value.ndim > 1 for value in values)
    are_alike = len({(value.shape, value.dtype) for value in values}) == 1
    return has_same_rows and (len(values) == 1 or not are_alike or values[0].dtype.kind in "iub")


def _with_names(values: list[np.ndarray]) -> Part:
    """Name the columns of a batch, as of a `TensorDataset`, by their numbers and their order.

    The first column of rows of whole numbers has the tokens. Later ones are labels if a -100 is in them, or the
    attention mask if they are 0 and 1. A last column with one value for each row has labels, too.
    """
    columns: dict[str, Any] = {}
    for at, value in enumerate(values):
        is_rows = value.ndim == 2 and value.dtype.kind in "iub"
        if is_rows and "input_ids" not in columns:
            columns["input_ids"] = value
        elif is_rows and (value == IGNORED).any():
            columns["labels"] = value
        elif is_rows and np.isin(value, (0, 1)).all() and "attention_mask" not in columns:
            columns["attention_mask"] = value
        elif value.ndim == 1 and at == len(values) - 1:
            columns["labels"] = value
        else:
            columns[f"column {at}"] = value
    return columns


def _as_one_row(sample: Mapping[str, Any]) -> Part:
    """Return a sample as a part of one row."""
    return {name: [_plain(value)] for name, value in sample.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a tensor, a list or a number as an array; a list of items of different lengths as a list of arrays."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype.is_floating_point else value.numpy()
    if isinstance(value, (list, tuple)):
        try:
            return np.asarray(value)
        except ValueError:  # of different lengths
            return [_plain(item) for item in value]
    return value if isinstance(value, (list, np.ndarray)) else np.asarray(value)


def _fills(rows: np.ndarray, times: int) -> list[int]:
    """Return the number of each end of a row that fills `times` slots there; rows of one number alone are left out.

    >>> import numpy as np
    >>> from packlib.tools.loaders.batch_sequences import _fills
    >>> _fills(np.array([[7, 8, 0, 0], [9, 9, 5, 0]]), 2)  # 0 ends the first row, 9 begins the second
    [0, 9]
    """
    varied = rows[(rows != rows[:, :1]).any(1)] if rows.shape[1] > 1 else rows[:0]
    fills = list[int]()
    for ends in (varied[:, -times:], varied[:, :times]):
        is_filled = (ends == ends[:, :1]).all(1)
        fills += ends[is_filled, 0].tolist()
    return fills


def _token_column(part: Part) -> str | None:
    """Return the name of the column of tokens, if there is one."""
    return next((name for name in TOKENS if name in part), None)


def _rows(tokens: Any) -> list[np.ndarray]:
    """Return the rows of a column of tokens: one flat row is a row too."""
    if isinstance(tokens, np.ndarray) and tokens.ndim == 1 and tokens.dtype != object:
        return [tokens]
    rows = [np.asarray(row) for row in tokens]
    if any(row.ndim == 0 for row in rows):
        raise TypeError(f"input_ids of a sequence must be a list of tokens, not {shown(rows[0].tolist())}.")
    if any(row.ndim != 1 for row in rows):
        raise ValueError(f"input_ids of a batch must have one or two dimensions, not {rows[0].ndim + 1}.")
    return rows


def _is_bare(part: Part) -> bool:
    """Return True if nothing but the tokens tells which slots are padding."""
    return _MASK not in part and _border_column(part) is None


def _border_column(part: Part) -> str | None:
    """Return the column that says where the sequences of a row begin, if there is one."""
    return next((name for name in (*_BOUNDS, *_BY_SLOT) if name in part), None)


def _pieces(part: Part, sizes: np.ndarray, slot_tokens: np.ndarray) -> list[_Piece]:
    """Return where the sequences of a part are, in their order.

    Args:
        sizes: slots of each row; shape (rows,).
        slot_tokens: the tokens of all slots, row after row; shape (slots,).
    """
    mask = _by_slot(part, _MASK, sizes)
    is_real = np.ones(len(slot_tokens), bool) if mask is None else mask != 0
    border_column = _border_column(part)
    numbers: np.ndarray | None = None  # of the border column, if it has one for each slot
    if mask is not None and len(mask) and mask.max() > 1:  # a mask that numbers the sequences of a row from 1
        border_column, numbers = "segment_ids", mask
    elif border_column in _BY_SLOT:
        numbers = _by_slot(part, border_column, sizes)
        border_column = None if numbers is None else border_column
    if border_column is None:
        row_of_slot = np.repeat(np.arange(len(sizes)), sizes)
        slots_of_rows = [np.flatnonzero(is_real & (row_of_slot == row)) for row in range(len(sizes))]
        return [_Piece(row, slots) for row, slots in enumerate(slots_of_rows) if len(slots)]

    columns: Columns  # as `read_rows` takes them: numbers in each row, and all of them end to end
    if numbers is not None:  # without padding, each row begins with its first sequence
        slots = np.flatnonzero(is_real)
        row_starts = np.cumsum(sizes) - sizes
        widths = np.add.reduceat(is_real, row_starts, dtype=np.int64) if len(sizes) else sizes
        columns = {border_column: (widths, numbers[slots]), "input_ids": (widths, slot_tokens[slots])}
    else:
        slots = np.arange(len(slot_tokens))
        counts, bounds, widths = _bounds(part[border_column], sizes)
        columns = {border_column: (counts, bounds), "input_ids": (widths, slot_tokens)}
        if mask is not None:
            columns[_MASK] = (widths, mask)
    measured = read_rows([border_column], columns, first_row=0, masks={}, keep_contents=False)
    assert measured.lengths is not None

    first_slots = np.cumsum(widths) - widths  # of each row, as indices of `slots`
    lengths = iter(measured.lengths.tolist())
    pieces = []
    for row, depth in enumerate(measured.depths.tolist()):
        start = int(first_slots[row])
        for length in islice(lengths, depth):
            pieces.append(_Piece(row, slots[start : start + length]))
            start += length
    return pieces


def _by_slot(part: Part, name: str, sizes: np.ndarray) -> np.ndarray | None:
    """Return the numbers of a column, row after row; None if it does not have a number for each slot.

    Args:
        sizes: slots of each row.
    """
    if name not in part:
        return None
    try:
        rows = _rows(part[name])
    except (ValueError, TypeError):  # such as a mask of four dimensions
        return None
    has_one_a_slot = len(rows) > 0 and [len(row) for row in rows] == sizes.tolist()
    return np.concatenate(rows) if has_one_a_slot else None


def _bounds(value: Any, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read a column of lengths or bounds.

    Args:
        value: a list for each row; or one flat list, about all rows end to end.
        sizes: slots of each row.

    Returns:
        How many lengths or bounds each row has; all of them; and the slots of each row, where a flat list makes one row
        of all.
    """
    rows = [np.asarray(row).ravel() for row in (value if np.ndim(value[0]) else [value])]
    rows = [row[row >= 0] for row in rows]  # some pad rows with -1
    if len(rows) != len(sizes):
        sizes = sizes.sum(keepdims=True)
    return np.array([len(row) for row in rows], np.int64), np.concatenate(rows), sizes


def _labels_by_slot(part: Part, sizes: np.ndarray, slot_tokens: np.ndarray) -> np.ndarray | None:
    """Return the label of each slot; None without labels and masks of the loss.

    Masks alone make labels of the tokens: the token itself where all masks train on it, else -100.
    """
    for name in LABELS:
        if (labels := _by_slot(part, name, sizes)) is not None and not _is_one_a_row(part, name, sizes):
            return labels
    masks = {name: _by_slot(part, name, sizes) for name in LOSS_MASKS if name in part}
    no_starts = np.empty(0, int)  # only masks of the word "next", which no name has, need the first tokens
    trained = [
        trained_tokens(LOSS_MASKS[name], values, no_starts) for name, values in masks.items() if values is not None
    ]
    return np.where(np.logical_and.reduce(trained), slot_tokens, IGNORED) if trained else None


def _is_one_a_row(part: Part, name: str, sizes: np.ndarray) -> bool:
    """Return True if each row has one token and one label, not in a list: the label is that of the sequence."""
    return bool((sizes == 1).all()) and np.ndim(part[name]) == 1


def _labels_by_sequence(part: Part, num_sequences: int) -> np.ndarray | None:
    """Return one label for each sequence; None without any.

    The column `sequence_labels` may have more values, of which the last are padding.
    """
    for name in _LABELS_OF_SEQUENCES:
        if name not in part or np.ndim(part[name]) > 2:
            continue
        values = np.ravel(part[name])
        fits = len(values) == num_sequences or (name == "sequence_labels" and len(values) > num_sequences)
        if fits and (values[:num_sequences] != IGNORED).any():
            return values[:num_sequences]
    return None


def _bytes(values: np.ndarray) -> bytes:
    """Return values as bytes: equal numbers have the same, whatever type of whole numbers they have."""
    if values.dtype.kind in "iub":
        return values.astype(np.int64).tobytes()
    return repr(values.tolist()).encode() if values.dtype.kind in "OUS" else values.tobytes()
