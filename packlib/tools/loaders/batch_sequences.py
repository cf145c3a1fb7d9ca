"""The sequences of a batch, whatever a loader hands out: tensors, mappings, lists of samples, rows of packs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from packlib.arguments import listed, shown
from packlib.batches.batch import IGNORED
from packlib.tools.auditing.columns import read_rows
from packlib.tools.auditing.names import SEGMENTS
from packlib.tools.rows.loss_masks import LOSS_MASKS, trained_tokens

TOKENS = ("input_ids", "tokens", "inputs")  # what others call the column of tokens
LABELS = ("labels", "label")
_LABELS_OF_SEQUENCES = (*LABELS, "sequence_labels", "next_sentence_label", "sentence_order_label")
_BOUNDS = ("seq_lengths", "cu_seqlens", "cu_seq_lens_q", "cu_seq_lens")  # what says where sequences of a row end
_BY_SLOT = (*SEGMENTS, "position_ids")
_MASK = "attention_mask"
_ROWS = 4096  # of a source that are read at once


class OneSequence(NamedTuple):
    """A sequence as a batch holds it.

    Attributes:
        content: bytes that equal sequences have in common.
        tokens: its tokens, shape (tokens,); empty where a sample is something else, such as an image.
        labels: the labels of its tokens or of the whole of it; None where the batch has none.
        name: the value of the id column as text; None without one.
    """

    content: bytes
    tokens: np.ndarray
    labels: np.ndarray | None
    name: str | None


class BatchReader:
    """Takes batches apart into sequences, the padding left out.

    Args:
        id_column: the column that names a sequence, for loaders that change tokens; None for its tokens.

    Attributes:
        pad_ids: by column of whole numbers, what fills its rows where no mask says what padding is; `look` finds it.
        from_one: columns of segment ids whose first sequence has a number above 0, so that rows of 0 alone are blank.
    """

    def __init__(self, id_column: str | None = None) -> None:
        self.id_column = id_column
        self.pad_ids: dict[str, int] = {}
        self.from_one: set[str] = set()

    def look(self, batches: Iterable[Any]) -> None:
        """Find what fills the rows of each column: the number that most of them begin or end with, twice or more.

        If there is none, as where rows of a batch have nearly one length, it is the number that many begin or end with.
        A wrong number does no harm to the counts: it is left out of equal sequences everywhere.
        """
        twice: dict[str, Counter[int]] = {}
        single: dict[str, Counter[int]] = {}
        for batch in batches:
            for part in _parts(batch):
                self._see_numbers(part)
                for name, value in part.items():
                    known = name == _tokens_of(part) and not _is_bare(part)
                    if not known and isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "iub":
                        twice.setdefault(name, Counter()).update(_fills(value, 2))
                        single.setdefault(name, Counter()).update(_fills(value, 1))
        common = {name: Counter({at: n for at, n in counts.items() if n > max(1, counts.total() // 20)})
                  for name, counts in single.items()}  # fmt: skip
        found = {name: twice[name] or common[name] for name in twice}
        self.pad_ids = {name: counts.most_common(1)[0][0] for name, counts in found.items() if counts}

    def sequences(self, batch: Any) -> list[OneSequence]:
        """Return the sequences of a batch in their order.

        Raises:
            ValueError: if the batch does not have the id column, or its borders cannot be right.
        """
        return [sequence for part in _parts(batch) for sequence in self._of_part(part)]

    def is_blank(self, batch: Any) -> bool:
        """Return True if a batch without sequences has rows of padding alone, as a pipeline's last batch may."""
        return any(len(value) > 0 for part in _parts(batch) for value in part.values() if np.ndim(value) > 1)

    def of_source(self, rows: Iterable[Any]) -> Iterable[OneSequence]:
        """Yield the sequences of a data set, given as its samples."""
        held: list[Any] = []
        for row in rows:
            held.append(row)
            if len(held) == _ROWS:
                yield from self.sequences(held)
                held = []
        if held:
            yield from self.sequences(held)

    def _of_part(self, part: dict[str, Any]) -> list[OneSequence]:
        """Return the sequences of some rows that are given by columns."""
        name_of_tokens = _tokens_of(part)
        if name_of_tokens is None:
            return self._of_other_rows(part)
        self._see_numbers(part)
        if self._holds_padding_alone(part):
            return []
        rows = _rows(part[name_of_tokens])
        sizes = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate(rows) if rows else np.empty(0, np.int64)
        pieces = _pieces(part, sizes, flat)
        labels = _labels_by_token(part, sizes, flat)
        by_piece = None if labels is not None else _labels_by_sequence(part, len(pieces))
        names = self._names(part, sizes, pieces)
        found = []
        for number, (_, slots) in enumerate(pieces):
            own = None if labels is None else labels[slots]
            if by_piece is not None:
                own = by_piece[number : number + 1]
            kept = self._without_padding(name_of_tokens, flat[slots]) if _is_bare(part) else slice(None)
            piece = flat[slots][kept]
            if own is not None and labels is not None:
                own = own[kept]
            name = None if names is None else names[number]
            found.append(OneSequence(_bytes(piece), piece, own, name))
        return found

    def _see_numbers(self, part: dict[str, Any]) -> None:
        """Remember the columns of segment ids that number the first sequence of a row above 0."""
        for name in SEGMENTS:
            if name in part and any(np.max(np.ravel(row)[:1], initial=0) > 0 for row in part[name]):
                self.from_one.add(name)

    def _holds_padding_alone(self, part: dict[str, Any]) -> bool:
        """Return True if the column of borders has zeros alone, where a loader numbers its sequences from 1."""
        kind = _border_column(part)
        if kind not in self.from_one or "attention_mask" in part:
            return False
        return not any(np.any(row) for row in part[kind])

    def _without_padding(self, column: str, values: np.ndarray) -> slice:
        """Return the slots of a row between the padding of its column at both ends."""
        if column not in self.pad_ids or values.ndim != 1:
            return slice(None)
        others = np.flatnonzero(values != self.pad_ids[column])
        return slice(int(others[0]), int(others[-1]) + 1) if len(others) else slice(None)

    def _of_other_rows(self, part: dict[str, Any]) -> list[OneSequence]:
        """Take the rows of a batch without tokens, such as images: equal if all columns but labels are equal."""
        columns = {
            name: value
            for name, value in part.items()
            if name not in LABELS and name != self.id_column and not name.endswith(_MASK)
        }
        if not columns:
            columns = dict(part)
        count = {len(value) for value in columns.values()}
        if len(count) != 1:
            raise ValueError(f"A batch has columns of different lengths, {listed(columns)}, and none named input_ids.")
        rows = count.pop()
        labels = _labels_by_sequence(part, rows)
        named = self._names(part, np.ones(rows, np.int64), [(row, slice(row, row + 1)) for row in range(rows)])
        return [
            OneSequence(
                b"|".join(self._content(part, name, row) for name in columns),
                np.empty(0, np.int64),
                None if labels is None else labels[row : row + 1],
                None if named is None else named[row],
            )
            for row in range(rows)
        ]

    def _content(self, part: dict[str, Any], column: str, row: int) -> bytes:
        """Return a row of a column without its padding."""
        values, mask = np.asarray(part[column][row]), part.get(f"{column.removesuffix('input_ids')}{_MASK}")
        if values.ndim and mask is not None and np.shape(mask[row]) == values.shape:
            return _bytes(values[np.asarray(mask[row]) != 0])
        return _bytes(values[self._without_padding(column, values)] if values.ndim else values)

    def _names(self, part: dict[str, Any], sizes: np.ndarray, pieces: list[tuple[int, Any]]) -> list[str] | None:
        """Return the name of each sequence from the id column, which has one by sequence, by row or by token."""
        if self.id_column is None:
            return None
        if self.id_column not in part:
            raise ValueError(
                f"The id column must be one of the batch's columns, {listed(part)}, not {self.id_column}."
            )
        given = part[self.id_column]
        rows = [np.asarray(row).ravel() for row in given]
        if len(rows) == len(sizes) and all(len(row) == size for row, size in zip(rows, sizes, strict=True)):
            flat = np.concatenate(rows) if rows else np.empty(0)
            by_token = len(flat) != len(pieces) or sizes.max(initial=0) > 1
            return [str(flat[slots][0]) if by_token else str(flat[at]) for at, (_, slots) in enumerate(pieces)]
        if len(rows) == len(pieces) == len(sizes):
            return ["-".join(map(str, row.tolist())) for row in rows]
        flat = np.concatenate(rows) if rows else np.empty(0)
        if len(flat) >= len(pieces) != len(sizes) or len(flat) == len(pieces):
            return [str(value) for value in flat[: len(pieces)].tolist()]  # empty places stand at the end
        if len(rows) == len(sizes):
            return [f"{'-'.join(map(str, rows[row].tolist()))}" for row, _ in pieces]
        raise ValueError(
            f"The id column {self.id_column} has {len(flat)} values for {len(pieces)} sequences in {len(sizes)} rows."
        )


