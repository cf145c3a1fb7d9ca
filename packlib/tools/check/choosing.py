"""Which few sequences a model is called with: what the batch of all sequences has, their batch has too."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from packlib.tools.check.locating import POSITIONS, has_slots, locate

_SEQUENCES = 8  # the model is called with so many, if their batch has all features of the batch of all sequences
_COUNTS = 12, 16, 24, 32, 64  # numbers of sequences that are tried next


class Shape(NamedTuple):
    """Features of a batch that faults need.

    Attributes:
        rows: how many rows.
        padding: how many slots of padding.
        most_in_a_row: how many sequences the fullest row has.
        repeated_fields: the fields that give two sequences of a row the same number, as segment ids that come again.
    """

    rows: int
    padding: int
    most_in_a_row: int
    repeated_fields: frozenset[str]

    def has_all_of(self, shape: "Shape") -> bool:
        """Return True if it has several rows, padding and several sequences in a row wherever `shape` does."""
        has_rows = self.rows > 1 or shape.rows <= 1
        has_padding = self.padding > 0 or shape.padding <= 0
        shares_rows = self.most_in_a_row > 1 or shape.most_in_a_row <= 1
        return has_rows and has_padding and shares_rows and self.repeated_fields >= shape.repeated_fields


class _Candidate(NamedTuple):
    """Sequences that may be chosen: cut, and uncut; and how many last tokens a cut one keeps, as `cut_apart` says."""

    sequences: list[dict]
    uncut: list[dict]
    tail: int


class Chosen(NamedTuple):
    """The few sequences that the model is called with.

    Attributes:
        sequences: as the model gets them; long ones are cut.
        uncut: the same sequences as the caller gave them.
        note: sentences on sequences that are cut or left out; empty if none is.
    """

    sequences: list[dict]
    uncut: list[dict]
    note: str


def shape_of(batch: dict, rows: list[dict]) -> Shape:
    """Describe the shape of a batch of these sequences, which are found in it by their content."""
    ids = batch["input_ids"].cpu().numpy()
    pieces = locate(ids, [np.asarray(row["input_ids"]) for row in rows])
    row_of = np.array([piece.slots[0] // ids.shape[-1] for piece in pieces], int)
    token_count = sum(len(piece.slots) for piece in pieces)
    repeated_fields = set()
    for name, value in batch.items():
        if name in ("input_ids", "labels", POSITIONS) or not has_slots(value, batch["input_ids"]):
            continue
        numbers = value.flatten()[[int(piece.slots[0]) for piece in pieces]].cpu().numpy()
        row_and_number = set(zip(row_of.tolist(), numbers.tolist(), strict=True))
        if len(row_and_number) < len(pieces):  # two pieces share both
            repeated_fields.add(name)
    most_in_a_row = int(np.bincount(row_of, minlength=1).max())
    return Shape(ids.size // ids.shape[-1], ids.size - token_count, most_in_a_row, frozenset(repeated_fields))


def choose(collate: Callable[[list[dict]], dict], rows: list[dict], group: str | None, max_tokens: int) -> Chosen:
    """Choose few sequences, the longest among them, whose batch has rows and padding if the batch of all has.

    The first candidate with all features of that batch is chosen; without one, the first candidate.

    Args:
        group: the column of those that are never parted, or None.
        max_tokens: tokens of the longest; a longer one is cut. A batch of 8 such sequences is the largest
            that is tried after the first.
    """
    shape_of_all = shape_of(collate(rows), rows)
    best: _Candidate | None = None
    for uncut in _candidates(rows, group, max_tokens):
        candidate = _cut_candidate(uncut, max_tokens)
        if best is not None and _token_count(candidate.sequences) > _SEQUENCES * max_tokens:
            continue
        try:
            shape = shape_of(collate(candidate.sequences), candidate.sequences)
            has_all = shape.has_all_of(shape_of_all)
        except ValueError:  # the collator refuses what is cut: the check says so, or takes the sequences whole
            has_all = best is None
        if best is None or has_all:
            best = candidate
        if has_all:
            break
    assert best is not None
    return Chosen(best.sequences, best.uncut, _note(rows, best.uncut, max_tokens, best.tail))


def _cut_candidate(uncut: list[dict], max_tokens: int) -> _Candidate:
    sequences, tail = cut_apart(uncut, max_tokens)
    return _Candidate(sequences, uncut, tail)


def _token_count(rows: list[dict]) -> int:
    return sum(len(row["input_ids"]) for row in rows)


def _candidates(rows: list[dict], group: str | None, max_tokens: int) -> Iterator[list[dict]]:
    """Yield the sequences of some groups: of all lengths, then of the longest ones, then of more and more, then all."""
    names = list(range(len(rows))) if group is None else [row[group] for row in rows]
    units = list(dict.fromkeys(names))
    longest = {unit: max(len(row["input_ids"]) for row, name in zip(rows, names, strict=True) if name == unit)
               for unit in units}  # fmt: skip
    by_length = sorted(units, key=lambda unit: longest[unit])
    short_units = [unit for unit in by_length if longest[unit] <= max_tokens]
    pool = by_length
    if len(short_units) >= 4:
        long_units = by_length[len(short_units) :]
        pool = short_units + long_units[-2:]  # of the units with a sequence that will be cut, the two longest

    def rows_of(chosen_units: list) -> list[dict]:
        return [row for row, name in zip(rows, names, strict=True) if name in chosen_units]

    def row_count(chosen_units: list) -> int:
        return sum(name in chosen_units for name in names)

    def spread(units: list, count: int) -> list:
        """Return so many units at equal distances, the first and the last among them."""
        return [units[index] for index in np.linspace(0, len(units) - 1, min(count, len(units))).round().astype(int)]

    counts = range(1, _SEQUENCES + 1)
    unit_count = max(count for count in counts if count <= 2 or row_count(spread(pool, count)) <= _SEQUENCES)
    yield rows_of(spread(pool, unit_count))
    yield rows_of(pool[-unit_count:])
    larger_counts = {min(sequence_count * unit_count // _SEQUENCES, len(pool)) for sequence_count in _COUNTS}
    for count in sorted(larger_counts):
        if count > unit_count:
            yield rows_of(spread(pool, count))
    yield rows


def cut_apart(rows: list[dict], max_tokens: int) -> tuple[list[dict], int]:
    """Cut sequences of more than `max_tokens` tokens so that no two become equal.

    Returns:
        All sequences, and the tail: how many of its last tokens a cut one keeps. It keeps one; or half of `max_tokens`,
        if sequences with the same long prompt would become equal. If they still would, none is cut, and the tail is 0.
    """
    for tail in (1, max_tokens // 2):
        cut_rows = [_cut(row, max_tokens, tail) for row in rows]
        if len({tuple(row["input_ids"]) for row in cut_rows}) == len(cut_rows):
            return cut_rows, tail
    return rows, 0


def _cut(row: dict, max_tokens: int, tail: int) -> dict:
    """Cut a sequence of more than `max_tokens` tokens to its first ones and its last `tail`."""
    if (length := len(row["input_ids"])) <= max_tokens:
        return row
    places = np.r_[: max_tokens - tail, length - tail : length]
    by_token = {name: np.asarray(x) for name, x in row.items() if np.ndim(x) == 1 and len(x) == length}
    return row | {name: x[places].tolist() for name, x in by_token.items()}


def _note(rows: list[dict], uncut: list[dict], max_tokens: int, tail: int) -> str:
    """Say in sentences how many sequences are left out, and how many are cut; "" if none is.

    Args:
        rows: all sequences.
        uncut: those of them that were chosen.
        tail: as `cut_apart` returns it.
    """
    used = {id(row) for row in uncut}
    left_out = sorted(len(row["input_ids"]) for row in rows if id(row) not in used)
    cut_count = sum(len(row["input_ids"]) > max_tokens for row in uncut)
    sentences = []
    if left_out:
        sentences.append(
            f"The model got {len(uncut)} of {len(rows)} sequences, the longest among them; "
            f"{len(left_out)} of {_span(left_out)} tokens {'was' if len(left_out) == 1 else 'were'} left out."
        )
    if cut_count and tail:
        kept_end = "the last" if tail == 1 else f"the last {tail}"
        sentences.append(
            f"Of {len(uncut)} sequences {cut_count} were cut to {max_tokens} tokens, "
            f"the first {max_tokens - tail} and {kept_end}: see max_tokens."
        )
    return " ".join(sentences)


def _span(lengths: list[int]) -> str:
    """Return the shortest and the longest of sorted lengths, as "5 to 9", or "5" if they are equal."""
    return str(lengths[0]) if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