def _parts(batch: Any) -> list[dict[str, Any]]:
    """Return a batch as columns: one part for all of it, or one for each sample of a list.

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


def _columns_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a mapping; those of a mapping in it come with them."""
    columns: dict[str, Any] = {}
    for name, value in batch.items():
        if isinstance(value, Mapping):
            inner = _columns_of(value)
            columns |= {key if key not in columns else f"{name}.{key}": one for key, one in inner.items()}
        elif value is not None:
            columns[name] = _plain(value)
    return columns


def _parts_of_list(batch: Sequence[Any]) -> list[dict[str, Any]]:
    if len(batch) == 2 and isinstance(batch[0], Mapping) and not isinstance(batch[1], Mapping):
        return [{**_parts(batch[0])[0], "labels": _plain(batch[1])}]  # inputs and targets
    if all(isinstance(one, Mapping) for one in batch):
        return [_as_one_row(one) for one in batch]
    values = [_plain(one) for one in batch]
    if values and all(isinstance(value, np.ndarray) and value.ndim for value in values):
        if _are_columns(values):
            return [_by_place(values)]
        if all(value.ndim == 1 for value in values):
            return [{"input_ids": [value]} for value in values]
    if all(isinstance(one, (list, tuple)) for one in batch):
        if all(isinstance(item, (int, np.integer)) for one in batch for item in one):
            return [{"input_ids": [np.asarray(one, np.int64)]} for one in batch]
        return [part for one in batch for part in _parts([_plain(item)[None] for item in one])]
    if any(not isinstance(value, np.ndarray) or value.dtype == object for value in values):
        raise TypeError(f"A batch must be a tensor, a mapping or a list of samples, not {shown(batch)}.")
    return [{"sample": value[None]} for value in values]


def _are_columns(values: list[np.ndarray]) -> bool:
    """Return True if a list has a batch's columns, as of a `TensorDataset`; False for samples, such as images."""
    same_rows = len({len(value) for value in values}) == 1 and any(value.ndim > 1 for value in values)
    alike = len({(value.shape, value.dtype) for value in values}) == 1
    return same_rows and (len(values) == 1 or not alike or values[0].dtype.kind in "iub")


def _by_place(values: list[np.ndarray]) -> dict[str, Any]:
    """Name the columns of a batch without names, as of a `TensorDataset`: the first of whole numbers has the tokens."""
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


def _as_one_row(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one sample as those of a batch of one row."""
    return {name: [_plain(value)] for name, value in sample.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a tensor as an array, and all else as it is where it is no list of equal numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype.is_floating_point else value.numpy()
    if isinstance(value, (list, tuple)):
        try:
            return np.asarray(value)
        except ValueError:  # of different lengths
            return [_plain(one) for one in value]
    return value if isinstance(value, (list, np.ndarray)) else np.asarray(value)


def _fills(rows: np.ndarray, times: int) -> list[int]:
    """Return the number at each end of a row that has it `times` times there; rows of one number are left out."""
    wide = rows[(rows != rows[:, :1]).any(1)] if rows.shape[1] > 1 else rows[:0]
    ends, begins = wide[:, -times:], wide[:, :times]
    return [one for side in (ends, begins) for one in side[(side == side[:, :1]).all(1), 0].tolist()]


def _tokens_of(part: dict[str, Any]) -> str | None:
    """Return the name of the column of tokens, if there is one."""
    return next((name for name in TOKENS if name in part), None)


def _rows(tokens: Any) -> list[np.ndarray]:
    """Return the rows of a column of tokens: one flat row is a row too."""
    if isinstance(tokens, np.ndarray) and tokens.ndim == 1 and tokens.dtype != object:
        return [tokens]
    rows = [np.asarray(row) for row in tokens]
    if any(row.ndim != 1 for row in rows):
        raise ValueError(f"input_ids of a batch must have one or two dimensions, not {rows[0].ndim + 1}.")
    return rows


def _is_bare(part: dict[str, Any]) -> bool:
    """Return True if nothing but the tokens tells which slots are padding."""
    return "attention_mask" not in part and _border_column(part) is None


def _border_column(part: dict[str, Any]) -> str | None:
    """Return the column that says where the sequences of a row begin, if there is one."""
    return next((name for name in (*_BOUNDS, *_BY_SLOT) if name in part), None)


def _pieces(part: dict[str, Any], sizes: np.ndarray, flat: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return the row of each sequence, and its slots among all slots of the batch."""
    begins = np.cumsum(sizes) - sizes
    mask = _by_slot(part, "attention_mask", sizes)
    real = np.ones(len(flat), bool) if mask is None else mask != 0
    columns: dict[str, Any] = {}
    kind = _border_column(part)
    if mask is not None and len(mask) and mask.max() > 1:  # it numbers the sequences
        kind, columns = "segment_ids", {"segment_ids": mask}
    elif kind in _BY_SLOT:
        values = _by_slot(part, kind, sizes)
        kind, columns = (None, {}) if values is None else (kind, {kind: values})
    if kind is None:
        row_of = np.repeat(np.arange(len(sizes)), sizes)
        kept = [np.flatnonzero(real & (row_of == row)) for row in range(len(sizes))]
        return [(row, slots) for row, slots in enumerate(kept) if len(slots)]
    if columns:  # a number for each slot: without padding, each row begins with its first sequence
        slots = np.flatnonzero(real)
        widths = np.add.reduceat(real, begins, dtype=np.int64) if len(sizes) else sizes
        read = read_rows(
            [kind], {kind: (widths, columns[kind][slots]), "input_ids": (widths, flat[slots])}, 0, {}, False
        )
    else:
        slots = np.arange(len(flat))
        bounds, widths = _bounds(part[kind], kind, sizes)
        given = {kind: bounds, "input_ids": (widths, flat)}
        if mask is not None:
            given["attention_mask"] = (widths, mask)
        read = read_rows([kind], given, 0, {}, False)
    assert read.lengths is not None
    firsts = np.cumsum(widths) - widths
    pieces, at = [], 0
    for row, depth in enumerate(read.depths.tolist()):
        start = int(firsts[row])
        for length in read.lengths[at : at + depth].tolist():
            pieces.append((row, slots[start : start + length]))
            start += length
        at += depth
    return pieces


def _by_slot(part: dict[str, Any], name: str, sizes: np.ndarray) -> np.ndarray | None:
    """Return a column that has a number for each slot, end to end; None if it has not."""
    if name not in part:
        return None
    value = part[name]
    try:
        rows = _rows(value)
    except (ValueError, TypeError):  # such as a mask of four dimensions
        return None
    return np.concatenate(rows) if [len(row) for row in rows] == sizes.tolist() and len(rows) else None


def _bounds(value: Any, kind: str, sizes: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the lengths or bounds by row, and the widths of these rows: one flat list is of all rows end to end."""
    rows = [np.asarray(row).ravel() for row in (value if np.ndim(value[0]) else [value])]
    rows = [row[row >= 0] for row in rows]  # others fill with -1
    if len(rows) != len(sizes):
        sizes = sizes.sum(keepdims=True)
    return (np.array([len(row) for row in rows], np.int64), np.concatenate(rows)), sizes


def _labels_by_token(part: dict[str, Any], sizes: np.ndarray, flat: np.ndarray) -> np.ndarray | None:
    """Return the labels of all tokens, or what masks of the loss make of the tokens; None without either."""
    for name in LABELS:
        if (labels := _by_slot(part, name, sizes)) is not None and not _is_one_a_row(part, name, sizes):
            return labels
    masks = {name: _by_slot(part, name, sizes) for name in LOSS_MASKS if name in part}
    trained = [trained_tokens(LOSS_MASKS[name], values, np.empty(0, int)) for name, values in masks.items()
               if values is not None]  # fmt: skip
    return np.where(np.logical_and.reduce(trained), flat, IGNORED) if trained else None


def _is_one_a_row(part: dict[str, Any], name: str, sizes: np.ndarray) -> bool:
    """Return True if each row is one token and has one label, not in a list."""
    return bool((sizes == 1).all()) and np.ndim(part[name]) == 1


def _labels_by_sequence(part: dict[str, Any], count: int) -> np.ndarray | None:
    """Return one label for each sequence; None without any. Empty places at the end have none."""
    for name in _LABELS_OF_SEQUENCES:
        if name not in part or np.ndim(part[name]) > 2:
            continue
        value = np.asarray(part[name]).ravel() if not isinstance(part[name], list) else np.ravel(part[name])
        is_whole = len(value) == count or (name == "sequence_labels" and len(value) > count)
        if is_whole and (value[:count] != IGNORED).any():
            return value[:count]
    return None


def _bytes(values: np.ndarray) -> bytes:
    if values.dtype.kind in "iub":
        return values.astype(np.int64).tobytes()
    return repr(values.tolist()).encode() if values.dtype.kind in "OUS" else values.tobytes()
